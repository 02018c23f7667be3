"""``bertfeat words``: word lists and keywords with their dispersion; as a table, CSV or JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from bertfeat.errors import pluralize
from bertfeat.options import Option
from bertfeat.where import WhereText

from .app import Command, option
from .bundles import on_command_line, settings_options
from .console import Console, fields_of, print_csv, progress_display
from .option_types import LOCATION
from .options import output_options
from .result_lines import aligned_columns, missing_word_hint, unmet_in_features
from .terminal import cell_width, cut_end, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.usages import WordFrequencies

_WIDEST = 40  # columns of a word at most


@dataclass(slots=True)
class WordsQuery:
    """The words that are counted, and what they are compared with."""

    ngrams: Annotated[
        int, Option("Rows of N words, with no mark between: 2 for bigrams.", metavar="N", least=1, most=10, basic=True)
    ] = 1
    attribute: Annotated[Literal["word", "tag"], Option("Count words, or their tags.", basic=True)] = "word"
    by: Annotated[
        str | None,
        Option("Frequency and dispersion over each value of a kept column, such as title.", metavar="COL", basic=True),
    ] = None
    slices: Annotated[
        str | None,
        Option("Of --by: 1839-1895,1896-1937, every:10, or a number.", metavar="SPEC", default="every value"),
    ] = None
    against: Annotated[
        str | None,
        Option(
            "Keywords against another feature set, a condition, or rest: all but --where.",
            metavar="FEATURES|CONDITION|rest",
            basic=True,
        ),
    ] = None
    measure: Annotated[
        Literal["log-likelihood", "log-ratio"],
        Option("Of --against: the highest first by G² (Dunning 1993), or by log ratio (Hardie 2014).", basic=True),
    ] = "log-likelihood"
    least: Annotated[
        int | None, Option("Leave out words that stand less often.", default="1, or 3 with --against", least=1)
    ] = None
    k: Annotated[int, Option("Number of words.", least=1, most=1_000_000, basic=True)] = 20
    where: WhereText = None


@click.command(cls=Command, name="words")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("word", metavar="[PATTERN]", required=False)
@settings_options("query", WordsQuery)
@option("--csv", "as_csv", is_flag=True, help="Print the result as CSV; with --by a row for each word and slice.")
@output_options
def command(folder: "Location", word: str | None, query: WordsQuery, as_csv: bool, console: Console) -> None:
    """List the words of features with texts, of any pooling, by frequency; or with --against their keywords.

    PATTERN chooses words or rows of them, as in usages; the list has the different ones that it finds, without case.
    Beside each frequency stands in how many documents the word is, and DP (Gries 2008), which is 0 for a word that is
    spread evenly over the documents, or over the values of --by, and near 1 for one that is in few. Keywords have G²,
    and the binary logarithm of how many times as often they stand here as there. Punctuation marks are no words.

    \b
    bertfeat words corpus.features
    bertfeat words corpus.features --ngrams 2 --by title
    bertfeat words corpus.features '*ing' --by year --slices every:10 --csv
    bertfeat words corpus.features '[tag="ADJ"] bank' -k 50
    bertfeat words corpus.features --where "year < 1900" --against rest --measure log-ratio --least 20
    bertfeat words corpus.features --attribute tag --against other.features
    """
    _check_word_options(word, query, as_csv, console)
    from bertfeat.usages import count_words, find_keywords

    names = ("ngrams", "attribute", "by", "slices", "where", "k")
    asked: dict[str, Any] = {name: getattr(query, name) for name in names}
    asked |= {} if query.least is None else {"least": query.least}
    with progress_display(console) as progress:
        if query.against is None:
            result = count_words(folder, word, **asked, progress=progress)
        else:
            result = find_keywords(folder, query.against, word, measure=query.measure, **asked, progress=progress)
    if as_csv:
        _print_rows(result, query.by)
    else:
        lines, whole = _lines_of(result, query)
        console.result(fields_of(result), lines)
        if not whole and not console.as_json:
            console.say("the frequency in each slice does not fit on a line; --csv and --json have it")
    if result.documents or query.where is None or query.by is not None:
        _say_what_was_counted(result, word, query, console)
    else:
        console.say(unmet_in_features(folder, query.where))


def _check_word_options(word: str | None, query: WordsQuery, as_csv: bool, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if as_csv and console.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    if query.against is None and on_command_line("measure"):
        raise click.UsageError("--measure compares words with those of --against; name a reference")


def _lines_of(result: "WordFrequencies", query: WordsQuery) -> tuple[list[str], bool]:
    """Aligned lines, with a heading; with the frequency in each slice if they fit on a line, and whether they do."""
    if not result.frequencies:
        return ["nothing found"], True
    words = [query.attribute, *(cut_end(single_line(one.word), _WIDEST) for one in result.frequencies)]
    columns = [words, *_columns_of(result, query.by)]
    if len(result.slices) < terminal_width(None):
        with_slices = [*columns, *_slice_columns(result)]
        if not result.slices or _fit_on_a_line(with_slices):
            return list(aligned_columns(with_slices)), True
    return list(aligned_columns(columns)), False


def _columns_of(result: "WordFrequencies", by: str | None) -> Iterator[list[str]]:
    """The columns of numbers that each list has, with their headings."""
    from bertfeat.usages import Keyword

    words = result.frequencies
    yield ["found", *(f"{one.found:,}" for one in words)]
    yield ["per million", *(f"{one.per_million:,.1f}" for one in words)]
    yield ["documents", *(f"{one.documents:,}" for one in words)]
    if by is not None:
        yield [f"in {single_line(by)}", *(f"{one.range:,}" for one in words)]
    yield ["DP", *(f"{one.dispersion:.2f}" for one in words)]
    keywords = [one for one in words if isinstance(one, Keyword)]
    if keywords:
        yield ["there", *(f"{one.reference_found:,}" for one in keywords)]
        yield ["per million", *(f"{one.reference_per_million:,.1f}" for one in keywords)]
        yield ["log-likelihood", *(f"{one.log_likelihood:,.1f}" for one in keywords)]
        yield ["log-ratio", *(f"{one.log_ratio:.2f}" for one in keywords)]


def _slice_columns(result: "WordFrequencies") -> Iterator[list[str]]:
    """The frequency in a million words of each slice, with its name."""
    from bertfeat.usages import per_million

    for at, (one, words) in enumerate(zip(result.slices, result.slice_words, strict=True)):
        counts = (per_million(word.by_slice[at], words) for word in result.frequencies)
        yield [single_line(one.name), *(f"{count:,.1f}" if words else "" for count in counts)]


def _fit_on_a_line(columns: list[list[str]]) -> bool:
    """Whether aligned columns fit on a line of the terminal."""
    return sum(max(map(cell_width, column)) + 2 for column in columns) - 2 <= terminal_width(None)


def _print_rows(result: "WordFrequencies", by: str | None) -> None:
    """Print words as CSV: a row for each, or with slices one for each word and slice."""
    from bertfeat.usages import Keyword, Keywords, WordFrequency, per_million

    shown = Keyword if isinstance(result, Keywords) else WordFrequency
    names = [each.name for each in fields(shown) if each.name != "by_slice"]
    rows = [[getattr(one, name) for name in names] for one in result.frequencies]
    if by is None:
        print_csv(names, rows)
        return
    print_csv(
        [*names, "slice", "slice_words", "slice_found", "slice_per_million"],
        (
            [*row, part.name, words, found, per_million(found, words) if words else ""]
            for row, one in zip(rows, result.frequencies, strict=True)
            for part, words, found in zip(result.slices, result.slice_words, one.by_slice, strict=True)
        ),
    )


def _say_what_was_counted(result: "WordFrequencies", word: str | None, query: WordsQuery, console: Console) -> None:
    """Tell of what the words are a part."""
    from bertfeat.usages import Keywords

    where = f"in {pluralize(result.documents, 'document')}"
    if query.by is not None:
        where += f" in {pluralize(len(result.slices), 'slice')} of {query.by}"
    if not result.found:
        console.say(f"{result.pattern!r} does not stand {where}{'' if word is None else missing_word_hint(word)}")
        return
    shown = f"{len(result.frequencies):,} of {result.different:,} different ones, {result.found:,} in all"
    console.say(f"{result.pattern}: {shown}, of {pluralize(result.words, 'word')} {where}")
    if isinstance(result, Keywords):
        there = f"{pluralize(result.reference_words, 'word')} in {pluralize(result.reference_documents, 'document')}"
        console.say(f"against {result.against}, {there}, by {result.measure}")
