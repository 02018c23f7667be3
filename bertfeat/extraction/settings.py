"""What decides the content of a feature set, checked when built and written next to what it made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertfeat.corpus import KeptColumn
from bertfeat.errors import UsageError
from bertfeat.features import ModelIdentity
from bertfeat.recipe import FeatureColumn, Pooling
from bertfeat.tokens import TokenSettings

NUMERICS_VERSION = 2
"""Raised whenever the same settings would give other numbers than before."""

PART_ROWS = 16_384
CHARACTERS_PER_TOKEN = 4  # of running text, for estimates
CHARACTERS_PER_WORD = 5
TOKEN_ITEM_BYTES = {"float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that decides what a run writes: equal settings and input give equal bytes."""

    model: ModelIdentity
    columns: tuple[FeatureColumn, ...]
    tokens: TokenSettings
    precision: str
    document_context: bool
    keep: tuple[KeptColumn, ...]
    keep_text: bool
    batch_tokens: int
    part_rows: int

    def plain(self) -> Mapping[str, Any]:
        """The settings as JSON values, in the words of the command line."""
        tokens = self.tokens
        return {
            "model": self.model.fingerprint,
            "layers": [_plain_column(column) for column in self.columns],
            "precision": self.precision,
            "dtype": next((c.dtype for c in self.columns if not c.pooling.per_document), "float32"),
            "long": str(tokens.long),
            "max_length": tokens.max_length,
            "prompt": tokens.prompt,
            "document_context": self.document_context,
            "subword": str(tokens.subword) if tokens.with_words else None,
            "special_tokens": tokens.special_tokens,
            "keep": [f"{column.name}:{column.type}" for column in self.keep],
            "text": self.keep_text,
            "batch_tokens": self.batch_tokens,
            "part_rows": self.part_rows,
            "numerics": NUMERICS_VERSION,
        }

    @property
    def bytes_per_row(self) -> float:
        """Estimated size of a document's features that does not depend on its length."""
        special = 2 if self.tokens.special_tokens else 0
        return sum(
            float(column.width * TOKEN_ITEM_BYTES[column.dtype] * (1 if column.pooling.per_document else special))
            for column in self.columns
        )

    @property
    def bytes_per_character(self) -> float:
        """Estimated size of a document's features for each character of its text."""
        pieces = {Pooling.TOKEN: CHARACTERS_PER_TOKEN, Pooling.WORD: CHARACTERS_PER_WORD}
        return sum(
            column.width * TOKEN_ITEM_BYTES[column.dtype] / pieces[column.pooling]
            for column in self.columns
            if column.pooling in pieces
        )


def list_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The settings in which two runs differ, ``name: theirs → ours``."""
    names = [*theirs, *(name for name in ours if name not in theirs)]
    return [f"{n}: {theirs.get(n)!r} → {ours.get(n)!r}" for n in names if theirs.get(n) != ours.get(n)]


def parse_poolings(poolings: str | Sequence[str] | None, default: Callable[[], Pooling]) -> tuple[Pooling, ...]:
    """Parse repeated and comma-separated poolings; none means the model's own.

    Raises:
        UsageError: a name that is no pooling.
    """
    if poolings is None:
        return (default(),)
    listed = [poolings] if isinstance(poolings, str) else list(poolings)
    names = [name.strip() for each in listed for name in str(each).split(",")]
    unknown = [name for name in names if name not in list(Pooling)]
    if unknown or not names:
        raise UsageError(f"unknown pooling {','.join(unknown)!r}; known are {', '.join(Pooling)}")
    return tuple(dict.fromkeys(Pooling(name) for name in names))


def _plain_column(column: FeatureColumn) -> str:
    layers = "+".join(map(str, column.recipe.layers))
    return f"{column.name}={column.recipe.operation}:{layers}"
