"""A comparison of layers for search: all recipes and transforms of a feature set, scored on a BEIR folder exactly.

It asks for retrieval what Table 7 of Devlin et al. 2019 (section 5.3) asks for named entity recognition: which layers
are best. No index is built: the vectors are streamed once for the search, and once before it where they are whitened.

Shapes: Q queries, n vectors of a block, K hits, W values in a vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, Pooling, ReadableColumn, Recipe, parse_poolings
from bertfeat.display import displayed
from bertfeat.errors import NotDerivableError, UsageError, parameter
from bertfeat.io import Address
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search.evaluation.beir import BeirFolder, read_beir, unknown_documents
from bertfeat.search.evaluation.metrics import DEPTH, RetrievalMetric, as_metrics, check_scorer, score_queries
from bertfeat.search.evaluation.retrieval import OwnIds, RetrievedDocuments, as_own_ids, seem_documents
from bertfeat.search.queries import QueryEncoder, RecordedVectors
from bertfeat.search.vectors.faiss_import import Scored, faiss
from bertfeat.search.vectors.faiss_search import merge_neighbors
from bertfeat.search.vectors.faiss_transforms import FaissTransform, Whitener, fit_whitening, measure_spectrum
from bertfeat.search.vectors.metric import NONE, Metric, Whitening, as_whitening, copy_as_float32
from bertfeat.search.vectors.vector_blocks import block_rows, prepare_vectors

_QUERIES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured value, and the ends of its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    @classmethod
    def of(cls, value: float, resampled: NDArray[np.float64]) -> "Interval":
        """A value with the percentiles of what resamples give for it, ``[R]``."""
        low, high = np.percentile(resampled, (2.5, 97.5))
        return cls(*(round(float(each), 5) for each in (value, low, high)))


@displayed
@dataclass(frozen=True, slots=True)
class LayerScores:
    """The retrieval scores of one column under one transform, by the relevance judgments."""

    column: str  # concat4_mean
    transform: str  # as asked for: none, half-whiten, whiten:128
    width: int  # number of values in a vector after the transform
    scores: Mapping[str, Interval]  # by key of a metric, over queries
    difference: Interval  # of the first metric from the best row, over the same queries
    few_vectors: bool  # whether there are too few vectors for a full whitening of this width


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A column, or a transform of it, that could not be computed."""

    column: str
    transform: str
    reason: str


@displayed
@dataclass(frozen=True, slots=True)
class LayerTable:
    """The columns of a feature set scored on a BEIR folder, in the order asked for."""

    features: str
    model: str
    metrics: Sequence[RetrievalMetric]  # rows are compared by the first
    documents: int
    queries: int
    judged_documents: int
    unknown_documents: int  # judged ones that the set does not have
    own_ids: OwnIds  # the rule that was used
    rows: tuple[LayerScores, ...]
    left_out: tuple[LeftOut, ...]
    own_first: int = 0  # queries whose first hit has their own id, in the row that has most of them

    @property
    def seem_documents(self) -> bool:
        """Whether the queries seem to be documents of the corpus, though their own ids are kept."""
        return seem_documents(self.own_ids, self.own_first, self.queries)

    @property
    def ranked_by(self) -> RetrievalMetric:
        """The metric by which rows are compared."""
        return self.metrics[0]

    @property
    def best(self) -> LayerScores:
        """The row that is best by the first metric; of equal ones the first."""
        return max(self.rows, key=lambda row: row.scores[self.ranked_by.key].value)


