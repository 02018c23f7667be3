"""The header of a part, as JSON: settings, range of rows, digests, failures, model, columns and counts."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from bertfeat.corpus import Failure
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.settings import FeatureSettings
from bertfeat.io import JsonFormat, canonical_json, shorten
from bertfeat.recipe import FeatureColumn

FORMAT_VERSION = 1
"""Version of the storage format that this bertfeat writes; newer ones are refused."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model that made the features: its name, and a fingerprint that is equal for equal weights only."""

    name: str
    fingerprint: str  # sha256 of weights, tokenizer, and the settings of both
    revision: str | None  # hub commit, where the model came from the hub
    num_layers: Annotated[int, Meta(ge=0)]
    hidden_size: Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of documents, tokens and words, and of those that deserve a warning."""

    documents: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    truncated_tokens: int = 0
    truncated_documents: int = 0
    empty_texts: int = 0
    words: int = 0
    unaligned_words: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class PartHeader:
    """The description of a part; stored as JSON under the Parquet key ``bertfeat``."""

    format_version: int
    settings: FeatureSettings
    fingerprint: str  # of the settings
    number: int
    first_row: int
    last_row: int  # exclusive
    digest: str  # of the part's input rows
    sketch: tuple[str, ...]  # the smallest digests of single rows: two parts share a row if their sketches meet
    blank: int  # blank lines among the rows
    failures: tuple[Failure, ...]
    model: ModelIdentity
    columns: tuple[FeatureColumn, ...]
    sources: tuple[str, ...]
    counts: Counts
    split_batches: int  # batches that were split because memory ran out


HEADER_FORMAT = JsonFormat(
    PartHeader,
    FORMAT_VERSION,
    error=DamagedError,
    refusal=FeatureSetError,
    subject="the header",
    remedy="extract the part again",
)


def encode_header(header: PartHeader) -> bytes:
    """Write a header as JSON; equal headers give equal bytes."""
    return canonical_json(header)


def decode_header(text: bytes, where: object) -> PartHeader:
    """Read a header from JSON; ``where`` is named in errors.

    Raises:
        FeatureSetError: the format is newer than this bertfeat.
        DamagedError: the text is no header.
    """
    header = HEADER_FORMAT.decode(text, where)
    for problem in _header_problems(header):
        raise DamagedError(f"the header contradicts itself ({problem})", where=where, remedy="extract the part again")
    return header


def _header_problems(header: PartHeader) -> Iterator[str]:
    """The contradictions in a header, whose types are right."""
    if header.fingerprint != header.settings.fingerprint:
        yield "the settings are not those of its fingerprint"
    if not 0 <= header.first_row <= header.last_row or header.number < 0:
        yield f"part {header.number} has rows {header.first_row} to {header.last_row}"
    if any(not header.first_row <= failure.row < header.last_row for failure in header.failures):
        yield "a row failed that is not in its range"
    if not header.columns:
        yield "it has no feature columns"
    model, names = header.model, [column.name for column in header.columns]
    for column in header.columns:
        recipe, pooling = column.recipe, column.pooling
        if names.count(column.name) > 1:
            yield f"{column.name!r} twice"
        if recipe.layers[-1] > model.num_layers or column.width != recipe.width(model.hidden_size):
            layers = f"{model.num_layers} layers of {model.hidden_size}"
            yield f"{column.name!r} of {column.width} values from a model of {layers}"
        if column.dtype not in (("float32",) if pooling.per_document else ("float32", "float16")):
            yield f"{column.name!r} of the type {shorten(column.dtype)}"
