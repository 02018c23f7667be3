"""Retrieval scores against the definitions written out."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertfeat.errors import CorpusError
from bertfeat.evaluation import evaluate_beir, read_beir
from bertfeat.index import build_index
from bertfeat.retrieval import Index
from tests.index_toy import clustered, neighbours, vector_set
from tests.test_retrieval import Stand

pytest.importorskip("ir_measures")

COUNT = 300
JUDGED = {"0": {"1": 1, "5": 2, "77": 1}, "9": {"10": 3, "9": 1}, "20": {"250": 1}}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": name, "text": name} for name in (*JUDGED, "33")]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    lines = [f"{query}\t{document}\t{grade}" for query, grades in JUDGED.items() for document, grade in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Index:
    vector_set(tmp_path / "toy.features", clustered(COUNT))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return Index(tmp_path / "toy.index", encoder=Stand(clustered(COUNT)))


def test_scores_are_those_of_the_definitions(beir: Path, index: Index) -> None:
    scores = evaluate_beir(index, beir)
    _, order = neighbours(clustered(COUNT), clustered(COUNT)[[int(name) for name in JUDGED]], "cosine")
    ndcg, average, reciprocal, recall = [], [], [], []
    for (query, grades), row in zip(JUDGED.items(), order, strict=True):
        ranked = [str(number + 1) for number in row if str(number + 1) != query]
        places = [rank for rank, document in enumerate(ranked, 1) if grades.get(document, 0) > 0]
        gains = [grades.get(document, 0) / np.log2(rank + 1) for rank, document in enumerate(ranked[:10], 1)]
        ideal = [grade / np.log2(rank + 1) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:10], 1)]
        ndcg.append(sum(gains) / sum(ideal))
        average.append(sum((at + 1) / rank for at, rank in enumerate(places)) / len(grades))
        reciprocal.append(1 / places[0])
        recall.append(sum(rank <= 100 for rank in places) / len(grades))
    expected = [np.mean(each) for each in (ndcg, average, reciprocal, recall)]
    found = [scores.ndcg_at_10, scores.map, scores.mrr, scores.recall_at_100]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (scores.queries, scores.judged_documents, scores.unknown_documents) == (3, 6, 0)


def test_only_judged_queries_are_read(beir: Path) -> None:
    data = read_beir(beir)
    assert data.queries == {name: name for name in JUDGED}
    assert data.judgements == JUDGED


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("qrels/test.tsv", "1\t2\n", r"line 1: expected query-id"),
        ("qrels/test.tsv", "1\t2\tx\n", "expected query-id"),
        ("qrels/test.tsv", "nobody\t2\t1\n", "'nobody' is not in it"),
        ("qrels/test.tsv", "0\tnothing\t1\n", "none of the 1 judged documents"),
        ("queries.jsonl", "{}\n", "expected an object with _id and text"),
        ("queries.jsonl", "x\n", "line 1"),
    ],
)
def test_what_is_not_in_beirs_form(beir: Path, index: Index, file: str, text: str, message: str) -> None:
    (beir / file).write_text(text)
    with pytest.raises(CorpusError, match=message):
        evaluate_beir(index, beir)


def test_a_missing_file(beir: Path, index: Index) -> None:
    with pytest.raises(CorpusError, match=r"train\.tsv cannot be read"):
        evaluate_beir(index, beir, split="train")
