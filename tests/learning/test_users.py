"""What users get wrong with heads ends with a message that says where, what and the remedy, and never a traceback."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from bertfeat.io import folder_lock
from tests.support.heads_toy import choices, numbers, questions, topics, write_questions, write_records

Extract = Callable[..., FeatureSet]
TINY = ("--model", "model", "--device", "cpu", "--precision", "fp32")
QUICK = ("--epochs", "1", "--hidden", "4", *TINY)
CHOICES = ("--choices", "a,b,c", "--label", "right")


@pytest.fixture(autouse=True)
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the corpora of ``home``."""
    for path in home.iterdir():
        (tmp_path / path.name).symlink_to(path)
    for name, seed in (("train", 1), ("dev", 2)):
        write_records(tmp_path / f"{name}-choices.csv", choices(12, seed))
        write_records(tmp_path / f"{name}-numbers.csv", numbers(12, seed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def train(kind: str, train: object, dev: object, *more: object) -> Result:
    sets = any("," in str(source) or Path(str(source)).is_dir() for source in (train, dev))
    quick = QUICK[: QUICK.index("--model")] if sets else QUICK
    return run(kind, "train", "--train", train, "--dev", dev, "-o", "out.head", *quick, *more, "--overwrite")


def refused(result: Result, pattern: str, code: int = 1) -> None:
    assert result.exit_code == code, (result.exit_code, result.stderr)
    assert re.search(pattern, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")


def changed(name: str, records: list[dict[str, Any]], row: int, **values: Any) -> Path:
    """A corpus of records of which one is changed."""
    return write_records(Path(name), [{**each, **values} if at == row else each for at, each in enumerate(records)])


# ── labels and numbers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_label_that_is_not_said_or_not_there() -> None:
    refused(
        train("classify", "train.csv", "dev.csv"), "which column holds the labels is not said; name it with --label"
    )
    problem = (
        "train.csv: there is no column 'tpic'; there are 'id', 'text', 'topic'; did you mean topic[?] name it with"
    )
    refused(train("classify", "train.csv", "dev.csv", "--label", "tpic"), problem)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", [None, ""])
def test_a_row_without_its_label(value: str | None) -> None:
    bad = changed("bad.jsonl", topics(12, 1), 5, topic=value)
    problem = r"of .*bad\.jsonl\): row 5 has no topic; give each row one"
    refused(train("classify", bad, "dev.csv", "--label", "topic"), problem)
    refused(train("classify", "train.csv", bad, "--label", "topic"), problem)


@pytest.mark.parametrize(("value", "shown"), [("many", "'many'"), ("NaN", "nan|'NaN'"), ("-inf", "-inf|'-inf'")])
def test_what_is_no_number(value: str, shown: str) -> None:
    bad = changed("bad.csv", numbers(12, 1), 7, wet=value)
    result = train("classify", bad, "dev-numbers.csv", "--label", "wet", "--task", "numbers")
    refused(result, rf"bad\.csv\): the wet of row 7 is ({shown}), which is no finite number; correct it")


def test_nothing_to_learn() -> None:
    one = write_records(Path("one.csv"), [{**record, "topic": "money"} for record in topics(5, 1)])
    refused(train("classify", one, "dev.csv", "--label", "topic"), "every example has the label 'money': there is noth")
    same = write_records(Path("same.csv"), [{**record, "wet": 2.5} for record in numbers(5, 1)])
    refused(
        train("classify", same, "dev-numbers.csv", "--label", "wet", "--task", "numbers"),
        r"every number is 2\.5: there",
    )


def test_development_sets_that_are_of_no_use() -> None:
    strange = write_records(Path("strange.csv"), [{**record, "topic": "sport"} for record in topics(5, 1)])
    problem = r"strange\.csv\): the development set has only labels that the training set lacks"
    refused(train("classify", "train.csv", strange, "--label", "topic"), problem)
    Path("empty.csv").write_text("id,text,topic\n")
    refused(train("classify", "train.csv", "empty.csv", "--label", "topic"), r"empty\.csv")
    Path("nothing.csv").write_text("")
    refused(train("classify", "train.csv", "nothing.csv", "--label", "topic"), r"nothing\.csv")
    refused(train("classify", "train.csv", "gone.csv", "--label", "topic"), r"gone\.csv: no such file or feature set")


def test_labels_that_were_never_learned_are_told() -> None:
    assert train("classify", "train.csv", "dev.csv", "--label", "topic").exit_code == 0
    some = changed("some.csv", topics(12, 3), 4, topic="sport")
    result = run("classify", "evaluate", "out.head", some, "--json")
    assert result.exit_code == 0
    assert "some.csv has labels that the head never learned: sport" in result.stderr
    assert json.loads(result.stdout)["examples"] == 12
    again = train("classify", "train.csv", some, "--label", "topic")
    assert again.exit_code == 0
    assert "warning: the development set has labels that the training set lacks: sport" in again.stderr


@pytest.mark.slow
def test_columns_that_are_not_there_when_predicting() -> None:
    assert train("classify", "train.csv", "dev.csv", "--label", "topic").exit_code == 0
    problem = "dev.csv: there is no column 'mood'; there are 'id', 'text', 'topic'; name it with --label"
    refused(run("classify", "evaluate", "out.head", "dev.csv", "--label", "mood"), problem)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


ASKED = [{"question": "what ran", "passage": "the river", "answers": '[{"text": "river", "start": 4}]'}] * 4
ASKED_COLUMNS = ("--text-column", "question", "--pair-column", "passage")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            {"text": "mill", "start": 4},
            r"the answer does not stand at 4 in the passage \(row 3: 'mill', start 4\); corr",
        ),
        ({"text": "river", "start": 5000}, r"the answer does not stand at 5000 in the passage \(row 3"),
        ({"text": "river", "start": -5}, r"the answer does not stand at -5 in the passage"),
        ({"text": "", "start": 4}, r"the answer is empty \(row 3"),
        ({"text": " ", "start": 3}, r"the answer is empty \(row 3"),
    ],
    ids=range(5),
)
def test_answers_that_are_no_stretch_of_their_passage(answer: dict[str, object], problem: str) -> None:
    bad = changed("bad.csv", ASKED, 3, answers=json.dumps([answer]))
    refused(train("answer", bad, bad, *ASKED_COLUMNS), problem)


