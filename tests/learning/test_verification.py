"""Damaged heads, and records that do not follow from each other, are told; info, verify and JSON outputs of heads."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from bertfeat.cli import main
from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind, result_kind
from bertfeat.learning import Head, verify_head
from tests.support.heads_toy import QUICK, train
from tests.support.tagging_golden import put, reweighted, rewritten

Extract = Callable[..., FeatureSet]
JSON, WEIGHTS = "head.json", "head.safetensors"


@pytest.fixture(scope="module")
def sound(extracted: Extract, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with its features beside it."""
    folder = tmp_path_factory.mktemp("sound")
    for name in ("train", "dev"):
        shutil.copytree(str(extracted(f"{name}.csv", keep=("topic",)).folder), folder / name)
    settings = replace(QUICK, epochs=5, hidden=3)
    train(
        "classify", folder / "train", folder / "dev", folder / "head", label="topic", layers="last", settings=settings
    )
    return folder


@pytest.fixture
def head(sound: Path, tmp_path: Path) -> Path:
    """A head of one's own, to be damaged."""
    shutil.copytree(sound, tmp_path / "own")
    return tmp_path / "own" / "head"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def told(*arguments: object) -> Any:
    """The one JSON object that a command prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    return json.loads(result.stdout)


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [JSON, WEIGHTS])
def test_flipped_and_missing_bytes_are_told(head: Path, name: str) -> None:
    path, draw = head / name, random.Random(1)
    data = path.read_bytes()
    inside = data.rindex(b"}") if name == JSON else len(data)  # white space at the end says nothing
    for at in [0, 7, 9, inside - 1, *(draw.randrange(inside) for _ in range(24))]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :])
        for use in (verify_head, Head):
            with pytest.raises(HeadError, match=r"copy the whole head again|upgrade"):
                use(head)
    for left in (0, 1, inside // 2, inside - 1):
        path.write_bytes(data[:left])
        with pytest.raises(HeadError):
            verify_head(head)
    path.unlink()
    with pytest.raises(HeadError, match=r"this is no finished head|not the weights of"):
        verify_head(head)


def test_a_copy_without_its_marker_is_a_head_too(head: Path) -> None:
    before = verify_head(head)
    shutil.rmtree(head / ".bertfeat")
    assert verify_head(head) == before
    assert result_kind(head) is ResultKind.HEAD


# ── what is derived ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("best_epoch", to=9), r"the best epoch is number \d, not 9"),
        (put("history", 2, "rate", to=0.04), r"the learning rate of epoch 3 is 0\.04, not"),
        (put("history", 2, "words", to=7), "epoch 3 has 7 words, and the first 120"),
        (lambda raw: raw["history"].pop(), "the training was not over after 4 epochs"),
        (lambda raw: raw["history"].append(raw["history"][-1]), "epoch 6 comes after the end"),
        (put("history", to=[]), "the training was not over after 0 epochs"),
        (put("data", to={"train": "00"}), "it was trained on train, and has to be on train and dev"),
        (put("outputs", "labels", to=["money", "wine"]), r"what it predicts is not what .*train.* says"),
        (put("training", "patience", to=None), "it does not say how many epochs it waited"),
        (put("columns", "label", to="strange"), r"does not say what is right \(column strange\)"),
        (put("model", "fingerprint", to="0" * 64), r"was made by .*, and what it says of them by .*000000"),
        (put("extraction", "prompt", to="x"), r"was extracted in another way than what it says of them: prompt is "),
    ],
    ids=range(12),
)
def test_what_does_not_follow_is_told(head: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    rewritten(head, change, JSON)
    Head(head)  # reading it does not look so closely
    with pytest.raises(HeadError, match=problem):
        verify_head(head)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("network", "width", to=7), "contradicts itself: its network has another width than follows from the rest"),
        (put("network", "outputs", to=3), "another outputs"),
        (put("network", "hidden", to=-1), "another hidden"),
        (put("network", "hidden", to=9), "another hidden"),
        (put("network", "texts", to=2), "another texts"),
        (put("network", "recurrent", to=1), "another recurrent"),
        (put("network", "mixed", to=True), "another mixed"),
        (put("score", to=0.99), r"its score is 0\.99, and that of its best candidate"),
        (put("network", "outputs", to=10**12), "another outputs"),
        (put("network", to=None), "it does not say what it reads"),
        (put("weights", to=None), "it does not say what it reads"),
        (put("layers", to="99"), "contradicts itself|cannot be read|outside"),
        (put("layers", to="last,-2"), "cannot be read|reads one recipe"),
        (put("pooling", to="nonsense"), "cannot be read"),
        (put("kind", to="sing"), "cannot be read"),
        (put("approach", to="fine-tuned"), "it does not say how it was fine-tuned"),
        (put("format_version", to=2), "written in format 2 by a newer bertfeat"),
        (put("kind", to="answer"), "no task of answer; there is answers"),
        (put("outputs", "labels", to=[]), "its outputs are none of a head of labels"),
        (put("outputs", "spread", to=None), "cannot be read"),
        (put("layers", to=None), "it does not say which layers it reads"),
        (put("threshold", to=0.5), r"its threshold \(0\.5\) is none of a head of labels"),
        (put("candidates", 0, "weight_decay", to=0.5), "its candidates are not those of its settings"),
        (put("candidates", 0, "loss", to=None), "candidates of classify have a loss"),
        (put("candidates", 0, "inputs", to="cosines"), "its candidates are not those of its settings"),
        (lambda raw: raw.update(candidates=raw["candidates"] * 2), "its candidates are not those of its settings"),
        (put("measure", to="\ud800"), "its score is measured by"),
        (put("columns", "pair", to="text"), "it reads single texts, and names a column of second ones"),
        (put("training", "max_answer", to=31), "it says how long answers are, and gives none"),
        (put("files", to={}), "it learnt from stored features, and says how it was fine-tuned"),
        (put("layers", to=""), "it does not say which layers it reads"),
    ],
    ids=range(31),
)
def test_what_cannot_be_is_refused(head: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    rewritten(head, change, JSON)
    for use in (verify_head, Head):
        with pytest.raises(HeadError, match=problem):
            use(head)


def test_weights_that_are_no_numbers_are_refused(head: Path) -> None:
    tensors = load_file(head / WEIGHTS)
    tensors["out.bias"] = tensors["out.bias"] * float("nan")
    reweighted(head, tensors, JSON, WEIGHTS)
    for use in (verify_head, Head):
        with pytest.raises(HeadError, match=r"'out\.bias' holds values that are no finite numbers"):
            use(head)
    tensors["out.bias"] = torch.zeros(3)
    reweighted(head, tensors, JSON, WEIGHTS)
    with pytest.raises(HeadError, match=r"has to be float32 of shape \[2\]"):
        verify_head(head)


def test_features_that_changed_or_went_are_told(head: Path) -> None:
    features, other = head.parent / "train", head.parent / "dev"
    assert {str(state) for state in verify_head(head).features.values()} == {"the same"}
    shutil.move(features, head.parent / "elsewhere")
    assert dict(verify_head(head).features) == {"train": "not there", "dev": "the same"}
    shutil.copytree(other, features)
    assert dict(verify_head(head).features) == {"train": "changed since", "dev": "the same"}


def test_a_left_over_checkpoint_is_told(head: Path) -> None:
    (head / "checkpoint.json").write_text("{}")
    with pytest.raises(HeadError, match=r"there is a checkpoint\.json beside it, though it is done"):
        verify_head(head)


# ── the commands ────────────────────────────────────────────────────────────────────────────────────────────


def test_info_and_verify(head: Path) -> None:
    value = told("info", head)
    assert (value["kind"], value["head"], value["approach"], value["layers"]) == (
        "head",
        "classify",
        "frozen",
        "last",
    )
    assert (value["pooling"], value["labels"], value["measure"]) == ("mean", ["money", "water"], "accuracy")
    assert value["training"]["hidden"] == 3
    assert value["columns"]["label"] == "topic"
    record = Head(head).record
    assert (value["score"], value["best_epoch"], value["epochs"]) == (record.score, record.best_epoch, 5)
    shown = run("info", head).stdout
    assert f"head          {head}: a classifier" in shown
    assert "labels        2: money, water" in shown
    checked = told("verify", head)
    assert (checked["kind"], checked["holds"], checked["head"], checked["labels"]) == ("head", True, "classify", 2)
    assert checked["features"] == {"train": "the same", "dev": "the same"}
    assert checked["bytes"] == sum((head / name).stat().st_size for name in (JSON, WEIGHTS))
    assert "sound" in run("verify", head).stdout
    (head / WEIGHTS).write_bytes(b"")
    refused = run("verify", head)
    assert (refused.exit_code, "Traceback" in refused.stderr) == (1, False)
    assert run("verify", head, "--sample", "3").exit_code == 2


def test_verify_heads_of_pairs_numbers_answers_and_choices(extracted: Extract, tmp_path: Path) -> None:
    pairs = [
        tuple(
            extracted(f"{name}-pairs.jsonl", text_columns=(text,), **({"keep": ("wet",)} if text == "a" else {}))
            for text in ("a", "b")
        )
        for name in ("train", "dev")
    ]
    quick = replace(QUICK, epochs=2, hidden=2)
    train("classify", *pairs, tmp_path / "pairs", label="wet", settings=quick)
    report = verify_head(tmp_path / "pairs")
    assert (report.labels, set(report.features.values())) == (3, {"the same"})
    sets = [extracted(f"{name}.json", "token", keep=("answers",)) for name in ("train", "dev")]
    train("answer", *sets, tmp_path / "answers", settings=quick)
    assert verify_head(tmp_path / "answers").labels == 0
    assert told("info", tmp_path / "answers")["threshold"] is not None
    assert "no answer" in run("info", tmp_path / "answers").stdout


@pytest.mark.parametrize(
    ("kind", "source", "keys"),
    [
        ("classify", "dev.csv", {"accuracy", "macro_f1", "matthews"}),
        ("answer", "dev.json", {"exact_match", "f1"}),
    ],
)
def test_json_of_the_commands(home: Path, tmp_path: Path, kind: str, source: str, keys: set[str]) -> None:
    """``evaluate`` needs no columns named: they are recorded."""
    ending = Path(source).suffix
    label = ("--label", "topic") if kind == "classify" else ()
    out, tiny = tmp_path / "made.head", ("--model", home / "model", "--device", "cpu", "--precision", "fp32")
    given = (kind, "train", "--train", home / f"train{ending}", "--dev", home / source, *label, "-o", out, *tiny)
    made = told(*given, "--epochs", "2", "--hidden", "4")
    assert (made["folder"], made["epochs"], made["resumed"]) == (str(out), 2, 0)
    assert keys <= set(made["dev"])
    again = told(*given, "--epochs", "2", "--hidden", "4")
    assert (again["resumed"], again["score"], "dev" in again) == (2, made["score"], False)
    scores = told(kind, "evaluate", out, home / source)
    assert keys <= set(scores)
    assert scores == made["dev"]
    predicted = run(kind, "predict", out, home / source)
    assert predicted.exit_code == 0
    lines = [json.loads(line) for line in predicted.stdout.splitlines()]
    assert {frozenset(line) for line in lines} == {
        frozenset({"id", "label", "probability"} if label else {"id", "answer", "start", "end", "no_answer"})
    }
    written = run(kind, "predict", out, home / source, "-o", tmp_path / "out.jsonl")
    assert (written.exit_code, written.stdout) == (0, "")
    assert (tmp_path / "out.jsonl").read_text() == predicted.stdout
