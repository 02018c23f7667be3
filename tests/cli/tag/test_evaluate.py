"""``bertfeat tag evaluate``: a file of any tagger's, scored as seqeval does."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from seqeval.metrics import f1_score

from bertfeat.cli import main
from bertfeat.learning import read_predictions
from tests.support.tiny_models import Tiny

LINES = """-DOCSTART- -X- O O

EU NNP I-ORG B-ORG
rejects VBZ O O
German JJ I-MISC B-MISC
call NN O B-PER

Peter NNP I-PER B-PER
Blackburn NNP I-PER I-PER
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "eng.out").write_text(LINES)
    return tmp_path / "eng.out"


def evaluate(file: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["tag", "evaluate", "--predictions", str(file), *more])


def test_the_table(file: Path) -> None:
    shown = evaluate(file)
    assert shown.exit_code == 0, shown.stderr
    assert [" ".join(line.split()) for line in shown.stdout.splitlines()] == [
        *("label precision recall F1 gold predicted correct", "MISC 1.0000 1.0000 1.0000 1 1 1"),
        *("ORG 1.0000 1.0000 1.0000 1 1 1", "PER 0.5000 1.0000 0.6667 1 2 1"),
        *("all spans 0.7500 1.0000 0.8571 3 4 3", "", "accuracy 0.3333 of 6 words in 2 sentences"),
        *("macro F1 0.8889, the mean over labels", ""),
        *(r"words: gold \ predicted MISC O ORG PER", "MISC 1 0 0 0", "O 0 1 0 1", "ORG 0 0 1 0", "PER 0 0 0 2"),
    ]


def test_accuracy_is_of_tags_as_written_and_that_is_told(file: Path) -> None:
    shown = evaluate(file)
    assert "the gold tags are IOB1 and the predicted ones BIO: spans are compared all the same" in shown.stderr
    in_bio = LINES.replace("I-ORG B-ORG", "B-ORG B-ORG").replace("I-MISC", "B-MISC")
    file.write_text(in_bio.replace("I-PER B-PER", "B-PER B-PER"))
    alike = evaluate(file)
    assert "accuracy  0.8333" in alike.stdout
    assert alike.stderr == ""


def test_as_json(file: Path) -> None:
    told: dict[str, Any] = json.loads(evaluate(file, "--json").stdout)
    read = read_predictions(file)
    assert told["f1"] == pytest.approx(f1_score([list(tags) for tags in read.gold], [list(t) for t in read.predicted]))
    assert told["by_label"]["PER"]["precision"] == 0.5
    assert told["confusion"]["O"] == {"O": 1, "PER": 1}
    assert told["is_spans"] is True


def test_many_plain_tags_show_the_mistakes(tmp_path: Path) -> None:
    tags = [f"T{number:02}" for number in range(30)]
    lines = [f"w {tag} {tags[at // 2]}" for at, tag in enumerate(tags)]
    (tmp_path / "pos.conll").write_text("\n".join([*lines, "w T05 T06", "w T05 T02"]) + "\n")
    shown = evaluate(tmp_path / "pos.conll").stdout
    assert "all words  " in shown
    assert "the most frequent of 30 confusions, in words" in shown
    assert "        2  T05  taken for  T02" in shown
    assert shown.count("taken for") == 20


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("EU B-ORG\nrejects O\n", 1, "sentence of line 1: there must be three columns at least (2 columns); a line is"),
        ("EU B-ORG B-ORG\nrejects O\n", 1, "sentence of line 1: 3 columns at first but 2 for word 2"),
        (
            "EU B-ORG B-ORG\nrejects O O\ncall O ORG\n",
            1,
            "predicted tags: sentence 1: 'ORG' stands among tags of spans such as",
        ),
        (
            "EU B-ORG B-ORG\nrejects O o\ncall O o\n",
            1,
            "predicted tags: sentence 1: 'o' is a tag of spans in another spelling; write a scheme with O, and",
        ),
        (
            "EU B-ORG b-org\nrejects O o\n",
            1,
            "predicted tags: sentence 1: 'b-org' is a tag of spans in another spelling",
        ),
        ("\n\n", 1, "there are no sentences in it"),
        ("", 1, "there are no sentences in it"),
    ],
)
def test_what_is_no_file_of_predictions(tmp_path: Path, text: str, code: int, told: str) -> None:
    (tmp_path / "eng.out").write_text(text)
    shown = evaluate(tmp_path / "eng.out")
    assert (shown.exit_code, shown.stdout) == (code, "")
    assert told in shown.stderr


def test_nothing_found_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "eng.out").write_text("EU B-ORG O\nrejects O O\n")
    assert "all spans     0.0000  0.0000  0.0000        1          0        0" in evaluate(tmp_path / "eng.out").stdout


def test_from_stdin() -> None:
    shown = CliRunner().invoke(main, ["tag", "evaluate", "--predictions", "-", "--json"], input=LINES)
    assert json.loads(shown.stdout)["words"] == 6