def test_answers_that_the_format_refuses_are_listed() -> None:
    made = questions(8, 1)
    made["data"][0]["paragraphs"][2]["qas"][0]["answers"][0].update(text="mountain")
    result = train("answer", write_questions(Path("bad.json"), made), "dev.json")
    assert result.exit_code == 3  # done, but some rows failed
    assert "warning: 1 row of bad.json failed; see out.head/features/train.features/" in result.stderr
    listed = Path("out.head/features/train.features/.bertfeat/failures.jsonl").read_text()
    assert '"row":2' in listed.replace(" ", "")
    assert "mountain" in listed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "value", ["in May", "{}", '[{"text": "a"}]', '[{"text": "a", "start": "0"}]', "[3]", "7", "null"]
)
def test_answers_that_are_not_as_they_are_written(value: str) -> None:
    bad = changed("bad.csv", ASKED, 3, answers=value)
    result = train("answer", bad, bad, *ASKED_COLUMNS)
    refused(result, rf"bad\.csv\): the answers of row 3 are {re.escape(repr(value))}; write them as a JSON list")


@pytest.mark.slow
def test_questions_of_squad_come_from_standard_input() -> None:
    assert train("answer", "train.json", "dev.json").exit_code == 0
    command = ["answer", "predict", "out.head", "-", "--format", "squad"]
    piped = CliRunner().invoke(main, command, input=Path("dev.json").read_bytes())
    assert piped.exit_code == 0, piped.stderr
    assert piped.stdout == run("answer", "predict", "out.head", "dev.json").stdout


