"""The output of ``bertfeat usages``: aligned lines, CSV or JSON."""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from .console import Console, fields_of
from .kept_columns import columns_to_show, format_value, json_values
from .kwic import kwic_lines
from .terminal import has_colour, terminal_width

if TYPE_CHECKING:
    from bertfeat.usages import Senses, Usage, Usages

_COLUMNS = ("sense", "score", "id", "row", "start", "end", "left", "word", "right")


@dataclass(frozen=True, slots=True)
class UsageFormat:
    """How usages are printed."""

    console: Console
    as_csv: bool
    width: int | None  # of lines; None: as fits
    show: tuple[str, ...]  # kept columns that were asked for; lines have no others
    kept: tuple[str, ...] = ()  # all kept columns

    def with_columns(self, kept: tuple[str, ...]) -> "UsageFormat":
        """The format for what has these kept columns.

        Raises:
            click.UsageError: a column was asked for that is not among them.
        """
        return replace(self, show=columns_to_show(self.show, kept), kept=kept)

    @property
    def names(self) -> tuple[str, ...]:
        """The kept columns in CSV and JSON."""
        return self.show or self.kept

    def lines(self, usages: Sequence["Usage"]) -> Iterator[str]:
        """Usages as aligned lines."""
        return kwic_lines(usages, terminal_width(self.width), show=self.show, colour=has_colour())

    def usage(self, usage: "Usage") -> dict[str, object]:
        """A usage as JSON has it."""
        return {**fields_of(usage), "values": json_values(usage.values, self.names)}


def print_usages(result: "Usages", form: UsageFormat, match: str) -> None:
    """Print usages, and their number on stderr."""
    if form.as_csv:
        _print_csv([(None, usage) for usage in result.usages], form.names)
    else:
        value = {**fields_of(result), "usages": list(map(form.usage, result.usages))}
        form.console.result(value, [*form.lines(result.usages)] or ["nothing found"])
    if not result.found:
        _say_nothing_found(result, form.console, match)
        return
    what = "words compared" if match == "any" else "usages"
    order = f"nearest to {result.like!r}" if result.like else "in the order of the corpus"
    form.console.say(
        f"{result.word}: {len(result.usages):,} of {result.found:,} {what} in {result.documents:,} documents, "
        f"{order} ({result.column})"
    )
    _warn_of_skipped(result, form.console)


def print_senses(result: "Senses", form: UsageFormat, match: str) -> None:
    """Print senses with their most central usages, and their numbers on stderr."""
    if form.as_csv:
        numbered = enumerate(result.senses, 1)
        _print_csv([(number, usage) for number, sense in numbered for usage in sense.usages], form.names)
    else:
        senses = [{"count": sense.count, "usages": list(map(form.usage, sense.usages))} for sense in result.senses]
        form.console.result({**fields_of(result), "senses": senses}, [*_sense_lines(result, form)] or ["nothing found"])
    if not result.found:
        _say_nothing_found(result, form.console, match)
        return
    form.console.say(
        f"{result.word}: {result.found:,} usages in {result.documents:,} documents ({result.column}); "
        f"the most central ones of each sense"
    )
    if result.grouped < result.found - result.skipped:
        form.console.say(f"grouped are {result.grouped:,} of them")
    _warn_of_skipped(result, form.console)


def _warn_of_skipped(result: "Usages | Senses", console: Console) -> None:
    if result.skipped:
        console.warn(f"{result.skipped:,} of them have no vector (cut off, or unknown to the model) and were skipped")


def _say_nothing_found(result: "Usages | Senses", console: Console, match: str) -> None:
    if not result.documents:
        console.say("no document meets the condition")
        return
    hint = "; --match prefix also looks for words that begin so" if match == "exact" else ""
    console.say(f"{result.word!r} does not stand in the {result.documents:,} documents{hint}")


def _sense_lines(result: "Senses", form: UsageFormat) -> Iterator[str]:
    for number, sense in enumerate(result.senses, 1):
        heading = f"sense {number}: {sense.count:,} of {result.grouped:,}"
        yield from ([] if number == 1 else [""])
        yield click.style(heading, bold=True) if has_colour() else heading
        yield from form.lines(sense.usages)


def _print_csv(usages: Sequence[tuple[int | None, "Usage"]], names: Sequence[str]) -> None:
    """Print a line a usage; the column ``sense`` is empty where there are none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    # a kept column of one of our own names gets a prefix
    writer.writerow([*_COLUMNS, *(f"kept_{name}" if name in _COLUMNS else name for name in names)])
    for sense, usage in usages:
        place = (usage.id, usage.row, usage.start, usage.end, usage.left, usage.word, usage.right)
        writer.writerow([sense, usage.score, *place, *(format_value(usage.values.get(name)) for name in names)])
    click.echo(out.getvalue(), nl=False, file=sys.stdout)
