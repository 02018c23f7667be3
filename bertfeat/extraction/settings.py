"""The settings that a run records, and the size of features for each row and character."""

from collections.abc import Sequence

from bertfeat.corpus import KeptColumn
from bertfeat.extraction.plan import PLAN_VERSION
from bertfeat.features import FeatureSettings, ModelIdentity, describe_column
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.tokens import TokenSettings

NUMERICS_VERSION = 3
"""Raised whenever the same settings would give other numbers than before."""

INT8_VERSION = 1
"""Raised whenever int8 would give other integers: by another recipe, or another text that its scales go by."""

CHARACTERS_PER_TOKEN = 4  # of running text, for estimates
CHARACTERS_PER_WORD = 5
TOKEN_ITEM_BYTES = {"float16": 2, "float32": 4}


def record_settings(
    model: ModelIdentity,
    columns: Sequence[FeatureColumn],
    tokens: TokenSettings,
    precision: str,
    *,
    document_context: bool,
    keep: Sequence[KeptColumn] = (),
    keep_text: bool = True,
    batch_tokens: int | None = None,
    part_rows: int | None = None,
) -> FeatureSettings:
    """The settings that a feature set records: everything that decides what a run writes."""
    return FeatureSettings(
        model=model.fingerprint,
        layers=tuple(map(describe_column, columns)),
        precision=precision,
        dtype=next((column.dtype for column in columns if not column.pooling.per_document), "float32"),
        long=str(tokens.long),
        max_length=tokens.max_length,
        prompt=tokens.prompt,
        document_context=document_context,
        subword=str(tokens.subword) if tokens.with_words else None,
        special_tokens=tokens.special_tokens,
        keep=tuple(f"{column.name}:{column.type}" for column in keep),
        text=keep_text,
        batch_tokens=batch_tokens,
        part_rows=part_rows,
        numerics=NUMERICS_VERSION,
        quantization=INT8_VERSION if precision == "int8" else None,
        context=None if tokens.left_words is None else f"left:{tokens.left_words}",
        plan=PLAN_VERSION,
    )


def bytes_per_row(columns: Sequence[FeatureColumn], *, special_tokens: bool) -> float:
    """Estimated size of a document's features that does not depend on its length."""
    special = 2 if special_tokens else 0
    return sum(
        float(column.width * TOKEN_ITEM_BYTES[column.dtype] * (1 if column.pooling.per_document else special))
        for column in columns
    )


def bytes_per_character(columns: Sequence[FeatureColumn]) -> float:
    """Estimated size of a document's features for each character of its text."""
    characters = {Unit.TOKEN: CHARACTERS_PER_TOKEN, Unit.WORD: CHARACTERS_PER_WORD}
    return sum(
        column.width * TOKEN_ITEM_BYTES[column.dtype] / characters[column.pooling.unit]
        for column in columns
        if column.pooling.unit in characters
    )
