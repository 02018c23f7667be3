"""Real weights on real text, against Hugging Face and sentence-transformers: the packaged default model and, in make
slow, a model of base size (``make mpnet`` fetches it)."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from benchmarks import mpnet
from bertfeat import Extractor, verify_features
from bertfeat.core.encoder import Precision
from bertfeat.core.features import CANARY_TEXTS, PRECISION_COSINES, find_canary_problem
from bertfeat.core.grammar import parse_recipes
from bertfeat.core.models import find_model
from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import LongTextPolicy, Subword
from tests.support.float64 import distance, library_states
from tests.support.hooked import values_within
from tests.support.slow_features import slow_text, slow_words
from tests.support.tiny_models import CPU, Features, Tiny, documents, reference_ids, text_states

EXAMPLES = Path(__file__).parent.parent / "examples"
LINES = [line for line in (EXAMPLES / "corpus.txt").read_text("utf-8").splitlines() if line.strip()]
KOREAN = [line for line in (EXAMPLES / "korean.txt").read_text("utf-8").splitlines() if line.strip()]
LONG = " ".join(LINES[:60])
TEXTS = [*LINES[:12], *KOREAN[:4], " ".join(LINES[12:20]), ""]
LENGTHS = {"all-MiniLM-L6-v2": 256, mpnet.NAME: 384}  # tokens, at which sentence-transformers cuts texts


@pytest.fixture(scope="module", params=["all-MiniLM-L6-v2", pytest.param(mpnet.NAME, marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    if chosen == mpnet.NAME and not mpnet.FOLDER.exists():
        pytest.skip("make mpnet fetches it")
    return chosen


@pytest.fixture(scope="module")
def folder(name: str) -> Path:
    return mpnet.FOLDER if name == mpnet.NAME else find_model().folder


@pytest.fixture(scope="module")
def real(folder: Path) -> Tiny:
    return Tiny.load(folder)


@pytest.fixture(scope="module", params=[Precision.BF16, Precision.INT8], ids=str)
def rough(request: pytest.FixtureRequest, folder: Path) -> Tiny:
    return Tiny.load(folder, request.param)


def cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.array((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def all_layers(found: Features, document: int) -> NDArray[np.floating]:
    """Shape: ``[L+1, T, H]``."""
    return np.stack([found.tokens(column.name, document) for column in found.columns])


# ── hidden states, windows, words ───────────────────────────────────────────────────────────────────────────


def test_every_layer_is_hugging_faces(real: Tiny) -> None:
    found = real.features(documents(TEXTS), "all", Pooling.TOKEN)
    for at, text in enumerate(TEXTS):
        np.testing.assert_allclose(all_layers(found, at), text_states(real.folder, text), rtol=0, atol=3e-5)


def test_every_site_is_what_hugging_faces_modules_take_and_give(real: Tiny) -> None:
    """To 3e-5 of the largest number of each token's row."""
    found = real.features(documents(TEXTS), "attn:all,mlp:all,mlp-in:all,heads:all,mid:all,pre-norm:all", Pooling.TOKEN)
    for at, text in enumerate(TEXTS):
        wanted = values_within(real.folder, *reference_ids(real.folder, text))
        for column in found.columns:
            (place,) = column.recipe.places
            apart = np.abs(found.tokens(column.name, at) - wanted[place].numpy()).max(axis=1)
            assert (apart <= 3e-5 * np.abs(wanted[place].numpy()).max(axis=1)).all(), column.name


def test_every_layer_is_as_near_to_float64_as_hugging_faces(real: Tiny) -> None:
    found = real.features(documents(TEXTS), "all", Pooling.TOKEN)
    ids = [reference_ids(real.folder, text)[0] for text in TEXTS]
    exact = library_states(real.folder, torch.float64, ids)
    theirs = distance(library_states(real.folder, torch.float32, ids), exact)
    ours = distance([all_layers(found, at).astype(float) for at in range(len(TEXTS))], exact)
    # torch's products, where there are no kernels of ours, are those of Hugging Face
    assert (ours <= (1.0 if real.encoder.path.same_bytes else 1.5) * theirs)[1:].all(), ours / theirs


def test_pairs_and_windows(real: Tiny) -> None:
    found = real.features(documents([(LINES[0], LINES[1]), LONG]), "all", Pooling.TOKEN)
    for at, slow in enumerate([slow_text(real, LINES[0], LINES[1]), slow_text(real, LONG)]):
        assert at == 0 or slow.hidden.shape[1] > 512
        np.testing.assert_allclose(all_layers(found, at), slow.hidden, rtol=0, atol=3e-5)


