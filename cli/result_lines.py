"""Formatting of hits and usages as lines of a terminal, with the kept columns that ``--show`` names.

Widths are columns of a terminal. A hit is shown by its score, id, kept columns and text, in full or cut to a width. A
usage is a keyword in context: the word stands in the middle. The kept columns in JSON and CSV, and the message that no
document meets a condition, are made here too.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from bertfeat.errors import did_you_mean

from .option_types import listed_option
from .terminal import MIN_TEXT_WIDTH, cell_width, cut_end, cut_start, pad, single_line

if TYPE_CHECKING:
    from bertfeat.core import FeatureSet, Value
    from bertfeat.io import Location
    from bertfeat.search import Hit, Index, Why
    from bertfeat.study import ChosenLayers
    from bertfeat.usages import Usage
    from bertfeat.where import Condition, ReadColumn

show_option = listed_option("--show", metavar="COL[,COL]", help="Kept columns beside each hit, or all.")

NO_VECTOR = "special tokens, and words and spans without a vector"
"""The name of what an index or a database leaves out."""

_ID_WIDTH = 20  # columns of an id at most
_CONTEXT = 80  # columns on each side of a token, word or span where lines are not cut
_ENOUGH = 16  # characters of a text that are looked at, for each column of the line
_WIDEST = 20  # columns of a value at most where lines are cut
_PADDED = 40  # columns that values are padded to at most where lines are not cut
_NARROWEST = 4  # the least columns to which a value is narrowed
_GAP = "  "


def columns_to_show(show: Sequence[str], kept: Sequence[str]) -> tuple[str, ...]:
    """The kept columns that ``--show`` names; ``all`` are all of them, and one that is not there is refused."""
    if list(show) == ["all"]:
        return tuple(kept)
    for name in show:
        if name not in kept:
            existing = f"there are: {', '.join(kept)}" if kept else "none was kept (bertfeat extract --keep keeps them)"
            meant = did_you_mean(name, kept)
            raise click.UsageError(single_line(f"--show {name}: there is no such kept column; {meant}{existing}"))
    return tuple(show)


def hit_lines(hits: Sequence["Hit"], width: int | None, show: Sequence[str] = ()) -> list[str]:
    """Format each hit as one line; without a ``width`` only what is around a token, word or span is cut."""
    scores = [f"{hit.score:7.4f}" for hit in hits]
    ids = [single_line(hit.id) if width is None else cut_start(single_line(hit.id), _ID_WIDTH) for hit in hits]
    widest, wide = max(map(len, scores), default=0), max(map(cell_width, ids), default=0)
    base = None if width is None else width - widest - wide - 4
    values = _value_columns([hit.values for hit in hits], show, None if base is None else base // 2)
    lines = []
    for hit, score, shown, kept in zip(hits, scores, ids, values, strict=True):
        room = None if base is None else max(MIN_TEXT_WIDTH, base - cell_width(kept))
        line = f"{score:>{widest}}  {pad(shown, wide)}  {kept}{hit_text(hit, room)}".rstrip()
        lines.append(line if width is None else cut_end(line, width))
    return lines


def why_line(why: "Why") -> str:
    """The pairs of words that add most to the score of a hit, and what special tokens and prompts add."""
    pairs = [
        f"{single_line(pair.query.string)}–{single_line(pair.word.string)} {pair.share:.4f}" for pair in why.strongest()
    ]
    return ", ".join([*pairs, f"special tokens and prompts {why.of_frame:.4f}"])


def hit_text(hit: "Hit", width: int | None = None) -> str:
    """The text of a hit on one line; a token, word or span that is the hit is between stars, with what is around it.

    With a width the whole is cut to it; without one, only what is around the hit.
    """
    texts = [hit.text or ""] if hit.pair is None else [hit.text or "", hit.pair]
    before, word, after = "", "", ""
    for number, text in enumerate(texts):
        joint = " ||| " if number else ""
        if hit.piece is not None and hit.piece.in_pair == bool(number):
            start, end = hit.piece.start, hit.piece.end
            word = f"*{text[start:end]}*" if text else f"characters {start} to {end}"
            before, after = before + after + joint + text[:start], text[end:]
        else:
            after += joint + text
    if width is None and not word:
        return single_line(after).strip()
    enough = _ENOUGH * (_CONTEXT if width is None else width)
    left, right = single_line(before[-enough:]).lstrip(), single_line(after[:enough]).rstrip()
    if width is None:
        return cut_start(left, _CONTEXT) + single_line(word) + cut_end(right, _CONTEXT)
    word = cut_end(single_line(word), width)
    room = width - cell_width(word)
    right_width = min(cell_width(right), max(room // 2, room - cell_width(left)))
    return (cut_start(left, room - right_width) + word + cut_end(right, right_width)).lstrip()


def kwic_lines(usages: Sequence["Usage"], width: int, *, show: Sequence[str] = (), color: bool) -> Iterator[str]:
    """Format each usage as one line: score, id, kept columns, and the word between its contexts, cut to the width."""
    scores = ["" if usage.score is None else f"{usage.score:6.3f}  " for usage in usages]
    ids = [cut_start(single_line(usage.id), _ID_WIDTH) for usage in usages]
    wide = max((cell_width(shown) for shown in ids), default=0)
    base = width - wide - 2 - max(map(len, scores), default=0)
    values = _value_columns([usage.values for usage in usages], show, base // 3)
    room = max(MIN_TEXT_WIDTH, base - max(map(cell_width, values), default=0))
    words = [cut_end(single_line(usage.word), room // 3) for usage in usages]
    left_width = (room - _median_width(map(cell_width, words))) // 2
    for usage, score, shown, kept, word in zip(usages, scores, ids, values, words, strict=True):
        head = f"{score}{pad(shown, wide)}  {kept}"
        left = cut_start(single_line(usage.left).lstrip(), left_width)
        right = cut_end(single_line(usage.right).rstrip(), room - left_width - cell_width(word))
        before = pad(left, left_width, right=True)
        if color:
            head, word = click.style(head, dim=True), click.style(word, fg="red", bold=True)
        yield f"{head}{before}{word}{right}"


def _median_width(widths: Iterable[int]) -> int:
    """The median width of the words, so that one long word does not move the others."""
    ordered = sorted(widths)
    return ordered[len(ordered) // 2] if ordered else 0


def _value_columns(rows: Sequence[Mapping[str, "Value"]], names: Sequence[str], room: int | None) -> list[str]:
    """The values of each row, side by side and aligned, with a gap after each, in at most ``room`` columns.

    Numbers are aligned at the right. Without a limit nothing is cut.
    """
    shown = {name: [single_line(format_value(row.get(name))).strip() for row in rows] for name in names}
    widths = {name: max(map(cell_width, texts), default=0) for name, texts in shown.items()}
    if room is not None:
        widths = _narrow_widths({name: min(width, _WIDEST) for name, width in widths.items()}, room)
    lines = [""] * len(rows)
    for name, texts in shown.items():
        right = not any(isinstance(row.get(name), str | bool) for row in rows)
        for at, text in enumerate(texts):
            width = widths[name] if room is not None else min(widths[name], _PADDED)
            lines[at] += pad(text if room is None else cut_end(text, width), width, right=right) + _GAP
    return lines


def _narrow_widths(widths: dict[str, int], room: int) -> dict[str, int]:
    """Narrow the widths to fit the room, always the widest one, until it is at most :data:`_NARROWEST`."""
    while widths and sum(widths.values()) + len(_GAP) * len(widths) > room:
        widest = max(widths, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return widths


def aligned_columns(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned rows of columns that begin with their headings: the first one to the left, numbers to the right."""
    widths = [max(map(cell_width, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        padded = [pad(cell, width, right=at > 0) for at, (cell, width) in enumerate(zip(cells, widths, strict=True))]
        yield "  ".join(padded)


def format_value(value: "Value") -> str:
    """A value as text; an empty text for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_values(values: Mapping[str, "Value"], names: Sequence[str]) -> dict[str, "Value"]:
    """The values of those columns for JSON, which has no NaN and no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
        if name in names
    }


def unmet_in_index(index: "Index", where: str | None) -> str:
    """Return the message that no document of an index meets a condition; see :func:`unmet_line`."""
    from bertfeat.search import living_values
    from bertfeat.where import parse_where

    condition = None if where is None else parse_where(index.vectors.documents, where)
    return unmet_line(condition, lambda name: living_values(index, name))


def unmet_in_features(folder: "FeatureSet | Location", where: str | None) -> str:
    """Return the message that no document of a feature set meets a condition; see :func:`unmet_line`."""
    from bertfeat.core import FeatureSet
    from bertfeat.usages import parse_condition_on

    features = folder if isinstance(folder, FeatureSet) else FeatureSet(folder)
    condition = parse_condition_on(features, where)
    return unmet_line(condition, lambda name: (batch.column(0) for batch in features.stream([name])))


def unmet_line(condition: "Condition | None", read: "ReadColumn") -> str:
    """Return the message that no document meets a condition, with the ranges of the numbers that it reads."""
    from bertfeat.where import describe_ranges

    ranges = "" if condition is None else describe_ranges(condition, read)
    return "no document meets the condition" + (f"; {ranges}" if ranges else "")


def missing_word_hint(word: str) -> str:
    """Tell what else can be looked for, where a word was not found, as the end of a message."""
    from bertfeat.usages import PATTERN_HELP

    if word.isalnum():
        return f"; {word}* also finds words that begin so"
    alternatives = [each.strip() for each in word.split(",")]
    are_words = len(alternatives) > 1 and all(map(str.isalnum, alternatives))
    meant = f"; one word or another is written {'|'.join(alternatives)}" if are_words else ""
    return f"{meant}\n{PATTERN_HELP}"


def choice_table(chosen: "ChosenLayers") -> list[str]:
    """The choices with their scores, and a star at the one that is taken."""
    lines = [f"layers for {chosen.task}: {chosen.measure} of {chosen.examples:,} examples, and how far it is behind"]
    for trial in chosen.trials:
        mark = "*" if trial is chosen.chosen else " "
        lines.append(
            f"{mark} {trial.layers:<16} {trial.width:>6} values {trial.score:>8.3f} {trial.behind.value:>8.3f}"
        )
    return [*lines, f"taken: --layers {chosen.layers}, the smallest within one standard error of the best"]
