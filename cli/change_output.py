"""The output of ``bertfeat change``: a table, usages that moved, or JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bertfeat.errors import pluralize

from .console import Console, fields_of
from .kept_columns import json_values
from .result_lines import kwic_lines
from .terminal import cell_width, cut_end, has_color, pad, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat.study import ChangeReport, Interval, SliceDistance, WordChange
    from bertfeat.usages import Usage

_MEASURES = ("prt", "apd", "jsd")
_WIDEST_WORD = 30


@dataclass(frozen=True, slots=True)
class ChangeView:
    """The form in which a report is printed."""

    console: Console
    words: int  # of the most changed ones
    width: int | None  # of lines; None: as fits


def print_change(report: "ChangeReport", view: ChangeView) -> None:
    """Print the most changed words, and on stderr what was compared and what was not."""
    shown = report.words[: view.words]
    if view.console.as_json:
        for change in shown:
            view.console.result(_json_of(change, report.by), [])
    else:
        view.console.result(None, [*_table_lines(shown), *_usage_lines(report, shown, view.width)])
    slices = ", ".join(f"{one.name} ({pluralize(one.documents, 'document')})" for one in report.slices)
    view.console.say(
        f"{len(shown):,} of {pluralize(len(report.words), 'word')} by {report.measure.upper()}, "
        f"{report.slices[0].name} against {report.slices[-1].name} ({report.column}); slices of {report.by}: {slices}"
    )
    if report.outside:
        view.console.say(f"{pluralize(report.outside, 'document')} outside of the slices left out")
    for word in report.unmeasured:
        view.console.warn(word.reason)


def _json_of(change: "WordChange", by: str) -> dict[str, object]:
    """A word as JSON has it: the measures of first against last beside it, those of each step in ``steps``."""
    return {
        "word": change.word,
        **_measured(change.overall),
        "counts": change.counts,
        "compared": change.compared,
        "senses": change.senses,
        "steps": [{"first": step.first, "last": step.last, **_measured(step)} for step in change.steps],
        "before": [_usage_of(usage, by) for usage in change.before],
        "after": [_usage_of(usage, by) for usage in change.after],
    }


def _measured(distance: "SliceDistance") -> dict[str, object]:
    intervals: list[tuple[str, Interval]] = [(name, getattr(distance, name)) for name in _MEASURES]
    values: dict[str, object] = {name: interval.value for name, interval in intervals}
    return values | {f"{name}_interval": [interval.low, interval.high] for name, interval in intervals}


def _usage_of(usage: "Usage", by: str) -> dict[str, object]:
    return {**fields_of(usage), "values": json_values(usage.values, [by])}


def _table_lines(changes: Sequence["WordChange"]) -> Iterator[str]:
    words = [cut_end(single_line(change.word), _WIDEST_WORD) for change in changes]
    wide = max(map(cell_width, ["word", *words]))
    yield f"{pad('word', wide)}  {'PRT':<20}  {'APD':<20}  {'JSD':<20}  usages"
    for word, change in zip(words, changes, strict=True):
        yield f"{pad(word, wide)}  {_format_distance(change.overall)}  {', '.join(map(str, change.counts.values()))}"
        if len(change.steps) > 1:
            for step in change.steps:
                yield f"{' ' * wide}  {_format_distance(step)}  {single_line(step.first)} to {single_line(step.last)}"


def _format_distance(distance: "SliceDistance") -> str:
    return "  ".join(f"{_format_interval(getattr(distance, name)):<20}" for name in _MEASURES)


def _format_interval(interval: "Interval") -> str:
    return f"{interval.value:.3f} {interval.low:.3f}–{interval.high:.3f}"


def _usage_lines(report: "ChangeReport", changes: Sequence["WordChange"], width: int | None) -> Iterator[str]:
    """The usages that moved most, of each word; scores are cosines to the prototype of the other slice."""
    first, last = report.slices[0].name, report.slices[-1].name
    for change in changes:
        for of, other, usages in ((first, last, change.before), (last, first, change.after)):
            if usages:
                heading = single_line(f"{change.word} in {of}, least like {other}")
                yield ""
                yield click.style(heading, bold=True) if has_color() else heading
                yield from kwic_lines(usages, terminal_width(width), show=[report.by], color=has_color())
