"""``--fine-tune``, killed or ended at some of its steps in the file system: the same command again does it all."""

import json
import shutil
import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bertfeat.errors import HeadError
from bertfeat.learning import Head, verify_head
from tests.support.heads_toy import choices, questions, topics, write_questions, write_records
from tests.support.steps import Ended, Stop, preload, start, steps
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import build

preload("bertfeat.learning", "bertfeat.learning", "bertfeat.plots", "matplotlib.backends.backend_agg")
preload("transformers.trainer", "transformers.models.bert", "accelerate", "torch._dynamo")

pytestmark = pytest.mark.slow

TIMES = ("seconds", "digest")  # what differs from run to run, and the digest of a file that says so
TUNING = ("--fine-tune", "8:1e-3:1", "--model", "model", "--device", "cpu", "--precision", "fp32")
COMMANDS = {
    "head": ("classify", "train", "--train", "train.csv", "--dev", "dev.csv", "--label", "topic", "-o", "made"),
    "answers": ("answer", "train", "--train", "train.json", "--dev", "dev.json", "-o", "made"),
    "choices": (
        *("choose", "train", "--train", "train.jsonl", "--dev", "dev.jsonl", "--choices", "a,b,c", "--label", "right"),
        *("-o", "made"),
    ),
    "tags": (
        *("tag", "table7", "--train", "train.conll", "--dev", "dev.conll", "--rows", "last", "--seeds", "2"),
        *("--hidden", "4", "--epochs", "1", "-o", "made"),
    ),
}
TABLE = (
    *("classify", "table7", "--train", "train.csv", "--dev", "dev.csv", "--label", "topic"),
    *("--rows", "last", "--seeds", "2", "--hidden", "4", "--epochs", "1", "-o", "made"),
)
ENDS = {  # by which signal each is ended, and before which share of its steps
    "head": [(signal.SIGKILL, 0.3), (signal.SIGTERM, 0.7)],
    "answers": [(signal.SIGKILL, 0.6)],
    "choices": [(signal.SIGTERM, 0.4)],
    "tags": [(signal.SIGKILL, 0.8)],
}
PREPARE = f"{__name__}:one_thread"


def one_thread() -> None:
    """In each process: what runs beside others does not wait for them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora and a model."""
    home = tmp_path_factory.mktemp("home")
    build("bert", home / "model")
    for number, name in enumerate(("train", "dev")):
        write_records(home / f"{name}.csv", topics(16, seed=number))
        write_conll(home / f"{name}.conll", sentences(16, seed=number))
        write_records(home / f"{name}.jsonl", choices(8, seed=number))
        write_questions(home / f"{name}.json", questions(9, seed=number, without=True))
    return home


def run(command: tuple[str, ...], place: Path, stop: Stop | None = None) -> Ended:
    with start((*command, *TUNING), [place], stop=stop, cwd=place, prepare=PREPARE) as running:
        return running.wait()


def fresh(home: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(home, place)


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def contents(place: Path) -> dict[str, str]:
    """A digest of every file; times are left out, and features, and what a table's JSON says in other ways."""
    found = {}
    for path in sorted((place / "made").rglob("*")):
        if path.is_file() and path.suffix not in (".png", ".md") and "features" not in path.parts:
            data = path.read_bytes()
            if path.suffix == ".json":
                data = json.dumps(timeless(json.loads(data))).encode()
            found[str(path.relative_to(place))] = sha256(data).hexdigest()
    return found


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_and_started_again_it_ends_as_if_undisturbed(home: Path, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    whole = fresh(home, tmp_path / "whole")
    ended = run(command, whole)
    assert ended.exit_code == 0, ended.stderr
    undisturbed = contents(whole)
    counted = fresh(home, tmp_path / "counted")
    count = len(steps((*command, *TUNING), [counted], cwd=counted, prepare=PREPARE))
    for sent, share in ENDS[name]:
        step = round(share * count)
        place = fresh(home, tmp_path / "killed")
        stopped = run(command, place, Stop(step, sent))
        assert stopped.exit_code == (-signal.SIGKILL if sent == signal.SIGKILL else 143), (step, stopped)
        assert "Traceback" not in stopped.stderr, (step, stopped.stderr)
        if name != "tags" and not (place / "made" / "head.json").exists():
            with pytest.raises(HeadError):
                verify_head(place / "made")
        again = run(command, place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (step, again.stderr)
        assert contents(place) == undisturbed, step


@pytest.mark.hostile
def test_of_a_table_killed_as_it_fine_tunes_finished_runs_stay(home: Path, tmp_path: Path) -> None:
    runs = Path("made", "runs", "fine-tuning")

    def killed_at(step: int, place: Path) -> dict[str, bytes]:
        """The fine-tunings that are finished when it is killed before a step in their folder."""
        stop = Stop(step, signal.SIGKILL)
        with start((*TABLE, *TUNING), [place / runs], stop=stop, cwd=place, prepare=PREPARE) as running:
            assert running.wait().exit_code == -signal.SIGKILL, step
        return {path.name: path.read_bytes() for path in (place / runs).glob("[!.]*.json")}

    whole, begun = fresh(home, tmp_path / "whole"), fresh(home, tmp_path / "begun")
    count = len(steps((*TABLE, *TUNING), [whole / runs], cwd=whole, prepare=PREPARE))
    undisturbed = contents(whole)
    assert killed_at(1, begun) == {}  # what comes before fine-tuning is done once
    kept = set()
    for step in (2, count // 2, count):
        place = fresh(begun, tmp_path / "killed")
        finished = killed_at(step, place)
        again = run(TABLE, place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (step, again.stderr)
        assert contents(place) == undisturbed, step
        # the same to the second, so they were not done again
        assert {each: (place / runs / each).read_bytes() for each in finished} == finished, step
        kept.add(len(finished))
    assert kept == {0, 1, 2}


def test_a_finished_model_that_was_damaged_is_told_and_files_of_an_unfinished_one_do_not_stay(
    home: Path, tmp_path: Path
) -> None:
    place = fresh(home, tmp_path / "place")
    (place / "made" / "model").mkdir(parents=True)
    (place / "made" / "model" / "added_tokens.json").write_text(
        '{"[NEW]": 3}'
    )  # of another model, killed as it was saved
    (place / "made" / ".bertfeat").mkdir()
    (place / "made" / ".bertfeat" / "kind").write_text("head")
    ended = run(COMMANDS["head"], place)
    assert ended.exit_code == 0, ended.stderr
    model = place / "made" / "model"
    assert not (model / "added_tokens.json").exists()
    for path in sorted(model.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
        for use in (verify_head, Head):
            with pytest.raises(HeadError, match=f"{path.name} was changed after it was written"):
                use(place / "made")
        again = run(COMMANDS["head"], place)
        assert again.exit_code == 1
        assert f"{path.name} was changed after it was written" in again.stderr
        path.write_bytes(data)
    assert run(COMMANDS["head"], place).exit_code == 0
