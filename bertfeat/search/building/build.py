"""The build of an index from feature sets: a sample trains it, blocks fill it, exact search measures its recall.

Memory is bounded by the index itself. Shapes: n vectors, W values in each.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

import bertfeat
from bertfeat.arguments import checked
from bertfeat.core import FeatureColumn, FeatureSet, FeatureSets, SpanRule, describe_vectors, open_feature_sets
from bertfeat.errors import IndexFolderError, UsageError, parameter, pluralize
from bertfeat.io import Address, Location
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search.building.feature_source import (
    FeatureSource,
    column_to_index,
    describe_source_set,
    find_encoded_column,
)
from bertfeat.search.building.filling import Keep, check_complete, fill_index, kept_blocks
from bertfeat.search.building.token_writer import keep_tokens, plan_tokens
from bertfeat.search.document_store import IndexStoresWriter
from bertfeat.search.evaluation import recall
from bertfeat.search.evaluation.recall import ExactSearch, RecallQueries, disturbed_queries, given_queries
from bertfeat.search.options import NO_ENCODING, BuildOptions, width_of_encoding
from bertfeat.search.queries import (
    QueryEncoder,
    RecordedVectors,
    embed_queries,
    encoder_of_columns,
    query_texts,
)
from bertfeat.search.settings import (
    ENCODING_NAME,
    FAISS_NAME,
    FORMAT_VERSION,
    IndexSettings,
    RecallReport,
    SearchParameter,
    query_column,
    read_index_settings,
)
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss
from bertfeat.search.vectors.faiss_index import (
    copy_to_cpu,
    copy_to_gpu,
    create_faiss_index,
    flat_storage,
    reserve_vectors,
    set_search_parameter,
    train_index,
    write_faiss_index,
)
from bertfeat.search.vectors.faiss_transforms import (
    Whitener,
    fit_whitening,
    judged_transform,
    measure_spectrum,
    with_transform,
)
from bertfeat.search.vectors.index_types import IndexChoice, choose_index
from bertfeat.search.vectors.lists_on_disk import DiskListsBuilder
from bertfeat.search.vectors.metric import Whitening, copy_as_float32
from bertfeat.search.vectors.token_encoding import EncodingShape, fit_encoding
from bertfeat.search.vectors.vector_blocks import (
    QUERIES,
    prepare_vectors,
    raw_vectors,
    sample_numbers,
    sample_vectors,
)
from bertfeat.search.versions import hold_index_folder

_log = logging.getLogger(__name__)
_SHOWN_SETS = 5  # that a message names


@checked
def build_index(
    features: FeatureSets,
    folder: str | Path | Address,
    column: str | None = None,
    *,
    options: BuildOptions | None = None,
    queries: Sequence[str] | None = None,
    model: str | Path | None = None,
    encoder: QueryEncoder | None = None,
    progress: ProgressOption[StepProgress] = None,
    overwrite: bool = False,
) -> IndexSettings:
    """Build an index over one column of one or several feature sets; at the end it replaces an older index of these.

    An older index of other or more feature sets is replaced only with ``overwrite``. Of documents with the same id the
    one of the last set is indexed, as if the sets were appended one after the other, and a warning counts the others; a
    set whose ids are merely the numbers of its records replaces none.

    Without a ``column``, the last layer is indexed, stored or derived, where exactly one pooling has it; else the only
    column. With ``spans`` among the options it names vectors of tokens or words, and each vector is the mean of those
    in a sentence, a paragraph or a run of words (:meth:`bertfeat.FeatureSet.spans`). With ``encode`` it does too, and
    each vector is of all those of a document or span, by partitions of their space (Dhulipala et al. 2024,
    arXiv:2405.19504).

    The index is tuned to the target recall, and its recall is measured, on ``queries``: texts such as users ask, which
    the model of the sets embeds (``model`` says where it is now, ``encoder`` replaces it). At most 1,000 are used, one
    half for tuning, the other half for measuring. Without any, stored vectors serve as queries, disturbed by noise
    until they are as far from the others as questions are.

    Raises:
        UsageError: no vectors, too few of them for the type or encoding asked for, a width that the encoding cannot
            have, or a type that FAISS does not know; or ``queries`` that are empty, or are given without evaluation.
        NotDerivableError: there is no such column.
        FeatureSetError: a set holds no texts that could be cut into spans, or not the kept column that lists them; or
            the ``encoder`` gives other vectors than the sets'.
        MissingLibraryError: words of Korean texts are counted for spans, and what finds them is not installed.
        IndexFolderError: feature sets that cannot share an index, a vector that is not finite, or an older index that
            is also of other feature sets.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    options = options or BuildOptions()
    sets = open_feature_sets(features)
    with hold_index_folder(folder, new=True) as held, telling(progress) as tell:
        if not overwrite:
            _refuse_to_lose_sources(held.folder, sets)
        clock = _StepClock(tell)
        source = _open_source(sets, column, options, clock)
        _tell_of_replaced(source)
        named = options.with_tokens
        kept = None if named is None else plan_tokens(source, named, options.pool_tokens)
        if not source.count:
            contents = describe_vectors(source.column.name, source.spans)
            problem = f"there are no vectors of {contents} in it, so nothing to index"
            raise UsageError(problem, where=sets[0].folder)
        given = None if queries is None else _queries_to_tune_on(queries, source, options, model, encoder, clock)
        whitener = _fit_to_source(source, options.whitening, clock)
        width = whitener.width if whitener else source.width
        choice = choose_index(
            options.type, count=source.count, width=width, memory=options.memory, recall=options.target_recall
        )
        with held.new_version() as fresh:
            with IndexStoresWriter(fresh, source.schema, per_document=source.per_document) as stores:
                report = _FaissBuild(source, choice, options, whitener, clock).execute(given, fresh, stores.write)
            settings = _new_settings(source, choice, options, report, stores.documents)
            if source.encoding is not None:
                source.encoding.write(fresh / ENCODING_NAME)
            if kept is not None:
                with clock.step("tokens", source.count):
                    tokens = keep_tokens(fresh, kept, options.pool_tokens, source, keep_text=options.keep_text)
                settings = replace(settings, tokens=tokens)
            return held.publish(settings, fresh)


