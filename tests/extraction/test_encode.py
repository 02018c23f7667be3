"""encode() and features(): vectors of texts in memory are Hugging Face's, and those that a feature set would hold."""

import itertools
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.extraction.sentence_transformers import extractor as module
from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from tests.support.runs import extractor
from tests.support.tiny_models import LONG_TEXT, PAIRS, TEXTS, Tiny, text_states


def one(bert: Tiny, **settings: Any) -> Extractor:
    return extractor(bert, **{"layers": "last"} | settings)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_hugging_faces(bert: Tiny, pooling: str) -> None:
    found = one(bert, layers="concat4", pooling=pooling).encode(list(TEXTS))
    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), 128)
    for text, vector in zip(TEXTS, found, strict=True):
        states = text_states(bert.folder, text)
        layers = np.concatenate(states[2:6], axis=-1)
        expected = {"mean": layers.mean(0), "cls": layers[0], "max": layers.max(0)}[pooling]
        assert np.abs(vector - expected).max() < 3e-5


def test_pairs(bert: Tiny) -> None:
    for (first, second), vector in zip(PAIRS, one(bert).encode(list(PAIRS)), strict=True):
        assert np.abs(vector - text_states(bert.folder, first, second)[5].mean(0)).max() < 3e-5


def test_a_single_text_gives_one_vector(bert: Tiny) -> None:
    made = one(bert)
    assert np.array_equal(made.encode("a bank"), made.encode(["a bank"])[0])


def test_no_texts(bert: Tiny) -> None:
    assert one(bert, layers="concat4").encode([]).shape == (0, 128)


def test_normalized(bert: Tiny) -> None:
    made = one(bert)
    plain, normed = (made.encode(list(TEXTS), normalize_embeddings=each) for each in (False, True))
    assert normed.dtype == np.float32
    assert np.allclose(normed, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_order_batches_and_chunks_change_no_vector(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, LONG_TEXT, *reversed(TEXTS)]
    whole = one(bert).encode(texts)
    assert np.allclose(one(bert).encode(texts[::-1])[::-1], whole, atol=1e-5)
    for size in (1, 2, 5):
        assert np.allclose(one(bert).encode(texts, batch_size=size), whole, atol=1e-5)
    assert np.allclose(one(bert, batch_tokens=1).encode(texts), whole, atol=1e-5)
    monkeypatch.setattr(module, "_CHUNK", 3)
    assert np.allclose(one(bert).encode(texts), whole, atol=1e-5)
    found = one(bert).features(texts)
    assert [document.text for document in found] == texts
    assert [document.row for document in found] == list(range(len(texts)))


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"nonsense": 1}, "no keyword 'nonsense'"),
        ({"output_value": None}, "token_embeddings"),
        ({"output_value": "pooled"}, "pooled"),
        ({"precision": "bf16"}, r"Extractor\(precision='bf16'\)"),
        ({"pool": {}}, r"processes|pool=\{\}: must be None"),
        ({"chunk_size": 10}, r"processes|chunk_size=10: must be None"),
        ({"processing_kwargs": {"text": {"max_length": 9}}}, "max_length"),
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 2.5}, "batch_size=2.5: must be a whole number"),
        ({"truncate_dim": -1}, "at least 1"),
        ({"truncate_dim": True}, "truncate_dim=True: must be a whole number"),
        ({"prompt_name": "query: "}, "its prompts are query, document"),
        ({"prompt": np.array(["a"])}, "must be a text or None, not ndarray"),
        ({"prompt_name": ["query"]}, "must be a text or None, not list"),
        ({"sentences": ["b"]}, "texts twice"),
        ({"prompt": 3}, "prompt=3: must be a text or None, not int"),
        ({"prompt": "half \ud83d"}, r"surrogate pair \('\\ud83d'\) at 5"),
        ({"output_value": "token_embeddings", "normalize_embeddings": True}, "sentence embeddings"),
        ({"output_value": "token_embeddings", "truncate_dim": 3}, "sentence embeddings"),
        ({"output_value": "token_embeddings", "precision": "int8"}, "sentence embeddings"),
    ],
)
def test_keywords_that_cannot_be_right(bert: Tiny, keywords: Any, told: str) -> None:
    for call in (one(bert).encode, one(bert).encode_query, one(bert).encode_document):
        with pytest.raises(UsageError, match=told):
            call(["a bank"], **keywords)


