"""Retrieval scores by human judgments: nDCG, MAP, MRR and recall of an index on a BEIR folder.

A BEIR folder has queries, and judgments of which documents answer them; it is read here too. A new metric is added as a
line of the table :data:`RETRIEVAL_METRICS`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, UsageError, needed_library, parameter
from bertfeat.io import Address, JsonError, decode_json, open_regular, shorten
from bertfeat.search.index import Index
from bertfeat.search.options import MaxSim, check_rerank
from bertfeat.search.queries import NumberedLine, decoded_lines

DEPTH = 1000  # most hits per query, as in trec_eval and BEIR
_BATCH = 256  # queries searched at once
_MOST_GRADE = 1_000
"""The largest absolute grade of a judgment; scoring takes time and memory for every grade up to the largest."""


@dataclass(frozen=True, slots=True)
class BeirFolder:
    """The queries of a BEIR folder and the judgments of their documents."""

    queries: Mapping[str, str]  # id → text, of the judged ones
    judgments: Mapping[str, Mapping[str, int]]  # query id → document id → grade

    @property
    def judged(self) -> set[str]:
        """The documents that are judged for any query."""
        return {document for grades in self.judgments.values() for document in grades}


@dataclass(frozen=True)
class _BeirQuery:
    """A line of ``queries.jsonl``."""

    _id: str | int
    text: str

    @property
    def id(self) -> str:
        return str(self._id)


@checked
def read_beir(folder: str | Path, split: str = "test") -> BeirFolder:
    """Read ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Raises:
        CorpusError: a file is missing or empty, or a line of it is not in BEIR's form or contradicts another.
    """
    if not split.isprintable() or "/" in split:
        raise UsageError("this is not the name of a split, such as test", where=parameter("split", split))
    folder = Path(folder)
    judgments = _read_judgments(folder / "qrels" / f"{split}.tsv")
    queries = _read_judged_queries(folder / "queries.jsonl", judgments)
    for query in judgments:
        if query not in queries:
            raise CorpusError(
                f"the query {query!r}, which qrels/{split}.tsv judges, is not in it", where=folder / "queries.jsonl"
            )
    return BeirFolder(queries, judgments)


def _read_judgments(path: Path) -> dict[str, dict[str, int]]:
    judgments: dict[str, dict[str, int]] = {}
    for at, line in enumerate(_file_lines(path)):
        query, *rest = line.text.split("\t")
        if at == 0 and query in ("query-id", "query_id", "qid"):  # the header
            continue
        if len(rest) != 2 or not re.fullmatch(r"[+-]?[0-9]{1,4}", rest[1].strip()):
            raise _beir_error(
                path, line, "expected query-id, corpus-id and score (a whole number) with tabs between them"
            )
        document, grade = rest[0], int(rest[1])
        if abs(grade) > _MOST_GRADE:
            raise _beir_error(path, line, f"scores are from -{_MOST_GRADE:,} to {_MOST_GRADE:,}")
        if judgments.setdefault(query, {}).setdefault(document, grade) != grade:
            raise _beir_error(path, line, f"another line gives this query and document the score {judgments[query][document]}")  # noqa: E501  # fmt: skip
    if not judgments:
        raise CorpusError("there are no judgments in it", where=path)
    return judgments


def _read_judged_queries(path: Path, judged: Mapping[str, object]) -> dict[str, str]:
    """The texts of the judged queries, by id."""
    queries: dict[str, str] = {}
    for line in _file_lines(path):
        try:
            query = decode_json(line.text, _BeirQuery)
            query.text.encode()  # JSON can spell half a surrogate pair, which no model can read
        except (JsonError, UnicodeEncodeError) as error:
            raise _beir_error(path, line, f"expected an object with _id and text: {error}") from None
        if query.id in judged and queries.setdefault(query.id, query.text) != query.text:
            raise _beir_error(path, line, f"another line gives the query {query.id!r} another text")
    return queries


def _file_lines(path: Path) -> Iterator[NumberedLine]:
    try:
        with open_regular(path) as file:
            yield from decoded_lines(file, str(path))
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read: {error.strerror or error}",
            remedy="a BEIR folder has corpus.jsonl, queries.jsonl, qrels/",
        ) from error


def _beir_error(path: Path, line: NumberedLine, problem: str) -> CorpusError:
    return CorpusError(f"{problem}; it is {shorten(line.text)!r}", where=f"{path}, line {line.number}")


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """A score of retrieval."""

    key: str  # in JSON and in :attr:`RetrievalScores.scores`
    title: str  # in tables
    measure: str  # as ir_measures names it: https://ir-measur.es
    cutoff: int | None = None  # the k of nDCG@k and recall@k

    @property
    def depth(self) -> int:
        """The number of hits per query that the metric reads, and that are therefore asked for."""
        return self.cutoff or DEPTH


RETRIEVAL_METRICS = (
    RetrievalMetric("ndcg_at_10", "nDCG@10", "nDCG", 10),
    RetrievalMetric("map", "MAP", "AP"),
    RetrievalMetric("mrr", "MRR", "RR"),
    RetrievalMetric("recall_at_100", "recall@100", "R", 100),
)


class OwnIds(StrEnum):
    """The treatment of a hit that has the query's own id."""

    KEEP = "keep"  # queries and documents are numbered apart
    DROP = "drop"  # queries are documents of the corpus, and none should find itself: BEIR's rule


@displayed
@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """The mean scores over the judged queries, and counts that explain them."""

    scores: Mapping[str, float]  # by key of RETRIEVAL_METRICS
    queries: int
    judged_documents: int
    unknown_documents: int  # judged ones that the index does not have
    own_ids: OwnIds  # the rule that was used
    dropped: int  # hits with their query's own id that were left out
    own_first: int  # queries whose first hit has their own id
    scanned: Mapping[int, int]  # hits asked for → number of queries for which FAISS's own search found fewer

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
        }

    def rows(self) -> list[tuple[str, float]]:
        """The title and score of each metric."""
        return [(metric.title, self.scores[metric.key]) for metric in RETRIEVAL_METRICS]


