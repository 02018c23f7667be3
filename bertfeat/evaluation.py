"""Retrieval judged by people: nDCG, MAP, MRR and recall of an index on a BEIR folder."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import BertfeatError, CorpusError
from bertfeat.retrieval import Index

DEPTH = 1000  # hits a query, as trec_eval and BEIR take
_BATCH = 256


@dataclass(frozen=True, slots=True)
class BeirData:
    """The questions of a BEIR folder and what people hold relevant."""

    queries: Mapping[str, str]  # id → text, of the judged ones
    judgements: Mapping[str, Mapping[str, int]]  # query id → document id → grade


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


def read_beir(folder: str | Path, split: str = "test") -> BeirData:
    """Read ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Raises:
        CorpusError: a file is missing, or a line of it is not in BEIR's form.
    """
    folder = Path(folder)
    judgements: dict[str, dict[str, int]] = {}
    for query, document, grade in _judgements(folder / "qrels" / f"{split}.tsv"):
        judgements.setdefault(query, {})[document] = grade
    queries = {name: text for name, text in _queries(folder / "queries.jsonl") if name in judgements}
    missing = [name for name in judgements if name not in queries]
    if missing:
        raise CorpusError(f"{folder / 'queries.jsonl'}: the judged query {missing[0]!r} is not in it")
    return BeirData(queries, judgements)


def evaluate_beir(index: Index, folder: str | Path, *, split: str = "test", exact: bool = False) -> RetrievalScores:
    """Ask an index every judged query of a BEIR folder and score its hits, as trec_eval does.

    A hit that bears the query's own id is left out, as BEIR does.

    Raises:
        CorpusError: the folder is not in BEIR's form, or its document ids are not those of the index.
        BertfeatError: ir_measures is not installed.
    """
    try:
        import ir_measures
        from ir_measures import AP, RR, R, nDCG
    except ImportError as error:
        raise BertfeatError("scoring needs ir_measures: pip install 'bertfeat[evaluate]'") from error
    data = read_beir(folder, split)
    judged = {document for grades in data.judgements.values() for document in grades}
    unknown = judged - _known(index, judged)
    if unknown == judged:
        raise CorpusError(
            f"none of the {len(judged):,} judged documents of {folder} is in the index (such as {min(judged)!r}); "
            f"extract its corpus.jsonl with --id-column _id"
        )
    run = _run(index, data.queries, exact=exact)
    found = ir_measures.calc_aggregate([nDCG @ 10, AP, RR, R @ 100], data.judgements, run)
    return RetrievalScores(
        ndcg_at_10=round(found[nDCG @ 10], 5),
        map=round(found[AP], 5),
        mrr=round(found[RR], 5),
        recall_at_100=round(found[R @ 100], 5),
        queries=len(data.queries),
        judged_documents=len(judged),
        unknown_documents=len(unknown),
    )


def _run(index: Index, queries: Mapping[str, str], *, exact: bool) -> dict[str, dict[str, float]]:
    """The score of each query's hits by document id."""
    names, run = list(queries), {}
    smaller_is_nearer = index.settings.metric == "l2"
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        vectors = index.encode([queries[name] for name in batch])
        found = index.vectors.search(vectors, DEPTH + 1, exact=exact)
        owners = index.vectors.document_numbers(found.numbers.ravel())
        ids = index.vectors.documents.take(owners)["id"].to_pylist()
        scores = (-found.scores if smaller_is_nearer else found.scores).ravel().tolist()
        width = found.numbers.shape[1]
        for at, name in enumerate(batch):
            part = slice(at * width, (at + 1) * width)
            hits: dict[str, float] = {}
            for document, score in zip(ids[part], scores[part], strict=True):
                if document != name:
                    hits.setdefault(document, score)  # of a document's tokens the best
            run[name] = hits
    return run


def _known(index: Index, ids: set[str]) -> set[str]:
    batches = index.vectors.documents.batches(["id"])
    return {each for batch in batches for each in batch.column("id").to_pylist() if each in ids}


def _judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in _lines(path):
        query, *rest = line.split("\t")
        if number == 1 and query in ("query-id", "query_id"):
            continue
        try:
            document, grade = rest
            yield query, document, int(grade)
        except ValueError as error:
            raise CorpusError(
                f"{path}, line {number}: expected query-id, corpus-id, score by tabs, not {line!r}"
            ) from error


def _queries(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            yield str(record["_id"]), str(record["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorpusError(
                f"{path}, line {number}: expected an object with _id and text, not {line[:80]!r}"
            ) from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(
            f"{path} cannot be read ({error}); a BEIR folder has corpus.jsonl, queries.jsonl, qrels/"
        ) from error
