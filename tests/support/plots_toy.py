"""What the tests of pictures draw, and readers that say what a picture shows."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.core.features import FeatureSet
from tests.support.index_toy import clustered, vector_set

COUNT = 120
LONG = "a_very_long_name_" * 20
HOSTILE = (
    "</script><script>document.title = 'hacked'</script>",
    "<img src=x onerror=\"document.title = 'hacked'\">",
    "{{data}} {{script}} \\1 \\g<0>",
    "\N{RIGHT-TO-LEFT OVERRIDE}turned שלום مرحبا",
    "은행에서 돈을 찾았다 🙂",
    "bell \a, null \0, escape \x1b[31m, line\nend \N{LINE SEPARATOR}",
    "&lt;b&gt; \" ' ` --> <!-- ]]>",
    "_hidden",
    "$x_2$",
    " \uffff",
)
KEPT: dict[KeptColumn, list[Value]] = {
    KeptColumn("year", "int64"): [None if row == 3 else 1900 + row for row in range(COUNT)],
    KeptColumn("lang", "string"): [("de", "_en", "$x_$", None)[row % 4] for row in range(COUNT)],
    KeptColumn("author", "string"): [f"author {int(row**0.5) * 3 % 13}" for row in range(COUNT)],  # 11, uneven
    KeptColumn("many", "string"): [f"value {row // 2}" for row in range(COUNT)],
    KeptColumn("good", "bool"): [row % 3 == 0 for row in range(COUNT)],
    KeptColumn("part", "float64"): [(float("nan"), float("inf"), row / 7)[min(row % 9, 2)] for row in range(COUNT)],
    KeptColumn("same", "int64"): [7] * COUNT,
    KeptColumn("none", "int64"): [None] * COUNT,
    KeptColumn("huge", "int64"): [2**62 + row for row in range(COUNT)],
    KeptColumn("hostile", "string"): [HOSTILE[row % len(HOSTILE)] for row in range(COUNT)],
    KeptColumn(LONG, "string"): [f"{row % 12} {LONG}" for row in range(COUNT)],
}


def kept(name: str) -> list[Value]:
    """The values of a kept column."""
    return next(values for column, values in KEPT.items() if column.name == name)


def plotted(folder: Path) -> FeatureSet:
    """A feature set of 120 documents with kept columns of all kinds; every third id is hostile."""
    ids = [f"{row}{HOSTILE[row // 3 % len(HOSTILE)] if row % 3 == 0 else ''}" for row in range(COUNT)]
    return FeatureSet(vector_set(folder, clustered(COUNT), ids=ids, kept=KEPT))


# ── what a picture shows ────────────────────────────────────────────────────────────────────────────────────


def svg_texts(path: Path) -> list[str]:
    """The texts of an svg."""
    return ["".join(each.itertext()) for each in ElementTree.parse(path).iter() if each.tag.endswith("}text")]


def svg_fills(path: Path) -> Counter[str]:
    """How many round marks of an svg have which color; of those without a curve, such as crosses, ``× #……``."""
    tree = ElementTree.parse(path)
    round_ones = {each.get("id") for each in tree.iter() if each.tag.endswith("}path") and "C" in each.get("d", "")}
    found: Counter[str] = Counter()
    for use in tree.iter():
        if use.tag.endswith("}use"):
            shape = next(value for name, value in use.attrib.items() if name.endswith("href")).removeprefix("#")
            color = re.search(r"(?:fill|stroke): (#\w+)", use.get("style", ""))
            found[f"{'' if shape in round_ones else '× '}{color[1] if color else ''}"] += 1
    return found


class Page(HTMLParser):
    """A page as a browser's parser sees it: elements, their attributes and what stands in them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []  # text in each, by place
        self.open: list[int] = []  # places of those that have not ended
        self.source = path.read_text("utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "input"):
            self.open.append(len(self.found))
        self.found.append((tag, dict(attrs)))
        self.inside.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[self.open[-1]] += data

    def texts(self, tag: str) -> list[str]:
        """What stands in each element of that name."""
        return [self.inside[at] for at, (name, _) in enumerate(self.found) if name == tag]

    @property
    def data(self) -> Any:
        """What the script reads."""
        return json.loads(self.texts("script")[0], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


Box = Sequence[float]  # left, bottom, right, top; in dots


@contextmanager
def drawn_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Box, Box]]]:
    """Collect each text that matplotlib draws last in the block, its box and that of the whole picture."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    found: list[tuple[str, Box, Box]] = []
    draw, draw_all = Text.draw, Figure.draw

    def recorded_anew(self: Any, renderer: Any) -> None:
        found.clear()
        draw_all(self, renderer)

    def recorded(self: Any, renderer: Any, *arguments: Any, **named: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            box, whole = self.get_window_extent(renderer), self.figure.bbox
            found.append((self.get_text(), box.extents, whole.extents))
        draw(self, renderer, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        patch.setattr(Figure, "draw", recorded_anew)
        yield found


def inside(drawn: Sequence[tuple[str, Box, Box]]) -> bool:
    """Whether no text stands out by more than two dots (of 300 an inch)."""
    return all(
        box[0] >= whole[0] - 2 and box[1] >= whole[1] - 2 and box[2] <= whole[2] + 2 and box[3] <= whole[3] + 2
        for _, box, whole in drawn
    )
