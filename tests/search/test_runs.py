"""Runs in TREC's form and named metrics, against the definitions written out."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat import evaluate_run
from bertfeat.cli import main
from bertfeat.errors import CorpusError, UsageError
from bertfeat.search import BuildOptions, Index, RetrievalMetric, build_index, evaluate_beir
from bertfeat.search.evaluation.beir import BeirFolder
from bertfeat.search.evaluation.metrics import score_queries
from tests.search.test_beir import beir_folder
from tests.search.test_index import Stand
from tests.support.index_toy import clustered, vector_set

pytest.importorskip("ir_measures")

JUDGED = {"q1": {"a": 2, "b": 0, "c": 1}, "q2": {"a": 1, "d": 1, "e": 1}, "q3": {"f": 1}}
RUN = {"q1": ["b", "c", "x", "a"], "q2": ["y", "e", "a", "z", "b", "d"]}  # nothing for q3; the nearest first
COUNT = 300


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    return beir_folder(tmp_path / "beir", JUDGED)


def write(path: Path, run: dict[str, list[str]]) -> Path:
    lines = [f"{query}\tQ0 {id_} 99 {-at} any\n" for query, ids in run.items() for at, id_ in enumerate(ids)]
    path.write_text("".join(reversed(lines)))  # neither the order of lines nor ranks count
    return path


def precision(relevant: list[bool], k: int, total: int) -> float:
    return sum(relevant[:k]) / k


def recall(relevant: list[bool], k: int, total: int) -> float:
    return sum(relevant[:k]) / total


def success(relevant: list[bool], k: int, total: int) -> float:
    return float(any(relevant[:k]))


def reciprocal(relevant: list[bool], k: int, total: int) -> float:
    return max((1 / (at + 1) for at, hit in enumerate(relevant[:k]) if hit), default=0.0)


def average(relevant: list[bool], k: int, total: int) -> float:
    return sum(sum(relevant[: at + 1]) / (at + 1) for at, hit in enumerate(relevant[:k]) if hit) / total


@pytest.mark.parametrize(
    ("name", "title", "definition", "cutoff"),
    [
        ("P@1", "P@1", precision, 1),
        ("precision@5", "P@5", precision, 5),
        ("R@2", "recall@2", recall, 2),
        ("Recall@1000", "recall@1000", recall, 1000),
        ("success@1", "success@1", success, 1),
        ("Success@2", "success@2", success, 2),
        ("AP", "MAP", average, 1000),
        ("map@3", "MAP@3", average, 3),
        ("RR", "MRR", reciprocal, 1000),
        ("mrr@1", "MRR@1", reciprocal, 1),
    ],
)
def test_named_metrics_are_those_of_the_definitions(
    name: str,
    title: str,
    definition: Callable[[list[bool], int, int], float],
    cutoff: int,
    beir: Path,
    tmp_path: Path,
) -> None:
    scores = evaluate_run(write(tmp_path / "toy.run", RUN), beir, metrics=[name])
    expected = []
    for query, grades in JUDGED.items():
        relevant = [grades.get(id_, 0) > 0 for id_ in RUN.get(query, [])]
        expected.append(definition(relevant, cutoff, sum(grade > 0 for grade in grades.values())))
    ((found, value),) = scores.rows()
    assert found == title
    assert value == pytest.approx(np.mean(expected), abs=1e-5)
    assert (scores.queries, scores.without_hits, scores.not_judged) == (3, 1, 0)


def test_metrics_of_other_kinds(beir: Path, tmp_path: Path) -> None:
    names = ["R-precision", "judged@2", "nDCG", "ndcg@2", "nDCG@2"]
    scores = evaluate_run(write(tmp_path / "toy.run", RUN), beir, metrics=names)
    assert list(scores.scores) == ["r_precision", "judged_at_2", "ndcg", "ndcg_at_2"]
    assert scores.scores["r_precision"] == pytest.approx((1 / 2 + 2 / 3 + 0) / 3, abs=1e-5)
    assert scores.scores["judged_at_2"] == pytest.approx((2 / 2 + 1 / 2 + 0) / 3, abs=1e-5)
    second = 1 / np.log2(3)
    first = (second / (2 + second), second / (1 + second), 0)
    assert scores.scores["ndcg_at_2"] == pytest.approx(np.mean(first), abs=1e-5)


def test_grades_below_zero_and_ids_that_c_reads_otherwise(tmp_path: Path) -> None:
    """Spam is graded -2 by web tracks. Some ids are one up to a NUL, others formats, empty, or long."""
    ids = ["d\0a", "d\0b", "d", "", "%s%n", "x" * 5000, "\0", "é\0", "é"]
    draw, grades = Random(3), (-1000, -2, -1, 0, 0, 1, 3)
    judged = {f"q{id_}": {each: draw.choice(grades) for each in draw.sample(ids, 5)} for id_ in ids}
    judged |= {"all spam": dict.fromkeys(ids, -2), "spam alone": {"d": -1000}}
    run = {query: draw.sample(ids, 6) for query in judged}
    found = {query: {id_: float(-at) for at, id_ in enumerate(ids)} for query, ids in run.items()}
    metrics = [RetrievalMetric.parse(name) for name in ("MAP", "MRR@3", "P@2", "nDCG@4", "judged@3")]
    scores = score_queries(BeirFolder(dict.fromkeys(judged, ""), judged), found, metrics)
    expected = []
    for query, of_query in judged.items():
        relevant = [of_query.get(id_, 0) > 0 for id_ in run[query]]
        total = sum(grade > 0 for grade in of_query.values())
        gains = [max(0, of_query.get(id_, 0)) / np.log2(at + 2) for at, id_ in enumerate(run[query][:4])]
        ideal = [max(0, grade) / np.log2(at + 2) for at, grade in enumerate(sorted(of_query.values())[:-5:-1])]
        expected.append(
            [
                average(relevant, 1000, max(1, total)),
                reciprocal(relevant, 3, total),
                precision(relevant, 2, total),
                sum(gains) / (sum(ideal) or 1),
                sum(id_ in of_query for id_ in run[query][:3]) / 3,
            ]
        )
    np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nDGC@10", "metrics='nDGC@10': this metric is unknown; there are nDCG[@K], MAP[@K], MRR[@K], P@K, recall@K"),
        ("P", "metrics='P': a number of hits is missing; write P@10"),
        ("P@", "the number of hits must be from 1 to 1,000"),
        ("P@0", "the number of hits must be from 1 to 1,000"),
        ("MAP@1001", "the number of hits must be from 1 to 1,000"),
        ("P@٥", "the number of hits must be from 1 to 1,000"),
        ("P@-5", "the number of hits must be from 1 to 1,000"),
        ("R-precision@5", "it takes no number of hits; write R-precision"),
    ],
)
def test_wrong_metrics(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        RetrievalMetric.parse(name)
    assert problem in str(raised.value)


@pytest.mark.parametrize("higher", ["0.5", "0.500000000001"])  # which float32 does not tell from 0.5
def test_equal_scores_are_ordered_as_trec_eval_orders_them(higher: str, tmp_path: Path, beir: Path) -> None:
    (tmp_path / "ties.run").write_text(f"q1 Q0 a 1 {higher} t\nq1 Q0 x 2 0.5 t\n")  # x comes first
    names = ["mrr", "mrr@5", "mrr@1", "judged@1", "judged@2"]
    scores = evaluate_run(tmp_path / "ties.run", beir, metrics=names).scores
    assert list(scores.values()) == pytest.approx([0.5 / 3, 0.5 / 3, 0, 0, 0.5 / 3], abs=1e-5)


def test_a_query_that_found_itself_alone_has_no_hits(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "own", {"q": {"q": 1, "a": 1}, "p": {"a": 1}})
    (tmp_path / "own.run").write_text("q Q0 q 1 1 t\np Q0 a 1 1 t\n")
    scores = evaluate_run(tmp_path / "own.run", folder, metrics=["judged_at_5", "P@1"], own_ids="drop")
    assert (scores.scores, scores.without_hits) == ({"judged_at_5": 0.5, "precision_at_1": 0.5}, 1)


def test_spaces_of_other_kinds_are_parts_of_ids(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "own", {"q\u3000": {"a\u00a0b": 1}})
    (tmp_path / "own.run").write_text("q\u3000\tQ0  a\u00a0b 1 1 t \n")
    assert evaluate_run(tmp_path / "own.run", folder, metrics=["P@1"]).scores == {"precision_at_1": 1.0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": there are no hits in it"),
        ("\n\n", ": there are no hits in it"),
        (
            "q1 Q0 a 1 0.5\n",
            ", line 1: expected query, Q0, document, rank, score (a number) and name; it is 'q1 Q0 a 1",
        ),
        ("q1 Q0 a 1 0.5 t\nq1 Q0 b 1 x t\n", ", line 2: expected query"),
        ("q1 Q0 a 1 nan t\n", ", line 1: expected query"),
        ("q1 Q0 a 1 1e999 t\n", ", line 1: expected query"),
        ("q1 Q0 a 1 0.5 t t\n", ", line 1: expected query"),
        ("q1 Q0 a 1 1 t\n\nq1 Q0 a 2 0.5 t\n", ", line 3: another line has the document 'a' for this query"),
        ("other Q0 a 1 1 t\n", ": none of its 1 queries (such as 'other') is judged by qrels/test.tsv"),
    ],
)
def test_damaged_runs(text: str, problem: str, tmp_path: Path, beir: Path) -> None:
    (tmp_path / "toy.run").write_text(text)
    with pytest.raises(CorpusError) as raised:
        evaluate_run(tmp_path / "toy.run", beir)
    assert f"toy.run{problem}" in str(raised.value)


def test_files_that_are_no_runs(tmp_path: Path, beir: Path) -> None:
    (tmp_path / "binary.run").write_bytes(bytes(range(256)))
    for path in (tmp_path / "missing.run", tmp_path, tmp_path / "binary.run"):
        with pytest.raises(CorpusError, match=r"cannot be read|is no utf-8 text"):
            evaluate_run(path, beir)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    vector_set(tmp_path / "toy.features", clustered(COUNT))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(type="flat"))
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(clustered(COUNT)))
    return tmp_path / "toy.index"


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def test_an_index_and_its_run_score_alike(index: Path, tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "own", {"3": {"4": 1, "9": 1}, "7": {"8": 2, "100": 1}})
    asked = ("--beir", folder, "--metrics", "nDCG@20,P@5,recall@100,MAP", "--json")
    written = command(index, *asked, "--run", tmp_path / "toy.run")
    assert written.exit_code == 0, written.output
    lines = [line.split() for line in (tmp_path / "toy.run").read_text().splitlines()]
    searched = Index(index, encoder=Stand(clustered(COUNT))).search("3", 1000).hits
    assert [line[2] for line in lines if line[0] == "3"] == [hit.id for hit in searched]
    found = [float(line[4]) for line in lines if line[0] == "3"]
    assert found == pytest.approx([hit.score for hit in searched], abs=1e-6)
    assert [int(line[3]) for line in lines] == [*range(1, COUNT + 1)] * 2
    scored = command(tmp_path / "toy.run", *asked)
    assert scored.exit_code == 0, scored.output
    first, second = json.loads(written.stdout), json.loads(scored.stdout)
    keys = ("ndcg_at_20", "precision_at_5", "recall_at_100", "map", "queries", "judged_documents", "own_first")
    assert {key: first[key] for key in keys} == {key: second[key] for key in keys}
    assert (first["unknown_documents"], second["unknown_documents"]) == (0, None)


def test_few_hits_are_asked_for_and_yet_the_run_has_all(index: Path, tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "own", {"3": {"4": 1}})  # its own text is the document 4
    result = command(index, "--beir", folder, "--metrics", "success@1", "--run", tmp_path / "toy.run")
    assert result.stdout.splitlines()[0] == "success@1  1.0000"
    assert len((tmp_path / "toy.run").read_text().splitlines()) == COUNT


def test_the_command_tells_of_queries_without_hits_and_without_judgments(beir: Path, tmp_path: Path) -> None:
    write(tmp_path / "toy.run", {**RUN, "q9": ["a"]})
    result = command(tmp_path / "toy.run", "--beir", beir, "--metrics", "P@1")
    assert result.stdout.splitlines()[:2] == ["P@1      0.0000", "queries  3"]
    assert "the run has no hits for 1 of 3 judged queries, which score 0" in result.stderr
    assert "not judged, and so not scored: 1 of the queries in the run" in result.stderr
    wrong = command(tmp_path / "toy.run", "--beir", beir, "--metrics", "P@x")
    assert (wrong.exit_code, wrong.stderr.count("--metrics P@x: the number of hits")) == (2, 1), wrong.stderr


def test_an_id_with_spaces_fits_into_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vector_set(tmp_path / "toy.features", clustered(COUNT))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(type="flat"))
    index = Index(tmp_path / "toy.index", encoder=Stand(clustered(COUNT)))
    folder = beir_folder(tmp_path / "own", {"3": {"4": 1}})
    (tmp_path / "toy.run").write_text("an older run\n")
    for space in " \u00a0\u202f\u3000\x1f":  # all of which separate words in Python
        id_ = f"a{space}query"
        (folder / "queries.jsonl").write_text(json.dumps({"_id": id_, "text": "3"}) + "\n")
        (folder / "qrels" / "test.tsv").write_text(f"{id_}\t4\t1\n", "utf-8")
        with pytest.raises(UsageError, match=r"run: the id 'a.*query' is empty or has spaces, and spaces separate"):
            evaluate_beir(index, folder, run=tmp_path / "toy.run")
    assert (tmp_path / "toy.run").read_text() == "an older run\n"
    with pytest.raises(Exception, match="is a folder"):
        evaluate_beir(index, beir_folder(tmp_path / "sound", {"3": {"4": 1}}), run=tmp_path)
