"""Retrieval scores by human judgements: nDCG, MAP, MRR and recall of an index on a BEIR folder.

A new metric is a line of the table :data:`RETRIEVAL_METRICS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, CorpusError, UsageError, parameter
from bertfeat.io import Address
from bertfeat.search.evaluation.beir_folder import BeirFolder, read_beir
from bertfeat.search.index import Index
from bertfeat.search.reranking.maxsim import RERANK_DEPTH, MaxSim, check_rerank
from bertfeat.search.vector_index import Neighbours


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """A score of retrieval."""

    key: str  # in JSON and in :attr:`RetrievalScores.scores`
    title: str  # in tables
    measure: str  # as ir_measures names it: https://ir-measur.es


RETRIEVAL_METRICS = (
    RetrievalMetric("ndcg_at_10", "nDCG@10", "nDCG@10"),
    RetrievalMetric("map", "MAP", "AP"),
    RetrievalMetric("mrr", "MRR", "RR"),
    RetrievalMetric("recall_at_100", "recall@100", "R@100"),
)
DEPTH = 1000  # hits a query, as trec_eval and BEIR take

_BATCH = 256


class OwnIds(StrEnum):
    """The treatment of a hit that has the query's own id."""

    AUTO = "auto"  # left out, unless some query is judged with the document of its own id
    KEEP = "keep"  # queries and documents are numbered apart
    DROP = "drop"  # queries are documents of the corpus, and none should find itself: BEIR's rule


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """Means over the judged queries."""

    scores: Mapping[str, float]  # by key of RETRIEVAL_METRICS
    queries: int
    judged_documents: int
    unknown_documents: int  # judged ones that the index does not have
    own_ids: OwnIds  # KEEP or DROP: which one was used
    dropped: int  # hits with their query's own id that were left out

    def to_json(self) -> dict[str, object]:
        """The scores and counts as JSON values, in one object."""
        return {
            **self.scores,
            "queries": self.queries,
            "judged_documents": self.judged_documents,
            "unknown_documents": self.unknown_documents,
            "own_ids": self.own_ids,
            "dropped": self.dropped,
        }

    def rows(self) -> list[tuple[str, float]]:
        """The title and score of each metric."""
        return [(metric.title, self.scores[metric.key]) for metric in RETRIEVAL_METRICS]


@dataclass(slots=True)
class RetrievedDocuments:
    """The documents that were found for queries, ready to be scored."""

    drop: bool  # leave out hits with their query's own id
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # query id → document id → larger is nearer
    dropped: int = 0

    @property
    def depth(self) -> int:
        """How many hits a query needs."""
        return DEPTH + self.drop

    def add(self, queries: Sequence[str], ids: Sequence[str], scores: Sequence[float]) -> None:
        """Take the hits of some queries, best first, those of one query after those of the other."""
        width = len(ids) // max(len(queries), 1)
        for at, name in enumerate(queries):
            part = slice(at * width, (at + 1) * width)
            hits: dict[str, float] = {}
            for document, score in zip(ids[part], scores[part], strict=True):
                hits.setdefault(document, score)  # of a document's tokens the best
            if self.drop:
                self.dropped += hits.pop(name, None) is not None
            self.scores[name] = hits


