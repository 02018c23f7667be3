"""The hits of a search as lines: score, id, kept columns and text, in full or cut to a width."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .kept_columns import value_columns
from .kwic import ID_WIDTH
from .terminal import MIN_TEXT_WIDTH, cell_width, cut_end, cut_start, pad, single_line

if TYPE_CHECKING:
    from bertfeat.search import Hit

_ENOUGH = 16  # characters of a text that are looked at, for each column of the line


def hit_lines(hits: Sequence["Hit"], width: int | None, show: Sequence[str] = ()) -> list[str]:
    """A line a hit; without a ``width`` nothing is cut."""
    scores = [f"{hit.score:7.4f}" for hit in hits]
    ids = [single_line(hit.id) if width is None else cut_start(single_line(hit.id), ID_WIDTH) for hit in hits]
    widest, wide = max(map(len, scores), default=0), max(map(cell_width, ids), default=0)
    base = None if width is None else width - widest - wide - 4
    values = value_columns([hit.values for hit in hits], show, None if base is None else base // 2)
    lines = []
    for hit, score, shown, kept in zip(hits, scores, ids, values, strict=True):
        room = None if base is None else max(MIN_TEXT_WIDTH, base - cell_width(kept))
        line = f"{score:>{widest}}  {pad(shown, wide)}  {kept}{hit_text(hit, room)}".rstrip()
        lines.append(line if width is None else cut_end(line, width))
    return lines


def hit_text(hit: "Hit", width: int | None = None) -> str:
    """The text of a hit on one line; in an index of words with the word between stars, which is never cut away."""
    texts = [hit.text or ""] if hit.pair is None else [hit.text or "", hit.pair]
    before, word, after = "", "", ""
    for number, text in enumerate(texts):
        joint = " ||| " if number else ""
        if hit.piece is not None and hit.piece.in_pair == bool(number):
            start, end = hit.piece.start, hit.piece.end
            before, word, after = before + after + joint + text[:start], f"*{text[start:end]}*", text[end:]
        else:
            after += joint + text
    if width is None:
        return single_line(before + word + after).strip()
    enough = _ENOUGH * width
    left, right = single_line(before[-enough:]).lstrip(), single_line(after[:enough]).rstrip()
    word = cut_end(single_line(word), width)
    room = width - cell_width(word)
    behind = min(cell_width(right), max(room // 2, room - cell_width(left)))
    return (cut_start(left, room - behind) + word + cut_end(right, behind)).lstrip()