@pytest.mark.parametrize("subword", [Subword.FIRST, Subword.MEAN])
def test_words_are_those_of_their_pieces(real: Tiny, subword: Subword) -> None:
    texts = [*LINES[20:32], *KOREAN[:2]]
    (recipe,) = parse_recipes("concat4", real.model.num_layers)
    found = real.features(documents(texts), "concat4", Pooling.WORD, subword=subword)
    for at, text in enumerate(texts):
        slow = slow_text(real, text)
        mix = slow.layer_mix(recipe)
        wanted = np.array([slow.word(mix, span, subword.value) for span in slow_words(text)])
        np.testing.assert_allclose(found.words("concat4_word", at), wanted, rtol=0, atol=3e-5)


def test_mean_vectors_are_those_of_sentence_transformers(real: Tiny, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        oracle = SentenceTransformer(str(real.folder), device=str(CPU))
    texts = [*LINES[:100], *KOREAN, " ".join(LINES[:40])]
    wanted = oracle.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    cut = real.features(documents(texts), "last", Pooling.MEAN, max_length=LENGTHS[name], long=LongTextPolicy.TRUNCATE)
    found = cut["last_mean"]
    found = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert np.abs(found - wanted).max() <= 1e-5


# ── bf16 and int8 ───────────────────────────────────────────────────────────────────────────────────────────


def test_documents_are_close_to_fp32(real: Tiny, rough: Tiny) -> None:
    poolings = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
    texts = [*LINES[:40], *KOREAN[:5], "a"]
    exact, found = (each.features(documents(texts), "last", *poolings) for each in (real, rough))
    for column in exact.columns:
        least = cosine(exact[column.name], found[column.name]).min()
        assert least >= PRECISION_COSINES[rough.encoder.precision], column.name


def test_tokens_of_every_layer_are_close_to_fp32(real: Tiny, rough: Tiny) -> None:
    texts = [text for text in TEXTS if text]
    exact, found = (each.features(documents(texts), "all", Pooling.TOKEN) for each in (real, rough))
    for column in exact.columns:
        assert np.quantile(cosine(exact[column.name], found[column.name]), 0.01) >= 0.995, column.name


def test_a_text_is_the_same_alone_and_in_company(rough: Tiny) -> None:
    poolings = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
    texts = [*LINES[:20], *KOREAN[:5], "a", " ".join(LINES[:30])]
    together = rough.features(documents(texts), "last", *poolings)
    alone = [rough.features(documents([text]), "last", *poolings) for text in texts]
    for column in together.columns:
        single = np.concatenate([each[column.name] for each in alone])
        if rough.encoder.path.same_bytes:
            assert single.tobytes() == together[column.name].tobytes(), column.name
        else:
            assert cosine(single, together[column.name]).min() >= 0.9999, column.name


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_stored_set_is_verified(rough: Tiny, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{line}\n" for line in LINES[:40]), "utf-8")
    precision = rough.encoder.precision.value
    Extractor(rough.folder, layers="last", pooling=["mean", "word"], precision=precision).extract(
        corpus, tmp_path / "a.features"
    )
    report = verify_features(tmp_path / "a.features")
    assert report.holds
    words = next(each for each in report.deviations if each.column == "last_word")
    assert (words.below, words.vectors > 200) == (0, True)


def test_canaries_are_those_of_hugging_face_in_every_precision(real: Tiny, rough: Tiny) -> None:
    exact, found = (Extractor(each.folder, precision=each.encoder.precision.value).canary for each in (real, rough))
    assert find_canary_problem(exact, found) is None
    width = real.model.hidden_size
    kept = [at * width // 64 for at in range(64)]
    for text, vector in zip(CANARY_TEXTS, exact.vectors, strict=True):
        np.testing.assert_allclose(vector, text_states(real.folder, text)[-1].mean(axis=0)[kept], atol=3e-5)


def test_weights_cut_to_bfloat16_are_noticed(real: Tiny, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(real.folder, cut, ignore=shutil.ignore_patterns("*.safetensors"))
    for path in real.folder.glob("*.safetensors"):
        rounded = {name: tensor.bfloat16().float() for name, tensor in load_file(path).items()}
        save_file(rounded, cut / path.name)
    before, after = (Extractor(folder, precision="fp32").canary for folder in (real.folder, cut))
    assert "where fp32 promises" in str(find_canary_problem(before, after))
