"""MTEB, BERTopic and KeyBERT by a StoredEncoder, with the model's files removed: what they give by an Extractor."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

import shutil
from pathlib import Path
from typing import Any

import pytest

from bertfeat import Extractor, StoredEncoder

SETTINGS: dict[str, Any] = {"precision": "fp32", "device": "cpu", "max_length": 256, "long": "truncate"}


@pytest.fixture
def stored(ours: Extractor, texts: list[str], tmp_path: Path) -> Any:
    """A StoredEncoder of texts, by a model whose files are gone."""

    def made(*more: list[str]) -> StoredEncoder:
        copy = shutil.copytree(ours.model.folder, tmp_path / "model")
        extractor, sets = Extractor(str(copy), **SETTINGS), []
        for number, part in enumerate((texts, *more)):
            (tmp_path / f"{number}.txt").write_text("\n".join(part) + "\n", "utf-8")
            extractor.extract(tmp_path / f"{number}.txt", tmp_path / f"{number}.features")
            sets.append(tmp_path / f"{number}.features")
        shutil.rmtree(copy)
        return StoredEncoder(sets)

    return made


def test_mteb(ours: Extractor, stored: Any) -> None:
    pytest.importorskip("mteb", reason="make ecosystem installs it")
    from bertfeat.adapters.mteb import MtebEncoder
    from tests.ecosystem.test_mteb import LocalClassification, LocalRetrieval, LocalSTS, scores

    reads, computes = MtebEncoder(stored()), MtebEncoder(ours)
    for task in (LocalSTS, LocalRetrieval, LocalClassification):
        assert scores(reads, task) == pytest.approx(scores(computes, task), abs=1e-5)
    named = [each.mteb_model_meta for each in (reads, computes)]
    assert named[0].experiment_kwargs == named[1].experiment_kwargs
    assert named[0].revision == named[1].revision


def test_bertopic(ours: Extractor, stored: Any, texts: list[str]) -> None:
    pytest.importorskip("bertopic", reason="make ecosystem installs it")
    from bertfeat.adapters.bertopic import BertopicBackend
    from tests.ecosystem.test_bertopic import small

    found, wanted = (small(BertopicBackend(encoder)) for encoder in (stored(), ours))
    assert found.fit_transform(texts)[0] == wanted.fit_transform(texts)[0]
    assert found.get_topic_info().Name.tolist() == wanted.get_topic_info().Name.tolist()


def test_keybert(ours: Extractor, stored: Any, texts: list[str]) -> None:
    pytest.importorskip("keybert", reason="make ecosystem installs it")
    from keybert import KeyBERT
    from sklearn.feature_extraction.text import CountVectorizer

    from bertfeat.adapters.keybert import KeybertBackend

    documents = [" ".join(texts[at : at + 12]) for at in (0, 100, 200)]
    words = CountVectorizer(stop_words="english").fit(documents).get_feature_names_out().tolist()
    found, wanted = (
        KeyBERT(model=KeybertBackend(encoder)).extract_keywords(documents)
        for encoder in (stored(documents, words), ours)
    )
    assert found == wanted


def test_no_other_model_is_loaded_in_its_place(stored: Any) -> None:
    pytest.importorskip("keybert", reason="make ecosystem installs it")
    from keybert import KeyBERT

    with pytest.raises(ValueError, match="Please select a correct SentenceTransformers model"):
        KeyBERT(model=stored())