def evaluate_beir(
    index: Index | str | Path | Address,
    folder: str | Path,
    *,
    split: str = "test",
    exact: bool = False,
    own_ids: OwnIds | str = OwnIds.AUTO,
    rerank: MaxSim | str | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> RetrievalScores:
    """Search for every judged query of a BEIR folder and score the hits, as trec_eval does.

    A hit with the query's own id is left out, as BEIR does, for sets whose queries are documents of the corpus. Where a
    query is judged with the document of its own id, queries and documents are numbered apart, and ``auto`` leaves out
    none. ``rerank`` scores the best hits again, as ``Index.search`` does: 50 of the 1,000 unless it says more; the
    others follow in their order by vector. ``model`` and ``device`` are for an index that is given as a folder.

    Raises:
        CorpusError: the folder is not in BEIR's form, or its document ids are not those of the index.
        UsageError: ``own_ids`` is unknown.
        BertfeatError: ir_measures is not installed.
    """
    check_scorer()
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device)
    data, options = read_beir(folder, split), check_rerank(rerank)
    rule = own_ids_rule(own_ids, data)
    batches = (batch.column("id") for batch in index.vectors.documents.batches(["id"]))
    unknown = unknown_documents(data, batches, f"{folder}/qrels/{split}.tsv", "index")
    retrieved = _retrieve(index, data.queries, exact=exact, drop=rule is OwnIds.DROP, options=options)
    scores = score_queries(data, retrieved).mean(axis=0)
    return RetrievalScores(
        scores={metric.key: round(float(mean), 5) for metric, mean in zip(RETRIEVAL_METRICS, scores, strict=True)},
        queries=len(data.queries),
        judged_documents=len(data.judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        dropped=retrieved.dropped,
    )


def check_scorer() -> None:
    """Check that ir_measures is there, before anything is computed.

    Raises:
        BertfeatError: it is not.
    """
    try:
        import ir_measures  # noqa: F401
    except ImportError as error:
        raise BertfeatError("scoring needs ir_measures: pip install 'bertfeat[evaluate]'") from error


def score_queries(data: BeirFolder, retrieved: RetrievedDocuments) -> NDArray[np.float64]:
    """The score of each query by each of :data:`RETRIEVAL_METRICS`, as trec_eval computes them: ``[Q, metrics]``."""
    import ir_measures

    places = {name: at for at, name in enumerate(data.queries)}
    measures = {ir_measures.parse_measure(metric.measure): at for at, metric in enumerate(RETRIEVAL_METRICS)}
    scores = np.zeros((len(places), len(measures)))
    for found in ir_measures.iter_calc(list(measures), data.judgements, retrieved.scores):
        scores[places[found.query_id], measures[found.measure]] = found.value
    return scores


def unknown_documents(data: BeirFolder, ids: Iterable[pa.Array], where: str, place: str) -> set[str]:
    """The judged documents that are not among ``ids``, those of a ``place``: an index or a feature set.

    Raises:
        CorpusError: none is.
    """
    judged = data.judged
    unknown = judged - {id_ for batch in ids for id_ in batch.to_pylist() if id_ in judged}
    if unknown == judged:
        raise CorpusError(
            f"none of the {len(judged):,} judged documents is in the {place} (such as {min(judged)!r})",
            where=where,
            remedy=f"extract the corpus.jsonl of the same folder with {parameter('id_column', '_id')}",
        )
    return unknown


def own_ids_rule(own_ids: OwnIds | str, data: BeirFolder) -> OwnIds:
    """The treatment of hits with their query's own id, KEEP or DROP, where AUTO asks the judgements.

    Raises:
        UsageError: it is unknown.
    """
    try:
        rule = OwnIds(own_ids)
    except ValueError as error:
        raise UsageError(f"own ids {own_ids!r} is unknown", remedy=f"there are: {', '.join(OwnIds)}") from error
    if rule is not OwnIds.AUTO:
        return rule
    numbered_apart = any(grades.get(query, 0) > 0 for query, grades in data.judgements.items())
    return OwnIds.KEEP if numbered_apart else OwnIds.DROP


def _retrieve(
    index: Index, queries: Mapping[str, str], *, exact: bool, drop: bool, options: MaxSim | None
) -> RetrievedDocuments:
    """The hits of each query; ``drop`` leaves out those that have its id."""
    names, retrieved = list(queries), RetrievedDocuments(drop)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        neighbours = _find_neighbours(index, [queries[name] for name in batch], retrieved.depth, exact, options)
        owners = index.vectors.document_numbers(neighbours.numbers.ravel())
        ids = index.vectors.documents.take(owners)["id"].to_pylist()
        retrieved.add(batch, ids, neighbours.scores.ravel().tolist())
    return retrieved


def _find_neighbours(index: Index, texts: Sequence[str], k: int, exact: bool, options: MaxSim | None) -> Neighbours:
    """The hits of queries, with scores of which larger is nearer: where they were scored again, their order."""
    if options is None:
        found = index.vectors.search(index.encode(texts), k, exact=exact)
        return Neighbours(index.vectors.metric.nearness(found.scores), found.numbers)
    found = index.reranker(options).search(index.encoder, texts, k, depth=options.depth or RERANK_DEPTH, exact=exact)
    scores = np.broadcast_to(-np.arange(found.numbers.shape[1], dtype=np.float32), found.numbers.shape)
    return Neighbours(scores, found.numbers)
