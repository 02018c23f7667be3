"""Retrieval scores by human judgements: nDCG, MAP, MRR and recall of an index on a BEIR folder.

A new metric is a line of the table :data:`RETRIEVAL_METRICS`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from bertfeat.errors import BertfeatError, CorpusError, UsageError, parameter
from bertfeat.io import Address, JsonError, decode_json, open_regular, shorten
from bertfeat.search.index import Index
from bertfeat.search.maxsim import RERANK_DEPTH, MaxSim, check_rerank
from bertfeat.search.queries import NumberedLine, decoded_lines
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
MOST_GRADE = 1_000
"""Largest grade of a judgement, up or down; scoring takes time and memory for every grade up to the largest."""

_BATCH = 256
_GRADE = re.compile(r"[+-]?[0-9]{1,4}")
_HEADERS = ("query-id", "query_id", "qid")


class OwnIds(StrEnum):
    """The treatment of a hit that has the query's own id."""

    AUTO = "auto"  # left out, unless some query is judged with the document of its own id
    KEEP = "keep"  # queries and documents are numbered apart
    DROP = "drop"  # queries are documents of the corpus, and none should find itself: BEIR's rule


@dataclass(frozen=True, slots=True)
class BeirFolder:
    """The queries of a BEIR folder and the judgements of their documents."""

    queries: Mapping[str, str]  # id → text, of the judged ones
    judgements: Mapping[str, Mapping[str, int]]  # query id → document id → grade


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


@dataclass(frozen=True, slots=True)
class _Retrieved:
    scores: Mapping[str, Mapping[str, float]]  # query id → document id → score, larger is nearer
    dropped: int


@dataclass(frozen=True)
class _BeirQuery:
    """A line of ``queries.jsonl``."""

    _id: str | int
    text: str

    @property
    def id(self) -> str:
        return str(self._id)


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
    try:
        import ir_measures
    except ImportError as error:
        raise BertfeatError("scoring needs ir_measures: pip install 'bertfeat[evaluate]'") from error
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device)
    data, options = read_beir(folder, split), check_rerank(rerank)
    rule = _own_ids_rule(own_ids, data)
    judged = {document for grades in data.judgements.values() for document in grades}
    unknown = judged - _ids_in_index(index, judged)
    if unknown == judged:
        raise CorpusError(
            f"none of the {len(judged):,} judged documents is in the index (such as {min(judged)!r})",
            where=f"{folder}/qrels/{split}.tsv",
            remedy=f"extract {folder}/corpus.jsonl with {parameter('id_column', '_id')}",
        )
    retrieved = _retrieve(index, data.queries, exact=exact, drop=rule is OwnIds.DROP, options=options)
    measures = {metric.key: ir_measures.parse_measure(metric.measure) for metric in RETRIEVAL_METRICS}
    means = ir_measures.calc_aggregate(list(measures.values()), data.judgements, retrieved.scores)
    return RetrievalScores(
        scores={key: round(means[measure], 5) for key, measure in measures.items()},
        queries=len(data.queries),
        judged_documents=len(judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        dropped=retrieved.dropped,
    )


def _own_ids_rule(own_ids: OwnIds | str, data: BeirFolder) -> OwnIds:
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
) -> _Retrieved:
    """The hits of each query; ``drop`` leaves out those that have its id."""
    names, dropped = list(queries), 0
    retrieved: dict[str, dict[str, float]] = {}
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        neighbours = _find_neighbours(index, [queries[name] for name in batch], DEPTH + drop, exact, options)
        owners = index.vectors.document_numbers(neighbours.numbers.ravel())
        ids = index.vectors.documents.take(owners)["id"].to_pylist()
        scores = neighbours.scores.ravel().tolist()
        width = neighbours.numbers.shape[1]
        for at, name in enumerate(batch):
            part = slice(at * width, (at + 1) * width)
            hits: dict[str, float] = {}
            for document, score in zip(ids[part], scores[part], strict=True):
                hits.setdefault(document, score)  # of a document's tokens the best
            if drop:
                dropped += hits.pop(name, None) is not None
            retrieved[name] = hits
    return _Retrieved(retrieved, dropped)


def _find_neighbours(index: Index, texts: Sequence[str], k: int, exact: bool, options: MaxSim | None) -> Neighbours:
    """The hits of queries, with scores of which larger is nearer: where they were scored again, their order."""
    if options is None:
        found = index.vectors.search(index.encode(texts), k, exact=exact)
        return Neighbours(index.vectors.metric.nearness(found.scores), found.numbers)
    found = index.reranker(options).search(index.encoder, texts, k, depth=options.depth or RERANK_DEPTH, exact=exact)
    scores = np.broadcast_to(-np.arange(found.numbers.shape[1], dtype=np.float32), found.numbers.shape)
    return Neighbours(scores, found.numbers)


def _ids_in_index(index: Index, ids: set[str]) -> set[str]:
    batches = index.vectors.documents.batches(["id"])
    return {id_ for batch in batches for id_ in batch.column("id").to_pylist() if id_ in ids}


def read_beir(folder: str | Path, split: str = "test") -> BeirFolder:
    """Read ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Raises:
        CorpusError: a file is missing or empty, or a line of it is not in BEIR's form or contradicts another.
    """
    folder = Path(folder)
    judgements = _read_judgements(folder / "qrels" / f"{split}.tsv")
    queries = _read_judged_queries(folder / "queries.jsonl", judgements)
    for query in judgements:
        if query not in queries:
            raise CorpusError(
                f"the query {query!r}, which qrels/{split}.tsv judges, is not in it", where=folder / "queries.jsonl"
            )
    return BeirFolder(queries, judgements)


def _read_judgements(path: Path) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for at, line in enumerate(_file_lines(path)):
        query, *rest = line.text.split("\t")
        if at == 0 and query in _HEADERS:
            continue
        if len(rest) != 2 or not _GRADE.fullmatch(rest[1].strip()):
            raise _beir_error(
                path, line, "expected query-id, corpus-id and score (a whole number) with tabs between them"
            )
        document, grade = rest[0], int(rest[1])
        if abs(grade) > MOST_GRADE:
            raise _beir_error(path, line, f"scores are from -{MOST_GRADE:,} to {MOST_GRADE:,}")
        if judgements.setdefault(query, {}).setdefault(document, grade) != grade:
            raise _beir_error(path, line, f"another line gives this query and document the score {judgements[query][document]}")  # noqa: E501  # fmt: skip
    if not judgements:
        raise CorpusError("there are no judgements in it", where=path)
    return judgements


def _read_judged_queries(path: Path, judged: Mapping[str, object]) -> dict[str, str]:
    """The texts of the judged queries, by id."""
    queries: dict[str, str] = {}
    for line in _file_lines(path):
        try:
            query = decode_json(line.text, _BeirQuery)
            query.text.encode()  # JSON can spell halves of characters, which no model reads
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
