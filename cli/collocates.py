"""``bertfeat collocates``: the words that stand near a word more often than by chance; as a table, CSV or JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal

import click

from bertfeat.errors import pluralize
from bertfeat.options import Option
from bertfeat.where import WhereText

from .app import Command, option
from .bundles import settings_options
from .console import Console, fields_of, print_csv, progress_display
from .option_types import LOCATION
from .options import output_options
from .result_lines import aligned_columns, missing_word_hint, unmet_in_features
from .terminal import cut_end, single_line

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.usages import Collocate

_WIDEST = 30  # columns of a word at most


@dataclass(slots=True)
class CollocateQuery:
    """The collocates that are looked for, and their order."""

    left: Annotated[int, Option("Words before WORD that are near.", least=0, most=100, basic=True)] = 5
    right: Annotated[int, Option("Words after WORD that are near.", least=0, most=100, basic=True)] = 5
    least: Annotated[int, Option("Leave out words that stand near less often.", least=1, basic=True)] = 3
    measure: Annotated[
        Literal["log-likelihood", "log-dice"],
        Option("The strongest first by G² (Dunning 1993), or by logDice (Rychlý 2008).", basic=True),
    ] = "log-likelihood"
    spans: Annotated[
        str | None,
        Option(
            "Near is in one span: sentences, paragraphs, words:50, or column:NAME.",
            metavar="RULE",
            default="whole texts",
            basic=True,
        ),
    ] = None
    k: Annotated[int, Option("Number of collocates.", least=1, most=100_000, basic=True)] = 20
    where: WhereText = None


@click.command(cls=Command, name="collocates")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("word")
@settings_options("query", CollocateQuery)
@option("--csv", "as_csv", is_flag=True, help="Print the result as CSV.")
@output_options
def command(folder: "Location", word: str, query: CollocateQuery, as_csv: bool, console: Console) -> None:
    """Show the words that stand near a word more often than by chance, from features with texts, of any pooling.

    WORD may be a pattern, as of usages. Punctuation marks do not count as words, and nothing is near beyond the end of
    a text, or with --spans of a span. Beside each word stands how often it is near, how often it would be by chance, on
    which side of the nearest usage it is, how often it stands in the corpus, in how many documents it is near, and DP
    (Gries 2008), which is near 1 where these are few.

    \b
    bertfeat collocates corpus.features bank
    bertfeat collocates corpus.features "of course" --left 3 --right 0 --where "year > 1900"
    bertfeat collocates corpus.features bank --spans sentences
    bertfeat collocates corpus.features "train*" --measure log-dice -k 50 --csv
    """
    if as_csv and console.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    from bertfeat.usages import Collocate, find_collocates

    with progress_display(console) as progress:
        result = find_collocates(
            folder,
            word,
            left=query.left,
            right=query.right,
            least=query.least,
            measure=query.measure,
            k=query.k,
            where=query.where,
            spans=query.spans,
            progress=progress,
        )
    if as_csv:
        names = [field.name for field in fields(Collocate)]
        print_csv(names, [list(fields_of(one).values()) for one in result.collocates])
    else:
        console.result(fields_of(result), [*_table_of(result.collocates)] or ["nothing found"])
    if not result.documents and query.where is not None:
        console.say(unmet_in_features(folder, query.where))
        return
    where = "" if query.spans is None else f"within {query.spans} "
    where += f"in {pluralize(result.documents, 'document')}"
    if not result.found:
        console.say(f"{word!r} does not stand {where}{missing_word_hint(word)}")
        return
    console.say(
        f"{word}: {pluralize(len(result.collocates), 'collocate')} by {query.measure}, up to {query.left} words before "
        f"and {query.right} after {pluralize(result.found, 'usage')} {where}"
    )


def _table_of(collocates: tuple["Collocate", ...]) -> Iterator[str]:
    """Aligned lines, with a heading."""
    if not collocates:
        return
    words = ["word", *(cut_end(single_line(one.word), _WIDEST) for one in collocates)]
    columns = {
        "near": [f"{one.near:,}" for one in collocates],
        "by chance": [f"{one.expected:,.1f}" for one in collocates],
        "left": [f"{one.left:,}" for one in collocates],
        "right": [f"{one.right:,}" for one in collocates],
        "in corpus": [f"{one.found:,}" for one in collocates],
        "documents": [f"{one.documents:,}" for one in collocates],
        "DP": [f"{one.dispersion:.2f}" for one in collocates],
        "log-likelihood": [f"{one.log_likelihood:,.1f}" for one in collocates],
        "log-dice": [f"{one.log_dice:.2f}" for one in collocates],
    }
    yield from aligned_columns([words, *([name, *cells] for name, cells in columns.items())])
