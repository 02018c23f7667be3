"""What must hold on a GPU, next to the same on a CPU in fp32; skipped where there is none.

BERTFEAT_TEST_DEVICE=cpu runs these tests on the CPU, to see that they are sound themselves.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import HeadSettings, Tagger
from tests.support.runs import contents, lines, text_file
from tests.support.tagging_toy import feature_set, scored, train
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny

DEVICE = os.environ.get("BERTFEAT_TEST_DEVICE", "cuda")
MEAN: dict[str, Any] = {"pooling": "mean", "dtype": "float32"}
EVERY: dict[str, Any] = {"layers": "0,2,last,concat4", "pooling": "mean,cls,max,token,word"}
pytestmark = pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU")


def features(tiny: Tiny, device: str, precision: str, texts: list[str], **more: Any) -> list[dict[str, NDArray[Any]]]:
    """Every column of every text, by name; small batches, so that several are on their way."""
    settings = EVERY | {"dtype": "float32", "batch_tokens": 200} | more
    extractor = Extractor(tiny.folder, device=device, precision=precision, **settings)
    return [
        {c.name: each.vector(c.name) if c.pooling.per_document else each.matrix(c.name) for c in extractor.columns}
        for each in extractor.features(texts)
    ]


def test_every_column_in_fp32(any_tiny: Tiny) -> None:
    texts = [*TEXTS, LONG_TEXT] * 3
    found, wanted = features(any_tiny, DEVICE, "fp32", texts), features(any_tiny, "cpu", "fp32", texts)
    for one, other in zip(found, wanted, strict=True):
        for name, matrix in one.items():
            np.testing.assert_allclose(matrix, other[name], rtol=0, atol=3e-5, err_msg=name)


@pytest.mark.parametrize(("precision", "bound"), [("bf16", 0.9995), ("fp16", 0.9995)])
def test_documents_in_half_precision(packed_tiny: Tiny, precision: str, bound: float) -> None:
    texts = [f"{number} {text}" for number in range(12) for text in [*TEXTS, LONG_TEXT]]
    found = features(packed_tiny, DEVICE, precision, texts, pooling="mean,cls,max")
    wanted = features(packed_tiny, "cpu", "fp32", texts, pooling="mean,cls,max")
    for one, other in zip(found, wanted, strict=True):
        for name, matrix in one.items():
            assert cosine(matrix, other[name]) >= bound, name


def test_company_changes_little(bert: Tiny) -> None:
    together = features(bert, DEVICE, "bf16", list(TEXTS), pooling="mean")
    for text, one in zip(TEXTS, together, strict=True):
        (alone,) = features(bert, DEVICE, "bf16", [text], pooling="mean")
        assert all(cosine(alone[name], matrix) >= 0.9999 for name, matrix in one.items())


def test_two_runs_give_the_same_bytes(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(200))
    for name in ("one", "two"):
        extractor = Extractor(bert.folder, device=DEVICE, batch_tokens=300, **EVERY)
        extractor.extract(corpus, tmp_path / name, part_rows=23)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(FeatureSet(tmp_path / "one")) == 200


@pytest.mark.skipif(DEVICE != "cuda", reason="a CPU's memory cannot be held small")
def test_a_batch_that_does_not_fit_is_halved(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(60_000))
    extractor = Extractor(bert.folder, device=DEVICE, precision="fp32", batch_tokens=2**22, **MEAN)
    held = 2**28 / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(held)
    try:
        report = extractor.extract(corpus, tmp_path / "halved", part_rows=60_000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert report.split_batches > 0
    whole = Extractor(bert.folder, device=DEVICE, precision="fp32", **MEAN)
    whole.extract(corpus, tmp_path / "whole", part_rows=60_000)
    halved, wanted = (FeatureSet(tmp_path / name).matrix("last_mean") for name in ("halved", "whole"))
    np.testing.assert_allclose(halved, wanted, rtol=0, atol=3e-5)


@pytest.mark.parametrize("crf", [False, True], ids=["softmax", "crf"])
def test_a_tagger_learns_and_tags_as_on_a_cpu(bert: Tiny, tmp_path: Path, crf: bool) -> None:
    train_set = feature_set(bert.folder, tmp_path / "train", 150, 1)
    dev_set = feature_set(bert.folder, tmp_path / "dev", 40, 2)
    settings = HeadSettings(hidden=16, crf=crf, epochs=16, dropout=0.1, learning_rate=0.01, batch_size=8)
    done = train(train_set, dev_set, tmp_path / "a.tagger", layers="mix4", settings=settings, device=DEVICE)
    assert done.record.score > 0.6
    there, here = (scored(Tagger(tmp_path / "a.tagger", device=device), dev_set).value for device in (DEVICE, "cpu"))
    assert abs(there - here) < 0.03


def cosine(one: NDArray[Any], other: NDArray[Any]) -> float:
    found: float = (one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other)
    return found
