"""``bertfeat usages``: show a word in its contexts, nearest in meaning first; as aligned lines, CSV or JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from bertfeat.errors import pluralize
from bertfeat.options import Option
from bertfeat.usages import ListSettings

from .app import Command, option
from .bundles import on_command_line, settings_options
from .console import Console, fields_of, print_csv, progress_display
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options, recorded_device_option, recorded_model_option, width_option
from .result_lines import (
    aligned_columns,
    columns_to_show,
    format_value,
    json_values,
    kwic_lines,
    missing_word_hint,
    show_option,
    unmet_in_features,
    unmet_in_index,
)
from .terminal import cell_width, cut_end, has_color, pad, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat.core import FeatureSet
    from bertfeat.io import Location
    from bertfeat.usages import Senses, SlicedUsages, SliceUsages, Usage, Usages


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery(ListSettings):
    """The usages that are looked for: listed, by slices, or grouped into senses."""

    senses: Annotated[int | None, Option("Group the usages into N senses (scikit-learn).", basic=True, least=2)] = None
    by: Annotated[
        str | None, Option("Slice by slice of a kept column, such as the year.", metavar="COL", basic=True)
    ] = None
    slices: Annotated[
        str | None,
        Option(
            "Of --by: 1839-1895,1896-1937 or draft,print; every:10 for decades; or a number, with equally many tokens.",
            default="2 of numbers, every value of texts",
            metavar="SPEC",
            basic=True,
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of the library's functions that are given; they know the other defaults."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class _UsageFormat:
    """The form in which usages are printed."""

    console: Console
    as_csv: bool
    width: int | None  # of lines; None: as fits
    show: tuple[str, ...]  # kept columns that were asked for; lines have no others
    kept: tuple[str, ...] = ()  # all kept columns
    unmet: Callable[[], str] = lambda: "no document meets the condition"  # makes the message for that case

    def with_columns(self, kept: tuple[str, ...], unmet: Callable[[], str]) -> "_UsageFormat":
        """The same format with the kept columns of a source, and the message that no document meets the condition."""
        return replace(self, show=columns_to_show(self.show, kept), kept=kept, unmet=unmet)

    @property
    def names(self) -> tuple[str, ...]:
        """The kept columns in CSV and JSON."""
        return self.show or self.kept

    def lines(self, usages: Sequence["Usage"]) -> Iterator[str]:
        """Usages as aligned lines."""
        return kwic_lines(usages, terminal_width(self.width), show=self.show, color=has_color())

    def usage(self, usage: "Usage") -> dict[str, object]:
        """A usage as an object of JSON."""
        return {**fields_of(usage), "values": json_values(usage.values, self.names)}


@click.command(cls=Command, name="usages")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("word")
@settings_options("query", UsageQuery)
@show_option
@option("--csv", "as_csv", is_flag=True, help="Print the result as CSV, with more context than fits on a line.")
@option(
    "--plot",
    type=LOCAL_PATH,
    metavar="FILE",
    further=True,
    help="Draw the frequency, or --senses, over the slices of --by: .png, .pdf or .svg.",
)
@width_option
@recorded_model_option
@recorded_device_option
@output_options
def command(
    folder: "Location",
    word: str,
    query: UsageQuery,
    show: tuple[str, ...],
    as_csv: bool,
    plot: Path | None,
    width: int | None,
    model: str | None,
    device: str | None,
    console: Console,
) -> None:
    """Show a word in its contexts, from features with --pooling word or token; WORD may be a pattern.

    With --like the usages nearest in meaning come first; with --senses they are grouped; otherwise they are in the
    order of the corpus, or of --sort. Stars mark which word of SENTENCE is meant, where that is not clear. Scores are
    cosines. With --by each slice of a kept column has its usages and their frequency, or each sense the number of its
    usages in every slice. With the word "*", FEATURES may be an index of words, which is faster. --json and --csv have
    all kept columns, unless --show names some. The first look-up in FEATURES makes an index of their words.

    Patterns are *ing, s?irit, good|bad, "spirit of the *", gaps of one to three words, and tests of CQL:

    \b
    bertfeat usages corpus.features 'go []{1,3} river'
    bertfeat usages corpus.features '[tag="VERB" & word!="was"]'
    bertfeat usages corpus.features bank --like "He sat on the bank of the river."
    bertfeat usages corpus.features bank --like "I *banked* the money." -k 20 --show author,year
    bertfeat usages corpus.features bank --sample 100 --sort right -k 50 --page 2
    bertfeat usages corpus.features bank --near river --left 2 --right 0
    bertfeat usages corpus.features bank --near river --spans sentences
    bertfeat usages corpus.features bank --by year --slices every:10 -k 0 --plot bank.pdf
    bertfeat usages corpus.features "은행*|강*" --senses 2 --where "year > 1900"
    bertfeat usages corpus.features cell --senses 3 --by year --slices 1839-1895,1896-1937 --plot cell.png
    """
    _check_usage_options(query, as_csv, plot, console)
    from bertfeat.io import ResultKind, result_kind

    form = _UsageFormat(console, as_csv, width, show)
    if result_kind(folder) is ResultKind.INDEX:
        _search_index(folder, word, query, form, model, device)
    elif query.senses is not None:
        _group_features(folder, word, query, form, plot)
    else:
        _search_features(folder, word, query, form, plot, model, device)


def _search_index(
    folder: "Location", word: str, query: UsageQuery, form: _UsageFormat, model: str | None, device: str | None
) -> None:
    if query.by is not None or query.senses is not None:
        raise click.UsageError(f"{folder} is an index, which knows no --by and no --senses; give the features")
    from bertfeat import Index
    from bertfeat.usages import Pattern, find_usages, refuse_for_index

    refuse_for_index(Pattern.parse(word), query, folder)
    index = Index(folder, model=model, device=device)
    form = form.with_columns(index.kept, lambda: unmet_in_index(index, query.where))
    _print_usages(find_usages(index, word, **query.arguments()), form, query)


def _search_features(
    folder: "Location",
    word: str,
    query: UsageQuery,
    form: _UsageFormat,
    plot: Path | None,
    model: str | None,
    device: str | None,
) -> None:
    from bertfeat.core import FeatureSet
    from bertfeat.usages import find_usages, find_usages_by

    if plot is not None:
        from bertfeat.plots import draw_frequencies, picture_path

        picture_path(plot)
    features = FeatureSet(folder)
    form = _feature_format(features, form, query)
    arguments = query.arguments() | {"model": model, "device": device}
    if query.by is not None:
        with progress_display(form.console) as progress:
            sliced = find_usages_by(features, word, progress=progress, **arguments)
        if plot is not None:
            draw_frequencies(sliced, plot)
        _print_sliced_usages(sliced, form, query)
        return
    with progress_display(form.console) as progress:
        usages = find_usages(features, word, progress=progress, **arguments)
    _print_usages(usages, form, query)


def _group_features(folder: "Location", word: str, query: UsageQuery, form: _UsageFormat, plot: Path | None) -> None:
    from bertfeat.core import FeatureSet
    from bertfeat.usages import find_senses

    if plot is not None:
        from bertfeat.plots import draw_senses, picture_path

        picture_path(plot)
    features = FeatureSet(folder)
    form = _feature_format(features, form, query)
    with progress_display(form.console) as progress:
        senses = find_senses(features, word, progress=progress, **query.arguments())
    if plot is not None:
        draw_senses(senses, plot)
    _print_senses(senses, form, query)


def _feature_format(features: "FeatureSet", form: _UsageFormat, query: UsageQuery) -> _UsageFormat:
    kept = tuple(column.name for column in features.kept)
    return form.with_columns(kept, lambda: unmet_in_features(features, query.where))


def _check_usage_options(query: UsageQuery, as_csv: bool, plot: Path | None, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if query.like is not None and query.senses is not None:
        raise click.UsageError("--like orders usages and --senses groups them; give one of the two")
    if query.like is not None and query.sort is not None:
        raise click.UsageError("--like sorts usages by likeness; leave out --sort")
    if query.slices is not None and query.by is None:
        raise click.UsageError("--slices are slices of a kept column; name it with --by")
    for name in _LISTING:
        if query.senses is not None and getattr(query, name) is not None:
            raise click.UsageError(f"--senses shows the most central usages of each group; leave out --{name}")
    for name in ("left", "right"):
        if getattr(query, name) is not None and query.near is None:
            raise click.UsageError(f"--{name} says how near the word of --near must stand; name one")
    if plot is not None and query.by is None:
        raise click.UsageError("--plot draws the frequency, or --senses, over the slices of --by; name a kept column")
    if as_csv and console.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    if (as_csv or console.as_json) and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --csv and --json have none; leave it out")
    for name in ("model", "device"):
        if query.like is None and on_command_line(name):
            raise click.UsageError(
                f"--{name} is for the sentence of --like, and nothing else is embedded; leave it out"
            )


_LISTING = ("page", "sort", "sample")  # options of a list of usages


def _print_usages(result: "Usages", form: _UsageFormat, query: UsageQuery) -> None:
    """Print usages, and their number on stderr."""
    for warning in result.warnings:
        form.console.warn(warning)
    if form.as_csv:
        _usages_as_csv([("", "", usage) for usage in result.usages], form.names)
    else:
        value = {**fields_of(result), "usages": list(map(form.usage, result.usages))}
        form.console.result(value, [*form.lines(result.usages)] or ([] if result.found else ["nothing found"]))
    if not result.found:
        _say_nothing_found(result, form, query)
        return
    if query.k == 0:
        found = f"{_found_count(result.found, query)}{_often(result)}"
        form.console.say(f"{result.word}: {found} in {pluralize(result.documents, 'document')}")
        return
    shown = f"{len(result.usages):,}"
    if query.page is not None:
        last = (query.page - 1) * (10 if query.k is None else query.k) + len(result.usages)
        shown = f"{last - len(result.usages) + 1:,} to {last:,}" if result.usages else f"page {query.page:,} has none"
    form.console.say(
        f"{result.word}: {shown} of {_found_count(result.found, query)}{_often(result)} in "
        f"{pluralize(result.documents, 'document')}, {_order(result, query)} ({result.column})"
    )
    _warn_of_skipped(result.skipped, form.console)


def _print_sliced_usages(result: "SlicedUsages", form: _UsageFormat, query: UsageQuery) -> None:
    """Print the usages of each slice, and their number on stderr."""
    for warning in result.warnings:
        form.console.warn(warning)
    if form.as_csv and query.k == 0:
        print_csv(_FREQUENCIES, [_frequency(one) for one in result.slices])
    elif form.as_csv:
        _usages_as_csv([("", one.slice.name, usage) for one in result.slices for usage in one.usages], form.names)
    else:
        lines = _frequency_lines(result) if query.k == 0 else _slice_lines(result, form)
        slices = [
            fields_of(one.slice)
            | {name: value for name, value in fields_of(one).items() if name != "slice"}
            | {"usages": list(map(form.usage, one.usages))}
            for one in result.slices
        ]
        form.console.result({**fields_of(result), "slices": slices}, list(lines))
    found = sum(one.found for one in result.slices)
    if not found:
        _say_nothing_found(result, form, query)
        return
    counted = f"{_found_count(found, query)} in {pluralize(result.documents, 'document')} by {result.by}"
    order = "" if query.k == 0 and not result.like else f", {_order(result, query)} ({result.column})"
    form.console.say(f"{result.word}: {counted}{order}")
    _say_outside(result, form.console)
    _warn_of_skipped(sum(one.skipped for one in result.slices), form.console)


def _print_senses(result: "Senses", form: _UsageFormat, query: UsageQuery) -> None:
    """Print senses with their most central usages, and their numbers on stderr."""
    if form.as_csv:
        numbered = [(str(number), usage) for number, sense in enumerate(result.senses, 1) for usage in sense.usages]
        _usages_as_csv([(number, _slice_of(result, usage), usage) for number, usage in numbered], form.names)
    else:
        senses = [fields_of(sense) | {"usages": list(map(form.usage, sense.usages))} for sense in result.senses]
        form.console.result({**fields_of(result), "senses": senses}, [*_sense_lines(result, form)] or ["nothing found"])
    if not result.found:
        _say_nothing_found(result, form, query)
        return
    form.console.say(
        f"{result.word}: {_found_count(result.found, query)} in {pluralize(result.documents, 'document')} "
        f"({result.column}); the most central ones of each sense"
    )
    _say_outside(result, form.console)
    if result.grouped < result.found - result.skipped:
        form.console.say(f"{result.grouped:,} of them are grouped")
    _warn_of_skipped(result.skipped, form.console)


def _slice_of(result: "Senses", usage: "Usage") -> str:
    """The name of the slice that a usage is in; empty without slices."""
    from bertfeat.where import slice_number

    number = None if result.by is None else slice_number(result.slices, usage.values[result.by])
    return "" if number is None else result.slices[number].name


def _found_count(found: int, query: UsageQuery) -> str:
    """The number of usages that were found, and of those that were drawn from them."""
    count = pluralize(found, "usage")
    if query.near is not None:
        count += f" near {query.near}"
    count += _in_spans(query)
    sampled = query.sample is not None and query.sample < found
    return f"a sample of {query.sample:,} of {count}" if sampled else count


def _in_spans(query: UsageQuery) -> str:
    """The spans that usages stand in, with the word near them."""
    return "" if query.spans is None else f" within {query.spans}"


def _often(result: "Usages | SliceUsages") -> str:
    """The frequency of the usages, in parentheses."""
    often = result.per_million
    return "" if not often else f" ({often:,.{1 if often < 1000 else 0}f} per million words)"


def _order(result: "Usages | SlicedUsages", query: UsageQuery) -> str:
    if result.like:
        return f"nearest to {result.like!r}"
    if query.sort is None:
        return "in the order of the corpus"
    return f"sorted by {f'the words on the {query.sort}' if query.sort in ('left', 'right') else query.sort}"


def _say_outside(result: "SlicedUsages | Senses", console: Console) -> None:
    if result.outside:
        console.say(f"{pluralize(result.outside, 'usage')} in documents outside of the slices of {result.by} left out")


def _warn_of_skipped(skipped: int, console: Console) -> None:
    if skipped:
        console.warn(f"{skipped:,} of them have no vector (cut off, or unknown to the model) and were skipped")


def _say_nothing_found(result: "Usages | SlicedUsages | Senses", form: _UsageFormat, query: UsageQuery) -> None:
    if not result.documents:
        form.console.say(form.unmet())
        return
    hint = missing_word_hint(result.word) if query.spans is None else ""
    where = f"{_in_spans(query).lstrip()} in the {pluralize(result.documents, 'document')}".lstrip()
    if query.near is not None:
        form.console.say(f"{result.word!r} does not stand near {query.near!r} {where}")
        return
    form.console.say(f"{result.word!r} does not stand {where}{hint}")


def _slice_lines(result: "SlicedUsages", form: _UsageFormat) -> Iterator[str]:
    for number, one in enumerate(result.slices):
        found = f"{pluralize(one.found, 'usage')}{_often(one)}"
        heading = f"{one.slice.name}: {found} in {pluralize(one.slice.documents, 'document')}"
        if one.score is not None:
            heading += f", mean score {one.score:.3f}"
        yield from ([] if number == 0 else [""])
        yield _bold(single_line(heading))
        yield from form.lines(one.usages)


_FREQUENCIES = ("slice", "documents", "words", "usages", "per_million", "score")


def _frequency(one: "SliceUsages") -> tuple[str | float | None, ...]:
    """The frequency of a word in a slice, and the mean likeness of its usages to a sentence."""
    return one.slice.name, one.slice.documents, one.words, one.found, one.per_million, one.score


def _frequency_lines(result: "SlicedUsages") -> Iterator[str]:
    """A table with a row for each slice."""
    rows = [("", *_FREQUENCIES[1:-1], "mean score"), *map(_frequency, result.slices)]
    columns = [[_spell_count(value) for value in column] for column in zip(*rows, strict=True)]
    columns[0] = [cut_end(single_line(one), 40) for one in (result.by, *(one.slice.name for one in result.slices))]
    yield from aligned_columns([column for column in columns if any(column[1:])])


def _spell_count(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return (value or "").replace("_", " ")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _sense_lines(result: "Senses", form: _UsageFormat) -> Iterator[str]:
    yield from _share_lines(result)
    for number, sense in enumerate(result.senses, 1):
        yield from ([] if number == 1 and not result.slices else [""])
        yield _bold(f"sense {number}: {sense.count:,} of {result.grouped:,}")
        yield from form.lines(sense.usages)


def _share_lines(result: "Senses") -> Iterator[str]:
    """A table with a row for each sense and a column for each slice: usages, and their share of the slice's usages."""
    if not result.slices or not result.senses:
        return
    names = [cut_end(single_line(one.name), 30) for one in result.slices]
    totals = [sum(counts) for counts in zip(*(sense.counts for sense in result.senses), strict=True)]
    width = max(12, *map(cell_width, names))
    yield "  ".join([pad(result.by or "", len("sense 12")), *(pad(name, width, right=True) for name in names)])
    for number, sense in enumerate(result.senses, 1):
        shares = [
            f"{count:,} ({count / total:4.0%})" if total else "0"
            for count, total in zip(sense.counts, totals, strict=True)
        ]
        yield "  ".join([f"sense {number:<2}", *(f"{share:>{width}}" for share in shares)])


def _bold(heading: str) -> str:
    return click.style(heading, bold=True) if has_color() else heading


_COLUMNS = ("sense", "slice", "score", "id", "row", "start", "end", "left", "word", "right")


def _usages_as_csv(usages: Sequence[tuple[str, str, "Usage"]], names: Sequence[str]) -> None:
    """Print one line of CSV per usage, each given with its sense and its slice, which may be empty."""
    rows = []
    for sense, of_slice, usage in usages:
        place = (usage.id, usage.row, usage.start, usage.end, usage.left, usage.word, usage.right)
        rows.append([sense, of_slice, usage.score, *place, *(format_value(usage.values.get(name)) for name in names)])
    # a kept column whose name is one of _COLUMNS gets a prefix
    print_csv([*_COLUMNS, *(f"kept_{name}" if name in _COLUMNS else name for name in names)], rows)
