"""``bertfeat index``: a feature set becomes an index."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from click.core import ParameterSource

from .app import Command, option
from .console import Console, format_duration, format_size, pluralize, two_columns
from .options import ByteSize, bundle, output_options
from .paths import default_output
from .progress import progress_display, view_index_build

if TYPE_CHECKING:
    from bertfeat.search import BuildOptions, IndexSettings, UpdateReport

SHOWN_UNKNOWN = 5
OF_A_BUILD = (  # what an update cannot change
    *("type", "metric", "memory", "target_recall", "query_prompt", "evaluate", "keep_text", "device"),
    "column",
)


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What kind of index is wanted; the names are those of ``BuildOptions``."""

    type: str
    metric: str
    memory: int | None
    target_recall: float
    evaluate: bool
    keep_text: bool
    query_prompt: str | None
    device: str | None

    def build_options(self) -> "BuildOptions":
        """The same for the Python API."""
        from bertfeat.search import BuildOptions, Metric

        chosen = {name: getattr(self, name) for name in self.__slots__}
        return BuildOptions(**{**chosen, "metric": Metric(self.metric)})


index_options = bundle(
    "wanted",
    IndexOptions,
    ("type", "metric", "memory", "target_recall", "evaluate", "keep_text", "query_prompt", "device"),
    option(
        "--type",
        default="auto",
        metavar="TYPE",
        help="auto, flat (exact), hnsw, ivf, ivfpq, sq8, or a FAISS factory string.",
    ),
    option(
        "--metric",
        type=click.Choice(["cosine", "ip", "l2"]),
        default="cosine",
        help="cosine, inner product, or Euclidean distance.",
    ),
    option(
        "--memory",
        type=ByteSize(),
        metavar="SIZE",
        help="What the index may take, such as 4G.",
        show_default="half of all",
    ),
    option("--target-recall", type=float, default=0.95, metavar="R", help="Share of the true 10 nearest."),
    option(
        "--query-prompt", metavar="TEXT", help="Put before each query.", show_default="the model's own, if it has one"
    ),
    option(
        "--evaluate/--no-evaluate",
        default=True,
        further=True,
        help="Whether recall is measured against exact search and tuned.",
        show_default="it is",
    ),
    option(
        "--text/--no-text",
        "keep_text",
        default=True,
        further=True,
        help="Whether the texts go into the index.",
        show_default="they do",
    ),
    option("--device", metavar="DEVICE", further=True, help="cuda or cuda:1 with faiss-gpu.", show_default="cpu"),
)


@click.command(cls=Command, name="index")
@click.argument("features", nargs=-1, metavar="FEATURES...", type=click.Path(path_type=Path))
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the index is.",
    show_default="corpus.index for corpus.features",
)
@option("--column", metavar="NAME", help="Which column, such as concat4_mean; needed only where there are several.")
@option("--append", is_flag=True, help="Add to the index that is there; documents of the same id are replaced.")
@option("--remove", type=click.File("rb"), metavar="FILE", help="Remove documents: an id a line; - is stdin.")
@index_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    features: tuple[Path, ...],
    output: Path | None,
    column: str | None,
    append: bool,
    remove: BinaryIO | None,
    wanted: IndexOptions,
    console: Console,
) -> None:
    """Build a search index over a column of a feature set, or over several sets of one model.

    The kind of index is chosen by the number of vectors, their width, the memory and the wanted recall, and said.
    Recall is measured against exact search. An index that was there is replaced when the new one is complete; --append
    and --remove keep its type, metric and tuning.

    \b
    bertfeat index corpus.features
    bertfeat index corpus.features --column sum4_mean --type ivf --target-recall 0.99
    bertfeat index more.features -o corpus.index --append
    bertfeat index -o corpus.index --remove ids.txt
    """
    _check_use(context, features, append, remove)
    folder = output or default_output(features or ("-",), ".index")
    if remove is not None:
        from bertfeat.search import remove_documents

        _tell_update(remove_documents(folder, _ids(remove)), folder, console)
    elif append:
        from bertfeat.search import append_features

        with progress_display(console, view_index_build) as progress:
            done = append_features(folder, features, progress=progress)
        _tell_update(done, folder, console)
    else:
        from bertfeat.search import build_index

        with progress_display(console, view_index_build) as progress:
            settings = build_index(features, folder, column, options=wanted.build_options(), progress=progress)
        _tell(settings, folder, console)


def _check_use(context: click.Context, features: tuple[Path, ...], append: bool, remove: BinaryIO | None) -> None:
    if remove is None and not features:
        raise click.UsageError("name the feature set: bertfeat index corpus.features")
    if remove is not None and (features or append):
        raise click.UsageError(
            "--remove takes no feature set and goes without --append: bertfeat index -o DIR --remove FILE"
        )
    if append or remove is not None:
        _refuse_options_of_a_build(context, "--append" if append else "--remove")