@pytest.mark.slow
def test_features_that_no_answer_can_be_cut_out_of(extracted: Extract, home: Path) -> None:
    extract = ("extract", "train.json", "--layers", "last", "--pooling", "token", *TINY, "--keep", "answers", "-o")
    assert run(*extract, "textless.features", "--no-text").exit_code == 0
    refused(
        train("answer", "textless.features", "dev.json"), "textless.features: it holds no texts, and answers are cut"
    )
    assert run(*extract, "bare.features", "--no-special-tokens").exit_code == 0
    refused(train("answer", "bare.features", "dev.json"), r"no vector of \[CLS\].*without --no-special-tokens")
    means = extracted("train.json", keep=("answers",)).folder
    refused(train("answer", means, "dev.json"), "extract the corpus again, with --pooling token", 2)


# ── choices ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"b": ""}, r"bad\.csv, question q3: it has no choice 'b'; every question has to have equally many"),
        (
            {"right": 3},
            r"question q3: its label '3' names none of its 3 choices; write its number from 0 to 2, or one of",
        ),
        ({"right": -1}, "question q3: its label '-1' names none of its 3 choices"),
        ({"right": "d"}, "question q3: its label 'd' names none"),
        ({"right": ""}, "question q3: its label '' names none"),
        ({"id": "q2"}, r"bad\.csv, row 3: it has the id of the one before it; give each question an id of its own"),
    ],
    ids=range(6),
)
def test_questions_without_what_they_need(values: dict[str, object], problem: str) -> None:
    bad = changed("bad.csv", choices(12, 1), 3, **values)
    refused(train("choose", bad, "dev-choices.csv", *CHOICES), problem)


def test_choices_that_are_not_said() -> None:
    sources = ("train-choices.csv", "dev-choices.csv")
    refused(
        train("choose", *sources, "--label", "right"), "a chooser needs the columns of the choices, at least two", 2
    )
    refused(
        train("choose", *sources, "--choices", "a", "--label", "right"), "at least two; name them with --choices", 2
    )
    refused(train("choose", *sources, "--choices", "a,b,z", "--label", "right"), "no such column in .*; there are", 2)
    problem = "which column holds the right choices is not said; name it with --label"
    refused(train("choose", *sources, "--choices", "a,b,c"), problem)
    problem = "there is no column 'rigt'; there are 'id', 'text', 'a', 'b', 'c', 'right'; did you mean right[?]"
    refused(train("choose", *sources, "--choices", "a,b,c", "--label", "rigt"), problem)
    refused(train("choose", *sources, "--choices", "a,b,c", "--label", "right:int"), "there is no column 'right:int'")


def test_choices_of_feature_sets_that_are_not_equally_many() -> None:
    rows = [(f"q{at // 3}", at % 3 == 1) for at in range(12)]
    for name, kept in (
        ("fewer", rows[:-1]),
        ("none", rows[:3]),
        ("two", [*rows[:3], ("q1", True), ("q1", True), rows[5]]),
    ):
        made = [{"a": "they ran", "b": "the river", "question": q, "right": r} for q, r in kept]
        write_records(Path(f"{name}.jsonl"), made)
        extract = ("extract", f"{name}.jsonl", "--text-column", "a", "--pair-column", "b", "--pooling", "mean", *TINY)
        assert run(*extract, "--keep", "question,right", "--layers", "last", "-o", name).exit_code == 0
    problem = r"fewer\.jsonl\): question 'q3' \(row 9\) has 2 choices, and the first one 3; give every question"
    refused(train("choose", "fewer", "none"), problem)
    refused(train("choose", "two", "none"), r"question 'q1' \(row 3\) has 2 right choices")
    assert run("extract", "train.csv", "--pooling", "mean", *TINY, "-o", "plain").exit_code == 0
    refused(
        train("choose", "plain", "none"),
        "there is no column 'question'; kept are none; give the corpus, or extract it with --keep question,right",
    )