def _refuse_to_lose_sources(folder: Location, sets: Sequence[FeatureSet]) -> None:
    """Refuse to replace an index that is also of other feature sets; one whose record is damaged has none to lose."""
    try:
        former = read_index_settings(folder).sources
    except IndexFolderError:
        return
    given = [describe_source_set(features) for features in sets]
    known = {source.path for source in given} | {source.digest for source in given}
    if lost := [source for source in former if not {source.path, source.digest} & known]:
        names = ", ".join(source.path for source in lost[:_SHOWN_SETS])
        names += f" and {len(lost) - _SHOWN_SETS:,} more" if len(lost) > _SHOWN_SETS else ""
        documents = pluralize(sum(source.documents for source in lost), "document")
        raise IndexFolderError(
            f"the index that is there holds {documents} of {names}, which would be lost",
            where=folder,
            remedy=f"name these feature sets too, append to the index instead of building it, name another folder, or "
            f"give {parameter('overwrite', True)}",
        )


def _tell_of_replaced(source: FeatureSource) -> None:
    for features, rows in zip(source.sets, source.rows, strict=True):
        if rows is not None:
            number = pluralize(len(features) - len(rows), "document")
            _log.warning("%s: left out %s whose ids a later set has, too", features.folder, number)


def _open_source(
    sets: Sequence[FeatureSet], column: str | None, options: BuildOptions, clock: "_StepClock"
) -> FeatureSource:
    """The vectors to index.

    With ``encode`` all tokens of a text become one vector, a fixed dimensional encoding, which a sample of tokens is
    read to fit: ``fde`` alone is as wide as fits into the usual width and has no more partitions than tokens; of
    ``fde:WIDTH`` the width is kept, or refused. Where it is not said, it is ``fde`` for a model that compares tokens.
    """
    spans, keep_text = options.span_rule, options.keep_text
    encode = options.encode or _usual_encoding(sets, column, spans)
    options = replace(options, encode=encode)  # the class checks it beside the others
    if encode == NO_ENCODING or not sets:
        source = FeatureSource(sets, column, spans, keep_text=keep_text)
        if spans is not None and source.column.recipe.projected:
            raise UsageError(
                f"the model compares texts by each {source.column.name}, and their mean over a span says nothing to it",
                where=sets[0].folder,
                remedy=f"give {parameter('encode', 'fde')}, or a {parameter('column')} of another layer",
            )
        return source
    most = width_of_encoding(encode)
    name = find_encoded_column(sets[0], column).name
    pieces = FeatureSource(sets, name, spans, keep_text=keep_text)
    with clock.step("encoding", 0):
        sample = pieces.sample_pieces()
    if not len(sample):
        return pieces  # which has nothing to index
    if encode == "fde":
        shape = EncodingShape.within(most, pieces.width)
        shape = replace(shape, partitions=min(shape.partitions, len(sample)))
    else:
        shape = EncodingShape.of_width(most, pieces.width)
    return FeatureSource(sets, name, spans, fit_encoding(sample, shape), keep_text=keep_text)


