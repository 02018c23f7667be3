"""``bertfeat tag train``, ``predict`` and ``table7`` as a user meets them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import Tagger, parse_rows, read_spans
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

QUICK = ("--hidden", "8", "--epochs", "2", "--batch-size", "8", "--learning-rate", "0.01", "--precision", "fp32")
MODEL = ("--model", "model", "--precision", "fp32")
MADE = "made/features"
PAIR = ("--train", "train.conll", "--dev", "dev.conll")


@pytest.fixture(scope="module")
def home(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora, features and a tagger."""
    home = tmp_path_factory.mktemp("tag")
    for number, name in ((60, "train"), (20, "dev"), (20, "test")):
        write_conll(home / f"{name}.conll", sentences(number, number + len(name)))
    (home / "news.txt").write_text("the bank of the river, below\n\nthey ran to the café.\n")
    (home / "words.conll").write_text("the\nbank\n\nran\n")
    (home / "bad.conll").write_text("the O\nbank B-PER\n\nran O extra\nto O\n")
    (home / "pairs.txt").write_text("the bank ||| the river\n")
    (home / "empty.conll").write_text("\n\n")
    (home / "model").symlink_to(tiny("bert").folder)
    (home / "other").symlink_to(tiny("roberta").folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        done = tag("train", *PAIR, *QUICK, "--model", "model", "-o", "made")
        assert done.exit_code == 0, done.output
    return home


@pytest.fixture(autouse=True)
def in_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def tag(*arguments: str, **settings: object) -> Result:
    return CliRunner().invoke(main, ["tag", *arguments], **settings)  # type: ignore[arg-type]


# ── train ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_train_extracts_into_the_folder_and_saves() -> None:
    assert FeatureSet(f"{MADE}/train.features").columns[0].name == "concat4_word"
    settings = Tagger("made").record
    assert settings.input.name == "concat4"
    assert settings.training.hidden == 8
    assert Path("made/curves.png").read_bytes().startswith(b"\x89PNG")
    again = tag("train", *PAIR, *QUICK, "--model", "model", "-o", "made", "--json")
    assert json.loads(again.stdout)["score"] == settings.score
    assert "nothing to do" in again.stderr


def test_train_derives_what_the_features_can_yield() -> None:
    done = tag("train", *PAIR, *QUICK, "--model", "model", "--layers", "mix4", "--crf", "-o", "mix")
    assert done.exit_code == 0, done.output
    assert "reads        mix4 (word) of " in done.stdout
    assert Tagger("mix").mix_weights is not None
    mixed = tag(
        "train", "--train", f"{MADE}/train.features", "--dev", "dev.conll", *QUICK[:-2], "--layers", "sum4", "-o", "sum"
    )
    assert mixed.exit_code == 0, mixed.output


# ── predict ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_predictions_from_features_and_from_the_corpus_agree() -> None:
    by_features, by_corpus = tag("predict", "made", f"{MADE}/dev.features"), tag("predict", "made", "dev.conll")
    assert by_features.stdout == by_corpus.stdout
    given = [[word for word, _ in sentence] for sentence in sentences(20, 23)]
    found = [[line.split("\t")[0] for line in each.splitlines()] for each in by_corpus.stdout.strip().split("\n\n")]
    assert found == given
    scored = json.loads(tag("evaluate", "made", "dev.conll", "--json").stdout)
    assert scored["f1"] == pytest.approx(Tagger("made").record.score)


def test_predict_texts() -> None:
    lines = [json.loads(line) for line in tag("predict", "made", "news.txt", "--json").stdout.splitlines()]
    assert [line["id"] for line in lines] == ["1", "3"]
    for line in lines:
        assert all(line["text"][span["start"] : span["end"]] == span["text"] for span in line["spans"])
    tagged = Tagger("made").tag([lines[0]["text"]])[0]
    assert len(tagged.spans) == len(read_spans(tagged.tags)) == len(lines[0]["spans"])
    assert tagged.words == ("the", "bank", "of", "the", "river", ",", "below")
    piped = tag("predict", "made", "-", "--to", "jsonl", input="the bank of the river, below\n")
    assert json.loads(piped.stdout)["spans"] == lines[0]["spans"]
    marked = tag("predict", "made", "news.txt", "--to", "text").stdout
    assert click.unstyle(marked).startswith(("the ", "[the"))


def test_predict_words_without_tags() -> None:
    assert [line.split("\t")[0] for line in tag("predict", "made", "words.conll").stdout.splitlines()] == [
        "the", "bank", "", "ran", "",
    ]  # fmt: skip


def test_predict_writes_a_file_and_tells_failed_rows() -> None:
    done = tag("predict", "made", "bad.conll", "-o", "bad.out")
    assert done.exit_code == 3
    assert "1 row failed" in done.stderr
    assert Path("bad.out").read_text().startswith("the\t")


# ── table 7 ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_table7_and_what_is_done_is_not_done_again() -> None:
    asked = ("table7", *PAIR, "--test", "test.conll", *QUICK, "--model", "model", "-o", "table")
    done = tag(*asked, "--rows", "last,mix4", "--seeds", "2")
    assert done.exit_code == 0, done.output
    assert "| Last Hidden | last |" in done.stdout
    assert "| 94.9 |" in done.stdout
    assert "Another model and other data" in done.stdout
    first = {path: path.stat().st_mtime_ns for path in Path("table/runs").rglob("*.json")}
    assert len(first) == 4
    again = tag(*asked, "--rows", "last,mix4,sum=1..2", "--seeds", "2", "--json")
    assert again.exit_code == 0, again.output
    told = json.loads(again.stdout)
    assert [row["name"] for row in told["rows"]] == ["last", "mix4", "sum=1..2"]
    assert all(path.stat().st_mtime_ns == before for path, before in first.items())
    assert again.stderr.count("there already") == 4
    assert Path("table/table7.png").read_bytes().startswith(b"\x89PNG")
    other = tag(*asked, "--rows", "last", "--seeds", "2", "--crf")
    assert (other.exit_code, "holds a table with other training" in other.stderr) == (1, True)


def test_table7_dry_run_writes_nothing() -> None:
    before = sorted(Path().rglob("*"))
    done = tag("table7", *PAIR, *QUICK, "--model", "model", "-o", "dry", "--dry-run", "--json", "--rows", "last")
    told = json.loads(done.stdout)
    assert told["examples"] == 60
    assert told["training"] > 0
    assert sorted(Path().rglob("*")) == before


def test_rows() -> None:
    assert [row.name for row in parse_rows(["all"], 3)] == ["0", "1", "2", "3"]
    assert [row.paper for row in parse_rows(["paper"], 12)] == [91.0, 95.6, 94.9, 95.9, 96.1, 95.5]
    assert [row.title for row in parse_rows(["concat4", "sum4", "concat4"], 12)] == ["Concat Last Four Hidden", "sum4"]


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["train", "--train", "train.conll"], 2, "Missing option '--dev'"),
        (["train", "--train", "nowhere.conll", "--dev", "dev.conll"], 1, "nowhere.conll: no such file"),
        (["train", "--train", "model", "--dev", "dev.conll"], 2, "a folder that is no feature set"),
        (["train", "--train", "empty.conll", "--dev", "dev.conll", *MODEL], 1, "empty.conll"),
        (["train", "--train", "train.conll", "--dev", "empty.conll", *MODEL], 1, "empty.conll"),
        (["train", "--train", "news.txt", "--dev", "dev.conll", *MODEL, "-o", "x"], 1, "a text file has no tags"),
        (["train", *PAIR, "--model", "model", "--layers", "all"], 2, "one recipe"),
        (["train", *PAIR, "--model", "model", "--layers", "mix=2"], 2, "nothing to mix"),
        (["train", *PAIR, "--model", "model", "--layers", "77"], 2, "outside the model"),
        (
            ["train", "--train", f"{MADE}/train.features", "--dev", f"{MADE}/dev.features", "--layers", "0"],
            2,
            "needs layer 0",
        ),
        (
            ["train", "--train", f"{MADE}/train.features", "--dev", f"{MADE}/dev.features", "--model", "model"],
            2,
            "--model applies to the extraction of corpora and fine-tuning",
        ),
        (["train", *PAIR, *QUICK, "--model", "model", "-o", "made", "--seed", "9"], 1, "they differ in: seed"),
        (["train", *PAIR, "--learning-rate", "1"], 2, "--learning-rate 1.0: must be above 0 and below 1"),
        (["train", *PAIR, "--hidden", "0"], 2, "a tagger has a hidden layer; give at least 1"),
        (["predict", "made"], 2, "Missing argument 'INPUT'"),
        (["predict", "model", "dev.conll"], 1, "this is no finished head"),
        (["predict", "made", "nowhere.txt"], 1, "nowhere.txt"),
        (["predict", "made", "dev.conll", "--model", "other"], 1, "made by"),
        (["predict", "made", "dev.conll", "--document-context"], 2, "No such option"),
        (["predict", "made", "pairs.txt", "--pairs"], 2, "No such option"),
        (["table7", *PAIR, "--rows", "nonsense", "--model", "model"], 2, "nonsense"),
        (["table7", *PAIR, "--fine-tune", "32-5"], 2, "batch:rate:epochs"),
    ],
)
def test_wrong_uses(arguments: list[str], exit_code: int, problem: str) -> None:
    result = tag(*arguments)
    assert result.exit_code == exit_code, result.output
    assert problem in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_features_of_another_model_or_kind_are_refused(home: Path) -> None:
    for folder, settings, problem in (
        ("other.features", {"model": "other", "layers": "concat4"}, "was made by"),
        ("mean.features", {"model": "model", "layers": "concat4", "subword": "mean"}, "subword is 'mean', not 'first'"),
        ("last.features", {"model": "model", "layers": "last"}, "--pooling word --layers concat"),
    ):
        Extractor(pooling="word", precision="fp32", device="cpu", **settings).extract("dev.conll", folder)  # type: ignore[arg-type]
        result = tag("predict", "made", folder)
        assert result.exit_code in (1, 2)
        assert problem in result.stderr


def test_damaged_taggers_are_told(home: Path, tmp_path: Path) -> None:
    for name, text, problem in (
        ("head.json", b"{", "cannot be read"),
        ("head.json", b'{"format_version": 99}', "upgrade bertfeat"),
        ("head.safetensors", b"no weights", "has 10 bytes, but "),
    ):
        copy = tmp_path / f"copy{len(text)}"
        shutil.copytree(home / "made", copy)
        (copy / name).write_bytes(text)
        result = tag("predict", str(copy), "news.txt")
        assert (result.exit_code, problem in result.stderr) == (1, True), result.stderr