# ── feature sets ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_feature_sets_that_do_not_fit(extracted: Extract) -> None:
    mean, cls = (extracted("train.csv", pooling, keep=("topic",)).folder for pooling in ("mean", "cls"))
    words = extracted("dev.csv", "word", keep=("topic",)).folder
    label = ("--label", "topic")
    refused(train("classify", mean, cls, *label), "stores no column with pooling mean|--pooling mean", 2)
    problem = "a head reads one vector a text, and this set holds word; say which with --pooling"
    refused(train("classify", words, words, *label), problem)
    both = extracted("train.csv", "mean,cls", keep=("topic",)).folder
    refused(train("classify", both, both, *label), "this set holds mean, cls; say which with --pooling")
    assert train("classify", both, both, *label, "--pooling", "cls").exit_code == 0
    refused(train("classify", mean, mean, *label, "--layers", "1"), "layers 1", 2)
    refused(train("classify", f"{mean},{mean}", mean, *label), "one is of pairs that are apart")


@pytest.mark.slow
def test_features_of_another_model(extracted: Extract, tiny: Callable[[str], Any]) -> None:
    mean = extracted("train.csv", keep=("topic",)).folder
    other = ("--model", tiny("distilbert").folder, *TINY[2:])
    extract = ("extract", "dev.csv", "--layers", "concat4", "--pooling", "mean", "--keep", "topic", "-o")
    assert run(*extract, "other", *other).exit_code == 0
    refused(
        train("classify", mean, "other", "--label", "topic"), r"other was made by .*distilbert \(fingerprint .*\), and"
    )
    assert train("classify", mean, mean, "--label", "topic").exit_code == 0
    refused(run("classify", "predict", "out.head", "other"), "other was made by .*distilbert")
    refused(run("classify", "predict", "out.head", "dev.csv", *other[:2]), "distilbert|fingerprint|model")
    assert run(*extract, "cut", *TINY, "--max-length", "8").exit_code == 0
    refused(
        run("classify", "evaluate", "out.head", "cut"), "cut was extracted in another way than the head .*max_length"
    )


def test_features_without_texts_are_enough_for_labels(extracted: Extract) -> None:
    mean = extracted("train.csv", keep=("topic",)).folder
    assert train("classify", mean, mean, "--label", "topic").exit_code == 0
    extract = ("extract", "dev.csv", "--layers", "concat4", "--pooling", "mean", "--keep", "topic", "--no-text")
    assert run(*extract, *TINY, "-o", "textless").exit_code == 0
    results = [run("classify", "predict", "out.head", source) for source in ("textless", "dev.csv")]
    labels = [[json.loads(line)["label"] for line in result.stdout.splitlines()] for result in results]
    assert labels[0] == labels[1]
    assert len(labels[0]) == 40


# ── heads and folders ───────────────────────────────────────────────────────────────────────────────────────


def test_a_head_of_another_kind_or_none() -> None:
    assert train("classify", "train.csv", "dev.csv", "--label", "topic").exit_code == 0
    refused(
        run("answer", "predict", "out.head", "dev.json"), "this is a classifier, not a span reader; bertfeat classify"
    )
    refused(run("choose", "evaluate", "out.head", "dev-choices.csv"), "this is a classifier, not a chooser")
    refused(run("classify", "predict", "gone.head", "dev.csv"), r"gone\.head: there is no such folder")
    refused(run("classify", "predict", "dev.csv", "dev.csv"), r"dev\.csv: this is no finished head")
    given = ("--train", "train.csv", "--dev", "dev.csv", "--label", "topic", "--seed", "5", "-o", "out.head", *QUICK)
    refused(run("classify", "train", *given), r"differ in: seed\).*--overwrite")
    assert run("classify", "train", *given, "--overwrite").exit_code == 0


