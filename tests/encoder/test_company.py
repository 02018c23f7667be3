"""A text has the same bytes whatever is computed beside it, at real models' widths, on every level of instructions.

Where a library multiplies, it is near only, and the encoder says so (docs/numerics.md).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from bertfeat.core.encoder import Precision
from bertfeat.core.recipe import Pooling
from tests.encoder.support import held_to, let_find
from tests.support.tiny_models import SENTENCES, Features, Tiny, build, documents

WIDTHS = {
    "MiniLM": ("bert", 384, 1536, 12),
    "bert-base": ("bert", 768, 3072, 12),
    "all-mpnet-base-v2": ("mpnet", 768, 3072, 12),
    "bert-large": ("bert", 1024, 4096, 16),
}
FORMS = (
    ("fp32", "avx2"),
    ("fp32", "avx512"),
    ("bf16", "bf16"),
    ("bf16", "amx"),
    ("int8", "vnni"),
    *(pytest.param("int8", instructions, marks=pytest.mark.slow) for instructions in ("avx2", "avx2_vnni", "amx")),
)
EVERY = (Pooling.MEAN, Pooling.CLS, Pooling.MAX, Pooling.TOKEN, Pooling.WORD)
LENGTHS = (5, 1, 33, 16)  # words

Make = Callable[[str], Path]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Give the folder of a random model of two layers, as wide as the named one."""

    @cache
    def made(name: str) -> Path:
        family, hidden, inner, heads = WIDTHS[name]
        sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": heads}
        return build(family, tmp_path_factory.mktemp(name) / name, num_hidden_layers=2, **sizes)

    return made


def texts() -> list[str]:
    draw, words = Random(1), " ".join(SENTENCES).split()
    return [" ".join(draw.choices(words, k=length)) for length in LENGTHS]


def vectors(features: Features, document: int) -> dict[str, bytes]:
    """All that is known of a document, byte for byte."""
    return {column.name: features.of(column, document).tobytes() for column in features.columns}


def assert_same_bytes(tiny: Tiny, *poolings: Pooling) -> None:
    """Of each text alone, beside the one before it, whose length is another, and among all on one thread more."""
    assert tiny.encoder.path.same_bytes
    given, before = texts(), torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        together = tiny.features(documents(given), "last,1", *poolings)
    finally:
        torch.set_num_threads(before)
    for number, text in enumerate(given):
        alone = tiny.features(documents([text]), "last,1", *poolings)
        beside = tiny.features(documents([given[number - 1], text]), "last,1", *poolings)
        assert vectors(alone, 0) == vectors(together, number) == vectors(beside, 1)


@pytest.mark.sampled(5, 14)
@pytest.mark.parametrize(("precision", "instructions"), FORMS)
@pytest.mark.parametrize(
    "name", ["bert-base", *(pytest.param(name, marks=pytest.mark.slow) for name in WIDTHS if name != "bert-base")]
)
def test_a_text_has_the_same_bytes_alone_and_in_company(
    make: Make, name: str, precision: str, instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MiniLM's widths with its real weights are in test_int8.py."""
    held_to(instructions, monkeypatch, emulated=False)
    tiny = Tiny.load(make(name), Precision(precision))
    assert_same_bytes(tiny, *EVERY)
    assert_same_bytes(tiny, Pooling.CLS)  # computes the last layer of first tokens alone


@pytest.mark.parametrize("family", ["a family of its own", "a projection", "narrow heads", "odd widths"])
def test_where_libraries_multiply_nothing_is_promised(family: str, tmp_path: Path) -> None:
    wide = {"hidden_size": 64, "num_attention_heads": 2}
    built = {
        "a family of its own": lambda: build("modernbert", tmp_path, **wide),
        "a projection": lambda: build("electra", tmp_path, **wide, embedding_size=32),
        "narrow heads": lambda: build("bert", tmp_path, hidden_size=64, num_attention_heads=8),
        "odd widths": lambda: build("bert", tmp_path, hidden_size=48, num_attention_heads=3, intermediate_size=96),
    }
    assert not Tiny.load(built[family]()).encoder.path.same_bytes


@pytest.mark.parametrize(
    "precision", [Precision.FP32, Precision.BF16, pytest.param(Precision.INT8, marks=pytest.mark.slow)]
)
def test_without_kernels_it_is_near(make: Make, precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are those of docs/numerics.md."""
    let_find(None, monkeypatch)
    tiny = Tiny.load(make("bert-base"), precision)
    assert not tiny.encoder.path.same_bytes
    given = texts()
    together = tiny.features(documents(given), "last", *EVERY)
    for number, text in enumerate(given):
        alone = tiny.features(documents([text]), "last", *EVERY)
        for column in together.columns:
            one, other = (each.of(column, at).astype(np.float64) for each, at in ((alone, 0), (together, number)))
            if precision is Precision.FP32:
                bound = 1e-5 if column.pooling.per_document else 3e-5
                np.testing.assert_allclose(one, other, rtol=0, atol=bound)
            norms = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
            least = 0.995 if precision is Precision.INT8 else 0.9999 if column.pooling.per_document else 0.999
            assert ((one * other).sum(-1) >= least * norms).all()
