"""``bertfeat usages``: a word in its contexts, nearest in meaning first."""

from pathlib import Path
from typing import Any

import click

from .app import Command, option
from .command_line import on_command_line
from .console import Console
from .kept_columns import columns_to_show, show_option
from .options import output_options
from .usage_output import UsageFormat, print_senses, print_usages


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
@option("-k", type=click.IntRange(1, 10_000), metavar="N", help="Lines.", show_default="10, or 5 for each sense")
@option(
    "--column",
    metavar="NAME",
    help="Stored, or derived from what is: sum4, -2, last_word.",
    show_default="the only one",
)
@option("--where", metavar="CONDITION", help="On kept columns: \"year > 1900 and lang in ('de', 'en')\".")
@show_option
@option("--one-per-document", is_flag=True, help="Only the nearest usage, else the first, of each document.")
@option("--csv", "as_csv", is_flag=True, help="Print the result as CSV, with more context than fits on a line.")
@option(
    "--context", type=click.IntRange(min=0), further=True, metavar="N", help="Characters each side.", show_default="300"
)
@option(
    "--width",
    type=click.IntRange(1, 10_000),
    further=True,
    metavar="N",
    help="Columns of a line.",
    show_default="as fits",
)
@option("--model", metavar="DIR", further=True, help="Where the set's model is now, if not where it was.")
@option(
    "--device", metavar="DEVICE", further=True, help="Where --like is embedded.", show_default="a GPU if there is one"
)
@output_options
def command(
    folder: Path,
    word: str,
    like: str | None,
    senses: int | None,
    match: str,
    k: int | None,
    column: str | None,
    where: str | None,
    show: tuple[str, ...],
    one_per_document: bool,
    as_csv: bool,
    context: int | None,
    width: int | None,
    model: str | None,
    device: str | None,
    console: Console,
) -> None:
    """Show a word in its contexts, from features with --pooling word or token.

    With --like the usages nearest in meaning come first, with --senses they are grouped, else they come in the order
    of the corpus. Stars mark which word of SENTENCE is meant, where that is not clear. Scores are cosines. With
    --match any, FEATURES may be an index of words, which is faster. --json and --csv have all kept columns, unless
    --show names some.

    \b
    bertfeat usages corpus.features bank --like "He sat on the bank of the river."
    bertfeat usages corpus.features bank --like "I *banked* the money." -k 20 --show author,year
    bertfeat usages corpus.features 은행 --match prefix --senses 2 --where "year > 1900"
    """
    _check_use(like, senses, as_csv, console)
    is_index = (folder / "index.json").is_file()
    if is_index and (match != "any" or like is None or column is not None):
        raise click.UsageError(
            f"{folder} is an index, which answers only --match any with --like, by its own column; "
            f"give the features that it was made from"
        )
    wanted: dict[str, Any] = {"one_per_document": one_per_document, "where": where}
    wanted |= {name: value for name, value in (("k", k), ("context", context)) if value is not None}
    if like is not None and is_index:
        from bertfeat.search.index import Index
        from bertfeat.usages import find_usages_in_index

        index = Index(folder, model=model, device=device)
        form = UsageFormat(console, as_csv, width, columns_to_show(show, index.kept), index.kept)
        print_usages(find_usages_in_index(index, word, like=like, **wanted), form, match)
        return
    from bertfeat.features import FeatureSet

    features = FeatureSet(folder)
    kept = tuple(each.name for each in features.kept)
    form = UsageFormat(console, as_csv, width, columns_to_show(show, kept), kept)
    wanted |= {"match": match, "column": column}
    if senses is not None:
        from bertfeat.usages import find_senses

        print_senses(find_senses(features, word, senses, **wanted), form, match)
    else:
        from bertfeat.usages import find_usages

        print_usages(find_usages(features, word, like=like, model=model, device=device, **wanted), form, match)


def _check_use(like: str | None, senses: int | None, as_csv: bool, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if like is not None and senses is not None:
        raise click.UsageError("--like orders usages and --senses groups them; give one of the two")
    if as_csv and console.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    if (as_csv or console.as_json) and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --csv and --json have none; leave it out")
    for name in ("model", "device"):
        if like is None and on_command_line(name):
            raise click.UsageError(
                f"--{name} is for the sentence of --like, and nothing else is embedded; leave it out"
            )