def test_a_fine_tuned_model_in_the_place_of_a_head_on_features() -> None:
    given = ("--train", "train.csv", "--dev", "dev.csv", "--label", "topic", "-o", "out.head", *TINY[:4])
    tuned = run("classify", "train", *given, "--fine-tune", "32:1e-3:1")
    assert tuned.exit_code == 0, tuned.stderr
    problem = r"out.head holds a model that was fine-tuned in another way \(they differ in: layers\).*--overwrite"
    refused(run("classify", "train", *given, "--precision", "fp32"), problem)
    assert json.loads(run("verify", "out.head", "--json").stdout)["features"] == {}


def test_options_of_features_beside_fine_tuning() -> None:
    given = ("--train", "train.csv", "--dev", "dev.csv", "--label", "topic", "-o", "out.head", "--fine-tune")
    for option, value in (("--layers", "last"), ("--hidden", "8"), ("--epochs", "3")):
        problem = f"{option} applies to heads on stored features; .*--fine-tune"
        refused(run("classify", "train", *given, option, value), problem, 2)
    refused(run("classify", "train", *given, "--precision", "fp16"), "fine-tuning does not run in fp16.*fp32, bf16", 2)
    assert not Path("out.head").exists()


def test_overwrite_leaves_the_old_head_until_the_new_input_is_sound() -> None:
    assert train("classify", "train.csv", "dev.csv", "--label", "topic").exit_code == 0
    before = Path("out.head/head.json").read_bytes()
    refused(train("classify", "train.csv", "gone.csv", "--label", "topic"), "no such file")
    refused(train("classify", "train.csv", "dev.csv"), "which column holds the labels is not said")
    tuned = ("--train", "train.csv", "--dev", "gone.csv", "--label", "topic", "-o", "out.head", *TINY[:4])
    refused(run("classify", "train", *tuned, "--fine-tune", "--overwrite"), "gone.csv")
    assert Path("out.head/head.json").read_bytes() == before
    assert run("verify", "out.head").exit_code == 0


def test_folders_that_hold_something_else_or_are_held() -> None:
    given = ("classify", "train.csv", "dev.csv", "--label", "topic")
    Path("out.head").mkdir()
    Path("out.head/checkpoint.json").write_text("mine")
    for _ in range(2):
        refused(train(*given), "out.head holds 'checkpoint.json' and is not a head; name another folder with -o")
    assert Path("out.head/checkpoint.json").read_text() == "mine"
    assert [path.name for path in Path("out.head").iterdir()] == ["checkpoint.json"]
    Path("out.head/checkpoint.json").unlink()
    with folder_lock(Path("out.head")):
        refused(train(*given), "out.head.*another run|at work on it|locked")
    assert run("extract", "dev.csv", "--pooling", "mean", *TINY, "-o", "set").exit_code == 0
    result = run(
        "classify", "train", "--train", "train.csv", "--dev", "dev.csv", "--label", "topic", "-o", "set", *QUICK
    )
    refused(result, "set holds a feature set")


def test_the_input_is_not_written_over(extracted: Extract) -> None:
    assert train("classify", "train.csv", "dev.csv", "--label", "topic").exit_code == 0
    own = write_records(Path("own.csv"), topics(5, 3))
    before = own.read_bytes()
    Path("link.csv").symlink_to("own.csv")
    for out in ("own.csv", "./own.csv", "link.csv"):
        refused(run("classify", "predict", "out.head", "own.csv", "-o", out), "is what is read, and would be lost", 2)
    assert own.read_bytes() == before


def test_options_that_no_head_takes() -> None:
    for arguments, problem in (
        (("--learning-rate", "1"), "--learning-rate 1.0: must be above 0 and below 1"),
        (("--learning-rate", "nan"), "learning-rate nan"),
        (
            ("--pooling", "word"),
            "--pooling word: a classifier reads one vector a text; give one of mean, cls, max, last-token",
        ),
        (("--pooling", "nonsense"), "nonsense"),
        (("--layers", "all"), "a head reads one recipe"),
        (("--layers", "99"), "99"),
    ):
        refused(train("classify", "train.csv", "dev.csv", "--label", "topic", *arguments), problem, 2)
