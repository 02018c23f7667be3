"""The packaged default model on real text, against Hugging Face and sentence-transformers."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.encoder import Precision
from bertfeat.models import find_model
from bertfeat.recipe import Pooling
from bertfeat.tokens import LongTextPolicy
from tests.support.slow_features import slow_text
from tests.support.tiny_models import CPU, Tiny, documents, text_states

EXAMPLES = Path(__file__).parent.parent / "examples"
LINES = [line for line in (EXAMPLES / "corpus.txt").read_text("utf-8").splitlines() if line.strip()]
KOREAN = [line for line in (EXAMPLES / "korean.txt").read_text("utf-8").splitlines() if line.strip()]
LONG = " ".join(LINES[:60])


@pytest.fixture(scope="module")
def minilm() -> Tiny:
    return Tiny.load(find_model().folder)


def cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.array((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def test_every_layer_is_hugging_faces(minilm: Tiny) -> None:
    texts = [*LINES[:12], *KOREAN[:4], ""]
    found = minilm.features(documents(texts), "all", Pooling.TOKEN)
    for at, text in enumerate(texts):
        wanted = text_states(minilm.folder, text)
        for layer in range(7):
            np.testing.assert_allclose(found.tokens(f"layer{layer}_token", at), wanted[layer], rtol=0, atol=3e-5)


def test_pairs_and_windows(minilm: Tiny) -> None:
    found = minilm.features(documents([(LINES[0], LINES[1]), LONG]), "all", Pooling.TOKEN)
    for at, slow in enumerate([slow_text(minilm, LINES[0], LINES[1]), slow_text(minilm, LONG)]):
        assert at == 0 or slow.hidden.shape[1] > 512
        for layer in range(7):
            np.testing.assert_allclose(found.tokens(f"layer{layer}_token", at), slow.hidden[layer], rtol=0, atol=3e-5)


def test_mean_vectors_are_those_of_sentence_transformers(minilm: Tiny) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        oracle = SentenceTransformer(str(minilm.folder), device=str(CPU))
    texts = [*LINES[:100], *KOREAN, " ".join(LINES[:40])]
    wanted = oracle.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    found = minilm.features(documents(texts), "last", Pooling.MEAN, max_length=256, long=LongTextPolicy.TRUNCATE)[
        "last_mean"
    ]
    found = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert np.abs(found - wanted).max() <= 1e-5


@pytest.fixture(scope="module")
def in_bf16() -> Tiny:
    return Tiny.load(find_model().folder, Precision.BF16)


def test_bf16_is_close_to_fp32_and_to_itself_alone(minilm: Tiny, in_bf16: Tiny) -> None:
    poolings = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
    texts = [*LINES[:40], *KOREAN[:5], "a"]
    exact = minilm.features(documents(texts), "last", *poolings)
    rough = in_bf16.features(documents(texts), "last", *poolings)
    alone = [in_bf16.features(documents([text]), "last", *poolings) for text in texts]
    for column in exact.columns:
        assert cosine(exact[column.name], rough[column.name]).min() >= 0.9995, column.name
        single = np.concatenate([each[column.name] for each in alone])
        assert cosine(single, rough[column.name]).min() >= 0.9999, column.name