@checked
def evaluate_beir(
    index: Index | str | Path | Address,
    folder: str | Path,
    *,
    split: str = "test",
    exact: bool = False,
    own_ids: OwnIds | str = OwnIds.KEEP,
    rerank: MaxSim | str | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> RetrievalScores:
    """Search for every judged query of a BEIR folder and score the hits, as trec_eval does.

    Each metric is computed from a search for as many hits as it reads: nDCG@10 from ``search(k=10)``, recall@100 from
    ``search(k=100)``, MAP and MRR from ``search(k=1000)``, so that the loss of an approximate index shows. ``rerank``
    scores hits again as ``Index.search`` does at that ``k``. In an index of tokens a document has the rank of its best
    token among 1,000. ``own_ids="drop"`` leaves out hits with their query's own id, for sets whose queries are
    documents of the corpus (BEIR's ArguAna and Quora). ``model`` and ``device`` are used where ``index`` is a folder.

    Raises:
        CorpusError: the folder is not in BEIR's form, or its document ids are not those of the index.
        UsageError: ``own_ids`` is unknown.
        BertfeatError: ir_measures is not installed.
    """
    check_scorer()
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device)
    data, options = read_beir(folder, split), check_rerank(rerank)
    rule = as_own_ids(own_ids)
    batches = (batch.column("id") for batch in index.vectors.documents.batches(["id"]))
    unknown = unknown_documents(data, batches, f"{folder}/qrels/{split}.tsv", "index")
    depths = {metric: metric.depth if index.settings.per_document else DEPTH for metric in RETRIEVAL_METRICS}
    retrieved, scanned = _retrieve(
        index, data.queries, sorted(set(depths.values())), exact=exact, drop=rule is OwnIds.DROP, options=options
    )
    means = {metric: score_queries(data, retrieved[depth], [metric]).mean() for metric, depth in depths.items()}
    deepest = retrieved[max(retrieved)]
    return RetrievalScores(
        scores={metric.key: round(float(mean), 5) for metric, mean in means.items()},
        queries=len(data.queries),
        judged_documents=len(data.judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        dropped=deepest.dropped,
        own_first=deepest.own_first,
        scanned=scanned,
    )


@dataclass(slots=True)
class RetrievedDocuments:
    """The documents that were found for queries, ready to be scored."""

    drop: bool  # leave out hits with their query's own id
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
                hits.setdefault(document, score)  # the score of a document's best token
            self.own_first += next(iter(hits), None) == name
            if self.drop:
                self.dropped += hits.pop(name, None) is not None
            self.scores[name] = hits


def _retrieve(
    index: Index, queries: Mapping[str, str], depths: Sequence[int], *, exact: bool, drop: bool, options: MaxSim | None
) -> tuple[dict[int, RetrievedDocuments], dict[int, int]]:
    """The hits at each of the ``depths``, and the number of queries for which FAISS's own search found fewer.

    With ``drop``, hits that have their query's id are left out, and one more hit is asked for.
    """
    names, scanned = list(queries), dict.fromkeys(depths, 0)
    retrieved = {depth: RetrievedDocuments(drop) for depth in depths}
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
            ids = index.vectors.documents.take(owners)["id"].to_pylist()
            order = np.broadcast_to(-np.arange(found.numbers.shape[1], dtype=np.float32), found.numbers.shape)
            scores = index.vectors.metric.nearness(found.scores) if reranker is None else order
            retrieved[depth].add(batch, ids, scores.ravel().tolist())
    return retrieved, {depth: number for depth, number in scanned.items() if number}


def check_scorer() -> None:
    """Check that ir_measures is there, before anything is computed."""
    with needed_library("scoring needs ir_measures", "bertfeat[evaluate]"):
        import ir_measures  # noqa: F401


def score_queries(
    data: BeirFolder, retrieved: RetrievedDocuments, metrics: Sequence[RetrievalMetric]
) -> NDArray[np.float64]:
    """The score of each query by each metric, as trec_eval computes them: ``[Q, metrics]``."""
    import ir_measures

    places = {name: at for at, name in enumerate(data.queries)}
    measures = {}
    for at, metric in enumerate(metrics):
        measure = getattr(ir_measures, metric.measure)  # its own parser of "nDCG@10" fails from Python 3.14 on
        measures[measure if metric.cutoff is None else measure @ metric.cutoff] = at
    scores = np.zeros((len(places), len(measures)))
    for found in ir_measures.iter_calc(list(measures), data.judgments, retrieved.scores):
        scores[places[found.query_id], measures[found.measure]] = found.value
    return scores


def unknown_documents(data: BeirFolder, ids: Iterable[pa.Array], where: str, place: str) -> set[str]:
    """The judged documents that are not among ``ids``, those of a ``place``: an index or a feature set.

    An error if none of the judged documents is among them.
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


def as_own_ids(own_ids: OwnIds | str) -> OwnIds:
    """Convert the name of a treatment of hits with their query's own id, if it is given by name."""
    try:
        return OwnIds(own_ids)
    except ValueError as error:
        raise UsageError(f"own ids {own_ids!r} is unknown", remedy=f"there are: {', '.join(OwnIds)}") from error


def seem_documents(own_ids: OwnIds, own_first: int, queries: int) -> bool:
    """Whether queries seem to be documents of the corpus: most of them find their own id first, and it is kept."""
    return own_ids is OwnIds.KEEP and own_first > 0.5 * queries
