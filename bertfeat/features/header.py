"""What a part says of itself: settings, range of rows, digests, failures, model, columns and counts, as JSON."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from bertfeat.corpus import Failure
from bertfeat.errors import Damaged, FeatureSetError
from bertfeat.recipe import FeatureColumn, Operation, Pooling, Recipe

FORMAT_VERSION = 2
"""Version of the storage format that this bertfeat writes; older ones are read, newer ones refused.

Since 2 parts are sealed by XXH3; see :mod:`bertfeat.features.seal`.
"""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model made the features: its name, and a fingerprint that tells equal weights from others."""

    name: str
    fingerprint: str  # sha256 of weights and tokenizer
    revision: str | None  # hub commit, where the model came from the hub
    num_layers: int
    hidden_size: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was embedded, and what deserves a warning."""

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
    """What a part says of itself; stored as JSON under the Parquet key ``bertfeat``."""

    format_version: int
    settings: Mapping[str, Any]  # everything that decides the content, as plain JSON
    fingerprint: str  # settings_fingerprint(settings)
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


def settings_fingerprint(settings: Mapping[str, Any]) -> str:
    """sha256 of the settings as JSON with sorted keys, so that order and spelling of containers do not matter."""
    return hashlib.sha256(_dump(settings)).hexdigest()


def encode_header(header: PartHeader) -> bytes:
    """Write a header as JSON; equal headers give equal bytes."""
    return _dump(header)


def decode_header(text: bytes, where: object) -> PartHeader:
    """Read a header from JSON; ``where`` is named in errors.

    Raises:
        FeatureSetError: the format is newer than this bertfeat.
        Damaged: the text is no header.
    """
    try:
        raw = json.loads(text)
        version = int(raw["format_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{where}: the header cannot be read ({error!r}); extract the part again") from error
    refuse_newer(version, where)
    try:
        return PartHeader(
            **{
                **raw,
                "sketch": tuple(raw["sketch"]),
                "failures": tuple(Failure(**failure) for failure in raw["failures"]),
                "model": ModelIdentity(**raw["model"]),
                "columns": tuple(decode_column(column) for column in raw["columns"]),
                "sources": tuple(raw["sources"]),
                "counts": Counts(**raw["counts"]),
            }
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{where}: the header cannot be read ({error!r}); extract the part again") from error


def refuse_newer(version: int, where: object) -> None:
    """Raise :class:`FeatureSetError` for a format version that this bertfeat does not know yet."""
    if version > FORMAT_VERSION:
        raise FeatureSetError(
            f"{where}: written in format {version} by a newer bertfeat; this one reads formats up to "
            f"{FORMAT_VERSION}: upgrade bertfeat"
        )


def decode_column(raw: Mapping[str, Any]) -> FeatureColumn:
    """Read a feature column from its JSON form."""
    recipe = Recipe(Operation(raw["recipe"]["operation"]), tuple(raw["recipe"]["layers"]), raw["recipe"]["name"])
    return FeatureColumn(recipe, Pooling(raw["pooling"]), int(raw["width"]), str(raw["dtype"]))


def plain(value: object) -> Any:
    """Turn dataclasses and mappings into dicts: the ``default`` of every JSON that is written here."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} has no JSON form")


def _dump(value: object) -> bytes:
    # ASCII only: ids and values may hold lone surrogates, which have no UTF-8 form
    return json.dumps(value, default=plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
