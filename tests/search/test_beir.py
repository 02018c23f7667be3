"""Retrieval scores against the definitions written out."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.errors import CorpusError, UsageError
from bertfeat.search import (
    BuildOptions,
    Index,
    OwnIds,
    build_index,
    evaluate_beir,
)
from tests.search.test_index import Stand
from tests.support.index_toy import clustered, neighbors, vector_set

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
    scores = evaluate_beir(index, beir, own_ids="drop")
    _, order = neighbors(clustered(COUNT), clustered(COUNT)[[int(name) for name in JUDGED]], "cosine")
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
    assert list(scores.scores) == ["ndcg_at_10", "map", "mrr", "recall_at_100"]
    np.testing.assert_allclose(list(scores.scores.values()), expected, atol=1e-5)
    assert (scores.queries, scores.judged_documents, scores.unknown_documents) == (3, 6, 0)


def beir_folder(folder: Path, judged: dict[str, dict[str, int]]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": name, "text": name}) + "\n" for name in judged))
    lines = [f"{query}\t{document}\t{grade}" for query, grades in judged.items() for document, grade in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(
    ("judged", "own_ids", "dropped"),
    [
        ({"3": {"4": 1}}, "keep", 0),
        ({"3": {"4": 1}}, "drop", 1),  # BEIR's rule
        ({"3": {"4": 1, "3": 1}}, "keep", 0),
        ({"3": {"4": 1, "3": 1}}, "drop", 1),
        ({"3": {"4": 1}, "7": {"7": 0}}, "drop", 2),
    ],
)
def test_hits_that_bear_the_querys_own_id(
    judged: dict[str, dict[str, int]], own_ids: str, dropped: int, tmp_path: Path, index: Index
) -> None:
    folder = beir_folder(tmp_path / "own", judged)
    scores = evaluate_beir(index, folder, own_ids=own_ids)
    assert (scores.own_ids, scores.dropped) == (OwnIds(own_ids), dropped)
    if own_ids == "keep":
        assert evaluate_beir(index, folder) == scores  # nothing is left out unasked
    average = []
    for query, grades in judged.items():
        _, order = neighbors(clustered(COUNT), clustered(COUNT)[[int(query)]], "cosine")
        ranked = [str(number + 1) for number in order[0] if own_ids == "keep" or str(number + 1) != query]
        relevant = [rank for rank, document in enumerate(ranked, 1) if grades.get(document, 0) > 0]
        positive = sum(grade > 0 for grade in grades.values())
        average.append(sum((at + 1) / rank for at, rank in enumerate(relevant)) / positive if positive else 0.0)
    assert scores.scores["map"] == pytest.approx(np.mean(average), abs=1e-5)


def test_a_run_has_a_thousand_hits_of_a_query_whoever_is_left_out(tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).standard_normal((1200, 8), np.float32)
    vector_set(tmp_path / "toy.features", vectors)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(type="flat", evaluate=False))
    folder = beir_folder(tmp_path / "own", {"7": {"8": 1}, "0": {"1": 1}})  # no document has the id 0
    index = Index(tmp_path / "toy.index", encoder=Stand(vectors))
    evaluate_beir(index, folder, own_ids="drop", run=tmp_path / "own.run")
    queries = [line.split()[0] for line in (tmp_path / "own.run").read_text().splitlines()]
    assert (queries.count("7"), queries.count("0")) == (1000, 1000)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["IVF16,Flat", "HNSW4", "flat"])
@pytest.mark.parametrize("own_ids", ["keep", "drop"])
def test_a_metric_is_of_the_search_for_as_many_hits_as_it_reads(kind: str, own_ids: str, tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).standard_normal((COUNT, 16), np.float32)  # whose lists say little
    vector_set(tmp_path / "toy.features", vectors)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(type=kind, evaluate=False))
    index = Index(tmp_path / "toy.index", encoder=Stand(vectors))
    _, order = neighbors(vectors, vectors[:40], "cosine")
    # the true 20 nearest are relevant, so that a search that misses some of them scores less
    judged = {str(query): {str(number + 1): 1 for number in order[query, :20].tolist()} for query in range(40)}
    scores = evaluate_beir(index, beir_folder(tmp_path / "own", judged), own_ids=own_ids)
    gains, shares = [], []
    for query, grades in judged.items():
        drop = {query} if own_ids == "drop" else set()
        ten, hundred = ([hit.id for hit in index.search(query, k + len(drop)).hits] for k in (10, 100))
        ranked = [id_ for id_ in ten if id_ not in drop][:10]
        gains.append(sum((id_ in grades) / np.log2(rank + 1) for rank, id_ in enumerate(ranked, 1)))
        shares.append(len(({*hundred} - drop) & {*grades}) / len(grades))
    ideal = sum(1 / np.log2(rank + 1) for rank in range(1, 11))
    assert scores.scores["ndcg_at_10"] == pytest.approx(np.mean(gains) / ideal, abs=1e-5)
    assert scores.scores["recall_at_100"] == pytest.approx(np.mean(shares), abs=1e-5)
    exact = evaluate_beir(index, tmp_path / "own", own_ids=own_ids, exact=True).scores
    if kind != "HNSW4":  # whose graph may find all
        assert (scores.scores["ndcg_at_10"] < exact["ndcg_at_10"]) == (kind == "IVF16,Flat")
    assert (1000 in scores.scanned) == (kind != "flat")  # fewer are found, which is told
    assert "own_first" in scores.to_json()


def test_queries_that_seem_to_be_documents_are_noted(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(np.roll(clustered(COUNT), 1, 0))
    )
    folder = beir_folder(tmp_path / "own", {"3": {"4": 1}, "7": {"9": 1}})  # each finds itself
    command = ["evaluate", str(tmp_path / "toy.index"), "--beir", str(folder)]
    noted = run(*command)
    assert "2 of 2 queries find the document of their own id first" in noted.stderr
    assert "--own-ids drop" in noted.stderr
    assert "own id first" not in run(*command, "--own-ids", "drop").stderr


def test_an_unknown_rule(beir: Path, index: Index) -> None:
    with pytest.raises(UsageError, match="own_ids='never': must be one of 'keep', 'drop'"):
        evaluate_beir(index, beir, own_ids="never")


def test_the_largest_grade_is_scored_in_no_time(tmp_path: Path, index: Index) -> None:
    judged = {"0": {"1": 1000, "5": 1, "9": -1000}}
    scores = evaluate_beir(index, beir_folder(tmp_path / "large", judged))
    assert scores.scores["ndcg_at_10"] == pytest.approx(1, abs=0.01)


def test_documents_that_the_index_does_not_have(beir: Path, index: Index) -> None:
    (beir / "qrels" / "test.tsv").write_text("0\tnothing\t1\n")
    with pytest.raises(CorpusError, match="none of the 1 judged documents"):
        evaluate_beir(index, beir)


def test_the_command_says_what_was_left_out(
    beir: Path, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(clustered(COUNT)))
    command = ["evaluate", str(tmp_path / "toy.index"), "--beir", str(beir)]
    assert "kept: a hit may bear its query's id" in run(*command).stdout
    shown = run(*command, "--own-ids", "drop").stdout
    assert "2 hits with their query's id left out, as BEIR does" in shown  # there is no document 0
    told = json.loads(run(*command, "--json").stdout)
    assert (told["own_ids"], told["dropped"], told["queries"]) == ("keep", 0, 3)
    (beir / "qrels" / "test.tsv").write_text("")
    empty = run(*command)
    assert (empty.exit_code, empty.stderr) == (1, f"error: {beir}/qrels/test.tsv: there are no judgments in it\n")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))
