"""``bertfeat index``: build a search index of feature sets, or bring it up to date, and print a report."""

from typing import TYPE_CHECKING, BinaryIO

import click

from bertfeat.display import format_duration, format_size
from bertfeat.errors import pluralize
from bertfeat.search import BuildOptions

from .app import Command, option
from .bundles import on_command_line, option_names, options_on_command_line, settings_options
from .console import Console, progress_display, two_columns
from .option_types import LOCATION
from .options import default_output, output_options, recorded_model_option
from .result_lines import NO_VECTOR

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.search import IndexSettings, RecallReport, UpdateReport, Whitening


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
    help="Which column, stored or derived, such as sum4_mean; of tokens or words for --spans and --encode.",
)
@option("--update", is_flag=True, help="Make the index what its sets are now; sets that are new to it join it.")
@option(
    "--remove",
    type=click.File("rb"),
    metavar="FILE",
    help="Remove documents: an id a line; - is stdin.",
)
@settings_options("options", BuildOptions)
@option(
    "--queries",
    type=click.File("rb"),
    metavar="FILE",
    help="Questions to tune on: one a line, or BEIR's queries.jsonl; - is stdin.",
    show_default="disturbed vectors",
)
@recorded_model_option
@option("--overwrite", is_flag=True, further=True, help="Replace an index that is also of other feature sets.")
@output_options
def command(
    features: tuple["Location", ...],
    output: "Location | None",
    column: str | None,
    update: bool,
    remove: BinaryIO | None,
    options: BuildOptions,
    queries: BinaryIO | None,
    model: str | None,
    overwrite: bool,
    console: Console,
) -> None:
    """Build a search index over a column of a feature set, or over several sets of one model.

    The type of index is chosen by the number of vectors, their width, the memory and the target recall, and printed
    with the reason. Recall is measured against exact search: for --queries, or else for stored vectors that are
    disturbed until they are as far from the others as questions are. An existing index of the same sets is replaced
    when the new one is complete, of others only with --overwrite. With --update only documents that changed are put in
    or taken out; it reads the sets that are named, or else all that the index records, and keeps type and tuning.

    \b
    bertfeat index corpus.features
    bertfeat index corpus.features --column sum4_mean --type ivf --target-recall 0.99
    bertfeat index corpus.features --queries questions.txt
    bertfeat index corpus.features --with-tokens last_token
    bertfeat index corpus.features --column concat4_mean --transform half-whiten
    bertfeat index books.features --spans sentences
    bertfeat index corpus.features --column sum4_token --encode fde
    bertfeat index s3://bucket/corpus.features -o s3://bucket/corpus.index
    bertfeat index corpus.features --update
    bertfeat index more.features -o corpus.index --update
    bertfeat index -o corpus.index --remove ids.txt
    """
    _check_index_arguments(features, output, update, remove)
    folder = output or default_output(features, ".index")
    if update or remove is not None:
        from bertfeat.search import read_queries, remove_documents, update_index

        name = getattr(remove, "name", "--remove")
        ids = [] if remove is None else list(read_queries(remove, name))  # one per line, like queries
        if update:
            with progress_display(console) as progress:
                report = update_index(folder, features or None, remove=ids, progress=progress)
        else:
            report = remove_documents(folder, ids)
        _print_update(report, folder, console)
    else:
        from bertfeat.search import build_index

        if options.with_tokens is None and on_command_line("pool_tokens"):
            raise click.UsageError("--pool-tokens is for --with-tokens")
        if model is not None and queries is None:
            raise click.UsageError("--model is for embedding --queries; leave it out")
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
                overwrite=overwrite,
            )
        _print_index(settings, folder, console)


def _check_index_arguments(
    features: tuple["Location", ...], output: "Location | None", update: bool, remove: BinaryIO | None
) -> None:
    """Refuse arguments that do not go together, and options that an update cannot change."""
    given = "--update" if update else "--remove" if remove is not None else ""
    if not features and not given:
        raise click.UsageError("name the feature set: bertfeat index corpus.features")
    if features and given == "--remove":
        raise click.UsageError("--remove takes a feature set only with --update: bertfeat index -o DIR --remove FILE")
    if output is None and not features:
        raise click.UsageError(
            f"name the index with -o: bertfeat index -o corpus.index {given if update else '--remove FILE'}"
        )
    # only those on the command line are refused: environment variables are meant for builds
    others = ("column", "queries", "model", "overwrite")
    build_only = (*option_names(BuildOptions), *others)
    if given and (names := options_on_command_line(among=build_only)):
        raise click.UsageError(
            f"{', '.join(names)} with {given}: an update keeps what the index was built with; leave "
            f"{'it' if len(names) == 1 else 'them'} out, or build the index again without {given}"
        )


def _read_questions(file: BinaryIO) -> list[str]:
    """Read the queries of a file: its lines, or the ``text`` of each line of a .jsonl such as BEIR's queries.jsonl."""
    from bertfeat.errors import UsageError
    from bertfeat.search import read_queries, read_query_records

    name = getattr(file, "name", "<stdin>")
    questions = list(read_query_records(file, name) if str(name).endswith(".jsonl") else read_queries(file, name))
    if not questions:
        raise UsageError("there are no queries to tune on", where=f"--queries {name}", remedy="write a question a line")
    return questions


# fields of the settings that the result has as JSON
_JSON_FIELDS = (
    *(
        "spans",
        "encoding",
        "count",
        "documents",
        "metric",
        "type",
        "factory",
        "reason",
        "model",
        "zero_vectors",
        "skipped",
        "transform",
    ),
    *("effort", "evaluation", "query_prompt", "sources", "tokens", "seconds", "versions"),
)


