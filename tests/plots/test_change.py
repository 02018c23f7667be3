"""The picture of change: every text in it, an interval a step, and no more words than there are colours."""

import itertools
import re
from pathlib import Path

import pytest

from bertfeat.plots import MOST_WORDS, draw_change
from bertfeat.plots.palette import NAMED
from bertfeat.study import ChangeMeasure, ChangeReport, Interval, SliceDistance, WordChange
from bertfeat.where import Slice
from tests.support.plots_toy import LONG, drawn_texts, inside, svg_texts

pytest.importorskip("matplotlib")

MANY = [f"{year}-{year + 4}" for year in range(1800, 2050, 5)]


def changed(word: str, names: list[str]) -> WordChange:
    interval = Interval(0.3, 0.2, 0.25)  # which does not hold its value, as happens to a small change
    steps = [SliceDistance(one, other, interval, interval, interval) for one, other in itertools.pairwise(names)]
    counts = dict.fromkeys(names, 30)
    return WordChange(word, counts, 30, steps[0], tuple(steps), dict.fromkeys(names, (20, 10)), (), ())


def report_of(words: list[str], names: list[str]) -> ChangeReport:
    slices = tuple(Slice(name, name, name, 9) for name in names)
    changes = tuple(changed(word, names) for word in words)
    return ChangeReport("toy.features", "year", "last_word", ChangeMeasure.PRT, slices, 0, changes, ())


@pytest.mark.parametrize("words", [["cell"], [LONG, "_under"], [f"word{number}" for number in range(MOST_WORDS)]])
@pytest.mark.parametrize(
    "names", [["1850", "1900"], [LONG, "b", "c"], [f"{year}-{year + 4}" for year in range(1800, 2050, 5)]]
)
def test_every_text_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], names: list[str]
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_change(report_of(words, names), tmp_path / "change.png")
    assert inside(drawn)
    shown = [text for text, _, _ in drawn]
    assert any(text.startswith(words[-1][:5]) for text in shown)
    assert any(text.startswith(names[-1][:5]) for text in shown)


def test_words_are_told_apart(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(MOST_WORDS + 3)]
    draw_change(report_of(words, ["1850", "1860", "1870"]), tmp_path / "change.svg")
    texts, source = svg_texts(tmp_path / "change.svg"), (tmp_path / "change.svg").read_text()
    assert {f"word{number}" for number in range(MOST_WORDS)} <= set(texts)
    assert f"word{MOST_WORDS}" not in texts
    assert "the 10 most changed of 13 words" in " ".join(texts)
    assert all(color in source for color in NAMED)
    draw_change(report_of(words, ["1850", "1860"]), tmp_path / "few.svg", words=2)
    legend = (tmp_path / "few.svg").read_text().split('<g id="legend_1">')[1]
    assert len(set(re.findall(r'xlink:href="#(\w+)"', legend))) == 2
