"""KeyBERT: the keywords by an Extractor's vectors are those by SentenceTransformer's."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from typing import Any

import pytest

from bertfeat import Extractor

pytest.importorskip("keybert", reason="make ecosystem installs it")
from keybert import KeyBERT

from bertfeat.adapters.keybert import KeybertBackend

SETTINGS: list[dict[str, Any]] = [
    {},
    {"keyphrase_ngram_range": (1, 2), "stop_words": "english", "top_n": 8},
    {"use_mmr": True, "diversity": 0.6},
    {"use_maxsum": True, "nr_candidates": 12, "top_n": 4},
    {"seed_keywords": ["water"]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_keywords(ours: Extractor, theirs: Any, texts: list[str], settings: dict[str, Any]) -> None:
    documents = [" ".join(texts[at : at + 12]) for at in (0, 100, 200)]
    models = (KeybertBackend(ours, normalize_embeddings=True), theirs)  # seeds are averaged with documents, by length
    found, wanted = (KeyBERT(model=model).extract_keywords(documents, **settings) for model in models)
    assert [[word for word, _ in each] for each in found] == [[word for word, _ in each] for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=2e-4)


def test_an_extractor_itself_is_refused_and_no_other_model_is_loaded(ours: Extractor) -> None:
    with pytest.raises(ValueError, match="Please select a correct SentenceTransformers model"):
        KeyBERT(model=ours)