@pytest.mark.parametrize("prompt", ["half \ud83d", 3, ["query: "], np.array(["a"])])
def test_a_prompt_of_the_extractors_own_is_checked_when_it_is_made(bert: Tiny, prompt: Any) -> None:
    with pytest.raises(UsageError, match="prompt"):
        one(bert, prompt=prompt)


def test_progress_is_shown_where_it_is_asked_for(bert: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    one(bert).encode(["a bank"])
    assert capsys.readouterr().err == ""
    one(bert).encode(["a bank", "b"], show_progress_bar=True)
    assert "2/2" in capsys.readouterr().err


def test_progress_is_a_bar_of_tqdm_auto_which_notebooks_show(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    bars = MagicMock()
    monkeypatch.setattr("tqdm.auto.tqdm", bars)
    one(bert).encode(["a bank", "b"], show_progress_bar=True)
    bars.assert_any_call(total=2, desc="Texts", disable=False)
    bars.return_value.__enter__.return_value.update.assert_called_once_with(2)


@pytest.mark.parametrize("settings", [{"pooling": "token"}, {"pooling": "mean,cls"}, {"layers": "last,1"}])
def test_encode_gives_one_vector_a_text(bert: Tiny, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="one vector a text"):
        one(bert, **settings).encode(["a"])


def test_texts_that_cannot_be_embedded(bert: Tiny) -> None:
    for call in (one(bert, long="error").encode, one(bert, long="error").features):
        with pytest.raises(UsageError, match="1 texts cannot be embedded; the first: row 1"):
            call(["a", LONG_TEXT])
    with pytest.raises(UsageError, match="surrogate"):
        one(bert).encode(["half \ud83d"])


def test_features_are_those_that_a_set_would_hold(bert: Tiny, tmp_path: Path) -> None:
    made = extractor(bert, layers="concat4", pooling="mean,token,word")
    texts = [*TEXTS, LONG_TEXT]
    made.extract(memory_corpus(texts), tmp_path)
    for ours, stored in zip(made.features(texts), FeatureSet(tmp_path).documents(), strict=True):
        assert (ours.row, ours.text, ours.n_tokens) == (stored.row, stored.text, stored.n_tokens)
        for name in ("concat4_mean", "concat4_token", "concat4_word"):
            assert np.array_equal(ours.stored[name], stored.stored[name])
        assert ours.tokens is not None
        assert ours.words is not None
        assert stored.words is not None
        assert np.array_equal(ours.words.start, stored.words.start)


def test_features_tokens_offsets_and_vectors(bert: Tiny) -> None:
    (found,) = extractor(bert, layers="last", pooling="token,word", dtype="float32").features(["The bank."])
    states = text_states(bert.folder, "The bank.")
    assert np.abs(found.matrix("last_token") - states[5]).max() < 3e-5
    assert found.words is not None
    spans = zip(found.words.start, found.words.end, strict=True)
    assert [found.text[start:end] for start, end in spans if found.text] == ["The", "bank", "."]


def test_features_of_given_words(bert: Tiny) -> None:
    words = [["New York", "bank"], ["a"]]
    made = extractor(bert, layers="last", pooling="word")
    found = made.features(words, corpus_settings=CorpusSettings(pretokenized=True))
    assert [list(each.words.strings or ()) for each in found if each.words] == words


def test_the_settings_are_checked_when_the_extractor_is_made(bert: Tiny) -> None:
    for settings, told in (
        ({"layers": "6"}, "layer"),
        ({"pooling": "median"}, "median"),
        ({"precision": "int4"}, "int4"),
        ({"dtype": "float64"}, "float64"),
        ({"long": "wrap"}, "wrap"),
        ({"subword": "middle"}, "middle"),
        ({"max_length": 65}, "8 to 64"),
        ({"max_length": 7}, "8 to 64"),
        ({"batch_tokens": 0}, "from 1 to"),
        ({"device": "tpu9"}, "tpu9"),
    ):
        with pytest.raises(UsageError, match=told):
            extractor(bert, **settings)


def test_recipes_and_poolings_are_columns_once(bert: Tiny) -> None:
    names = [column.name for column in extractor(bert, layers="last,5,concat4", pooling="mean,cls,mean").columns]
    assert sorted(names) == sorted(
        f"{recipe}_{pooling}" for recipe, pooling in itertools.product(["last", "concat4"], ["mean", "cls"])
    )
