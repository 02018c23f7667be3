"""Weights that do not fit a tagger, and settings that do not follow from each other, are told."""

import json
import shutil
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertfeat.errors import HeadError
from bertfeat.features import FORMAT_VERSION as SET_VERSION
from bertfeat.learning import Tagger, verify_head
from bertfeat.learning.head_files import FORMAT_VERSION, read_head_record
from tests.support.tagging_golden import GOLDEN, JSON, WEIGHTS, put, reweighted, rewritten


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    """A tagger of one's own, to be damaged, with its features beside it."""
    shutil.copytree(GOLDEN / f"tagger-{FORMAT_VERSION}", tmp_path / "golden")
    return tmp_path / "golden" / "tagger"


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(name: str, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[dict[str, Any]], None]:
    def apply(tensors: dict[str, torch.Tensor]) -> None:
        made = change(tensors.pop(name))
        if made is not None:
            tensors[name] = made

    return apply


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_changed("out.bias", lambda _: None), "it lacks 'out.bias'"),
        (lambda tensors: tensors.update(evil=torch.zeros(3)), "'evil' does not belong in it"),
        (_changed("out.weight", lambda t: t[:-1].clone()), r"has to be float32 of shape \[5, 8\]"),
        (_changed("out.weight", lambda t: t.T.contiguous()), r"is float32 of shape \[8, 5\]"),
        (_changed("crf.transitions", lambda t: t.double()), "is float64 of shape"),
        (_changed("lstm.layers.0.w_ih", lambda t: t.half()), "is float16 of shape"),
        (_changed("mean", lambda t: t.to(torch.int32)), "is int32 of shape"),
        (_changed("mix.gamma", lambda t: t[None]), r"has to be float32 of shape \[\]"),
        (_changed("scale", lambda t: t * float("nan")), "'scale' holds values that are no finite numbers"),
        (_changed("lstm.layers.1.bias", lambda t: t + float("inf")), "no finite numbers"),
    ],
    ids=range(10),
)
def test_tensors_that_do_not_fit_are_refused(
    tagger: Path, change: Callable[[dict[str, torch.Tensor]], None], problem: str
) -> None:
    tensors = load_file(tagger / WEIGHTS)
    change(tensors)
    reweighted(tagger, tensors)
    for use in (verify_head, Tagger):
        with pytest.raises(HeadError, match=problem):
            use(tagger)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"[" * 50_000, b'{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}', b'{"a":1}', b"\xff"],
    ids=range(6),
)
def test_what_is_no_safetensors_file(tagger: Path, header: bytes) -> None:
    data = struct.pack("<Q", len(header)) + header + b"\0"
    (tagger / WEIGHTS).write_bytes(data)
    rewritten(tagger, lambda raw: raw.update(weights={"bytes": len(data), "sha256": sha256(data).hexdigest()}))
    with pytest.raises(HeadError, match="not the weights of"):
        Tagger(tagger)


def test_a_giant_in_the_place_of_weights_is_not_read(tagger: Path) -> None:
    with (tagger / WEIGHTS).open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(HeadError, match=r"it has 1,099,511,627,776 bytes, and had [\d,]+ when it was written"):
        Tagger(tagger)
    rewritten(tagger, put("weights", "bytes", to=1 << 40))  # the settings say what the tensors take
    with pytest.raises(HeadError, match=r"it has 1,099,511,627,776 bytes, and .* are what its tensors take"):
        Tagger(tagger)


# ── what is derived ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("best_epoch", to=9), "the best epoch is number 8, not 9"),
        (put("candidates", 0, "score", to=0.99), "its score is 1.0, and that of its best candidate 0.99"),
        (put("history", 2, "rate", to=0.04), "the learning rate of epoch 3 is 0.04, not 0.05"),
        (put("history", 2, "words", to=217), "epoch 3 has 217 words, and the first 216"),
        (lambda raw: raw["history"].pop(), "the training was not over after 11 epochs"),
        (lambda raw: raw["history"].append(raw["history"][-1]), "epoch 13 comes after the end"),
        (put("data", to={"train": "00"}), "it was trained on train, and has to be on train and dev"),
        (put("outputs", "labels", 4, to="I-C"), "what it predicts is not what .*features"),
        (put("model", "fingerprint", to="0" * 64), r"was made by .*, and what it says of them by .*000000"),
        (
            put("extraction", "subword", to="mean"),
            r"was extracted in another way than what it says of them: subword is",
        ),
    ],
    ids=range(10),
)
def test_what_does_not_follow_is_told(tagger: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    rewritten(tagger, change)
    with pytest.raises(HeadError, match=problem):
        verify_head(tagger)


def test_features_that_changed_or_went_are_told(tagger: Path) -> None:
    features = tagger.parent / "features"
    assert {str(state) for state in verify_head(tagger).features.values()} == {"the same"}
    shutil.move(features, tagger.parent / "elsewhere")
    assert {str(state) for state in verify_head(tagger).features.values()} == {"not there"}
    shutil.copytree(GOLDEN / f"v{SET_VERSION}" / "features", features)
    assert {str(state) for state in verify_head(tagger).features.values()} == {"changed since"}
    (features / ".bertfeat" / "manifest.json").write_text("{")
    assert {str(state) for state in verify_head(tagger).features.values()} == {"changed since"}


def test_a_left_over_checkpoint_is_told(tagger: Path) -> None:
    (tagger / "checkpoint.json").write_text("{}")
    with pytest.raises(HeadError, match=r"there is a checkpoint\.json beside it, though it is done"):
        verify_head(tagger)


def test_settings_are_written_as_they_are_read(tagger: Path) -> None:
    """And the names of labels may be anything that JSON holds."""
    rewritten(tagger, lambda raw: raw["outputs"].update(labels=["O", "B-\t", "B-\n", "B-\ud800", "B-é"]))
    assert read_head_record(tagger).outputs.labels == ("O", "B-\t", "B-\n", "B-\ud800", "B-é")
    assert json.loads((tagger / JSON).read_text("utf-8"))["outputs"]["scheme"] == "BIO"
