"""Retrieval scores by human judgments: nDCG, MAP, MRR, recall and others, of an index or of any tool's run."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, UsageError
from bertfeat.io import Address, output_file
from bertfeat.search.evaluation.beir import read_beir, unknown_documents
from bertfeat.search.evaluation.metrics import DEPTH, RetrievalMetric, as_metrics, check_scorer, score_queries
from bertfeat.search.evaluation.runs import check_run_ids, read_run, write_run
from bertfeat.search.index import Index
from bertfeat.search.options import MaxSim, check_rerank

_BATCH = 256  # queries searched at once


class OwnIds(StrEnum):
    """The treatment of a hit that has the query's own id."""

    KEEP = "keep"  # queries and documents are numbered apart
    DROP = "drop"  # queries are documents of the corpus, and none should find itself: BEIR's rule


@displayed
@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """The mean scores over the judged queries, and counts that explain them."""

    scores: Mapping[str, float]  # by key of a metric
    metrics: Sequence[RetrievalMetric]
    queries: int  # the judged ones, over which scores are averaged
    judged_documents: int
    unknown_documents: int | None  # judged ones that the index does not have; a run does not tell
    own_ids: OwnIds  # the rule that was used
    dropped: int  # hits with their query's own id that were left out
    own_first: int  # queries whose first hit has their own id
    scanned: Mapping[int, int]  # hits asked for → number of queries for which FAISS's own search found fewer
    without_hits: int = 0  # judged queries for which a run has no hits, and which score 0
    not_judged: int = 0  # queries of a run that nobody judged, and which are not scored

    @property
    def seem_documents(self) -> bool:
        """Whether the queries seem to be documents of the corpus, though their own ids are kept."""
        return seem_documents(self.own_ids, self.own_first, self.queries)

    def to_json(self) -> dict[str, object]:
        """The scores and counts as JSON values, in one object."""
        return {
            **self.scores,
            "queries": self.queries,
            "judged_documents": self.judged_documents,
            "unknown_documents": self.unknown_documents,
            "own_ids": self.own_ids,
            "dropped": self.dropped,
            "own_first": self.own_first,
            "scanned": {str(hits): queries for hits, queries in self.scanned.items()},
            "without_hits": self.without_hits,
            "not_judged": self.not_judged,
        }

    def rows(self) -> list[tuple[str, float]]:
        """The title and score of each metric."""
        return [(metric.title, self.scores[metric.key]) for metric in self.metrics]


