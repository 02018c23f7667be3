"""What ``bertfeat usages`` found: as aligned lines, as CSV, as JSON."""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .console import Console, fields_of
from .kept_columns import format_value, json_values
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
    show: tuple[str, ...]  # kept columns that were asked for; of lines these only, else all if there are none
    kept: tuple[str, ...]  # all kept columns

    @property
    def names(self) -> tuple[str, ...]:
        """The kept columns that CSV and JSON have."""
        return self.show or self.kept

    def lines(self, usages: Sequence["Usage"]) -> Iterator[str]:
        """Aligned lines."""
        return kwic_lines(usages, terminal_width(self.width), show=self.show, colour=has_colour())

    def usage(self, usage: "Usage") -> dict[str, Any]:
        """A usage for JSON."""
        return {**fields_of(usage), "values": json_values(usage.values, self.names)}


def print_usages(found: "Usages", form: UsageFormat, match: str) -> None:
    """Print usages, and on stderr how many there are."""
    if form.as_csv:
        _print_csv([(None, usage) for usage in found.usages], form.names)
    else:
        value = {**fields_of(found), "usages": list(map(form.usage, found.usages))}
        form.console.result(value, [*form.lines(found.usages)] or ["nothing found"])
    if not found.found:
        _tell_nothing(found, form.console, match)
        return
    what = "words compared" if match == "any" else "usages"
    order = f"nearest to {found.like!r}" if found.like else "in the order of the corpus"
    form.console.say(
        f"{found.word}: {len(found.usages):,} of {found.found:,} {what} in {found.documents:,} documents, "
        f"{order} ({found.column})"
    )
    _tell_skipped(found, form.console)


def print_senses(grouped: "Senses", form: UsageFormat, match: str) -> None:
    """Print senses with their most central usages, and on stderr how many there are."""
    if form.as_csv:
        numbered = enumerate(grouped.senses, 1)
        _print_csv([(number, usage) for number, sense in numbered for usage in sense.usages], form.names)
    else:
        senses = [{"count": sense.count, "usages": list(map(form.usage, sense.usages))} for sense in grouped.senses]
        form.console.result(
            {**fields_of(grouped), "senses": senses}, [*_sense_lines(grouped, form)] or ["nothing found"]
        )
    if not grouped.found:
        _tell_nothing(grouped, form.console, match)
        return
    form.console.say(
        f"{grouped.word}: {grouped.found:,} usages in {grouped.documents:,} documents ({grouped.column}); "
        f"the most central ones of each sense"
    )
    if grouped.grouped < grouped.found - grouped.skipped:
        form.console.say(f"grouped are {grouped.grouped:,} of them")
    _tell_skipped(grouped, form.console)


def _tell_skipped(found: "Usages | Senses", console: Console) -> None:
    if found.skipped:
        console.warn(f"{found.skipped:,} of them have no vector (cut off, or unknown to the model) and were skipped")


def _tell_nothing(found: "Usages | Senses", console: Console, match: str) -> None:
    if not found.documents:
        console.say("no document meets the condition")
        return
    hint = "; --match prefix also looks for words that begin so" if match == "exact" else ""
    console.say(f"{found.word!r} does not stand in the {found.documents:,} documents{hint}")


def _sense_lines(grouped: "Senses", form: UsageFormat) -> Iterator[str]:
    for number, sense in enumerate(grouped.senses, 1):
        heading = f"sense {number}: {sense.count:,} of {grouped.grouped:,}"
        yield from ([] if number == 1 else [""])
        yield click.style(heading, bold=True) if has_colour() else heading
        yield from form.lines(sense.usages)


def _print_csv(usages: Sequence[tuple[int | None, "Usage"]], names: Sequence[str]) -> None:
    """Print a line a usage; the column ``sense`` is empty where there are none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    # a kept column of one of our own names is told from it
    writer.writerow([*_COLUMNS, *(f"kept_{name}" if name in _COLUMNS else name for name in names)])
    for sense, usage in usages:
        place = (usage.id, usage.row, usage.start, usage.end, usage.left, usage.word, usage.right)
        writer.writerow([sense, usage.score, *place, *(format_value(usage.values.get(name)) for name in names)])
    click.echo(out.getvalue(), nl=False, file=sys.stdout)
