"""One part of a feature set on disk: its header, writing it whole or not at all, reading it, and checking every byte.

The header is JSON in the footer: settings, range of rows, digests, failures, model, columns and counts.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Meta
from numpy.typing import NDArray

from bertfeat.core.corpus import Failure
from bertfeat.core.features.canary import Canary, find_canary_problem
from bertfeat.core.features.cells import directions
from bertfeat.core.features.schema import row_bytes
from bertfeat.core.features.sealed_file import (
    EMPTY_SEAL,
    SEAL_KEY,
    DirectFile,
    SealedFooter,
    check_footer,
    check_pages,
    names_seal,
    write_seal,
)
from bertfeat.core.features.settings import FeatureSettings
from bertfeat.core.recipe import FeatureColumn, VectorDtype
from bertfeat.errors import DamagedError, FeatureSetError, parameter, shorten
from bertfeat.io import (
    Address,
    JsonError,
    JsonFormat,
    Location,
    Place,
    canonical_json,
    create_file,
    decode_json,
    open_file,
)

if TYPE_CHECKING:
    from bertfeat.core.models import Model

FORMAT_VERSION = 1
"""Version of the storage format that this bertfeat writes; newer ones are refused."""
HEADER_KEY = b"bertfeat"
ROW_GROUP_BYTES = 8 << 20  # that a reader must fetch for one document; groups of 1 to 64 MiB are written equally fast
UNREADABLE_ERRORS = (pa.ArrowException, OSError, ValueError)
"""The errors that pyarrow raises for a damaged footer, and for names that are not UTF-8."""

# ── the header ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model that made the features: its name, a fingerprint equal for equal weights only, and its canary."""

    name: str
    fingerprint: str  # sha256 of weights, tokenizer, and the settings of both
    revision: str | None  # hub commit, where the model came from the hub
    num_layers: Annotated[int, Meta(ge=0)]
    hidden_size: Annotated[int, Meta(ge=1)]
    canary: Canary | None = field(default=None, compare=False)  # of the machine that made them; None: not computed

    @classmethod
    def of(cls, model: "Model") -> "ModelIdentity":
        """The identity of a model; its weights are hashed."""
        return cls(model.name, model.fingerprint, model.revision, model.num_layers, model.hidden_size)

    def canary_problem(self, other: "ModelIdentity") -> str | None:
        """The reason why the same model gave other vectors on the other's machine; None where it gave the same."""
        return find_canary_problem(self.canary, other.canary)


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


def count_documents(table: pa.Table | pa.RecordBatch) -> Counts:
    """Count the documents of a table, their tokens and words; empty texts are not counted."""
    truncated = table.column("n_truncated").to_numpy()
    aligned = pc.list_flatten(table.column("aligned")) if "aligned" in table.schema.names else []
    return Counts(
        documents=len(truncated),
        tokens=int(table.column("n_tokens").to_numpy().sum()),
        unknown_tokens=int(table.column("n_unk").to_numpy().sum()),
        truncated_tokens=int(truncated.sum()),
        truncated_documents=int(np.count_nonzero(truncated)),
        words=len(aligned),
        unaligned_words=len(aligned) - (pc.sum(aligned).as_py() or 0) if len(aligned) else 0,
    )


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
    sketch: tuple[str, ...]  # the smallest digests of single rows: parts whose sketches share a digest share a row
    blank: int  # blank lines among the rows
    failures: tuple[Failure, ...]
    model: ModelIdentity
    columns: tuple[FeatureColumn, ...]
    sources: tuple[str, ...]
    counts: Counts
    split_batches: int  # batches that were split because memory ran out


