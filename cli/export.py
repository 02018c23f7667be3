"""``bertfeat export``: write features in forms that other tools read, or load them into a vector database."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.display import format_size
from bertfeat.errors import pluralize

from .app import Command, option
from .bundles import options_on_command_line
from .console import Console, escape_controls, progress_display, two_columns
from .option_types import LOCATION
from .options import default_output, output_options
from .result_lines import NO_VECTOR

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.search import DatabaseReport

FILE_ENDINGS = {
    "npy": ".npy",
    "jsonl": ".jsonl",
    "bert-jsonl": ".bert.jsonl",
    "csv": ".csv",
    "hidden-states": ".hidden_states",
    "saelens": ".saelens",
}
"""The formats, and how their outputs end; the last two are folders."""
DATABASES = {"lance": ("update", "evaluate"), "qdrant": ("url", "collection", "update", "evaluate")}
"""The databases, and for each the options that apply to it but not to every format."""


@click.command(cls=Command, name="export")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@option(
    "--to",
    required=True,
    type=click.Choice([*FILE_ENDINGS, *DATABASES]),
    help="Format or database; bert-jsonl as google writes it, hidden-states as vLLM, saelens as SAELens reads it.",
)
@option(
    "-o",
    "--output",
    type=LOCATION,
    metavar="FILE",
    help="File to write; of hidden-states, saelens a folder, of Lance that or an address, of Qdrant without a server.",
    show_default="corpus.npy for corpus.features",
)
@option(
    "--column",
    metavar="COLUMN",
    help="A column such as concat4_mean, or a derived one such as sum4; needed where there are several.",
)
@option(
    "--spans",
    metavar="RULE",
    help="sentences, paragraphs, words:200[:50] or column:NAME, pooled from tokens; npy, csv, lance, qdrant.",
    show_default="whole documents, tokens or words",
)
@option("--url", metavar="URL", help="Qdrant's server, such as http://localhost:6333; its key in QDRANT_API_KEY.")
@option("--collection", metavar="NAME", help="The collection in Qdrant.", show_default="corpus for corpus.features")
@option("--update", is_flag=True, help="Bring a dataset or collection up to date: write and delete what changed.")
@option("--overwrite", is_flag=True, help="Replace a file, folder, dataset or collection that is there already.")
@option(
    "--evaluate/--no-evaluate",
    default=True,
    further=True,
    help="Whether a database's recall is measured against exact search.",
    show_default="it is",
)
@output_options
def command(
    folder: "Location",
    to: str,
    output: "Location | None",
    column: str | None,
    spans: str | None,
    url: str | None,
    collection: str | None,
    update: bool,
    overwrite: bool,
    evaluate: bool,
    console: Console,
) -> None:
    """Write features in a portable format, or load them into a database, a batch at a time.

    npy: the vectors as float32, and beside them FILE.ids.jsonl with a line a vector; jsonl: an object a document;
    bert-jsonl: tokens and layers as google's extract_features.py writes them; csv: a line a vector;
    hidden-states: a folder with a safetensors file a document, token_ids and hidden_states of the layers side by side;
    saelens: a folder of datasets with token_ids and activations, of rows that bertfeat contexts made.
    lance, qdrant: vectors of length 1 with ids, texts and kept columns; what is there is counted, and recall measured.
    With --update a dataset or collection becomes what the column is now, and only rows that changed are written.
    The features themselves are Parquet, which most tools read as it is.

    \b
    bertfeat export corpus.features --to npy --column concat4_mean
    bertfeat export corpus.features --to csv --column sum4 -o vectors.csv
    bertfeat export corpus.features --to csv --spans sentences
    bertfeat export corpus.features --to lance -o s3://bucket/corpus.lance
    bertfeat export corpus.features --to qdrant --url http://localhost:6333
    """
    _refuse_foreign_options(to, output)
    if to in FILE_ENDINGS:
        from bertfeat.core import export_features

        target = output or default_output([folder], FILE_ENDINGS[to])
        written = export_features(folder, to, str(target), column=column, spans=spans, overwrite=overwrite)
        files = [f"{escape_controls(str(path))}  {format_size(_bytes_of(path))}" for path in written.files]
        console.result(written, [f"{written.documents:,} documents, {written.vectors:,} vectors", *files])
    elif to == "lance":
        from bertfeat.search import export_to_lance

        dataset = output or default_output([folder], ".lance")
        with progress_display(console) as progress:
            report = export_to_lance(
                folder,
                dataset,
                column,
                spans=spans,
                evaluate=evaluate,
                update=update,
                overwrite=overwrite,
                progress=progress,
            )
        _print_database(report, console)
    else:
        from bertfeat.search import export_to_qdrant

        with progress_display(console) as progress:
            report = export_to_qdrant(
                folder,
                column,
                spans=spans,
                url=url,
                folder=output,
                collection=collection,
                api_key=os.environ.get("QDRANT_API_KEY"),
                evaluate=evaluate,
                update=update,
                overwrite=overwrite,
                progress=progress,
            )
        _print_database(report, console)


def _bytes_of(path: Path) -> int:
    """The size of a file, or of all files in a folder."""
    return sum(each.stat().st_size for each in path.iterdir()) if path.is_dir() else path.stat().st_size


def _refuse_foreign_options(to: str, output: "Location | None") -> None:
    """Refuse options that do nothing for this format or database."""
    others = {name for names in DATABASES.values() for name in names} - set(DATABASES.get(to, ()))
    if names := options_on_command_line(among=others):
        raise click.UsageError(f"{names[0]} does nothing for --to {to}; leave it out")
    if to == "qdrant" and output is not None and options_on_command_line(among={"url"}):
        raise click.UsageError("--output is a folder for Qdrant without a server; leave it out, or --url")


def _print_database(report: "DatabaseReport", console: Console) -> None:
    """Print what was loaded, with a warning where its recall is low."""
    if report.zero_vectors:
        console.warn(f"{pluralize(report.zero_vectors, 'zero vector')} without direction, which no search will find")
    if report.advice:
        console.warn(report.advice)
    is_changed = report.removed > 0 or report.added < report.vectors  # it was updated, or an interrupted export resumed
    measured = report.recall
    recall = (
        f"{measured.default:.3f} at {measured.nearest}, for {measured.of.noun} ({measured.queries:,})"
        if measured
        else "not measured"
    )
    rows = [
        ("database", report.place),
        ("collection", report.collection),
        ("added", pluralize(report.added, "vector") if is_changed else None),
        ("removed", pluralize(report.removed, "vector") if is_changed else None),
        ("vectors", f"{report.vectors:,} of {report.column}, cosine"),
        ("documents", f"{report.documents:,}"),
        ("skipped", f"{report.skipped:,} {NO_VECTOR}" if report.skipped else None),
        ("index", report.index),
        ("recall", recall),
    ]
    console.result(report, two_columns(rows))
