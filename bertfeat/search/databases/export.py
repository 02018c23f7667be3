"""Export of a feature column into a vector database, Lance or Qdrant: streamed, counted, and its recall measured there.

There are up to three passes over the features. The first compares the rows with those that the database has already,
if it has any. The second reads the vectors from which queries are made. The third loads the rows that are missing;
meanwhile exact search in NumPy finds the nearest vectors of each query, among all the vectors of the column. Without
the evaluation there is no second pass.

Shapes: Q queries, K nearest, n vectors of a block, W values.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import SECRET, checked
from bertfeat.core import FeatureSet, SpanRule, open_feature_sets, unit_vectors
from bertfeat.display import displayed
from bertfeat.errors import DatabaseError, UsageError, needed_library, parameter
from bertfeat.io import Address, as_location
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search.databases.database_rows import DatabaseRows, RowBlock, RowChange, number_keys
from bertfeat.search.evaluation.recall import (
    GroundTruth,
    RecallQueries,
    disturb,
    ground_truth,
    recall_at_k,
    without_own,
)
from bertfeat.search.settings import QueryKind
from bertfeat.search.vectors.faiss_import import Scored
from bertfeat.search.vectors.faiss_search import EMPTY, merge_neighbors
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import sample_numbers

_NEAREST = 10  # recall is measured at this many nearest
_ENOUGH = 0.9  # a lower recall is warned about
_QUERIES = 100
_DEPTH = 100  # hits of exact search: more than _NEAREST, to include vectors exactly as near as the last of these
_SCORED_ROWS = 8192  # vectors that are compared at once


@dataclass(frozen=True, slots=True)
class DatabaseRecall:
    """The share of the true 10 nearest that a database finds; queries are some of its own vectors with noise."""

    nearest: int  # 10, or all others where there are fewer
    queries: int
    of: QueryKind
    default: float  # with the database's own parameters
    best: float  # with these ones
    parameters: Mapping[str, int] = field(default_factory=dict)  # empty where the database's own are enough


@displayed
@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """The result of an export into a database."""

    place: str  # the dataset, server or folder
    collection: str | None  # of Qdrant
    column: str
    documents: int
    vectors: int
    zero_vectors: int
    skipped: int  # tokens, words and spans without a vector of their own
    added: int  # vectors; the others were there already
    removed: int  # vectors that were there, and are no longer in the feature set
    index: str  # a description of the index that searches them
    recall: DatabaseRecall | None  # None: not measured
    advice: str  # what to do about a low recall; empty where it is not low


class VectorDatabase(Protocol):
    """The interface of a vector database that rows are exported to."""

    where: str  # for messages
    trials: Sequence[Mapping[str, int]]  # sets of search parameters, each more thorough than the one before
    rebuild: str  # advice for the user where none of them is enough

    def begin(self, rows: DatabaseRows, *, update: bool, overwrite: bool) -> pa.Array:
        """Make room for the rows, and return the keys of those that are there already.

        Raises:
            DatabaseError: the database cannot be reached; or something else is at its place.
        """
        ...

    def load(self, blocks: Iterator[RowBlock], change: RowChange) -> None:
        """Store the missing rows, which come in blocks, and remove those that are gone; reads all blocks."""
        ...

    def count(self) -> int:
        """Count the rows in the database."""
        ...

    def finish(self, done: Callable[[int], None]) -> str:
        """Build the index, record that the database is complete, and return a description of the index."""
        ...

    def search(self, queries: NDArray[np.float32], k: int, parameters: Mapping[str, int]) -> NDArray[np.int64]:
        """Search for queries ``[Q, W]`` with the database's index, as its users do.

        Returns the numbers of the nearest rows' keys (:func:`number_keys`), ``[Q, k]``, padded with EMPTY.
        """
        ...


@checked
def export_to_lance(
    features: FeatureSet | str | Path | Address,
    dataset: str | Path | Address,
    column: str | None = None,
    *,
    spans: str | None = None,
    evaluate: bool = True,
    update: bool = False,
    overwrite: bool = False,
    progress: ProgressOption[StepProgress] = None,
) -> DatabaseReport:
    """Write one column of a feature set as a Lance dataset, on this machine or at an address, and measure its recall.

    The vectors have length 1, in a column ``vector``; with ``spans`` they are of spans, pooled from a column of tokens
    or words as :meth:`bertfeat.FeatureSet.spans` does. From 100,000 vectors on they get an index. All rows become
    visible in one step; if the export is killed before that, there is no dataset, or still the former one.

    With ``update``, a dataset that is there becomes what the column is now: only rows that are new or changed are
    written, in one version of the dataset, and its index takes them in.

    Raises:
        MissingLibraryError: Lance is not installed.
        UsageError: no vectors, or unknown spans; or a kept column has a name that Lance needs.
        NotDerivableError: there is no such column.
        IndexFolderError: a vector that is not finite.
        DatabaseError: a dataset (without ``update`` or ``overwrite``) or something else is there; or the dataset cannot
            be written; or one that is to be updated has vectors of another column or model, or rows of others.
    """
    with needed_library("the export needs Lance", "bertfeat[lance]"):
        from bertfeat.search.databases.lance_dataset import LanceTable
    _refuse_both(update=update, overwrite=overwrite)
    place = as_location(dataset)
    (opened,) = open_feature_sets(features)
    rows, table = DatabaseRows(opened, column, SpanRule.of(spans)), LanceTable(place)
    with telling(progress) as tell:
        present = table.begin(rows, update=update, overwrite=overwrite)
        return _fill_database(rows, table, present, str(place), None, evaluate, tell)


@checked
def export_to_qdrant(
    features: FeatureSet | str | Path | Address,
    column: str | None = None,
    *,
    spans: str | None = None,
    url: str | None = None,
    folder: str | Path | Address | None = None,
    collection: str | None = None,
    api_key: Annotated[str | None, SECRET] = None,
    evaluate: bool = True,
    update: bool = False,
    overwrite: bool = False,
    progress: ProgressOption[StepProgress] = None,
) -> DatabaseReport:
    """Load one column of a feature set into a collection of a Qdrant server, or of a local folder; measure its recall.

    A point is of a document, token, word or span (``spans``: see :func:`export_to_lance`), and its id is made of its
    content. ``collection`` is by default named after the feature set. With ``update``, a collection that is there
    becomes what the column is now: only points that are new or changed are sent, and those that are gone are deleted.
    The same call resumes an interrupted export; until the end, the collection's metadata say that it is loading.

    Raises:
        MissingLibraryError: qdrant-client is not installed.
        UsageError: not exactly one of ``url`` and ``folder``; no vectors, or unknown spans; or a kept column has a
            name that is needed.
        NotDerivableError: there is no such column.
        IndexFolderError: a vector that is not finite.
        DatabaseError: no answer, or a refusal; or the collection has other points (and not ``update`` or ``overwrite``)
            or settings; or one that is to be updated has points of another column or model, or of others.
    """
    _refuse_both(update=update, overwrite=overwrite)
    if (url is None) == (folder is None):
        raise UsageError(
            f"name the server with {parameter('url')} or a folder with {parameter('folder')}, one of the two"
        )
    local = None if folder is None else as_location(folder)
    if isinstance(local, Address):
        raise UsageError("Qdrant's local mode writes to a folder of this machine", where=folder)
    with needed_library("the export needs qdrant-client", "bertfeat[qdrant]"):
        from bertfeat.search.databases.qdrant_collection import QdrantCollection, open_qdrant
    (opened,) = open_feature_sets(features)
    place = str(url or folder)
    name = collection or opened.folder.absolute().name.removesuffix(".features")
    with open_qdrant(url, local, api_key) as client, telling(progress) as tell:
        database = QdrantCollection(client, place, name, remote=url is not None)
        rows = DatabaseRows(opened, column, SpanRule.of(spans))
        present = database.begin(rows, update=update, overwrite=overwrite)
        return _fill_database(rows, database, present, place, name, evaluate, tell)


def _refuse_both(*, update: bool, overwrite: bool) -> None:
    if update and overwrite:
        raise UsageError(f"{parameter('update', True)} and {parameter('overwrite', True)}: choose one of the two")


def _fill_database(
    rows: DatabaseRows,
    database: VectorDatabase,
    present: pa.Array,
    place: str,
    collection: str | None,
    evaluate: bool,
    tell: OnStep,
) -> DatabaseReport:
    """Load the rows that a database lacks, beside those with the keys ``present``, and remove what is gone."""

    def step(name: str) -> Callable[[int], None]:
        return lambda done: tell(StepProgress(name, done, rows.count, "vectors"))

    everything = RowChange(np.ones(rows.count, bool), present)
    change = RowChange.between(_all_blocks(rows, step("compare")), present) if len(present) else everything
    exact = sample_queries(rows, step("sample")) if evaluate else None
    blocks = _missing_blocks(_all_blocks(rows, step("load")), change, exact)
    if not change.is_empty:
        database.load(blocks, change)
    elif exact is not None:
        deque(blocks, maxlen=0)  # which compares the queries with them
    if (found := database.count()) != rows.count:
        raise DatabaseError(
            f"{rows.count:,} vectors were loaded, and it has {found:,}",
            where=database.where,
            remedy=f"something else changes it; load it again with {parameter('overwrite', True)}",
        )
    index = database.finish(step("index"))
    step("evaluate")(0)
    recall = judge_database(exact.truth(), database.search, database.trials) if exact else None
    step("evaluate")(rows.count)
    return DatabaseReport(
        place=place,
        collection=collection,
        column=rows.contents,
        documents=rows.documents,
        vectors=rows.count,
        zero_vectors=rows.zero_vectors,
        skipped=rows.skipped,
        added=int(change.missing.sum()),
        removed=len(change.gone),
        index=index,
        recall=recall,
        advice=_advice(recall, database) if recall else "",
    )


def _all_blocks(rows: DatabaseRows, done: Callable[[int], None]) -> Iterator[RowBlock]:
    """All blocks with their columns; ``done`` is told how many rows came."""
    for block in rows.blocks(columns=True):
        yield block
        done(block.start + len(block))


def _missing_blocks(blocks: Iterator[RowBlock], change: RowChange, exact: "ExactRows | None") -> Iterator[RowBlock]:
    """The rows of all blocks that the database does not have; the queries, if any, are compared with all rows."""
    for block in blocks:
        if exact is not None:
            exact.add(block)
        chosen = change.missing[block.start : block.start + len(block)]
        if chosen.all():
            yield block
        elif chosen.any():
            yield block.rows(chosen)


def _advice(recall: DatabaseRecall, database: VectorDatabase) -> str:
    if recall.default >= _ENOUGH:
        return ""
    found = f"recall at {recall.nearest} is {recall.default:.3f} for {recall.of.noun}"
    found += ", with the database's own search parameters"
    if recall.parameters:
        chosen = ", ".join(f"{name}={value}" for name, value in recall.parameters.items())
        found += f", and {recall.best:.3f} with {chosen}"
    return f"{found}; {'search with these' if recall.best >= _ENOUGH else database.rebuild}"


def sample_queries(rows: DatabaseRows, done: Callable[[int], None]) -> "ExactRows | None":
    """Read a sample of the vectors and make queries from it.

    Returns None where the set has fewer than two vectors, or where all that were sampled are zero.
    """
    numbers = sample_numbers(rows.count, _QUERIES)
    vectors = np.zeros((len(numbers), rows.width), np.float32)
    for block in rows.blocks(columns=False):
        first, last = np.searchsorted(numbers, (block.start, block.start + len(block.vectors)))
        vectors[first:last] = block.vectors[numbers[first:last] - block.start]
        done(block.start + len(block.vectors))
    has_direction = vectors.any(axis=1)
    if rows.count < 2 or not has_direction.any():
        return None
    own, stored = numbers[has_direction], vectors[has_direction]
    return ExactRows(RecallQueries(QueryKind.DISTURBED, unit_vectors(disturb(stored)), own, stored), rows.count)


class ExactRows:
    """Exact search over the rows, whose vectors stream by, with queries that were made from some of them."""

    def __init__(self, asked: RecallQueries, count: int) -> None:
        self._asked = asked
        self._own = np.full(len(asked), EMPTY, np.int64)
        self._depth = min(_DEPTH, count - 1) + 1  # one more, for the vector that the query was made from
        shape = (len(asked), self._depth)
        self._best: Scored = (np.full(shape, -np.inf, np.float32), np.full(shape, EMPTY, np.int64))

    def add(self, block: RowBlock) -> None:
        """Compare with the next rows."""
        keys = number_keys(block.keys.to_pylist())
        inside = (self._asked.own >= block.start) & (self._asked.own < block.start + len(keys))
        self._own[inside] = keys[self._asked.own[inside] - block.start]
        for start in range(0, len(keys), _SCORED_ROWS):
            cut = slice(start, start + _SCORED_ROWS)
            scores = self._asked.vectors @ block.vectors[cut].T
            depth = min(self._depth, scores.shape[1])
            places = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
            found = (np.take_along_axis(scores, places, 1), keys[cut][places])
            self._best = merge_neighbors([self._best, found], self._depth, Metric.COSINE)

    def truth(self) -> GroundTruth:
        """The nearest rows of each query, without the one that it was made from."""
        return ground_truth(replace(self._asked, own=self._own), self._best, seconds=0.0)


def judge_database(
    truth: GroundTruth,
    search: Callable[[NDArray[np.float32], int, Mapping[str, int]], NDArray[np.int64]],
    trials: Sequence[Mapping[str, int]],
) -> DatabaseRecall:
    """Measure recall with the database's own parameters, then with those of each trial until it is high enough."""
    nearest = min(_NEAREST, truth.numbers.shape[1])

    def recall(parameters: Mapping[str, int]) -> float:
        found = search(truth.asked.vectors, nearest + 1, parameters)
        others = without_own(np.empty(found.shape, np.float32), found, truth.asked.own)[1]
        return round(float(recall_at_k(truth, others, nearest, Metric.COSINE).mean()), 4)

    default = best = recall({})
    chosen: Mapping[str, int] = {}
    for parameters in trials:
        if best >= _ENOUGH:
            break
        if (reached := recall(parameters)) > best:
            best, chosen = reached, parameters
    return DatabaseRecall(nearest, len(truth.asked), truth.asked.kind, default, best, dict(chosen))