_HEADER_FORMAT = JsonFormat(
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
    """Read a header from JSON; ``where`` is named in errors."""
    header = _HEADER_FORMAT.decode(text, where)
    for problem in _header_problems(header):
        raise DamagedError(f"the header contradicts itself ({problem})", where=where, remedy="extract the part again")
    return header


def _header_problems(header: PartHeader) -> Iterator[str]:
    """The contradictions in a header whose types are already checked."""
    if header.fingerprint != header.settings.fingerprint:
        yield "the settings are not those of its fingerprint"
    if not 0 <= header.first_row <= header.last_row or header.number < 0:
        yield f"part {header.number} has rows {header.first_row} to {header.last_row}"
    if any(not header.first_row <= failure.row < header.last_row for failure in header.failures):
        yield "a row failed that is not in its range"
    if not header.columns:
        yield "it has no feature columns"
    model, names = header.model, [column.name for column in header.columns]
    if len({column.hidden_size for column in header.columns if column.recipe.of_heads}) > 1:
        yield "the heads of its columns have several widths"
    for column in header.columns:
        recipe, pooling = column.recipe, column.pooling
        if names.count(column.name) > 1:
            yield f"{column.name!r} twice"
        if recipe.layers[-1] > model.num_layers or not column.fits(model.hidden_size):
            layers = f"{model.num_layers} layers of {model.hidden_size}"
            yield f"{column.name!r} of {column.width} values from a model of {layers}"
        if column.dtype not in (("float32",) if pooling.per_document else get_args(VectorDtype)):
            yield f"{column.name!r} of the type {shorten(column.dtype)}"
        if (basis := column.basis) is not None:
            if pooling.per_document or not 0 < basis.width < column.width:
                yield f"{column.name!r} of {column.width} values in {basis.width} directions"
            elif len(basis.values) != 2 * column.width * basis.width or not np.isfinite(directions(basis)).all():
                yield f"the directions of {column.name!r} are not [{column.width}, {basis.width}] finite float16"


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PartFooter:
    """A part without its pages: the header and Parquet's own metadata."""

    path: Location
    header: PartHeader
    metadata: pq.FileMetaData
    sha256: str  # of the footer, which contains the digest of the pages, so that it identifies the whole file
    size: int  # bytes of the whole file
    identity: tuple[object, ...]  # file_identity() of the file that was read; another file may replace it

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the part's columns."""
        return self.metadata.schema.to_arrow_schema()


def part_path(folder: Place, number: int) -> Place:
    """The place of the part with a number: ``part-00000.parquet``."""
    return folder / f"part-{number:05d}.parquet"


def part_number(name: str) -> int | None:
    """The number of a part, from the name of its file; None if the name does not have the form of a part's."""
    digits = name.removeprefix("part-").removesuffix(".parquet")
    return int(digits) if digits.isdecimal() and name == f"part-{int(digits):05d}.parquet" else None


def write_part(folder: Location, header: PartHeader, table: pa.Table, *, if_absent: bool = False) -> bool:
    """Write the documents of one part (:func:`content_table`), whole or not at all; equal input gives equal bytes.

    With ``if_absent`` a part that is there already stays, and has to be equal. Where texts are not stored, the values
    of failures are left out as well.

    Returns:
        Whether the part that is there now has exactly the bytes of this call, written by it or by another run.

    Raises:
        FeatureSetError: the content has a cell of 2 GiB or more; or with ``if_absent`` another part is there.
        StorageError: the folder cannot be written.
        DamagedError: input rows and documents, failed and blank rows do not add up; or the existing part is damaged.
    """
    path = part_path(folder, header.number)
    if "text" not in table.column_names:
        header = dataclasses.replace(
            header, failures=tuple(dataclasses.replace(failure, value="") for failure in header.failures)
        )
    _check_rows(path, header, table.column("row").to_numpy())
    with create_file(path, if_absent=if_absent) as new:
        pages = _write_pages(new.path, header, table, row_bytes(table, header.columns))
        sha256 = write_seal(new.path, pages)
    if new.stamp is None and read_footer(path).sha256 != sha256:
        raise FeatureSetError(
            "another run wrote this part meanwhile, with other content",
            where=path,
            remedy=f"let all runs have one corpus and one bertfeat, or start anew ({parameter('overwrite', True)})",
        )
    return new.stamp is not None


def read_header(path: Location) -> PartHeader:
    """Read the header of a part.

    Raises:
        FeatureSetError: not a part, or written by a newer bertfeat.
        DamagedError: truncated, or its footer changed.
    """
    return read_footer(path).header


def read_footer(path: Location) -> PartFooter:
    """Read a part's header together with its Parquet metadata; errors as in :func:`read_header`."""
    try:
        return _open_footer(path, check_footer(path))
    except DamagedError:
        _explain_foreign_file(path)
        raise
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=path) from error


def sound_header(path: Location) -> PartHeader:
    """The header of a part that agrees with its checksums; errors as in :func:`check_part`.

    Object storage keeps what was written or reports an error, so that of parts there only the footer is read.
    """
    return read_header(path) if isinstance(path, Address) else check_part(path)


