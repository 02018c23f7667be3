"""The record of an index: its settings and provenance, the name of its current version, and that version's files.

The record is ``.bertfeat/index.json``; the files are in a subfolder, ``version-1`` and so on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.core import (
    FeatureColumn,
    FeatureSettings,
    ModelIdentity,
    Pooling,
    SpanRule,
    Unit,
    describe_vectors,
    parse_recipes,
)
from bertfeat.display import Cells, displayed
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    FileDigest,
    JsonFormat,
    Location,
    Stamp,
    explain_absence,
    json_content,
    put_file,
    replace_file,
    write_json,
)
from bertfeat.search.vectors.metric import Metric, Whitening, preparing_metric
from bertfeat.search.vectors.token_encoding import EncodingShape

FORMAT_VERSION = 1

SETTINGS_NAME = f"{STATE_FOLDER}/index.json"  # the record; the other files are in the folder of a version
VERSION_NAME = re.compile(r"version-([1-9]\d{0,15})")
FAISS_NAME = "index.faiss"
LISTS_NAME = "index.lists"  # only where inverted lists do not fit in memory
DOCUMENTS_NAME = "documents.arrow"
DIGESTS_NAME = "text_digests.npy"
PIECES_NAME = "pieces.arrow"  # only in an index of tokens, words or spans
ENCODING_NAME = "encoding.npy"  # only where the tokens of a text are encoded as one vector
RENEWED_NAME = "renewed.arrow"  # only while an update is at work
REMOVED_NAME = "removed.npy"  # only where there are tombstones
TOKENS_NAME = "tokens.npy"  # this and the next only where token vectors are kept
TOKEN_OFFSETS_NAME = "token_offsets.npy"
TOKEN_IDS_NAME = "token_ids.npy"  # this and the next two only where the tokens themselves are kept
TOKEN_ID_OFFSETS_NAME = "token_id_offsets.npy"
VOCABULARY_NAME = "vocabulary.arrow"
_TOKEN_FILES = frozenset({TOKENS_NAME, TOKEN_OFFSETS_NAME})
_STRING_FILES = frozenset({TOKEN_IDS_NAME, TOKEN_ID_OFFSETS_NAME, VOCABULARY_NAME})
FILE_NAMES = (
    _TOKEN_FILES
    | _STRING_FILES
    | {FAISS_NAME, LISTS_NAME, DOCUMENTS_NAME, DIGESTS_NAME, PIECES_NAME, ENCODING_NAME, REMOVED_NAME}
)
"""All files of a version."""

REBUILD = "build the index again"
"""The remedy for a damaged index."""

COPY_OR_REBUILD = f"copy the whole folder, or {REBUILD}"
"""The remedy for an index of which a file is missing or differs."""

SearchParameterName = Literal["nprobe", "efSearch"]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class SourceSet:
    """A feature set that an index was made from."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    documents: Count
    digest: str  # of its parts


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """The token or word vectors that an index of documents keeps, to score hits again by them."""

    column: FeatureColumn  # in int8
    count: Count  # of vectors
    pooled: Annotated[int, Meta(ge=1)]  # how many times fewer vectors than tokens there are; 1: each has its own
    distinct: Count | None  # of the tokens that each document has, without repetitions; None: only vectors are kept


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """The FAISS parameter that says how thoroughly an approximate index is searched: ``nprobe`` or ``efSearch``."""

    name: SearchParameterName
    value: Annotated[int, Meta(ge=1, lt=2**31)]
    tuned: bool  # against exact search; else a guess
    vectors: Count  # in the index when it was chosen


class QueryKind(StrEnum):
    """The kind of queries with which recall is measured."""

    GIVEN = "given"  # a user's own queries
    DISTURBED = "disturbed"  # stored vectors with noise, as far from the others as questions are
    STORED = "stored"  # stored vectors as they are, for searches by these

    @property
    def noun(self) -> str:
        """The name of such queries in messages."""
        return {
            "given": "your queries",
            "disturbed": "stored vectors disturbed as questions are",
            "stored": "stored vectors as they are",
        }[self]


@displayed
@dataclass(frozen=True, slots=True)
class RecallReport:
    """Recall and speed of an index against exact search over the same vectors.

    They are measured on queries that were left out of the tuning.
    """

    recall: Mapping[str, Share]  # "1", "10", "100": share of the true nearest that are found
    own: Share | None  # share of the stored vectors that find themselves at rank 1; None where queries were given
    wanted: Share  # recall at 10 that was asked for
    queries: Count
    queries_per_second: Annotated[float, Meta(ge=0)]
    exact_queries_per_second: Annotated[float, Meta(ge=0)]
    threads: Count
    vectors: Count  # in the index when this was measured
    transformed: bool = False  # exact search compared the vectors as the index's own transforms make them
    of: QueryKind = QueryKind.STORED  # the kind of queries that were used