@checked
def evaluate_layers(
    features: FeatureSet | str | Path | Address,
    folder: str | Path,
    *,
    layers: Sequence[str] = (),
    pooling: str | Sequence[str] | None = None,
    transforms: Sequence[Whitening | str] = (),
    metrics: Sequence[str] = (),
    split: str = "test",
    own_ids: OwnIds | str = OwnIds.KEEP,
    seed: int = 1,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
    progress: ProgressOption[StepProgress] = None,
) -> LayerTable:
    """Score layers of a feature set on a BEIR folder by exact search under cosine, with intervals over the queries.

    ``layers`` are recipes, stored or derived; ``all`` means every single layer. By default they are all single layers
    and the stored combinations. ``pooling`` names poolings that give one vector per document, by default all that are
    stored. ``transforms`` are ``none``, ``whiten`` and ``half-whiten``, fitted on the set as :func:`build_index` does.
    ``metrics`` are those of :func:`evaluate_beir`; rows are compared by the first of them, by default nDCG@10.
    Queries are embedded once, by the model of the set (``model`` says where it is now, on ``device``) or by
    ``encoder``. Memory: a few blocks of vectors, the queries, 1,000 hits per query, the covariance, and the ids of the
    documents.

    Raises:
        NotDerivableError: a recipe that no stored pooling has.
        CorpusError: the folder is not in BEIR's form, or none of its judged documents is in the set.
        UsageError: an unknown transform, pooling or metric; or no row could be computed.
        BertfeatError: ir_measures is not installed.
    """
    check_scorer()
    scored_by = as_metrics(metrics)
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    wanted = list(dict.fromkeys(as_whitening(name) for name in transforms or (NONE,)))
    columns, left_out = _choose_columns(features, layers, pooling)
    data = read_beir(folder, split)
    rule, resamples = as_own_ids(own_ids), QueryResamples(len(data.queries), seed)
    text_ids = features.header.settings.text_ids
    ids = pa.chunked_array(
        [batch.column(text_ids) for batch in features.stream([text_ids], batch_rows=65_536)], pa.string()
    ).cast(pa.large_string())
    unknown = unknown_documents(data, ids.chunks, f"{folder}/qrels/{split}.tsv", "feature set")
    stored = {name for column in columns for name in column.derivation.columns}
    needed = [column for column in features.columns if column.name in stored]
    recorded = RecordedVectors.of_features(features, needed)
    if encoder is None:
        encoder = recorded.open_encoder(model, device)
    else:
        recorded.check(encoder)
    queries = _encode_queries(encoder, list(data.queries.values()), columns)
    with telling(progress) as tell:
        scan = _Scan(features, data, scored_by, ids, rule is OwnIds.DROP, wanted, tell, len(columns))
        scored = [row for column in columns for row in scan.rows(column, queries[column.name])]
    if not scored:
        raise UsageError(scan.left_out[0].reason, where=features.folder)
    return LayerTable(
        features=str(features.folder),
        model=features.header.model.name,
        metrics=scored_by,
        documents=len(features),
        queries=len(data.queries),
        judged_documents=len(data.judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        own_first=max(row.own_first for row in scored),
        rows=_with_intervals(scored, scored_by, resamples),
        left_out=(*left_out, *scan.left_out),
    )


# ── choosing columns ────────────────────────────────────────────────────────────────────────────────────────


def _choose_columns(
    features: FeatureSet, layers: Sequence[str], pooling: str | Sequence[str] | None
) -> tuple[list[ReadableColumn], list[LeftOut]]:
    """The columns, pooling by pooling; where no pooling was named, also the recipes that some pooling does not have."""
    stored = tuple(dict.fromkeys(column.pooling for column in features.columns if column.pooling.per_document))
    poolings = stored if pooling is None else parse_poolings(pooling, lambda: Pooling.MEAN)
    if wrong := [str(each) for each in poolings if not each.per_document]:
        raise UsageError(f"documents are searched by vectors of documents, and {wrong[0]} gives none")
    columns: dict[tuple[Recipe, Pooling], ReadableColumn] = {}
    missing: dict[str, list[NotDerivableError]] = {}
    for each in poolings:
        combined = [
            column for column in features.columns if column.pooling is each and column.recipe.single_layer is None
        ]
        for spec in layers or ["all", *(column.name for column in combined)]:
            try:
                found = _find_columns(features, spec, each, poolings)
            except NotDerivableError as error:
                missing.setdefault(spec, []).append(error)
                if pooling is not None or len(missing[spec]) == len(poolings):
                    raise
                continue
            columns |= {(column.recipe, column.pooling): column for column in found}
    if not columns:
        raise NotDerivableError(
            f"there are no vectors of documents of {', '.join(layers) or 'any layers'}",
            where=features.folder,
            remedy=f"extract with {parameter('pooling', 'mean')} and {parameter('layers', 'all')}",
        )
    return list(columns.values()), [
        LeftOut(spec, NONE, error.problem) for spec, errors in missing.items() for error in errors
    ]


def _find_columns(features: FeatureSet, spec: str, pooling: Pooling, others: Sequence[Pooling]) -> list[ReadableColumn]:
    if spec == "all":
        return features.single_layers(pooling)
    named = next((each for each in Pooling if spec == each or spec.endswith(f"_{each}")), pooling)
    if named is not pooling and named in others:
        return []  # it is found with the pooling that it names
    if not named.per_document:
        raise NotDerivableError(f"documents are searched by vectors of documents, and {spec} has none")
    return features.find_each(spec, pooling)


def _encode_queries(
    encoder: QueryEncoder, texts: Sequence[str], columns: Sequence[ReadableColumn]
) -> dict[str, NDArray[np.float32]]:
    """The vectors ``[Q, W]`` of all queries for each column; the model reads each query once."""
    queries = {column.name: np.empty((len(texts), column.width), np.float32) for column in columns}
    for start in range(0, len(texts), _QUERIES_AT_ONCE):
        for at, document in enumerate(encoder.features(texts[start : start + _QUERIES_AT_ONCE]), start):
            for column in columns:
                stored = {name: np.atleast_2d(document.stored[name]) for name in column.derivation.columns}
                queries[column.name][at] = column.derivation.apply(stored)[0]
    return queries


# ── searching ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _ScoredRow:
    column: str
    transform: str
    width: int
    few_vectors: bool
    scores: NDArray[np.float64]  # [Q, metrics]
    own_first: int  # queries whose first hit has their own id


class _StreamedSearch:
    """Exact search under cosine for queries ``[Q, W]`` among vectors that stream by, after a transform if any."""

    def __init__(self, queries: NDArray[np.float32], depth: int, matrix: FaissTransform | None) -> None:
        self._matrix, self._depth = matrix, depth
        self._queries, self._start = self._prepared(queries, 0), 0
        self.found: Scored = (np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Compare with the next vectors ``[n, W]``."""
        prepared, depth = self._prepared(vectors, self._start), min(self._depth, len(vectors))
        scores, places = faiss.knn(self._queries, prepared, depth, Metric.COSINE.faiss_metric)
        self.found = merge_neighbors([self.found, (scores, places + self._start)], self._depth, Metric.COSINE)
        self._start += len(vectors)

    def _prepared(self, vectors: NDArray[np.float32], first: int) -> NDArray[np.float32]:
        prepared = copy_as_float32(vectors) if self._matrix is None else self._matrix.apply(vectors)
        prepare_vectors(Metric.COSINE, prepared, first)
        return prepared


@dataclass(slots=True)
class _Scan:
    """Reads the columns of a feature set one by one and searches each under every transform."""

    features: FeatureSet
    data: BeirFolder
    metrics: Sequence[RetrievalMetric]
    ids: pa.ChunkedArray  # of the documents
    drop: bool  # leave out hits with their query's own id
    transforms: Sequence[Whitening | None]
    tell: OnStep
    columns: int  # that will be read
    left_out: list[LeftOut] = field(default_factory=list)
    _read: int = 0

    def rows(self, column: ReadableColumn, queries: NDArray[np.float32]) -> Iterator[_ScoredRow]:
        """Score a column under every transform that it can have."""
        depth = DEPTH + self.drop
        searches: list[tuple[str, int, bool, _StreamedSearch]] = []
        for name, whitener in self._fit(column):
            width = whitener.width if whitener else column.width
            few = whitener is not None and whitener.whitening.is_wide_for(len(self.features))
            matrix = whitener.matrix() if whitener else None
            searches.append((name, width, few, _StreamedSearch(queries, depth, matrix)))
        for block in self._blocks(column):
            for *_, search in searches:
                search.add(block)
        for name, width, few, search in searches:
            retrieved = self._retrieved(search)
            scores = score_queries(self.data, retrieved.scores, self.metrics)
            yield _ScoredRow(column.name, name, width, few, scores, retrieved.own_first)

    def _fit(self, column: ReadableColumn) -> Iterator[tuple[str, Whitener | None]]:
        """Fit every transform to a column, with its name; those that cannot be fitted are noted as left out."""
        spectrum = measure_spectrum(self._blocks(column), column.width) if any(self.transforms) else None
        for whitening in self.transforms:
            if whitening is None or spectrum is None:
                yield NONE, None
                continue
            try:
                yield str(whitening), fit_whitening(whitening, spectrum)
            except UsageError as error:
                self.left_out.append(LeftOut(column.name, str(whitening), error.problem))

    def _blocks(self, column: ReadableColumn) -> Iterator[NDArray[np.float32]]:
        """All vectors in blocks of about 48 MiB, each checked to be finite."""
        size, waiting, first = block_rows(column.width), list[NDArray[np.float32]](), 0
        total = (2 if any(self.transforms) else 1) * self.columns * len(self.features)  # of all passes
        for batch in self.features.batches(column.name):
            prepare_vectors(Metric.IP, batch.matrix, first)
            first += len(batch)
            waiting.append(batch.matrix)
            if sum(map(len, waiting)) >= size:
                yield np.concatenate(waiting)
                waiting = []
            self._read += len(batch)
            self.tell(StepProgress("", self._read, total, "vectors"))
        if waiting:
            yield np.concatenate(waiting)

    def _retrieved(self, search: _StreamedSearch) -> RetrievedDocuments:
        scores, numbers = search.found
        retrieved, names = RetrievedDocuments(self.drop, DEPTH), list(self.data.queries)
        for start in range(0, len(names), _QUERIES_AT_ONCE):
            part = slice(start, start + _QUERIES_AT_ONCE)
            ids = self.ids.take(pa.array(numbers[part].ravel())).to_pylist()
            retrieved.add(names[part], ids, scores[part].ravel().tolist())
        return retrieved


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────────


class QueryResamples:
    """Bootstrap resamples of the queries: each draws as many queries as there are, with replacement.

    Sakai 2006 (SIGIR) compares retrieval systems in this way.
    """

    def __init__(self, queries: int, seed: int) -> None:
        if seed < 0:
            raise UsageError(f"{parameter('seed', seed)} is below 0")
        random = np.random.default_rng(seed)
        self.weights: NDArray[np.float64] = random.multinomial(queries, np.full(queries, 1 / queries), 1000) / queries
        """The share of each query in each resample, ``[1000, Q]``."""

    def interval(self, scores: NDArray[np.float64]) -> Interval:
        """The mean of scores ``[Q]``, or of paired differences, between the percentiles of the resamples' means."""
        return Interval.of(float(scores.mean()), self.weights @ scores)


def _with_intervals(
    scored: Sequence[_ScoredRow], metrics: Sequence[RetrievalMetric], resamples: QueryResamples
) -> tuple[LayerScores, ...]:
    best = max(scored, key=lambda row: float(row.scores[:, 0].mean())).scores[:, 0]
    return tuple(
        LayerScores(
            row.column,
            row.transform,
            row.width,
            {metric.key: resamples.interval(row.scores[:, at]) for at, metric in enumerate(metrics)},
            resamples.interval(row.scores[:, 0] - best),
            row.few_vectors,
        )
        for row in scored
    )
