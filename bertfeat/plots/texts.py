"""Texts for plots: made safe to show, wrapped or shortened to a width, and set in fonts that have their characters.

They may be in any script.
"""

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 300  # characters of a text that are shown
_LINE = 1.25  # height of a line, as a multiple of its font size
_POINTS = 72  # in an inch
_PLAIN = 1e12  # from which on whole numbers are written with an exponent
_TURNS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])  # bidi controls: they may reverse texts

_FONT = "DejaVu Sans"
"""matplotlib brings it along, so that a picture looks the same everywhere."""

_log = logging.getLogger("bertfeat")


def one_line(text: str) -> str:
    """A text as one line without control characters and lone surrogates, at most 300 characters of it."""
    line = " ".join(text[: 4 * _MOST].translate(_TURNS).split())
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _is_unsafe(sign) else sign for sign in line)
    is_whole = len(shown) <= _MOST and len(text) <= 4 * _MOST
    return shown if is_whole else f"{shown[: _MOST - 1]}…"


def _is_unsafe(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs") or ord(sign) & 0xFFFE == 0xFFFE  # XML knows no U+FFFE, U+FFFF


def number_labels(numbers: Sequence[float]) -> list[str]:
    """Numbers with as few digits as tell them apart: 1850, not 1,850 or 1.85e3."""
    labels: list[str] = []
    whole = all(float(number).is_integer() and abs(number) < _PLAIN for number in numbers)
    for digits in range(12 if whole else 6, 18):
        labels = [f"{number:.{digits}g}".replace("-", "\N{MINUS SIGN}") for number in numbers]
        if len(set(labels)) == len(set(numbers)):
            break
    return labels


def width_of(figure: "Figure", text: str, size: float) -> float:
    """Measure the width, in inches, that a line of text of that size in points is drawn with."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    known = getattr(figure.canvas, "get_renderer", None)  # which a canvas for pdf or svg lacks
    renderer = known() if known else RendererAgg(1, 1, figure.dpi)  # type: ignore[no-untyped-call]
    width: float = renderer.get_text_width_height_descent(text, FontProperties(size=size), False)[0]
    return width / figure.dpi


def height_of(lines: int, size: float) -> float:
    """The height, in inches, of ``lines`` lines of text of that size in points."""
    return lines * size * _LINE / _POINTS


def shortened(figure: "Figure", text: str, width: float, size: float) -> str:
    """A text in one line of at most ``width`` inches; one that is too long loses its middle."""
    text = one_line(text)
    if width_of(figure, text, size) <= width:
        return text
    few, many = 0, len(text)  # characters that stay: few fit, many do not
    while many - few > 1:
        half = (few + many) // 2
        few, many = (half, many) if width_of(figure, _without_middle(text, half), size) <= width else (few, half)
    return _without_middle(text, few)


def _without_middle(text: str, keep: int) -> str:
    tail = keep // 3
    return f"{text[: keep - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def wrapped(figure: "Figure", text: str, width: float, size: float, lines: int = 3) -> str:
    """A text in at most that many lines of at most ``width`` inches; the last one is shortened to fit."""
    words, done = one_line(text).split(" "), list[str]()
    while words and len(done) < lines - 1:
        line = words.pop(0)
        while words and width_of(figure, f"{line} {words[0]}", size) <= width:
            line = f"{line} {words.pop(0)}"
        fits = _fitting_length(figure, line, width, size)
        if fits < len(line):  # one word that is wider than the line
            words.insert(0, line[fits:])
        done.append(line[:fits])
    if words:
        done.append(shortened(figure, " ".join(words), width, size))
    return "\n".join(done)


def _fitting_length(figure: "Figure", text: str, width: float, size: float) -> int:
    """Count the first characters that fit; at least one."""
    if width_of(figure, text, size) <= width:
        return len(text)
    few, many = 1, len(text)
    while many - few > 1:
        half = (few + many) // 2
        few, many = (half, many) if width_of(figure, text[:half], size) <= width else (few, half)
    return few


def choose_fonts(texts: Iterable[str], paths: Sequence[str] | None = None, *, warn: bool = True) -> list[str]:
    """The font families that together have every character: DejaVu Sans first, others only where it lacks some.

    ``paths`` are the font files to look into (default: those that are installed). With ``warn``, a single warning
    names characters that no font has, at most ten of them.
    """
    from matplotlib import font_manager

    needed = {ord(sign) for text in texts for sign in one_line(text) if not sign.isspace()}
    missing = needed - _characters(font_manager.findfont(_FONT))
    if not missing:
        return [_FONT]
    families = [_FONT]
    candidates = sorted(font_manager.findSystemFonts() if paths is None else paths)
    known = {path: missing & characters for path in candidates if (characters := _characters(path))}
    while missing and known:
        best = max(known, key=lambda path: len(known[path] & missing))
        if not known[best] & missing:
            break
        missing -= known.pop(best)
        families.append(_family(best))
    if missing and warn:
        _log.warning(
            "no installed font has %s, of the texts of this picture; boxes stand for what is missing. Install a font "
            "of that script, such as Google's Noto Sans",
            " ".join(chr(code) for code in sorted(missing)[:10]),
        )
    return families


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points that a font file has; none if it cannot be read, is a bitmap font, or has placeholders alone."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return (
            frozenset(font.get_charmap()) if font.scalable and "LastResort" not in font.postscript_name else frozenset()
        )
    except (RuntimeError, OSError, ValueError):
        return frozenset()


def _family(path: str) -> str:
    """The name under which matplotlib finds a font file."""
    from matplotlib import font_manager

    for entry in font_manager.fontManager.ttflist:
        if entry.fname == path:
            return entry.name
    font_manager.fontManager.addfont(path)
    return font_manager.fontManager.ttflist[-1].name
