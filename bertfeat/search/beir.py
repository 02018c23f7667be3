"""Retrieval judged by people: nDCG, MAP, MRR and recall of an index on a BEIR folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bertfeat.errors import BertfeatError, CorpusError, UsageError
from bertfeat.search.index import Index
from bertfeat.search.queries import BeirData, read_beir

DEPTH = 1000  # hits a query, as trec_eval and BEIR take
_BATCH = 256


class OwnIds(StrEnum):
    """What is done with a hit that bears the query's own id."""

    AUTO = "auto"  # left out, unless some query is judged with the document of its own id
    KEEP = "keep"  # ids of queries and documents have nothing to do with one another
    DROP = "drop"  # queries are documents of the corpus, and none should find itself: BEIR's rule


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """Means over the judged queries."""

    ndcg_at_10: float
    map: float
    mrr: float
    recall_at_100: float
    queries: int
    judged_documents: int
    unknown_documents: int  # judged ones that the index does not have
    own_ids: OwnIds  # KEEP or DROP: what was done
    dropped: int  # hits that bore their query's own id and were left out


@dataclass(frozen=True, slots=True)
class _Run:
    scores: Mapping[str, Mapping[str, float]]  # query id → document id → score, larger is nearer
    dropped: int


def evaluate_beir(
    index: Index,
    folder: str | Path,
    *,
    split: str = "test",
    exact: bool = False,
    own_ids: OwnIds | str = OwnIds.AUTO,
) -> RetrievalScores:
    """Ask an index every judged query of a BEIR folder and score its hits, as trec_eval does.

    A hit that bears the query's own id is left out, as BEIR does, for sets whose queries are documents of the corpus.
    Where a query is judged with the document of its own id, the two are numbered apart, and ``auto`` leaves out none.

    Raises:
        CorpusError: the folder is not in BEIR's form, or its document ids are not those of the index.
        UsageError: ``own_ids`` is unknown.
        BertfeatError: ir_measures is not installed.
    """
    try:
        import ir_measures
        from ir_measures import AP, RR, R, nDCG
    except ImportError as error:
        raise BertfeatError("scoring needs ir_measures: pip install 'bertfeat[evaluate]'") from error
    data = read_beir(folder, split)
    rule = _rule(own_ids, data)
    judged = {document for grades in data.judgements.values() for document in grades}
    unknown = judged - _known_ids(index, judged)
    if unknown == judged:
        raise CorpusError(
            f"{folder}/qrels/{split}.tsv: none of the {len(judged):,} judged documents is in the index (such as "
            f"{min(judged)!r}); extract {folder}/corpus.jsonl with --id-column _id"
        )
    run = _run(index, data.queries, exact=exact, drop=rule is OwnIds.DROP)
    found = ir_measures.calc_aggregate([nDCG @ 10, AP, RR, R @ 100], data.judgements, run.scores)
    return RetrievalScores(
        ndcg_at_10=round(found[nDCG @ 10], 5),
        map=round(found[AP], 5),
        mrr=round(found[RR], 5),
        recall_at_100=round(found[R @ 100], 5),
        queries=len(data.queries),
        judged_documents=len(judged),
        unknown_documents=len(unknown),
        own_ids=rule,
        dropped=run.dropped,
    )


def _rule(own_ids: OwnIds | str, data: BeirData) -> OwnIds:
    try:
        rule = OwnIds(own_ids)
    except ValueError as error:
        raise UsageError(f"own ids {own_ids!r} is unknown; there are: {', '.join(OwnIds)}") from error
    if rule is not OwnIds.AUTO:
        return rule
    numbered_apart = any(grades.get(query, 0) > 0 for query, grades in data.judgements.items())
    return OwnIds.KEEP if numbered_apart else OwnIds.DROP


def _run(index: Index, queries: Mapping[str, str], *, exact: bool, drop: bool) -> _Run:
    """The hits of each query; ``drop`` leaves out those that bear its id."""
    names, run, dropped = list(queries), {}, 0
    smaller_is_nearer = index.settings.metric == "l2"
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        vectors = index.encode([queries[name] for name in batch])
        found = index.vectors.search(vectors, DEPTH + drop, exact=exact)
        owners = index.vectors.document_numbers(found.numbers.ravel())
        ids = index.vectors.documents.take(owners)["id"].to_pylist()
        scores = (-found.scores if smaller_is_nearer else found.scores).ravel().tolist()
        width = found.numbers.shape[1]
        for at, name in enumerate(batch):
            part = slice(at * width, (at + 1) * width)
            hits: dict[str, float] = {}
            for document, score in zip(ids[part], scores[part], strict=True):
                hits.setdefault(document, score)  # of a document's tokens the best
            if drop:
                dropped += hits.pop(name, None) is not None
            run[name] = hits
    return _Run(run, dropped)


def _known_ids(index: Index, ids: set[str]) -> set[str]:
    batches = index.vectors.documents.batches(["id"])
    return {each for batch in batches for each in batch.column("id").to_pylist() if each in ids}
