"""``bertfeat index``: build an index of a feature set, add to it, remove from it."""

from typing import TYPE_CHECKING, BinaryIO

import click

from bertfeat.search import BuildOptions

from .app import Command, option
from .bundles import leave_out, on_command_line, options_on_command_line
from .console import Console
from .index_output import print_index, print_update
from .option_types import LOCATION
from .options import output_options, recorded_model_option
from .paths import default_output
from .progress import progress_display
from .settings_options import option_names, settings_options
from .workers import WaysToWork

if TYPE_CHECKING:
    from bertfeat.io import Location

BUILD_OPTIONS = option_names(BuildOptions)
WORKER_OPTIONS = ("workers", "engine", "address", "scratch")
QUERY_OPTIONS = ("queries", "model")


@click.command(cls=Command, name="index")
@click.argument("features", nargs=-1, metavar="FEATURES...", type=LOCATION)
@option(
    "-o",
    "--output",
    type=LOCATION,
    metavar="DIR",
    help="The index's folder or address.",
    show_default="corpus.index for corpus.features",
)
@option(
    "--column",
    metavar="NAME",
    show_default="the last layer, where one pooling has it, else the only one",
    help="Which column, stored or derived, such as sum4_mean.",
)
@option("--append", is_flag=True, help="Add to an existing index; documents with an id that it has are replaced.")
@option("--remove", type=click.File("rb"), metavar="FILE", help="Remove documents: an id a line; - is stdin.")
@settings_options("options", BuildOptions)
@option(
    "--queries",
    type=click.File("rb"),
    metavar="FILE",
    help="Questions to tune on: one a line, or BEIR's queries.jsonl; - is stdin.",
    show_default="disturbed vectors",
)
@recorded_model_option
@settings_options("ways", WaysToWork)
@option(
    "--scratch",
    type=LOCATION,
    metavar="DIR",
    further=True,
    help="Folder or address for what workers hand on, where they do not see this machine's disk.",
    show_default="beside the index",
)
@output_options
def command(
    features: tuple["Location", ...],
    output: "Location | None",
    column: str | None,
    append: bool,
    remove: BinaryIO | None,
    options: BuildOptions,
    queries: BinaryIO | None,
    model: str | None,
    ways: WaysToWork,
    scratch: "Location | None",
    console: Console,
) -> None:
    """Build a search index over a column of a feature set, or over several sets of one model.

    The type of index is chosen by the number of vectors, their width, the memory and the target recall, and printed
    with the reason. Recall is measured against exact search: for --queries, or else for stored vectors that are
    disturbed until they are as far from the others as questions are. An existing index is replaced when the new one is
    complete; --append and --remove keep its type, metric and tuning.

    \b
    bertfeat index corpus.features
    bertfeat index corpus.features --column sum4_mean --type ivf --target-recall 0.99
    bertfeat index corpus.features --queries questions.txt
    bertfeat index corpus.features --with-tokens last_token
    bertfeat index corpus.features --column concat4_mean --transform half-whiten
    bertfeat index s3://bucket/corpus.features -o s3://bucket/corpus.index --workers 4
    bertfeat index more.features -o corpus.index --append
    bertfeat index -o corpus.index --remove ids.txt
    """
    _check_index_arguments(features, append, remove)
    folder = output or default_output(features or ("-",), ".index")
    if remove is not None:
        from bertfeat.search import remove_documents

        print_update(remove_documents(folder, _read_ids(remove)), folder, console)
    elif append:
        from bertfeat.search import append_features

        with progress_display(console) as progress:
            report = append_features(folder, features, progress=progress)
        print_update(report, folder, console)
    else:
        from bertfeat.search import build_index

        if options.with_tokens is None and on_command_line("token_dtype"):
            raise click.UsageError("--token-dtype is for --with-tokens")
        if model is not None and queries is None:
            raise click.UsageError("--model is for embedding --queries; leave it out")
        ways.check(None)
        engine = ways.make_engine(gpus_per_worker=0)
        if scratch is not None and engine is None:
            raise click.UsageError("--scratch is for --workers and --engine ray")
        texts = None if queries is None else _read_questions(queries)
        with progress_display(console) as progress:
            settings = build_index(
                features,
                folder,
                column,
                options=options,
                queries=texts,
                model=model,
                progress=progress,
                engine=engine,
                scratch=scratch,
            )
        print_index(settings, folder, console)


leave_out(command, "devices", "gpus_per_worker", "shard", "join", "lease")


def _check_index_arguments(features: tuple["Location", ...], append: bool, remove: BinaryIO | None) -> None:
    if remove is None and not features:
        raise click.UsageError("name the feature set: bertfeat index corpus.features")
    if remove is not None and (features or append):
        raise click.UsageError(
            "--remove takes no feature set and goes without --append: bertfeat index -o DIR --remove FILE"
        )
    if append or remove is not None:
        _refuse_build_options("--append" if append else "--remove")


def _refuse_build_options(update: str) -> None:
    """Refuse options that an update cannot change, on the command line; in the environment they are for builds."""
    if names := options_on_command_line(among=(*BUILD_OPTIONS, *WORKER_OPTIONS, *QUERY_OPTIONS, "column")):
        raise click.UsageError(
            f"{', '.join(names)} with {update}: an update keeps what the index was built with; leave "
            f"{'it' if len(names) == 1 else 'them'} out, or build the index again without {update}"
        )


def _read_questions(file: BinaryIO) -> list[str]:
    """The queries of a file: a line each, or the ``text`` of each line of a .jsonl, such as BEIR's queries.jsonl."""
    from bertfeat.errors import UsageError
    from bertfeat.search import read_queries, read_query_records

    name = getattr(file, "name", "<stdin>")
    questions = list(read_query_records(file, name) if str(name).endswith(".jsonl") else read_queries(file, name))
    if not questions:
        raise UsageError("there are no queries to tune on", where=f"--queries {name}", remedy="write a question a line")
    return questions


def _read_ids(file: BinaryIO) -> list[str]:
    from bertfeat.search import read_queries  # read like a query a line

    return list(read_queries(file, getattr(file, "name", "--remove")))