@displayed
@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings and provenance of an index."""

    format_version: Count
    column: FeatureColumn  # recipe, pooling, width; of spans and encodings, what they are made from
    metric: Metric
    type: str  # as asked for
    factory: str  # FAISS's description
    reason: str  # why this factory was chosen
    model: ModelIdentity
    extraction: FeatureSettings  # settings of the feature sets; queries are embedded with the same
    query_prompt: str | None
    sources: tuple[SourceSet, ...]
    count: Count  # vectors in index.faiss
    documents: Count
    zero_vectors: Count
    skipped: Count  # tokens, words and spans without a vector of their own
    tombstones: Count  # vectors that are in index.faiss but removed
    has_text: bool
    effort: SearchParameter | None  # None: this type has no such parameter
    evaluation: RecallReport | None
    versions: Mapping[str, str]
    seconds: Mapping[str, float]  # of the build's steps
    version: str = ""  # the subfolder of the files, once they are written
    made: Count = 0  # when that version was written: seconds since 1970
    files: Mapping[str, FileDigest] = field(default_factory=dict)
    updates: Count = 0  # since recall was measured
    tokens: StoredTokens | None = None
    transform: Whitening | None = None  # that index.faiss applies to vectors, with its width
    spans: str | None = None  # the rule that cuts texts, where each vector is of a span
    encoding: EncodingShape | None = None  # of all tokens of a text, or span, as one vector

    def cells(self) -> Cells:
        """The facts about the index that a line or a table shows."""
        found = None if self.evaluation is None else self.evaluation.recall
        kind = {"column": self.contents, "model": self.model.name, "type": self.factory, "metric": str(self.metric)}
        return {**kind, "documents": self.documents, "vectors": self.count - self.tombstones, "recall at": found}

    @property
    def width(self) -> int:
        """Number of values in one vector."""
        return self.column.width if self.encoding is None else self.encoding.width

    @property
    def stored_width(self) -> int:
        """Number of values in one vector as the index stores it."""
        return self.width if self.transform is None else self.transform.width or 0

    @property
    def preparation(self) -> Metric:
        """The metric for which vectors are prepared before FAISS gets them."""
        return preparing_metric(self.metric, self.transform)

    @property
    def per_document(self) -> bool:
        """Whether there is one vector per document; else there is one per token, word or span."""
        return self.spans is None and (self.encoding is not None or self.column.pooling.per_document)

    @property
    def per_text(self) -> bool:
        """Whether there is one vector per text; else there are several, by which a text is found more than once."""
        return self.per_document and self.extraction.split is None

    @property
    def span_rule(self) -> SpanRule | None:
        """The rule that cuts texts into spans; None where vectors are not of spans."""
        return SpanRule.of(self.spans)

    @property
    def contents(self) -> str:
        """The vectors of the index in words: ``last_mean``, ``sentences of last_token``, ``fde:4096 of last_token``."""
        contents = describe_vectors(self.column.name, self.span_rule)
        return contents if self.encoding is None else f"{self.encoding} of {contents}"

    @property
    def unit(self) -> str:
        """The thing that has one vector: document, token, word or span."""
        if self.spans is not None:
            return "span"
        return (Unit.DOCUMENT if self.per_document else self.column.pooling.unit).value

    @property
    def query_column(self) -> FeatureColumn:
        """The column in which queries are embedded."""
        return query_column(self.column, self.span_rule, is_encoded=self.encoding is not None)

    @property
    def marks_words(self) -> bool:
        """Whether a query marks the word that is searched for, as in an index of tokens or words; else it is a text."""
        return self.encoding is None and not self.query_column.pooling.per_document

    @property
    def changed_since_evaluation(self) -> bool:
        """Whether documents were added or removed after recall was measured."""
        return self.evaluation is not None and self.updates > 0


def query_column(column: FeatureColumn, spans: SpanRule | None, *, is_encoded: bool) -> FeatureColumn:
    """The column in which queries are embedded: that of the index; for means of its spans, that of the whole query."""
    return column if spans is None or is_encoded else replace(column, pooling=Pooling.MEAN)


INDEX_FORMAT = JsonFormat(IndexSettings, FORMAT_VERSION, error=IndexFolderError, remedy=COPY_OR_REBUILD)


def write_index_settings(settings: IndexSettings, folder: Location) -> None:
    """Write the record of an index, in the place of an older one.

    Raises:
        StorageError: the place cannot be written.
    """
    write_json(folder / SETTINGS_NAME, settings)


def replace_index_settings(settings: IndexSettings, place: Address, former: Stamp | None) -> bool:
    """Write the record of an index at an address, if the one there still has the stamp ``former``.

    With None there must be no record yet. Returns whether it was written.
    """
    path, content = place / SETTINGS_NAME, json_content(settings)
    written = put_file(path, content, if_absent=True) if former is None else replace_file(path, content, former)
    return written is not None


def read_index_settings(folder: Location) -> IndexSettings:
    """Read the record of an index.

    Raises:
        IndexFolderError: there is no record, it cannot be read, was changed, or a newer bertfeat wrote it.
        StorageError: the address cannot be reached.
    """
    path = folder / SETTINGS_NAME
    settings = INDEX_FORMAT.read(path)
    if settings is None:
        raise no_index_error(folder)
    if problem := _find_contradiction(settings):
        raise IndexFolderError(f"cannot be read ({problem})", where=path, remedy=REBUILD)
    return settings


def no_index_error(folder: Location) -> IndexFolderError:
    """The error for a folder that is no index."""
    remedy = "bertfeat index makes one from a feature set"
    problem, remedy = explain_absence(folder, f"this is no index: it has no {SETTINGS_NAME}", remedy)
    return IndexFolderError(problem, where=folder, remedy=remedy)


def _find_contradiction(settings: IndexSettings) -> str | None:
    """The first contradiction in the settings of an index, whose types are already checked; None if there is none."""
    if not VERSION_NAME.fullmatch(settings.version):
        return f"{settings.version!r} is no version of an index"
    if foreign := sorted(set(settings.files) - FILE_NAMES):
        return f"{foreign[0]!r} is no file of an index"
    needed = {FAISS_NAME, DOCUMENTS_NAME, DIGESTS_NAME}
    needed |= {REMOVED_NAME} if settings.tombstones else set()
    needed |= set() if settings.per_document else {PIECES_NAME}
    needed |= set() if settings.encoding is None else {ENCODING_NAME}
    if settings.tokens is not None:
        needed |= _TOKEN_FILES | (_STRING_FILES if settings.tokens.distinct is not None else set())
        column = settings.tokens.column
        if column.dtype != "int8" or column.pooling.per_document or not settings.per_document:
            return f"tokens of {column.name} in {column.dtype}, in an index of {settings.column.name}"
        if settings.tokens.distinct is None and _STRING_FILES & set(settings.files):
            return "it lists the tokens of documents, and says that there are none"
    elif (_TOKEN_FILES | _STRING_FILES) & set(settings.files):
        return "it lists vectors of tokens, and says that there are none"
    kept = [settings.column, *([settings.tokens.column] if settings.tokens else [])]
    if problem := _wrong_spans(settings) or _wrong_encoding(settings):
        return problem
    num_layers = settings.model.num_layers
    if foreign_layers := [each.name for each in kept if each.recipe.layers[-1] > num_layers]:
        return f"{foreign_layers[0]} has layers that a model with {num_layers} does not have"
    layered = [each for each in kept if not each.recipe.projected]
    if misnamed := [each for each in layered if parse_recipes(each.recipe.spelling, num_layers) != (each.recipe,)]:
        return f"{misnamed[0].name} is not of layers {list(misnamed[0].recipe.layers)} in a model with {num_layers}"
    if other_widths := [each.name for each in kept if not each.fits(settings.model.hidden_size)]:
        return f"{other_widths[0]} is not as wide as layers of {settings.model.hidden_size} values make it"
    if missing := sorted(needed - set(settings.files)):
        return f"it does not list {missing[0]}"
    if not 1 <= settings.stored_width <= settings.width:
        return f"vectors of {settings.width} values become {settings.stored_width} values"
    if settings.tombstones > settings.count:
        return f"{settings.tombstones:,} of {settings.count:,} vectors are removed"
    if settings.per_document and settings.documents != settings.count:
        return f"{settings.count:,} vectors of {settings.documents:,} documents"
    return None


def _wrong_spans(settings: IndexSettings) -> str | None:
    """The contradiction in the spans of an index; None if there is none."""
    if settings.spans is None:
        return None
    if settings.column.pooling.per_document:
        return f"spans of {settings.column.name}, which has one vector per document"
    try:
        return None if str(SpanRule.parse(settings.spans)) == settings.spans else f"spans {settings.spans!r}"
    except UsageError as error:
        return str(error)


def _wrong_encoding(settings: IndexSettings) -> str | None:
    """The contradiction in the encoding of an index; None if there is none."""
    encoding, column = settings.encoding, settings.column
    if encoding is None:
        return "it lists an encoding, and says that there is none" if ENCODING_NAME in settings.files else None
    if column.pooling.per_document or settings.transform is not None or encoding.values > column.width:
        return f"{encoding} of {column.name}, of {column.width} values, by the transform {settings.transform}"
    return None