def _refuse_options_of_a_build(context: click.Context, update: str) -> None:
    """Refuse what stands on the command line; what is set in the environment is meant for builds."""
    given = [
        (option.secondary_opts if context.params.get(option.name) is False else option.opts)[0]
        for option in context.command.params
        if option.name in OF_A_BUILD and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(given)} with {update}: an update keeps what the index was built with; leave "
            f"{'it' if len(given) == 1 else 'them'} out, or build the index again without {update}"
        )


def _ids(file: BinaryIO) -> list[str]:
    from bertfeat.search.queries import read_queries  # read like a query a line

    return list(read_queries(file, getattr(file, "name", "--remove")))


def _tell(settings: "IndexSettings", folder: Path, console: Console) -> None:
    evaluation, effort = settings.evaluation, settings.effort
    if evaluation is not None and evaluation.recall.get("10", 1.0) < evaluation.wanted:
        console.warn(
            f"recall at 10 is {evaluation.recall['10']:.3f}, less than the wanted {evaluation.wanted}: "
            f"this type cannot reach it; choose flat, hnsw or ivf"
        )
    if settings.zero_vectors and settings.metric == "cosine":
        console.warn(f"{settings.zero_vectors:,} zero vectors have no direction: their cosine with anything is 0")
    rows = [
        ("index", folder),
        ("vectors", f"{settings.count:,} of {settings.width:,} values, {settings.column.name}, {settings.metric}"),
        ("documents", f"{settings.documents:,}"),
        ("skipped", f"{settings.skipped:,} special tokens and words without a vector" if settings.skipped else None),
        ("type", settings.factory),
        ("why", settings.reason),
        ("effort", f"{effort.name} {effort.value}, {'tuned' if effort.tuned else 'a guess'}" if effort else None),
        ("recall", _recall(settings)),
        ("speed", _speed(settings)),
        ("size", format_size(sum(file.bytes for file in settings.files.values()))),
        ("time", format_duration(sum(settings.seconds.values()))),
    ]
    console.result({"folder": folder, **_plain(settings)}, two_columns(rows))


def recall_line(settings: "IndexSettings") -> str | None:
    """The recall that was measured, and what it is of where that is not the index as it is; None if it was not."""
    measured = settings.evaluation
    if measured is None:
        return None
    shares = ", ".join(f"{share:.3f} at {k}" for k, share in measured.recall.items())
    notes = ["over the vectors as its transforms make them"] if measured.transformed else []
    if settings.changed_since_evaluation:
        notes.append(f"at the last build, of {pluralize(measured.vectors, 'vector')}")
    return ", ".join([shares, *notes])


def _recall(settings: "IndexSettings") -> str | None:
    if settings.evaluation is None:
        return "not measured"
    return f"{recall_line(settings)} ({settings.evaluation.queries:,} held-out queries)"


def _speed(settings: "IndexSettings") -> str | None:
    measured = settings.evaluation
    if measured is None:
        return None
    return (
        f"{measured.queries_per_second:,.0f} queries/s in a batch, exact search "
        f"{measured.exact_queries_per_second:,.0f} ({measured.threads} threads)"
    )


def _tell_update(done: "UpdateReport", folder: Path, console: Console) -> None:
    from bertfeat.corpus.document import shorten

    settings = done.settings
    if done.unknown:
        shown = ", ".join(map(shorten, done.unknown[:SHOWN_UNKNOWN]))
        shown += " …" if len(done.unknown) > SHOWN_UNKNOWN else ""
        console.warn(f"{pluralize(len(done.unknown), 'id')} not in the index: {shown}")
    if settings.tombstones:
        console.warn(
            f"an index of type {settings.factory} cannot remove: {settings.tombstones:,} vectors stay in it as "
            f"tombstones, never found, until it is built again"
        )
    rows = [
        ("index", folder),
        ("added", f"{done.added:,} documents" if done.added else None),
        ("removed", f"{done.removed:,} documents"),
        ("vectors", f"{settings.count - settings.tombstones:,}"),
        ("recall", recall_line(settings)),
    ]
    value = {"folder": folder, "added": done.added, "removed": done.removed, "unknown": done.unknown}
    value |= {"vectors": settings.count - settings.tombstones, "tombstones": settings.tombstones}
    console.result({**value, "evaluation": settings.evaluation}, two_columns(rows))


def _plain(settings: "IndexSettings") -> dict[str, Any]:
    names = ("count", "documents", "metric", "type", "factory", "reason", "model", "zero_vectors", "skipped")
    more = ("effort", "evaluation", "query_prompt", "sources", "seconds", "versions")
    return {"column": settings.column.name, **{name: getattr(settings, name) for name in (*names, *more)}}
