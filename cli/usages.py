"""``bertfeat usages``: a word in its contexts, nearest in meaning first."""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .frame import Command, option
from .kwic import has_colour, kwic_lines, line_width
from .options import talk_options
from .talk import Talk

if TYPE_CHECKING:
    from bertfeat.usages import Senses, Usage, Usages


@click.command(cls=Command, name="usages")
@click.argument("folder", metavar="FEATURES", type=click.Path(path_type=Path))
@click.argument("word")
@option("--like", metavar="SENTENCE", help="Nearest first to what WORD means in this sentence.")
@option("--senses", type=click.IntRange(min=2), metavar="N", help="Group the usages into N senses (scikit-learn).")
@option(
    "--match",
    type=click.Choice(["exact", "prefix", "any"]),
    default="exact",
    help="prefix: words that begin so (은행 finds 은행에서); any: every word, compared with --like.",
)
@option("-k", type=click.IntRange(min=1), metavar="N", help="Lines; default: 10, or 5 for each sense.")
@option("--layers", metavar="RECIPE", help="sum4, -2: which layers, of those that are stored; default: as stored.")
@option("--one-per-document", is_flag=True, help="Only the nearest usage, else the first, of each document.")
@option("--csv", "as_csv", is_flag=True, help="Print the result as CSV, with more context than fits on a line.")
@option("--context", type=click.IntRange(min=0), further=True, metavar="N", help="Characters each side; default: 300.")
@option("--width", type=click.IntRange(min=1), further=True, metavar="N", help="Columns of a line; default: as fits.")
@option("--model", metavar="DIR", further=True, help="Where the set's model is now, if not where it was.")
@option("--device", metavar="DEVICE", further=True, help="Where --like is embedded; default: a GPU if there is one.")
@talk_options
def command(
    folder: Path,
    word: str,
    like: str | None,
    senses: int | None,
    match: str,
    k: int | None,
    layers: str | None,
    one_per_document: bool,
    as_csv: bool,
    context: int | None,
    width: int | None,
    model: str | None,
    device: str | None,
    talk: Talk,
) -> None:
    """Show a word in its contexts, from features with --pooling word or token.

    With --like the usages nearest in meaning come first, with --senses they are grouped, else they come in the order
    of the corpus. Stars mark which word of SENTENCE is meant, where that is not clear. Scores are cosines. With
    --match any, FEATURES may be an index of words, which is faster.

    \b
    bertfeat usages corpus.features bank --like "He sat on the bank of the river."
    bertfeat usages corpus.features bank --like "I *banked* the money." -k 20
    bertfeat usages corpus.features 은행 --match prefix --senses 2
    """
    if like is not None and senses is not None:
        raise click.UsageError("--like orders usages and --senses groups them; give one of the two")
    if as_csv and talk.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    if _is_index(folder) and (match != "any" or like is None or layers is not None):
        raise click.UsageError(
            f"{folder} is an index, which answers only --match any with --like, by its own layers; "
            f"give the features that it was made from"
        )
    wanted: dict[str, Any] = {"one_per_document": one_per_document}
    wanted |= {name: value for name, value in (("k", k), ("context", context)) if value is not None}
    if senses is not None:
        from bertfeat.usages import find_senses

        grouped = find_senses(folder, word, senses, match=match, layers=layers, **wanted)
        _tell_senses(grouped, talk, as_csv, width, match)
        return
    wanted |= {"model": model, "device": device}
    if like is not None and _is_index(folder):
        from bertfeat.usages import find_usages_in_index

        found = find_usages_in_index(folder, word, like=like, **wanted)
    else:
        from bertfeat.usages import find_usages

        found = find_usages(folder, word, like=like, match=match, layers=layers, **wanted)
    _tell_usages(found, talk, as_csv, width, match)


def _is_index(folder: Path) -> bool:
    return (folder / "index.json").is_file()


def _tell_usages(found: "Usages", talk: Talk, as_csv: bool, width: int | None, match: str) -> None:
    if as_csv:
        _print_csv((None, usage) for usage in found.usages)
    else:
        talk.result(found, [*_lines(found.usages, width)] or ["nothing found"])
    if not found.found:
        _tell_nothing(found, talk, match)
        return
    what = "words compared" if match == "any" else "usages"
    order = f"nearest to {found.like!r}" if found.like else "in the order of the corpus"
    talk.say(
        f"{found.word}: {len(found.usages):,} of {found.found:,} {what} in {found.documents:,} documents, "
        f"{order} ({found.column})"
    )
    _tell_skipped(found, talk)


def _tell_senses(grouped: "Senses", talk: Talk, as_csv: bool, width: int | None, match: str) -> None:
    if as_csv:
        _print_csv((number, usage) for number, sense in enumerate(grouped.senses, 1) for usage in sense.usages)
    else:
        talk.result(grouped, [*_sense_lines(grouped, width)] or ["nothing found"])
    if not grouped.found:
        _tell_nothing(grouped, talk, match)
        return
    talk.say(
        f"{grouped.word}: {grouped.found:,} usages in {grouped.documents:,} documents ({grouped.column}); "
        f"the most central ones of each sense"
    )
    if grouped.grouped < grouped.found - grouped.skipped:
        talk.say(f"grouped are {grouped.grouped:,} of them")
    _tell_skipped(grouped, talk)


def _tell_skipped(found: "Usages | Senses", talk: Talk) -> None:
    if found.skipped:
        talk.warn(f"{found.skipped:,} of them have no vector (cut off, or unknown to the model) and were skipped")


def _tell_nothing(found: "Usages | Senses", talk: Talk, match: str) -> None:
    hint = "; --match prefix also looks for words that begin so" if match == "exact" else ""
    talk.say(f"{found.word!r} does not stand in the {found.documents:,} documents{hint}")


def _lines(usages: Sequence["Usage"], width: int | None) -> Iterator[str]:
    return kwic_lines(usages, line_width(width), colour=has_colour())


def _sense_lines(grouped: "Senses", width: int | None) -> Iterator[str]:
    for number, sense in enumerate(grouped.senses, 1):
        heading = f"sense {number}: {sense.count:,} of {grouped.grouped:,}"
        yield from ([] if number == 1 else [""])
        yield click.style(heading, bold=True) if has_colour() else heading
        yield from _lines(sense.usages, width)


def _print_csv(usages: Iterator[tuple[int | None, "Usage"]]) -> None:
    """Print a line a usage; the column ``sense`` is empty where there are none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["sense", "score", "id", "row", "start", "end", "left", "word", "right"])
    for sense, usage in usages:
        place = (usage.id, usage.row, usage.start, usage.end, usage.left, usage.word, usage.right)
        writer.writerow([sense, usage.score, *place])
    click.echo(out.getvalue(), nl=False, file=sys.stdout)
