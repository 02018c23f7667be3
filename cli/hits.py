"""The hits of a search as lines: score, id, kept columns and text, whole or cut to a width."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .cells import LEAST, cells, clean, cut_end, cut_start, padded
from .kept import value_columns
from .kwic import ID_WIDTH

if TYPE_CHECKING:
    from bertfeat.search.hits import Hit

_ENOUGH = 16  # characters of a text that are looked at, for each column of the line


def hit_lines(hits: Sequence["Hit"], width: int | None, show: Sequence[str] = ()) -> list[str]:
    """A line a hit; without a ``width`` nothing is cut."""
    scores = [f"{hit.score:7.4f}" for hit in hits]
    ids = [clean(hit.id) if width is None else cut_start(clean(hit.id), ID_WIDTH) for hit in hits]
    widest, wide = max(map(len, scores), default=0), max(map(cells, ids), default=0)
    base = None if width is None else width - widest - wide - 4
    values = value_columns([hit.values for hit in hits], show, None if base is None else base // 2)
    lines = []
    for hit, score, shown, kept in zip(hits, scores, ids, values, strict=True):
        room = None if base is None else max(LEAST, base - cells(kept))
        line = f"{score:>{widest}}  {padded(shown, wide)}  {kept}{hit_text(hit, room)}".rstrip()
        lines.append(line if width is None else cut_end(line, width))
    return lines


def hit_text(hit: "Hit", width: int | None = None) -> str:
    """The text of a hit on one line; in an index of words the word between stars, which is kept in sight."""
    texts = [hit.text or ""] if hit.pair is None else [hit.text or "", hit.pair]
    before, word, after = "", "", ""
    for number, text in enumerate(texts):
        joint = " ||| " if number else ""
        if hit.place is not None and hit.place.in_pair == bool(number):
            start, end = hit.place.start, hit.place.end
            before, word, after = before + after + joint + text[:start], f"*{text[start:end]}*", text[end:]
        else:
            after += joint + text
    if width is None:
        return clean(before + word + after).strip()
    enough = _ENOUGH * width
    left, right = clean(before[-enough:]).lstrip(), clean(after[:enough]).rstrip()
    word = cut_end(clean(word), width)
    room = width - cells(word)
    behind = min(cells(right), max(room // 2, room - cells(left)))
    return (cut_start(left, room - behind) + word + cut_end(right, behind)).lstrip()
