"""``bertfeat tag evaluate``: a file of any tagger's, scored as seqeval does."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from seqeval.metrics import f1_score

from bertfeat.cli import main
from bertfeat.tagging.predictions import read_predictions

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
        *("all spans 0.7500 1.0000 0.8571 3 4 3", "", "accuracy 0.8333 of 6 words in 2 sentences", ""),
        *(r"words: gold \ predicted MISC O ORG PER", "MISC 1 0 0 0", "O 0 1 0 1", "ORG 0 0 1 0", "PER 0 0 0 2"),
    ]


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
        ("EU B-ORG\nrejects O\n", 1, "nothing in common, such as 'EU' and 'B-ORG'"),
        ("EU B-ORG B-ORG\nrejects O\n", 1, "sentence of line 1: 3 columns at first but 2 for word 2"),
        ("EU\nrejects\n", 1, "words but no tags (1 columns); a line is a word and, in its last two columns"),
        ("EU B-ORG B-ORG\nrejects O ORG\n", 1, "'ORG' stands among tags of spans such as 'B-ORG'"),
        ("\n\n", 1, "there are no sentences in it"),
        ("", 1, "there are no sentences in it"),
    ],
)
def test_what_is_no_file_of_predictions(tmp_path: Path, text: str, code: int, told: str) -> None:
    (tmp_path / "eng.out").write_text(text)
    shown = evaluate(tmp_path / "eng.out")
    assert (shown.exit_code, shown.stdout) == (code, "")
    assert told in shown.stderr


def test_a_missing_file(tmp_path: Path) -> None:
    shown = evaluate(tmp_path / "none.out")
    assert shown.exit_code == 1
    assert "none.out" in shown.stderr
