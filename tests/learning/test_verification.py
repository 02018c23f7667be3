"""Damaged heads are told; info, verify and JSON outputs of heads."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from bertfeat.errors import BertfeatError, HeadError
from bertfeat.io import ResultKind, result_kind
from bertfeat.learning import Head, verify_head
from tests.support.heads_toy import QUICK, train
from tests.support.tagging_golden import put, rewritten

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


def says(text: bytes) -> Any:
    """What JSON says, or None where it says nothing."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@pytest.mark.parametrize("name", [JSON, WEIGHTS])
def test_flipped_and_missing_bytes_are_told(head: Path, name: str) -> None:
    path, draw = head / name, random.Random(1)
    data = path.read_bytes()
    inside = data.rindex(b"}") if name == JSON else len(data)  # white space at the end says nothing
    for at in [0, 7, 9, inside - 1, *(draw.randrange(inside) for _ in range(24))]:
        flipped = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        if name == JSON and says(flipped) == says(data):
            continue  # the seventeenth digit of the seconds, or 1E-05 for 1e-05: another spelling of the same number
        path.write_bytes(flipped)
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


def test_values_changed_by_hand_are_told(head: Path) -> None:
    raw = json.loads((head / JSON).read_text())
    raw["score"] = 0.99
    (head / JSON).write_text(json.dumps(raw))
    for use in (verify_head, Head):
        with pytest.raises(HeadError, match="its digest does not hold: the file was changed after it was written"):
            use(head)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("format_version", to=2), "written in format 2 by a newer bertfeat"),
        (put("kind", to="sing"), "cannot be read"),
        (put("outputs", "spread", to=None), "cannot be read"),
        (put("training", "hidden", to=-5), "cannot be read"),
        (put("training", "task", to="stars"), "no task of classify; there are labels, multi-labels, numbers"),
    ],
    ids=range(5),
)
def test_records_of_others_are_refused(head: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    """Of a newer bertfeat, of no bertfeat, or with a task of a package that is not installed."""
    rewritten(head, change, JSON)
    with pytest.raises(BertfeatError, match=problem):
        Head(head)


def test_weights_of_another_head_are_told(head: Path, tmp_path: Path) -> None:
    (head / WEIGHTS).write_bytes((head / WEIGHTS).read_bytes()[:-1] + b"x")
    for use in (verify_head, Head):
        with pytest.raises(HeadError, match=r"not the weights of head\.json: .* was changed after.*; copy the"):
            use(head)
    with (head / WEIGHTS).open("ab") as file:
        file.truncate(1 << 40)  # a giant in their place is not read
    with pytest.raises(HeadError, match=r"has 1,099,511,627,776 bytes, but [\d,]+ were written"):
        verify_head(head)


def test_features_that_changed_or_went_are_told(head: Path) -> None:
    features, other = head.parent / "train", head.parent / "dev"
    assert {str(state) for state in verify_head(head).features.values()} == {"the same"}
    shutil.move(features, head.parent / "elsewhere")
    assert dict(verify_head(head).features) == {"train": "not there", "dev": "the same"}
    shutil.copytree(other, features)
    assert dict(verify_head(head).features) == {"train": "changed since", "dev": "the same"}


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


@pytest.mark.sampled(1)
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
