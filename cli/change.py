"""``bertfeat change``: how the meaning of words changes over a kept column; as a table with usages, or JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED, pluralize
from bertfeat.study import ChangeSettings

from .app import Command, option
from .bundles import on_command_line, settings_options
from .console import Console, fields_of, progress_display
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options, width_option
from .result_lines import json_values, kwic_lines
from .terminal import cell_width, cut_end, has_color, pad, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.study import ChangeReport, Interval, SliceDistance, WordChange
    from bertfeat.usages import Usage

_SHOWN = 20  # words that are shown where neither words nor -k are given
_MEASURES = ("prt", "apd", "jsd")


@click.command(cls=Command, name="change")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("words", metavar="[WORD...]", nargs=-1)
@option("--by", required=True, metavar="COL", help="A kept column, such as the year.")
@settings_options("settings", ChangeSettings)
@option(
    "-k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of words shown.",
    show_default=f"all that are named, else {_SHOWN}",
)
@option("--plot", type=LOCAL_PATH, metavar="FILE", help="Draw the words shown: .png, .pdf or .svg.")
@width_option
@output_options
def command(
    folder: "Location",
    words: tuple[str, ...],
    by: str,
    settings: ChangeSettings,
    k: int | None,
    plot: Path | None,
    width: int | None,
    console: Console,
) -> None:
    """Measure how the meaning of words changes over a kept column, from features with --pooling word or token.

    A WORD may be a pattern, as of usages. Without one every word is ranked that has --least usages in every slice.

    Usages in the first slice are compared with those in the last one, and each slice with the next one, equally many
    of each; with intervals of 95 %. Below the table stand the usages that moved most: of the first slice those least
    like the last, and the other way round. Words with fewer than --least usages in a slice are named, and the exit
    code is then 3.

    \b
    bertfeat change novels.features wireless cell --by year --slices 1839-1895,1896-1937
    bertfeat change novels.features --by year --slices 3 --layer last --plot change.png
    """
    if console.as_json and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --json has none; leave it out")
    from bertfeat.plots import draw_change, picture_path
    from bertfeat.study import measure_change

    if plot is not None:
        picture_path(plot)
    with progress_display(console) as progress:
        report = measure_change(folder, words or None, by, settings, progress=progress)
    shown = len(report.words) if k is None and words else k or _SHOWN
    if plot is not None:
        draw_change(report, plot, words=shown)
    _print_change(report, console, shown, width)
    if report.unmeasured:
        raise click.exceptions.Exit(ROWS_FAILED)


def _print_change(report: "ChangeReport", console: Console, most: int, width: int | None) -> None:
    """Print the most changed words, and on stderr what was compared and what was not."""
    shown = report.words[:most]
    if console.as_json:
        for change in shown:
            console.result(_json_of(change, report.by), [])
    else:
        console.result(None, [*_table_lines(shown), *_usage_lines(report, shown, width)])
    slices = ", ".join(f"{one.name} ({pluralize(one.documents, 'document')})" for one in report.slices)
    console.say(
        f"{len(shown):,} of {pluralize(len(report.words), 'word')} by {report.measure.upper()}, "
        f"{report.slices[0].name} against {report.slices[-1].name} ({report.column}); slices of {report.by}: {slices}"
    )
    if report.outside:
        console.say(f"{pluralize(report.outside, 'document')} outside of the slices left out")
    for word in report.unmeasured:
        console.warn(word.reason)


def _json_of(change: "WordChange", by: str) -> dict[str, object]:
    """A word as JSON: beside it the measures of the first slice against the last, in ``steps`` those of each step."""
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
    words = [cut_end(single_line(change.word), 30) for change in changes]
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
    """The usages of each word that moved most; scores are cosines to the prototype of the other slice."""
    first, last = report.slices[0].name, report.slices[-1].name
    for change in changes:
        for of, other, usages in ((first, last, change.before), (last, first, change.after)):
            if usages:
                heading = single_line(f"{change.word} in {of}, least like {other}")
                yield ""
                yield click.style(heading, bold=True) if has_color() else heading
                yield from kwic_lines(usages, terminal_width(width), show=[report.by], color=has_color())
