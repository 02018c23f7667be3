"""Fonts that know the characters of a picture's texts, whatever their script."""

import logging
from collections.abc import Iterable, Sequence
from functools import cache

from bertfeat.plots.texts import one_line

FONT = "DejaVu Sans"
"""matplotlib brings it along, so that a picture looks the same everywhere."""

_log = logging.getLogger("bertfeat")


def choose_fonts(texts: Iterable[str], paths: Sequence[str] | None = None, *, warn: bool = True) -> list[str]:
    """The font families that together know every character: our own first, others only where it lacks some.

    ``paths`` are the font files to look into (default: those that are installed). With ``warn``, characters
    that no font knows are warned of, once for all of them.
    """
    from matplotlib import font_manager

    needed = {ord(sign) for text in texts for sign in one_line(text) if not sign.isspace()}
    missing = needed - _characters(font_manager.findfont(FONT))
    if not missing:
        return [FONT]
    families = [FONT]
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
    """The code points that a font file knows; none, if it cannot be read or is made of dots."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable and "LastResort" not in font.postscript_name else NONE
    except (RuntimeError, OSError, ValueError):
        return NONE


def _family(path: str) -> str:
    """The name under which matplotlib finds a font file."""
    from matplotlib import font_manager

    for entry in font_manager.fontManager.ttflist:
        if entry.fname == path:
            return entry.name
    font_manager.fontManager.addfont(path)
    return font_manager.fontManager.ttflist[-1].name


NONE: frozenset[int] = frozenset()
