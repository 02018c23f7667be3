"""The output of ``bertfeat usages``: aligned lines, CSV or JSON."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from bertfeat.errors import pluralize

from .console import Console, fields_of
from .kept_columns import columns_to_show, format_value, json_values
from .result_lines import kwic_lines
from .terminal import cell_width, cut_end, has_color, pad, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat.usages import Senses, SlicedUsages, Usage, Usages

_WIDEST_SLICE = 30
_SENSE_WIDTH = 8
_SHARE_WIDTH = 12
_COLUMNS = ("sense", "slice", "score", "id", "row", "start", "end", "left", "word", "right")


@dataclass(frozen=True, slots=True)
class UsageFormat:
    """The form in which usages are printed."""

    console: Console
    as_csv: bool
    width: int | None  # of lines; None: as fits
    show: tuple[str, ...]  # kept columns that were asked for; lines have no others
    kept: tuple[str, ...] = ()  # all kept columns
    unmet: Callable[[], str] = lambda: "no document meets the condition"  # said where none does

    def with_columns(self, kept: tuple[str, ...], unmet: Callable[[], str]) -> "UsageFormat":
        """The format for what has these kept columns, and says ``unmet`` where no document meets the condition.

        Raises:
            click.UsageError: a column was asked for that is not among them.
        """
        return replace(self, show=columns_to_show(self.show, kept), kept=kept, unmet=unmet)

    @property
    def names(self) -> tuple[str, ...]:
        """The kept columns in CSV and JSON."""
        return self.show or self.kept

    def lines(self, usages: Sequence["Usage"]) -> Iterator[str]:
        """Usages as aligned lines."""
        return kwic_lines(usages, terminal_width(self.width), show=self.show, color=has_color())

    def usage(self, usage: "Usage") -> dict[str, object]:
        """A usage as JSON has it."""
        return {**fields_of(usage), "values": json_values(usage.values, self.names)}


def print_usages(result: "Usages", form: UsageFormat, match: str) -> None:
    """Print usages, and their number on stderr."""
    if form.as_csv:
        _print_csv([("", "", usage) for usage in result.usages], form.names)
    else:
        value = {**fields_of(result), "usages": list(map(form.usage, result.usages))}
        form.console.result(value, [*form.lines(result.usages)] or ["nothing found"])
    if not result.found:
        _say_nothing_found(result, form, match)
        return
    form.console.say(
        f"{result.word}: {len(result.usages):,} of {result.found:,} {_what(match)} in "
        f"{pluralize(result.documents, 'document')}, "
        f"{_order(result)} ({result.column})"
    )
    _warn_of_skipped(result.skipped, form.console)


def print_sliced_usages(result: "SlicedUsages", form: UsageFormat, match: str) -> None:
    """Print the usages of each slice, and their number on stderr."""
    if form.as_csv:
        _print_csv([("", one.slice.name, usage) for one in result.slices for usage in one.usages], form.names)
    else:
        slices = [
            fields_of(one.slice)
            | {name: value for name, value in fields_of(one).items() if name != "slice"}
            | {"usages": list(map(form.usage, one.usages))}
            for one in result.slices
        ]
        form.console.result({**fields_of(result), "slices": slices}, list(_slice_lines(result, form)))
    found = sum(one.found for one in result.slices)
    if not found:
        _say_nothing_found(result, form, match)
        return
    form.console.say(
        f"{result.word}: {found:,} {_what(match)} in {result.documents:,} documents by {result.by}, "
        f"{_order(result)} ({result.column})"
    )
    _say_outside(result, form.console)
    _warn_of_skipped(sum(one.skipped for one in result.slices), form.console)


def print_senses(result: "Senses", form: UsageFormat, match: str) -> None:
    """Print senses with their most central usages, and their numbers on stderr."""
    if form.as_csv:
        numbered = [(str(number), usage) for number, sense in enumerate(result.senses, 1) for usage in sense.usages]
        _print_csv([(number, _slice_of(result, usage), usage) for number, usage in numbered], form.names)
    else:
        senses = [fields_of(sense) | {"usages": list(map(form.usage, sense.usages))} for sense in result.senses]
        form.console.result({**fields_of(result), "senses": senses}, [*_sense_lines(result, form)] or ["nothing found"])
    if not result.found:
        _say_nothing_found(result, form, match)
        return
    form.console.say(
        f"{result.word}: {result.found:,} usages in {result.documents:,} documents ({result.column}); "
        f"the most central ones of each sense"
    )
    _say_outside(result, form.console)
    if result.grouped < result.found - result.skipped:
        form.console.say(f"grouped are {result.grouped:,} of them")
    _warn_of_skipped(result.skipped, form.console)


def _slice_of(result: "Senses", usage: "Usage") -> str:
    """The name of the slice that a usage is in; empty without slices."""
    from bertfeat.where import slice_number

    number = None if result.by is None else slice_number(result.slices, usage.values[result.by])
    return "" if number is None else result.slices[number].name


def _what(match: str) -> str:
    return "words compared" if match == "any" else "usages"


def _order(result: "Usages | SlicedUsages") -> str:
    return f"nearest to {result.like!r}" if result.like else "in the order of the corpus"


def _say_outside(result: "SlicedUsages | Senses", console: Console) -> None:
    if result.outside:
        console.say(f"{pluralize(result.outside, 'usage')} in documents outside of the slices of {result.by} left out")


def _warn_of_skipped(skipped: int, console: Console) -> None:
    if skipped:
        console.warn(f"{skipped:,} of them have no vector (cut off, or unknown to the model) and were skipped")


def _say_nothing_found(result: "Usages | SlicedUsages | Senses", form: UsageFormat, match: str) -> None:
    if not result.documents:
        form.console.say(form.unmet())
        return
    hint = "; --match prefix also looks for words that begin so" if match == "exact" else ""
    if result.word.endswith("*"):
        hint = f"; for words that begin so: {result.word.rstrip('*')} --match prefix"
    form.console.say(f"{result.word!r} does not stand in the {pluralize(result.documents, 'document')}{hint}")


def _slice_lines(result: "SlicedUsages", form: UsageFormat) -> Iterator[str]:
    for number, one in enumerate(result.slices):
        heading = f"{one.slice.name}: {pluralize(one.found, 'usage')} in {pluralize(one.slice.documents, 'document')}"
        if one.score is not None:
            heading += f", mean score {one.score:.3f}"
        yield from ([] if number == 0 else [""])
        yield _bold(single_line(heading))
        yield from form.lines(one.usages)


def _sense_lines(result: "Senses", form: UsageFormat) -> Iterator[str]:
    yield from _share_lines(result)
    for number, sense in enumerate(result.senses, 1):
        yield from ([] if number == 1 and not result.slices else [""])
        yield _bold(f"sense {number}: {sense.count:,} of {result.grouped:,}")
        yield from form.lines(sense.usages)


def _share_lines(result: "Senses") -> Iterator[str]:
    """A table: the senses down, the slices across, the number of usages and their share of the slice's."""
    if not result.slices or not result.senses:
        return
    names = [cut_end(single_line(one.name), _WIDEST_SLICE) for one in result.slices]
    totals = [sum(counts) for counts in zip(*(sense.counts for sense in result.senses), strict=True)]
    width = max(_SHARE_WIDTH, *map(cell_width, names))
    yield "  ".join([pad(result.by or "", _SENSE_WIDTH), *(pad(name, width, right=True) for name in names)])
    for number, sense in enumerate(result.senses, 1):
        shares = [
            f"{count:,} ({count / total:4.0%})" if total else "0"
            for count, total in zip(sense.counts, totals, strict=True)
        ]
        yield "  ".join([f"sense {number:<{_SENSE_WIDTH - 6}}", *(f"{share:>{width}}" for share in shares)])


def _bold(heading: str) -> str:
    return click.style(heading, bold=True) if has_color() else heading


def _print_csv(usages: Sequence[tuple[str, str, "Usage"]], names: Sequence[str]) -> None:
    """Print a line a usage, of a sense, of a slice, or of neither."""
    out = io.StringIO()
    import csv  # here, because the help needs none

    writer = csv.writer(out, lineterminator="\n")
    # a kept column of one of our own names gets a prefix
    writer.writerow([*_COLUMNS, *(f"kept_{name}" if name in _COLUMNS else name for name in names)])
    for sense, of_slice, usage in usages:
        place = (usage.id, usage.row, usage.start, usage.end, usage.left, usage.word, usage.right)
        writer.writerow(
            [sense, of_slice, usage.score, *place, *(format_value(usage.values.get(name)) for name in names)]
        )
    click.echo(out.getvalue(), nl=False, file=sys.stdout)