def _usual_encoding(sets: Sequence[FeatureSet], column: str | None, spans: SpanRule | None) -> str:
    """The encoding of a column that none is asked for: that of tokens which the model compares one by one."""
    projected = bool(sets) and column_to_index(sets[0], column, spans, is_encoded=False).recipe.projected
    return "fde" if projected else NO_ENCODING


@dataclass(frozen=True, slots=True)
class _BuildReport:
    """The facts about a FAISS index that was written."""

    count: int
    zero_vectors: int
    search_parameter: SearchParameter | None
    recall: RecallReport | None
    seconds: dict[str, float] = field(default_factory=dict)  # duration of each step, by its name
    transform: Whitening | None = None  # its width is filled in


class _FaissBuild:
    """The build of ``index.faiss``: a sample trains it, blocks fill it, exact search measures its recall."""

    def __init__(
        self,
        source: FeatureSource,
        choice: IndexChoice,
        options: BuildOptions,
        whitener: Whitener | None,
        clock: "_StepClock",
    ) -> None:
        self._source, self._choice, self._options = source, choice, options
        self._whitener, self._clock = whitener, clock
        self._is_judged = options.evaluate and source.count > 1

    def execute(self, given: RecallQueries | None, folder: Path, keep: Keep) -> _BuildReport:
        """Build the file in ``folder``; it is tuned on ``given`` queries, and every block is handed to ``keep`` too."""
        index, asked = self._train(given)
        exact = None
        if self._is_judged and asked is not None and flat_storage(index) is None:
            exact = ExactSearch(asked, self._options.metric, self._source.count, judged_transform(index))
        with self._clock.step("add", self._source.count):
            index, zero = self._fill(index, exact, folder, keep)
        effort, judged = recall.guess_search_parameter(index), None
        if self._is_judged:
            with self._clock.step("evaluate", QUERIES):
                effort, judged = self._judge(index, exact, given)
        with self._clock.step("write", self._source.count):
            if effort is not None:  # also the default of plain FAISS, which does not read our record
                set_search_parameter(index, effort.value)
            write_faiss_index(index, folder / FAISS_NAME)
        if self._whitener is None:
            return _BuildReport(self._source.count, zero, effort, judged, self._clock.seconds)
        # whitening gives zero vectors a direction
        return _BuildReport(self._source.count, 0, effort, judged, self._clock.seconds, self._whitener.whitening)

    def _train(self, given: RecallQueries | None) -> tuple[FaissIndex, RecallQueries | None]:
        """A trained index without vectors, and the queries that it is to be judged by.

        They are those that are given, or stored vectors with some noise; None where it is not judged, or where it will
        store its vectors whole and draw queries from them when it is filled.
        """
        source, options, whitener = self._source, self._options, self._whitener
        index = create_faiss_index(self._choice.factory, whitener.width if whitener else source.width, options.metric)
        if whitener is not None:
            index = with_transform(index, whitener.matrix(), options.metric)
        with self._clock.step("sample", source.count):
            draws_queries = self._is_judged and given is None
            sample = sample_vectors(source, index, self._choice, options, self._clock.done, judged=draws_queries)
        with self._clock.step("train", len(sample.training)):
            index = copy_to_gpu(index, options.device)
            train_index(index, sample.training, self._choice.clusters)
        if len(sample.own):
            return index, disturbed_queries(sample.queries, sample.own, options.preparation)
        return index, given

    def _fill(self, index: FaissIndex, exact: ExactSearch | None, folder: Path, keep: Keep) -> tuple[FaissIndex, int]:
        """Add all vectors; returns the index on the CPU, with the number of zero vectors."""
        source, options, on_disk = self._source, self._options, None
        if self._choice.on_disk:
            on_disk = DiskListsBuilder(copy_to_cpu(index), folder, options.memory)
        elif options.device in (None, "cpu"):
            reserve_vectors(index, source.count)
        blocks = kept_blocks(source, keep)
        zero = fill_index(on_disk or index, blocks, options.preparation, self._clock.done, exact)
        index = on_disk.merged() if on_disk else copy_to_cpu(index)
        check_complete(index.ntotal, source.count)
        return index, zero

    def _judge(
        self, index: FaissIndex, exact: ExactSearch | None, given: RecallQueries | None
    ) -> tuple[SearchParameter | None, RecallReport | None]:
        """Tune the index to the target recall, and measure what it then has."""
        metric = self._options.metric
        truth = exact.truth() if exact else recall.stored_truth(index, given, metric)
        effort, judged = recall.tune_and_judge(index, truth, metric, self._options.target_recall)
        return effort, replace(judged, transformed=judged_transform(index) is not None)


