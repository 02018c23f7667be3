"""Indexes of texts that were split: the best span of each text, scores by text, and updates text by text."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat import CorpusSettings, Extractor
from bertfeat.core.corpus import memory_corpus
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search import (
    BuildOptions,
    Index,
    VectorIndex,
    build_index,
    evaluate_beir,
    evaluate_layers,
    remove_documents,
    update_index,
)
from tests.support.tiny_models import Tiny

TEXTS = {
    "a": "He sat on the bank. The river was cold. Nobody came.",
    "b": "Money is in the bank.",
    "c": "The bank was closed. He went to the river. The water ran. It was late.",
    "none": " ",
    "d": "Water and money. They ran to the bank of the river.",
}
QUERIES = ["the bank of the river", "cold water", "he went", "money"]


@pytest.fixture
def extractor(bert: Tiny) -> Extractor:
    return Extractor(bert.folder, layers="last,1", pooling="mean,token", precision="fp32", device="cpu")


def make_set(extractor: Extractor, texts: dict[str, str], folder: Path, split: str | None = "sentences") -> Path:
    rows = [{"id": name, "text": text, "length": len(text)} for name, text in texts.items()]
    settings = CorpusSettings(id_column="id", keep=("length",), split=split)
    extractor.extract(memory_corpus(rows, settings), folder, part_rows=3, overwrite=folder.exists())
    return folder


def make_index(features: Path | Sequence[Path], folder: Path, column: str = "last_mean", **more: Any) -> Index:
    options: dict[str, Any] = {"type": "flat", "evaluate": False} | more
    build_index(features, folder, column, options=BuildOptions(**options))
    return Index(folder)


def text_of(index: Index, number: int) -> str:
    (name,) = index.vectors.documents.take(index.vectors.document_numbers(np.array([number])), ["id"])["id"].to_pylist()
    return str(name).partition("#")[0]


def nearest_by_text(index: Index, query: str) -> list[tuple[str, int, float]]:
    """The nearest vector of every text, found by comparison with all vectors."""
    vectors: NDArray[np.float32] = index.reconstruct(np.arange(len(index)))
    asked = index.encode([query])[0]
    scores = vectors @ (asked / np.linalg.norm(asked))
    best: dict[str, tuple[float, int]] = {}
    for number, score in enumerate(scores.tolist()):
        best[text_of(index, number)] = max((score, number), best.get(text_of(index, number), (-2.0, -1)))
    return [(name, number, score) for name, (score, number) in sorted(best.items(), key=lambda each: -each[1][0])]


@pytest.mark.parametrize("kind", ["flat", "hnsw", "whitened", "spans", "words"])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_best_span_of_each_text(extractor: Extractor, tmp_path: Path, kind: str, k: int) -> None:
    if kind == "spans":
        index = make_index(
            make_set(extractor, TEXTS, tmp_path / "c", None), tmp_path / "i", "last_token", spans="words:2"
        )
    elif kind == "words":
        index = make_index(make_set(extractor, TEXTS, tmp_path / "c"), tmp_path / "i", "last_token")
    else:
        more = {"flat": {}, "hnsw": {"type": "hnsw"}, "whitened": {"transform": "whiten:4"}}[kind]
        index = make_index(make_set(extractor, TEXTS, tmp_path / "c"), tmp_path / "i", **more)
    queries = [f"*{query.split()[0]}*" if kind == "words" else query for query in QUERIES]
    answers = index.search_batch(queries, k, one_per_document=True)
    for query, answer in zip(queries, answers, strict=True):
        if kind == "whitened":
            (whole,) = index.search_batch([query], 1000)
            seen: dict[str, int] = {}
            for hit in whole.hits:
                seen.setdefault(hit.id.partition("#")[0], hit.number)
            assert [hit.number for hit in answer.hits] == list(seen.values())[:k]
            continue
        expected = nearest_by_text(index, query)[:k]
        assert [hit.id.partition("#")[0] for hit in answer.hits] == [name for name, *_ in expected]
        np.testing.assert_allclose([hit.score for hit in answer.hits], [score for *_, score in expected], atol=1e-5)


def test_conditions_thresholds_and_tokens(extractor: Extractor, tmp_path: Path) -> None:
    index = make_index(make_set(extractor, TEXTS, tmp_path / "c"), tmp_path / "i", with_tokens="last_token")
    found = index.search(QUERIES[0], 10, one_per_document=True, where="length > 30").hits
    assert sorted(hit.values["text_id"] for hit in found) == ["a", "c", "d"]  # type: ignore[type-var]
    assert [hit.values["text_id"] for hit in index.search(QUERIES[0], 10, where="text_id = 'c'").hits] == ["c"] * 4
    threshold = found[1].score - 1e-6
    assert (
        len(index.search(QUERIES[0], 10, one_per_document=True, where="length > 30", score_threshold=threshold).hits)
        == 2
    )
    again = index.search(QUERIES[0], 10, one_per_document=True, rerank="maxsim").hits
    assert {hit.id: hit.first_score for hit in again} == {
        hit.id: pytest.approx(hit.score, abs=1e-6) for hit in index.search(QUERIES[0], 10, one_per_document=True).hits
    }
    (answer,) = index.search_vectors(index.encode(QUERIES[:1]), 2, one_per_document=True)
    assert len({hit.values["text_id"] for hit in answer.hits}) == 2
    with pytest.raises(UsageError, match="k is 0"):
        index.search("the bank", 0, one_per_document=True)


def test_where_each_document_has_one_vector(extractor: Extractor, tmp_path: Path) -> None:
    index = make_index(make_set(extractor, TEXTS, tmp_path / "c", None), tmp_path / "i")
    message = r"one_per_document=True: each document of .*i has one vector, so that none is found twice; leave it out"
    with pytest.raises(UsageError, match=message):
        index.search("the bank", one_per_document=True)


# ── scores by text ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    queries = [json.dumps({"_id": f"q{at}", "text": text}) for at, text in enumerate(QUERIES)]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    judged = ["q0\td\t1", "q0\ta\t1", "q1\ta\t1", "q2\tc\t1", "q3\tb\t1"]
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(judged) + "\n")
    return folder


def test_a_text_is_judged_by_its_best_span(extractor: Extractor, tmp_path: Path, beir: Path) -> None:
    features = make_set(extractor, TEXTS, tmp_path / "c")
    index = make_index(features, tmp_path / "i")
    wanted = {"q0": {"d", "a"}, "q1": {"a"}, "q2": {"c"}, "q3": {"b"}}
    ranks = []
    for at, query in enumerate(QUERIES):
        order = [name for name, *_ in nearest_by_text(index, query)]
        ranks.append(1 + min(order.index(name) for name in wanted[f"q{at}"]))
    expected = float(np.mean([1 / rank for rank in ranks]))
    scores = evaluate_beir(index, beir, metrics=["MRR", "success@1"], run=tmp_path / "run.txt")
    assert scores.scores["mrr"] == pytest.approx(expected, abs=1e-5)
    assert scores.scores["success_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]), abs=1e-5)
    assert (scores.unknown_documents, scores.judged_documents) == (0, 4)
    assert {line.split()[2] for line in (tmp_path / "run.txt").read_text().splitlines()} == {"a", "b", "c", "d"}
    table = evaluate_layers(features, beir, layers=["last"], pooling="mean", metrics=["MRR"])
    assert table.rows[0].scores["mrr"].value == pytest.approx(expected, abs=1e-5)
    assert table.unknown_documents == 0


# ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────


def texts_in(folder: Path) -> list[tuple[str, str]]:
    index = VectorIndex(folder)
    living = np.flatnonzero(~index.removed) if index.removed is not None else np.arange(index.settings.documents)
    return sorted(
        zip(*(index.documents.take(living, [name])[name].to_pylist() for name in ("id", "text")), strict=True)
    )


def spans_of(texts: dict[str, str]) -> list[tuple[str, str]]:
    return sorted(
        (f"{name}#{at}", f"{sentence.rstrip('.')}.")
        for name, text in texts.items()
        for at, sentence in enumerate(each for each in text.split(". ") if each.strip())
    )


def test_an_update_puts_in_only_the_sentences_that_are_new(extractor: Extractor, tmp_path: Path) -> None:
    features, folder = make_set(extractor, TEXTS, tmp_path / "c"), tmp_path / "i"
    make_index(features, folder)
    assert texts_in(folder) == spans_of(TEXTS)
    texts = TEXTS | {"c": "It froze. " + TEXTS["c"], "b": "Gone."}
    make_set(extractor, texts, features)
    report = update_index(folder)
    assert (report.added, report.removed) == (2, 1)
    assert texts_in(folder) == spans_of(texts)
    (hit,) = Index(folder).search("The bank was closed.", 1).hits
    assert (hit.id, hit.values["position"], hit.values["start"]) == ("c#1", 1, len("It froze. "))


def test_a_text_of_a_later_set_replaces_all_its_spans(extractor: Extractor, tmp_path: Path) -> None:
    base, delta = make_set(extractor, TEXTS, tmp_path / "base"), {"c": "One only.", "e": "New. Too."}
    later = make_set(extractor, delta, tmp_path / "later")
    make_index([base, later], tmp_path / "two")
    make_index(base, tmp_path / "grown")
    update_index(tmp_path / "grown", later)
    for name in ("two", "grown"):
        assert texts_in(tmp_path / name) == spans_of(TEXTS | delta)


def test_a_text_is_removed_with_all_its_spans(extractor: Extractor, tmp_path: Path) -> None:
    folder = tmp_path / "i"
    make_index(make_set(extractor, TEXTS, tmp_path / "c"), folder)
    report = remove_documents(folder, ["c", "a#1", "nobody"])
    assert (report.removed, report.unknown) == (5, ("nobody",))
    left = [each for each in spans_of(TEXTS) if each[0] != "a#1" and not each[0].startswith("c")]
    assert texts_in(folder) == left
    report = update_index(folder, remove=["d"])
    assert (report.removed, report.unknown) == (2, ())


def test_two_corpora_without_ids_do_not_replace_one_another(extractor: Extractor, tmp_path: Path) -> None:
    sets = []
    for name, lines in (("one", ["A b. C d.", "", "E f."]), ("two", ["G h.", "I j. K l. M n."])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
        settings = CorpusSettings(split="sentences")
        extractor.extract(tmp_path / f"{name}.txt", tmp_path / name, corpus_settings=settings)
        sets.append(tmp_path / name)
    make_index(sets, tmp_path / "both")
    assert len(texts_in(tmp_path / "both")) == VectorIndex(tmp_path / "both").settings.documents == 7
    make_index(sets[0], tmp_path / "i")
    with pytest.raises(
        IndexFolderError, match="its ids are the numbers of its records, and those of 2 other documents"
    ):
        update_index(tmp_path / "i", sets[1])


def test_spans_and_whole_texts_are_not_mixed(extractor: Extractor, tmp_path: Path) -> None:
    split, whole = make_set(extractor, TEXTS, tmp_path / "split"), make_set(extractor, TEXTS, tmp_path / "whole", None)
    message = "one has whole texts and the other was split; extract both with split, or none"
    with pytest.raises(IndexFolderError, match=message):
        make_index([split, whole], tmp_path / "i")
    make_index(split, tmp_path / "i")
    with pytest.raises(IndexFolderError, match=message):
        update_index(tmp_path / "i", whole)