def test_a_missing_file(tmp_path: Path) -> None:
    shown = evaluate(tmp_path / "none.out")
    assert shown.exit_code == 1
    assert "none.out" in shown.stderr


# ── a tagger ────────────────────────────────────────────────────────────────────────────────────────────────

SENTENCES = (
    ("the river", "O B-A"),
    ("water walked to the bank .", "B-A B-B O O O O"),
    ("He went to river water", "O B-B O B-A I-A"),
)


def conll(path: Path, sentences: Sequence[tuple[str, str]] = SENTENCES, times: int = 4) -> Path:
    lines = ["\n".join(map(" ".join, zip(words.split(), tags.split(), strict=True))) for words, tags in sentences]
    path.write_text("\n\n".join(lines * times) + "\n")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["tag", *map(str, arguments), "--quiet"])


@pytest.fixture(scope="module")
def trained(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    file = conll(folder / "train.conll")
    settings = ("--hidden", "8", "--epochs", "12", "--learning-rate", "0.02", "--layers", "last", "--device", "cpu")
    done = run(
        "train", "--train", file, "--dev", file, "-o", folder / "t.tagger", *settings, "--model", tiny("bert").folder
    )
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.slow
def test_a_tagger_scores_as_its_predictions_do(trained: Path) -> None:
    shown = run("evaluate", trained / "t.tagger", trained / "train.conll", "--json")
    assert shown.exit_code == 0, shown.output
    predicted = [
        line.split() for line in run("predict", trained / "t.tagger", trained / "train.conll").stdout.splitlines()
    ]
    gold = [line.split() for line in (trained / "train.conll").read_text().splitlines()]
    both = [[*right, *tagged[1:]] for right, tagged in zip(gold, predicted, strict=False)]
    (trained / "both.conll").write_text("\n".join(map(" ".join, both)) + "\n")
    assert json.loads(shown.stdout)["f1"] > 0
    assert evaluate(trained / "both.conll", "--json").stdout == shown.stdout
    stored = run("evaluate", trained / "t.tagger", trained / "t.tagger/features/train.features", "--json")
    assert stored.stdout == shown.stdout


def test_rows_that_fail_are_told(trained: Path) -> None:
    file = conll(trained / "failing.conll")
    file.write_text(file.read_text() + "\nbad\n")
    shown = run("evaluate", trained / "t.tagger", file, "--json")
    assert shown.exit_code == 3
    assert json.loads(shown.stdout)["sentences"] == 12
    assert "1 row failed and could not be scored; the first: " in shown.stderr


def test_tags_that_were_never_learned_are_told(trained: Path) -> None:
    shown = run("evaluate", trained / "t.tagger", conll(trained / "new.conll", [("the bank", "O B-NEW")]))
    assert "has tags that the head never learned: B-NEW" in shown.stderr


def test_tags_of_another_kind_are_refused_with_the_file(trained: Path) -> None:
    plain = conll(trained / "plain.conll", [(words, "NN " * len(words.split())) for words, _ in SENTENCES])
    shown = run("evaluate", trained / "t.tagger", plain)
    assert shown.exit_code == 1
    told = f"error: {plain}: the predicted tags stand for spans, such as "
    assert " ".join(shown.stderr.split()).startswith(told), shown.stderr
    stored, quick = trained / "t.tagger/features/train.features", ("--epochs", "1", "--seeds", "1", "--rows", "last")
    compared = run("table7", "--train", stored, "--dev", plain, "-o", trained / "t7", *quick, "--device", "cpu")
    assert compared.exit_code == 1
    assert "plain.conll): 'NN' is no tag of a span" in compared.stderr, compared.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give a tagger and its input, or --predictions FILE"),
        (["t.tagger"], "give a tagger and its input, or --predictions FILE"),
        (["t.tagger", "train.conll", "--predictions", "both.conll"], "give a tagger and its input, or --predictions"),
        (["t.tagger", "--predictions", "both.conll"], "of the options, only --encoding goes with it"),
        (["--predictions", "both.conll", "--device", "cpu"], "of the options, only --encoding goes with it"),
        (["--predictions", "both.conll", "--tag-column", "2"], "of the options, only --encoding goes with it"),
    ],
)
def test_wrong_usage(trained: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str) -> None:
    monkeypatch.chdir(trained)
    shown = run("evaluate", *arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in " ".join(shown.stderr.split())


def test_a_text_without_tags_has_no_scores(trained: Path) -> None:
    (trained / "plain.txt").write_text("The bank of the river.\n")
    shown = run("evaluate", trained / "t.tagger", trained / "plain.txt")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "plain.txt: a text file has no tags; CoNLL files bring them" in shown.stderr


@pytest.mark.parametrize("text", ["EU B-NP B-ORG\nrejects O O\n", "EU NNP VB\n"])
def test_no_label_in_common_scores_nothing_with_a_warning(tmp_path: Path, text: str) -> None:
    (tmp_path / "eng.out").write_text(text)
    shown = evaluate(tmp_path / "eng.out", "--json")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["f1"] == 0
    assert "which are the last two columns, have no label in common, such as '" in shown.stderr
