"""The golden indexes, whose format is that of today, are read, searched, checked and updated."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.search import VectorIndex, remove_documents, update_index, verify_index
from bertfeat.search.settings import FORMAT_VERSION, read_index_settings
from tests.golden.make_index import COUNT, KINDS, NEW, REMOVED, WIDTH
from tests.support.features_toy import L, toy_part
from tests.support.index_toy import clustered, vector_set

GOLDEN = Path(__file__).parents[1] / "golden"
NEWEST = GOLDEN / f"index-{FORMAT_VERSION}"
EXPECTED: dict[str, Any] = json.loads((NEWEST / "expected.json").read_text(encoding="utf-8"))
LIVING = [row for row in range(COUNT + NEW) if str(row + 1) not in REMOVED]
VECTORS = np.concatenate([clustered(COUNT, WIDTH), clustered(NEW, WIDTH, seed=1)])[LIVING]


def test_every_version_has_its_golden_indexes() -> None:
    found = sorted(path.name for path in GOLDEN.glob("index-*"))
    assert found == [f"index-{version}" for version in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("kind", [*KINDS, "whitened"])
def test_a_golden_index_answers_as_when_it_was_written(kind: str) -> None:
    index = VectorIndex(NEWEST / kind)
    assert index.settings.format_version == FORMAT_VERSION
    nearest, scores = EXPECTED[kind]
    found = index.search(VECTORS, 5, exact=True)
    assert [index.documents.take(row)["id"].to_pylist() for row in found.numbers] == nearest
    np.testing.assert_allclose(found.scores, scores, atol=2e-5)
    selected = index.search(VECTORS, 5, where="year < 20").numbers
    assert (np.array(index.documents.take(selected.ravel())["year"].to_pylist()) < 20).all()
    assert (index.documents.numbers("_source") == ([0] * (len(index.documents) - NEW) + [1] * NEW)).all()


def test_words_are_found_in_their_places() -> None:
    index = VectorIndex(NEWEST / "words")
    assert index.pieces is not None
    ids = index.documents.take(index.owners)["id"].to_pylist()
    places = list(zip(ids, index.pieces.numbers("start").tolist(), index.pieces.numbers("end").tolist(), strict=True))
    wanted = [tuple(place) for place in EXPECTED["words"]]
    assert places == [place for place in wanted if place != ("5", 6, 7)]  # a word without a vector: 🙂


def test_kept_tokens_have_the_directions_of_their_vectors() -> None:
    folder = NEWEST / "tokens"
    verify_index(folder)
    store = VectorIndex(folder).tokens
    assert store is not None
    for number, document in enumerate(toy_part(poolings=("mean", "token")).documents):
        true = document.feature("concat", range(1, L + 1), "token")[1:-1]  # without [CLS] and [SEP]
        read = store.vectors.of(number).astype(np.float64)
        true, read = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (true, read))
        np.testing.assert_allclose(read, true, atol=0.01)
        assert store.ids is not None
        assert {store.vocabulary.strings[token] for token in store.ids.of(number)} == {*document.words}


@pytest.mark.parametrize("kind", [*KINDS, "whitened"])
def test_a_golden_index_is_updated(kind: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(NEWEST / kind, tmp_path / "toy.index"))
    remove_documents(folder, ["2"])
    vector_set(tmp_path / "more", clustered(5, WIDTH, seed=4), ids=[f"more {row}" for row in range(5)])
    update_index(folder, [tmp_path / "more"])
    assert read_index_settings(folder).format_version == FORMAT_VERSION
    assert verify_index(folder).documents == len(VectorIndex(folder).documents)
    index = VectorIndex(folder)
    assert len(index) == len(LIVING) - 1 + 5
    assert index.documents.numbers("_source").tolist()[-5:] == [2] * 5
    found = index.search(clustered(5, WIDTH, seed=4), 1, exact=True).numbers[:, 0]
    assert index.documents.take(found)["id"].to_pylist() == [f"more {row}" for row in range(5)]