def _print_index(settings: "IndexSettings", folder: "Location", console: Console) -> None:
    """Print what was built, with warnings about its recall, its zero vectors and its transform."""
    evaluation, effort = settings.evaluation, settings.effort
    if evaluation is not None and evaluation.recall.get("10", 1.0) < evaluation.wanted:
        console.warn(_too_little_recall(evaluation, settings.factory))
    if settings.zero_vectors and settings.metric == "cosine":
        console.warn(f"{settings.zero_vectors:,} zero vectors have no direction: their cosine with anything is 0")
    if settings.transform is not None and settings.transform.is_wide_for(settings.count):
        console.warn(_too_wide(settings.transform, settings.count))
    recall = "not measured" if evaluation is None else f"{recall_line(settings)} ({evaluation.queries:,} held out)"
    rows = [
        ("index", folder),
        ("vectors", f"{settings.count:,} of {settings.width:,} values, {settings.contents}, {settings.metric}"),
        ("transform", transform_line(settings)),
        ("documents", f"{settings.documents:,}"),
        ("skipped", f"{settings.skipped:,} {NO_VECTOR}" if settings.skipped else None),
        ("tokens", tokens_line(settings)),
        ("type", settings.factory),
        ("why", settings.reason),
        ("effort", f"{effort.name} {effort.value}, {'tuned' if effort.tuned else 'a guess'}" if effort else None),
        ("recall", recall),
        ("speed", _search_speed(settings)),
        ("size", format_size(sum(file.bytes for file in settings.files.values()))),
        ("time", format_duration(sum(settings.seconds.values()))),
    ]
    fields = {name: getattr(settings, name) for name in _JSON_FIELDS}
    console.result({"folder": folder, "column": settings.column.name, **fields}, two_columns(rows))


def _print_update(report: "UpdateReport", folder: "Location", console: Console) -> None:
    """Print what an update added and removed, and what stayed."""
    from bertfeat.errors import shorten

    settings = report.settings
    if report.unknown:
        shown = ", ".join(map(shorten, report.unknown[:5])) + (" …" if len(report.unknown) > 5 else "")
        console.warn(f"{pluralize(len(report.unknown), 'id')} not in the index: {shown}")
    if report.advice:
        console.warn(report.advice)
    vectors = settings.count - settings.tombstones
    rows = [
        ("index", folder),
        ("added", pluralize(report.added, "document")),
        ("removed", pluralize(report.removed, "document")),
        ("kept", pluralize(report.kept, "document")),
        ("vectors", f"{vectors:,}"),
        ("recall", recall_line(settings)),
    ]
    changes = {"added": report.added, "removed": report.removed, "kept": report.kept}
    value: dict[str, object] = {"folder": folder, **changes}
    value |= {"unknown": report.unknown, "vectors": vectors, "tombstones": settings.tombstones}
    value |= {"evaluation": settings.evaluation}
    console.result(value, two_columns(rows))


def tokens_line(settings: "IndexSettings") -> str | None:
    """Describe the token vectors that the index keeps; None where it keeps none."""
    kept = settings.tokens
    if kept is None:
        return None
    strings = ", without the tokens themselves" if kept.distinct is None else ""
    strings = f", {kept.pooled} times fewer than tokens{strings}" if kept.pooled > 1 else strings
    return f"{kept.count:,} of {kept.column.width:,} values, {kept.column.name}, {kept.column.dtype}{strings}"


def recall_line(settings: "IndexSettings") -> str | None:
    """Describe the measured recall, and say so if it is not that of the index as it is now; None: not measured."""
    measured = settings.evaluation
    if measured is None:
        return None
    shares = ", ".join(f"{share:.3f} at {k}" for k, share in measured.recall.items())
    shares += f", for {measured.of.noun}"
    notes = ["of the transformed vectors"] if measured.transformed else []
    if settings.changed_since_evaluation:
        notes.append(f"measured when it had {pluralize(measured.vectors, 'vector')}")
    return ", ".join([shares, *notes])


def transform_line(settings: "IndexSettings") -> str | None:
    """The transform of an index and the width that it leaves; None where there is none."""
    transform = settings.transform
    return None if transform is None else f"{transform.kind}, to {transform.width:,} values"


def _too_wide(transform: "Whitening", count: int) -> str:
    """The warning that a whitening keeps too many values for so few vectors."""
    return (
        f"{transform}: {count:,} vectors are few for so many values, and lie nearly equally far from one another when "
        f"whitened in full; give a width, such as whiten:{max(1, count // 10)}, or take half-whiten"
    )


def _too_little_recall(evaluation: "RecallReport", factory: str) -> str:
    """The warning that the recall is less than the wanted one."""
    told = f"recall at 10 is {evaluation.recall['10']:.3f} for {evaluation.of.noun}"
    told += f", less than the wanted {evaluation.wanted}"
    has_codes = "PQ" in factory or "SQ" in factory
    if evaluation.of == "given" and has_codes:
        return f"{told}: this type cannot reach it; choose flat, hnsw or ivf"
    if evaluation.of == "given":
        return f"{told}; tune on more queries, or with a higher --target-recall"
    codes = "quantization loses more of these than of questions: " if has_codes else ""
    return f"{told}; {codes}--queries FILE tells what is found for questions"


def _search_speed(settings: "IndexSettings") -> str | None:
    measured = settings.evaluation
    if measured is None:
        return None
    return (
        f"{measured.queries_per_second:,.0f} queries/s in a batch, exact search "
        f"{measured.exact_queries_per_second:,.0f} ({measured.threads} threads)"
    )
