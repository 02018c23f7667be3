"""Documents of one id in several feature sets: an index of them is one of the documents that are left."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.search import BuildOptions, Index, VectorIndex, build_index, update_index
from tests.support.tiny_models import Tiny

BASE = {"a": "The bank. A river!", "b": "He went to the bank", "c": "money and the river. Again", "d": "They ran"}
DELTA = {"b": "He did not go. The bank was closed", "e": "water and money. The end.", "c": "the river"}
LEFT = {"a": BASE["a"], "d": BASE["d"], **DELTA}

KINDS: dict[str, dict[str, Any]] = {
    "documents": {"column": "last_mean"},
    "spans": {"column": "last_token", "options": BuildOptions(type="flat", spans="sentences")},
    "words": {"column": "last_word"},
    "kept tokens": {"column": "last_mean", "options": BuildOptions(type="flat", with_tokens="last_token")},
    "encoding": {"column": "last_token", "options": BuildOptions(type="flat", encode="fde:256")},
}


@pytest.fixture
def sets(bert: Tiny, tmp_path: Path) -> dict[str, Path]:
    extractor = Extractor(bert.folder, layers="last", pooling="mean,token,word", precision="fp32", device="cpu")
    made = {}
    for name, texts in {"base": BASE, "delta": DELTA, "left": LEFT}.items():
        rows = [{"id": key, "text": text} for key, text in texts.items()]
        made[name] = tmp_path / f"{name}.features"
        extractor.extract(memory_corpus(rows, CorpusSettings(id_column="id")), made[name], part_rows=2)
    return made


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_the_documents_that_are_left(
    kind: str, sets: dict[str, Path], bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column, options = KINDS[kind]["column"], KINDS[kind].get("options", BuildOptions(type="flat"))
    build_index([sets["base"], sets["delta"]], tmp_path / "two.index", column, options=options)
    build_index(sets["left"], tmp_path / "left.index", column, options=options)
    two, left = (VectorIndex(tmp_path / f"{name}.index") for name in ("two", "left"))
    assert (two.settings.count, two.settings.documents) == (left.settings.count, left.settings.documents)
    numbers = np.arange(left.settings.documents)
    assert two.documents.take(numbers)["id"].to_pylist() == left.documents.take(numbers)["id"].to_pylist() == [*LEFT]
    assert np.array_equal(two.owners, left.owners)
    if kind != "encoding":  # whose partitions are learned from a sample of both sets
        places = np.arange(left.settings.count)
        np.testing.assert_allclose(two.reconstruct(places), left.reconstruct(places), atol=1e-6)
    if kind != "encoding":
        query = "the *bank*" if kind == "words" else "the bank"
        rerank = "maxsim" if kind in ("kept tokens", "spans") else None
        found = []
        for name in ("two", "left"):
            index = Index(tmp_path / f"{name}.index", model=bert.folder, device="cpu")
            found.append([(hit.id, round(hit.score, 5)) for hit in index.search(query, 3, rerank=rerank).hits])
        assert found[0] == found[1]


def test_tokens_of_sets_that_are_appended_together(sets: dict[str, Path], tmp_path: Path) -> None:
    options = BuildOptions(type="flat", with_tokens="last_token")
    build_index(sets["left"], tmp_path / "left.index", "last_mean", options=options)
    build_index(sets["left"], tmp_path / "grown.index", "last_mean", options=options)
    update_index(tmp_path / "grown.index", [sets["base"], sets["delta"]])
    left, grown = (VectorIndex(tmp_path / f"{name}.index") for name in ("left", "grown"))
    assert left.settings.tokens == grown.settings.tokens
    assert sorted(grown.documents.take(np.arange(5))["id"].to_pylist()) == sorted(LEFT)