@checked
def evaluate_beir(
    index: Index | str | Path | Address,
    folder: str | Path,
    *,
    metrics: Sequence[str] = (),
    split: str = "test",
    exact: bool = False,
    own_ids: OwnIds | str = OwnIds.KEEP,
    run: str | Path | None = None,
    rerank: MaxSim | str | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> RetrievalScores:
    """Search for every judged query of a BEIR folder and score the hits, as trec_eval does.

    ``metrics`` are such as ``P@5``, ``nDCG@20``, ``success@10``; by default nDCG@10, MAP, MRR and recall@100. Each is
    computed from a search for as many hits as it reads: nDCG@10 from ``search(k=10)``, recall@100 from
    ``search(k=100)``, MAP and MRR from ``search(k=1000)``, so that the loss of an approximate index shows. ``rerank``
    scores hits again as ``Index.search`` does at that ``k``. In an index of tokens, words or spans, or of texts that
    were split, a text has the rank of its best one, and every metric is computed from ``search(k=1000)``.
    ``own_ids="drop"`` leaves out hits with their query's own id, for sets whose queries are documents of the corpus
    (BEIR's ArguAna and Quora). ``run`` is a file for the hits of ``search(k=1000)``, in TREC's form. ``model`` and
    ``device`` are used where ``index`` is a folder.

    Raises:
        CorpusError: the folder is not in BEIR's form, or its document ids are not those of the index.
        UsageError: ``own_ids`` or a metric is unknown, or an id does not fit into a run.
        StorageError: the run cannot be written.
        BertfeatError: ir_measures is not installed.
    """
    check_scorer()
    wanted, rule, options = as_metrics(metrics), as_own_ids(own_ids), check_rerank(rerank)
    data = read_beir(folder, split)
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device)
    documents = index.vectors.documents
    text_ids = index.settings.extraction.text_ids
    batches = (batch.column(text_ids) for batch in documents.batches([text_ids]))
    unknown = unknown_documents(data, batches, f"{folder}/qrels/{split}.tsv", "index")
    if run is not None:
        check_run_ids(data.queries)
        for batch in documents.batches([text_ids]):
            check_run_ids(batch.column(text_ids).to_pylist())
    depths = {metric: metric.depth if index.settings.per_text else DEPTH for metric in wanted}
    searches = sorted({*depths.values(), *([] if run is None else [DEPTH])})
    with ExitStack() as stack:
        file = None if run is None else stack.enter_context(output_file(run))
        retrieved, scanned = _retrieve(
            index, data.queries, searches, exact=exact, drop=rule is OwnIds.DROP, options=options
        )
        deepest = retrieved[max(retrieved)]
        if file is not None:
            write_run(file, deepest.scores)
    means = {metric: score_queries(data, retrieved[depth].scores, [metric]).mean() for metric, depth in depths.items()}
    return RetrievalScores(
        scores=_scores_by_key(means),
        metrics=wanted,
        queries=len(data.queries),
        judged_documents=len(data.judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        dropped=deepest.dropped,
        own_first=deepest.own_first,
        scanned=scanned,
    )


@checked
def evaluate_run(
    run: str | Path,
    folder: str | Path,
    *,
    metrics: Sequence[str] = (),
    split: str = "test",
    own_ids: OwnIds | str = OwnIds.KEEP,
) -> RetrievalScores:
    """Score the hits of a TREC run, which any tool of retrieval may have written, on a BEIR folder.

    Hits are ordered by their scores, and equal scores by id, as trec_eval orders them; the ranks in the file do not
    count. The means are over all judged queries: one without hits scores 0. ``metrics`` and ``own_ids``: see
    :func:`evaluate_beir`.

    Raises:
        CorpusError: the folder is not in BEIR's form, the file is no run, or none of its queries is judged.
        UsageError: ``own_ids`` or a metric is unknown.
        BertfeatError: ir_measures is not installed.
    """
    check_scorer()
    wanted, rule = as_metrics(metrics), as_own_ids(own_ids)
    data, found = read_beir(folder, split), read_run(run)
    retrieved = RetrievedDocuments(rule is OwnIds.DROP)
    for query in data.queries:
        if hits := found.get(query):
            retrieved.add([query], list(hits), list(hits.values()))
    if not retrieved.scores:
        raise CorpusError(
            f"none of its {len(found):,} queries (such as {next(iter(found))!r}) is judged by qrels/{split}.tsv",
            where=run,
        )
    means = score_queries(data, retrieved.scores, wanted).mean(axis=0)
    return RetrievalScores(
        scores=_scores_by_key(dict(zip(wanted, means, strict=True))),
        metrics=wanted,
        queries=len(data.queries),
        judged_documents=len(data.judged),
        unknown_documents=None,
        own_ids=rule,
        dropped=retrieved.dropped,
        own_first=retrieved.own_first,
        scanned={},
        without_hits=len(data.queries) - sum(map(bool, retrieved.scores.values())),
        not_judged=len(found.keys() - data.queries.keys()),
    )


def _scores_by_key(means: Mapping[RetrievalMetric, float]) -> dict[str, float]:
    """The scores, rounded, by key of the metric."""
    return {metric.key: round(float(mean), 5) for metric, mean in means.items()}


@dataclass(slots=True)
class RetrievedDocuments:
    """The documents that were found for queries, ready to be scored."""

    drop: bool  # leave out hits with their query's own id
    most: int | None = None  # hits of a query that count; None: all
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # query id → document id → larger is nearer
    dropped: int = 0
    own_first: int = 0  # queries whose first hit has their own id

    def add(self, queries: Sequence[str], ids: Sequence[str], scores: Sequence[float]) -> None:
        """Add the hits of some queries, query by query, best first; every query has the same number."""
        width = len(ids) // max(len(queries), 1)
        for at, name in enumerate(queries):
            part = slice(at * width, (at + 1) * width)
            hits: dict[str, float] = {}
            for document, score in zip(ids[part], scores[part], strict=True):
                hits.setdefault(document, score)  # the score of a document's best token, word or span
            self.own_first += next(iter(hits), None) == name
            if self.drop:
                self.dropped += hits.pop(name, None) is not None
            self.scores[name] = dict(islice(hits.items(), self.most))


def _retrieve(
    index: Index, queries: Mapping[str, str], depths: Sequence[int], *, exact: bool, drop: bool, options: MaxSim | None
) -> tuple[dict[int, RetrievedDocuments], dict[int, int]]:
    """The hits at each of the ``depths``, and the number of queries for which FAISS's own search found fewer.

    With ``drop``, hits that have their query's id are left out, and one more hit is asked for.
    """
    names, scanned, text_ids = list(queries), dict.fromkeys(depths, 0), index.settings.extraction.text_ids
    retrieved = {depth: RetrievedDocuments(drop, depth) for depth in depths}
    reranker = None if options is None else index.reranker(options)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        texts = [queries[name] for name in batch]
        if reranker is None:
            search = partial(index.vectors.search, index.encode(texts), exact=exact)
        else:
            search = partial(reranker.search_encoded, reranker.encode(index.encoder, texts), exact=exact)
        for depth in depths:
            found = search(depth + drop)
            scanned[depth] += found.scanned
            owners = index.vectors.document_numbers(found.numbers.ravel())
            ids = index.vectors.documents.take(owners, [text_ids])[text_ids].to_pylist()
            order = np.broadcast_to(np.arange(found.numbers.shape[1], 0.0, -1.0), found.numbers.shape)
            scores = index.vectors.metric.nearness(found.scores) if reranker is None else order
            retrieved[depth].add(batch, ids, scores.ravel().tolist())
    return retrieved, {depth: number for depth, number in scanned.items() if number}


def as_own_ids(own_ids: OwnIds | str) -> OwnIds:
    """Convert the name of a treatment of hits with their query's own id, if it is given by name."""
    try:
        return OwnIds(own_ids)
    except ValueError as error:
        raise UsageError(f"own ids {own_ids!r} is unknown", remedy=f"there are: {', '.join(OwnIds)}") from error


def seem_documents(own_ids: OwnIds, own_first: int, queries: int) -> bool:
    """Whether queries seem to be documents of the corpus: most of them find their own id first, and it is kept."""
    return own_ids is OwnIds.KEEP and own_first > 0.5 * queries