def check_part(path: Location) -> PartHeader:
    """Check every byte of a part by its checksums, and that its name and number of rows agree with its header.

    Raises:
        FeatureSetError: not a part, or written by a newer bertfeat.
        DamagedError: truncated or changed anywhere.
    """
    footer = read_footer(path)
    try:
        check_pages(path)
    except OSError as error:
        raise DamagedError(
            f"cannot be read: {error.strerror or error}", where=path, remedy="extract it again"
        ) from error
    header = footer.header
    if footer.metadata.num_rows != header.counts.documents or path.name != part_path(path.parent, header.number).name:
        raise DamagedError(
            f"says it is part {header.number} of {header.counts.documents} documents and holds "
            f"{footer.metadata.num_rows}",
            where=path,
            remedy="extract it again",
        )
    return header


def _write_pages(path: Path, header: PartHeader, table: pa.Table, sizes: NDArray[np.int64]) -> tuple[int, bytes]:
    """Write the file without its seal, and return the :attr:`DirectFile.digest` of everything before the footer."""
    features = {column.name for column in header.columns}
    leaves = {_leaf_path(field) for field in table.schema}
    searched = leaves - features - {"text", "pair", "text_digest"}  # their statistics let readers skip row groups
    repeated = leaves & {"tokens.list.element", "words.list.element", "tags.list.element"}
    with DirectFile(path) as file:
        writer = pq.ParquetWriter(
            file,
            table.schema,
            # vectors do not compress; text shrinks to a third, repeated strings further by a dictionary
            compression={_leaf_path(field): "zstd" if field.name not in features else "none" for field in table.schema},
            use_dictionary=sorted(repeated) or False,
            write_statistics=[name for name in table.column_names if name in searched],
            write_page_checksum=True,
        )
        with writer:
            for start, stop in _group_ranges(sizes):
                writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)
            writer.add_key_value_metadata({HEADER_KEY: encode_header(header), SEAL_KEY: EMPTY_SEAL})
            return file.digest


def _leaf_path(field: pa.Field) -> str:
    """Path of the Parquet column that holds a field's values."""
    nested = pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
    return f"{field.name}.list.element" if nested else str(field.name)


def _group_ranges(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The ranges of rows that make up row groups of at most :data:`ROW_GROUP_BYTES`; a larger row is a group alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        limit = ROW_GROUP_BYTES + (ends[start - 1] if start else 0)
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, stop
        start = stop


def _open_footer(path: Location, footer: SealedFooter) -> PartFooter:
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer.content))
        header = decode_header(metadata.metadata[HEADER_KEY], path)
    except (*UNREADABLE_ERRORS, KeyError) as error:
        raise DamagedError(
            f"the footer cannot be read ({error})", where=path, remedy="extract the part again"
        ) from error
    return PartFooter(path, header, metadata, footer.sha256, footer.size, footer.identity)


def _explain_foreign_file(path: Location) -> None:
    """Raise a more exact error for a Parquet file without our seal: a foreign file, or one of a newer format.

    For any other file nothing is raised, and the caller's error stands.
    """
    try:
        with open_file(path) as file:
            keys = pq.read_metadata(file).metadata or {}
        header = decode_json(keys[HEADER_KEY], dict[str, object]) if HEADER_KEY in keys else {}
    except (*UNREADABLE_ERRORS, JsonError):
        return
    if names_seal(path):  # which damaged metadata need not list
        return
    _HEADER_FORMAT.refuse_newer(header.get("format_version"), path)
    if HEADER_KEY not in keys:
        raise FeatureSetError(
            "this Parquet file was not written by bertfeat extract", where=path, remedy="move it elsewhere"
        )


def _check_rows(path: Location, header: PartHeader, rows: NDArray[np.int64]) -> None:
    expected = header.last_row - header.first_row - header.blank - len(header.failures)
    inside = not len(rows) or (
        rows[0] >= header.first_row and rows[-1] < header.last_row and bool(np.all(np.diff(rows) > 0))
    )
    if not len(rows) == expected == header.counts.documents or not inside:
        raise DamagedError(
            f"rows {header.first_row} to {header.last_row} with {header.blank} blank and {len(header.failures)} failed "
            f"ones should give {expected} documents, but there are {len(rows)}",
            where=path,
        )
