"""``bertfeat usages``: a word in its contexts, nearest in meaning first."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from bertfeat.options import Option

from .app import Command, option
from .bundles import on_command_line
from .console import Console
from .kept_columns import show_option, unmet_in_index, unmet_line
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options, recorded_device_option, recorded_model_option, width_option
from .settings_options import settings_options
from .usage_output import UsageFormat, print_senses, print_sliced_usages, print_usages

if TYPE_CHECKING:
    from bertfeat.features import FeatureSet
    from bertfeat.io import Location


@dataclass(slots=True)
class UsageQuery:
    """The usages that are looked for, and their order."""

    like: Annotated[
        str | None, Option("Nearest first to what WORD means in this sentence.", metavar="SENTENCE", basic=True)
    ] = None
    senses: Annotated[int | None, Option("Group the usages into N senses (scikit-learn).", basic=True, least=2)] = None
    match: Annotated[
        Literal["exact", "prefix", "any"],
        Option(
            "prefix: words that begin with WORD (은행 finds 은행에서); any: every word, compared with --like.",
            basic=True,
        ),
    ] = "exact"
    k: Annotated[
        int | None,
        Option("Number of usages.", default="10, or 5 for each sense or slice", basic=True, least=1, most=10_000),
    ] = None
    column: Annotated[
        str | None,
        Option(
            "A stored column, or one derived from it: sum4, -2, last_word.",
            default="last, where it can be read, else the only one",
            metavar="NAME",
            basic=True,
        ),
    ] = None
    where: Annotated[
        str | None,
        Option("On kept columns: \"year > 1900 and lang in ('de', 'en')\".", metavar="CONDITION", basic=True),
    ] = None
    by: Annotated[
        str | None, Option("Slice by slice of a kept column, such as the year.", metavar="COL", basic=True)
    ] = None
    slices: Annotated[
        str | None,
        Option(
            "Of --by: 1839-1895,1896-1937 or draft,print; or a number of slices with equally many tokens.",
            default="2 of numbers, every value of texts",
            metavar="SPEC",
            basic=True,
        ),
    ] = None
    one_per_document: Annotated[bool, Option("Only the nearest usage, else the first, of each document.")] = False
    context: Annotated[int | None, Option("Characters on each side.", default="300", least=0)] = None

    def arguments(self, *names: str) -> dict[str, Any]:
        """Return the arguments of the library's function that are given; the library knows the other defaults."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


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
    help="Draw --senses over the slices of --by: .png, .pdf or .svg.",
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
    """Show a word in its contexts, from features with --pooling word or token.

    With --like the usages nearest in meaning come first; with --senses they are grouped; otherwise they are in the
    order of the corpus. Stars mark which word of SENTENCE is meant, where that is not clear. Scores are cosines. With
    --by each slice of a kept column has its usages, or each sense the number of its usages in every slice. With --match
    any, FEATURES may be an index of words, which is faster. --json and --csv have all kept columns, unless --show names
    some.

    \b
    bertfeat usages corpus.features bank --like "He sat on the bank of the river."
    bertfeat usages corpus.features bank --like "I *banked* the money." -k 20 --show author,year
    bertfeat usages corpus.features 은행 --match prefix --senses 2 --where "year > 1900"
    bertfeat usages corpus.features cell --senses 3 --by year --slices 1839-1895,1896-1937 --plot cell.png
    """
    _check_usage_options(query, as_csv, plot, console)
    from bertfeat.io import ResultKind, result_kind

    form = UsageFormat(console, as_csv, width, show)
    if result_kind(folder) is ResultKind.INDEX:
        _search_index(folder, word, query, form, model, device)
    elif query.senses is not None:
        _group_features(folder, word, query, form, plot)
    else:
        _search_features(folder, word, query, form, model, device)


def _search_index(
    folder: "Location", word: str, query: UsageQuery, form: UsageFormat, model: str | None, device: str | None
) -> None:
    if query.match != "any" or query.like is None or query.column is not None or query.by is not None:
        raise click.UsageError(
            f"{folder} is an index, which answers only --match any with --like, by its own column without --column and "
            f"without --by; give the features that it was made from"
        )
    from bertfeat import Index
    from bertfeat.usages import find_usages_in_index

    index = Index(folder, model=model, device=device)
    form = form.with_columns(index.kept, lambda: unmet_in_index(index, query.where))
    arguments = query.arguments("like", "k", "where", "one_per_document", "context")
    print_usages(find_usages_in_index(index, word, **arguments), form, query.match)


def _search_features(
    folder: "Location", word: str, query: UsageQuery, form: UsageFormat, model: str | None, device: str | None
) -> None:
    from bertfeat.features import FeatureSet
    from bertfeat.usages import find_usages, find_usages_by

    features = FeatureSet(folder)
    form = _feature_format(features, form, query)
    arguments = query.arguments("like", "match", "k", "column", "where", "one_per_document", "context")
    if query.by is not None:
        sliced = find_usages_by(features, word, query.by, query.slices, model=model, device=device, **arguments)
        print_sliced_usages(sliced, form, query.match)
        return
    print_usages(find_usages(features, word, model=model, device=device, **arguments), form, query.match)


def _group_features(folder: "Location", word: str, query: UsageQuery, form: UsageFormat, plot: Path | None) -> None:
    from bertfeat.features import FeatureSet
    from bertfeat.usages import find_senses

    if plot is not None:
        from bertfeat.plots import draw_senses, picture_path

        picture_path(plot)
    features = FeatureSet(folder)
    form = _feature_format(features, form, query)
    names = ("senses", "match", "k", "column", "where", "one_per_document", "context", "by", "slices")
    senses = find_senses(features, word, **query.arguments(*names))
    if plot is not None:
        draw_senses(senses, plot)
    print_senses(senses, form, query.match)


def _feature_format(features: "FeatureSet", form: UsageFormat, query: UsageQuery) -> UsageFormat:
    from bertfeat.usages import parse_condition_on

    def unmet() -> str:
        condition = parse_condition_on(features, query.where)
        return unmet_line(condition, lambda name: (batch.column(0) for batch in features.stream([name])))

    return form.with_columns(tuple(column.name for column in features.kept), unmet)


def _check_usage_options(query: UsageQuery, as_csv: bool, plot: Path | None, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if query.like is not None and query.senses is not None:
        raise click.UsageError("--like orders usages and --senses groups them; give one of the two")
    if query.slices is not None and query.by is None:
        raise click.UsageError("--slices are slices of a kept column; name it with --by")
    if plot is not None and (query.senses is None or query.by is None):
        raise click.UsageError("--plot draws how --senses are shared out over the slices of --by; give both")
    if as_csv and console.as_json:
        raise click.UsageError("--csv and --json are two forms of one result; give one of the two")
    if (as_csv or console.as_json) and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --csv and --json have none; leave it out")
    for name in ("model", "device"):
        if query.like is None and on_command_line(name):
            raise click.UsageError(
                f"--{name} is for the sentence of --like, and nothing else is embedded; leave it out"
            )