def _queries_to_tune_on(
    queries: Sequence[str],
    source: FeatureSource,
    options: BuildOptions,
    model: str | Path | None,
    encoder: QueryEncoder | None,
    clock: "_StepClock",
) -> RecallQueries:
    """The queries to tune an index on, embedded and prepared as in a search; a sample where there are too many."""
    if not options.evaluate:
        raise UsageError(
            "queries tune an index, and without evaluation nothing is tuned",
            where=parameter("queries"),
            remedy="leave one of the two out",
        )
    texts = query_texts(queries)
    if not texts:
        raise UsageError("there are no queries to tune on", where=parameter("queries"))
    texts = [texts[number] for number in sample_numbers(len(texts), QUERIES)]
    found = source.column
    column = FeatureColumn(found.recipe, found.pooling, found.width, "float32")
    column = query_column(column, source.spans, is_encoded=source.encoding is not None)
    with clock.step("queries", len(texts)):
        recorded = RecordedVectors.of_features(source.sets[0], [column], options.query_prompt)
        if encoder is None:
            encoder = recorded.open_encoder(model)
        else:
            encoder = encoder_of_columns(encoder, [column])
            recorded.check(encoder)
        vectors = copy_as_float32(embed_queries(encoder, column, texts, source.encoding))
        prepare_vectors(options.preparation, vectors, 0)
    return given_queries(vectors)


def _fit_to_source(source: FeatureSource, whitening: Whitening | None, clock: "_StepClock") -> Whitener | None:
    """Fit a whitening to all vectors of a source, in a pass of its own."""
    if whitening is None:
        return None
    with clock.step("whiten", source.count):
        return fit_whitening(whitening, measure_spectrum(raw_vectors(source, clock.done), source.width))


@dataclass(slots=True)
class _StepClock:
    """Times the steps and reports their progress."""

    on_progress: OnStep
    seconds: dict[str, float] = field(default_factory=dict)
    _step: str = ""
    _total: int = 0

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[None]:
        self._step, self._total = name, total
        self.done(0)
        began = time.perf_counter()
        yield
        self.done(total)
        self.seconds[name] = round(time.perf_counter() - began, 3)

    def done(self, count: int) -> None:
        self.on_progress(StepProgress(self._step, count, self._total, "vectors"))


def _new_settings(
    source: FeatureSource, choice: IndexChoice, options: BuildOptions, report: _BuildReport, documents: int
) -> IndexSettings:
    header, column = source.sets[0].header, source.column
    return IndexSettings(
        format_version=FORMAT_VERSION,
        column=FeatureColumn(column.recipe, column.pooling, column.width, "float32"),
        metric=options.metric,
        type=options.type,
        factory=choice.factory,
        reason=choice.reason,
        model=header.model,
        extraction=header.settings,
        query_prompt=options.query_prompt,
        sources=tuple(describe_source_set(features) for features in source.sets),
        count=report.count,
        documents=documents,
        zero_vectors=report.zero_vectors,
        skipped=source.skipped,
        tombstones=0,
        has_text=options.keep_text and "text" in source.schema.names,
        effort=report.search_parameter,
        evaluation=report.recall,
        versions={"bertfeat": bertfeat.__version__, "faiss": faiss.__version__, "pyarrow": pa.__version__},
        seconds=report.seconds,
        transform=report.transform,
        spans=None if source.spans is None else str(source.spans),
        encoding=None if source.encoding is None else source.encoding.shape,
    )
