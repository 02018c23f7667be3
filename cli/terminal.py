"""Text for a terminal: put on one line, measured in columns, and cut between whole characters."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator

WIDTH = 100
"""Columns of a line where there is no terminal."""

MIN_TEXT_WIDTH = 24
"""Columns for a text, however narrow the terminal."""

_FORMAT = r"(?:(?![\u200c\u200d])\p{Cf})+"  # but not the joiners of emoji and of Persian and Hindi words
_SPACE = r"[\s\p{Z}\p{Cc}\p{Cn}\p{Co}\p{Cs}]+"


def terminal_width(width: int | None) -> int:
    """Columns of a line: ``width``, else those of the terminal, else :data:`WIDTH`."""
    return width or shutil.get_terminal_size((WIDTH, 24)).columns


def has_color() -> bool:
    """Whether stdout is a terminal that shows colors, and NO_COLOR does not forbid them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def single_line(text: str) -> str:
    """A text on one line, without characters that control a terminal or change the direction of writing."""
    import regex  # here, because the help needs none

    return str(regex.sub(_SPACE, " ", regex.sub(_FORMAT, "", text)))


def cell_width(text: str) -> int:
    """Columns that a text takes: two for wide characters, none for combining marks."""
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """A text with spaces up to a width: after it, or before it with ``right``."""
    spaces = " " * (width - cell_width(text))
    return spaces + text if right else text + spaces


def cut_end(text: str, width: int) -> str:
    """The beginning of a text that fits the width; an ellipsis says that there is more."""
    if cell_width(text) <= width:
        return text
    return "".join(_clusters_that_fit(_clusters(text), width - 1)) + "…" if width > 0 else ""


def cut_start(text: str, width: int) -> str:
    """The end of a text that fits the width; an ellipsis says that there is more."""
    if cell_width(text) <= width:
        return text
    if width <= 0:
        return ""
    return "…" + "".join(reversed(list(_clusters_that_fit(reversed(_clusters(text)), width - 1))))


def _clusters(text: str) -> list[str]:
    """The characters of a text, each with its marks."""
    import regex

    return list(regex.findall(r"\X", text))


def _clusters_that_fit(clusters: Iterable[str], width: int) -> Iterator[str]:
    """Yield as many grapheme clusters (characters with their marks) as fit."""
    for cluster in clusters:
        width -= cell_width(cluster)
        if width < 0:
            return
        yield cluster
