"""The pictures of change and of senses: every text in it, intervals, and no more lines than there are colors."""

import dataclasses
import math
import re
from pathlib import Path

import pytest

from bertfeat.errors import UsageError
from bertfeat.plots import MOST_WORDS, draw_change, draw_frequencies, draw_senses
from bertfeat.plots.palette import NAMED
from tests.support.drawn_reports import frequencies_of, report_of, senses_of
from tests.support.plots_toy import LONG, drawn_texts, inside, svg_texts

pytest.importorskip("matplotlib")

MANY = [f"{year}-{year + 4}" for year in range(1800, 2050, 5)]


MOST = [f"word{number}" for number in range(MOST_WORDS)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["cell"], ["1850", "1900"]),
        ([LONG, "_under"], [LONG, "b", "c"]),
        ([LONG, "_under"], MANY),
        (MOST, ["1850", "1900"]),
        (MOST, [LONG, "b", "c"]),
    ],
)
def test_every_text_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], names: list[str]
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_change(report_of(words, names), tmp_path / "change.png")
    assert inside(drawn)
    shown = [text for text, _, _ in drawn]
    assert any(text.startswith(words[-1][:5]) for text in shown)
    assert any(names[-1][:5] in text for text in shown)


@pytest.mark.slow
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


def test_a_step_stands_above_its_name_and_a_mark_above_its_interval_is_explained(tmp_path: Path) -> None:
    draw_change(report_of(["cell"], ["1850", "1900"]), tmp_path / "change.svg")
    source = (tmp_path / "change.svg").read_text()
    texts = " ".join(svg_texts(tmp_path / "change.svg"))
    assert "to 1900" in texts
    assert "A mark above its line" in texts
    place = float(re.findall(r'<g id="xtick_1">.*?<use [^>]*?x="([\d.]+)"', source, re.DOTALL)[0])
    marks = [float(x) for x in re.findall(rf'<use [^>]*?x="([\d.]+)"[^>]*?style="fill: {NAMED[0]}', source)]
    assert len(marks) >= 3
    assert marks[:3] == pytest.approx([place] * 3, abs=0.1)


# ── frequencies ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("word", "names"), [("cell", ["1850", "1900"]), (LONG, [LONG, "b", "c"]), ("은행", MANY)])
def test_every_text_of_frequencies_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, names: list[str]
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_frequencies(frequencies_of(word, names, [(3, 1000)] * len(names)), tmp_path / "frequencies.png")
    assert inside(drawn)


def test_bars_are_per_million_with_wilsons_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

    stats = pytest.importorskip("scipy.stats")
    intervals: list[tuple[float, float]] = []
    monkeypatch.setattr(Axes, "vlines", lambda _self, _at, low, high, **_: intervals.append((low, high)))
    counts = [(9, 3000), (0, 0), (0, 50)]
    figure = draw_frequencies(frequencies_of("cell", ["a", "b", "c"], counts), tmp_path / "frequencies.svg")
    (panel,) = figure.axes
    assert [bar.get_height() for bar in panel.patches if isinstance(bar, Rectangle)] == pytest.approx([3000, 0, 0])
    for (count, of), interval in zip(counts, intervals, strict=True):
        expected = stats.binomtest(count, of).proportion_ci(method="wilson") if of else (0.0, 0.0)
        assert [1e-6 * end for end in interval] == pytest.approx([*expected])
    near = dataclasses.replace(frequencies_of("cell", ["a"], [(1, 9)]), near="door")
    draw_frequencies(near, tmp_path / "near.svg")
    assert "The frequency of cell near door" in " ".join(svg_texts(tmp_path / "near.svg"))


# ── senses ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("word", "names"),
    [("cell", ["1850", "1900"]), (LONG, ["1850", "1900"]), (LONG, [LONG, "b", "c"]), ("은행", MANY)],
)
def test_every_text_of_senses_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, names: list[str]
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_senses(senses_of(word, names, [(3,) * len(names), (2,) * len(names)]), tmp_path / "senses.png")
    assert inside(drawn)
    assert any(text.startswith("sense 2: in the") for text, _, _ in drawn)


def test_shares_have_wilsons_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    found: list[tuple[list[float], list[float]]] = []
    monkeypatch.setattr(Axes, "vlines", lambda _self, _at, low, high, **_: found.append((low, high)))
    draw_senses(senses_of("cell", ["1850", "1875", "1900"], [(9, 0, 2), (1, 0, 8)]), tmp_path / "senses.svg")
    for count, low, high in zip((9, 2), *found[0], strict=True):  # the slice without usages has no share
        z, n, p = 1.959963984540054, 10, count / 10  # Wilson 1927
        middle, half = (p + z * z / 2 / n) / (1 + z * z / n), z * math.sqrt(p * (1 - p) / n + (z / 2 / n) ** 2)
        assert (low, high) == pytest.approx((middle - half / (1 + z * z / n), middle + half / (1 + z * z / n)))
    with pytest.raises(UsageError, match="not counted in slices"):
        draw_senses(dataclasses.replace(senses_of("cell", [], []), by=None), tmp_path / "none.svg")


def test_the_largest_senses_are_drawn(tmp_path: Path) -> None:
    counts = [(20 - number, 5) for number in range(len(NAMED) + 2)]
    draw_senses(senses_of("cell", ["a", "b"], counts), tmp_path / "senses.svg")
    texts = " ".join(svg_texts(tmp_path / "senses.svg"))
    assert "the 10 largest of 12 senses" in texts
    assert "sense 10:" in texts
    assert "sense 11:" not in texts
