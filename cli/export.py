"""``bertfeat export``: write features in forms that other tools read."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .console import Console, escape_controls, format_size
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options
from .paths import default_output

if TYPE_CHECKING:
    from bertfeat.io import Location

FILE_ENDINGS = {"npy": ".npy", "jsonl": ".jsonl", "bert-jsonl": ".bert.jsonl", "csv": ".csv"}


@click.command(cls=Command, name="export")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@option(
    "--to",
    required=True,
    type=click.Choice(list(FILE_ENDINGS)),
    help="Format; bert-jsonl is that of google's extract_features.py.",
)
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="FILE",
    help="File to write.",
    show_default="corpus.npy for corpus.features",
)
@option(
    "--column",
    metavar="COLUMN",
    help="A column such as concat4_mean, or a derived one such as sum4; needed where there are several.",
)
@option("--overwrite", is_flag=True, help="Replace a file that is there already.")
@output_options
def command(
    folder: "Location", to: str, output: Path | None, column: str | None, overwrite: bool, console: Console
) -> None:
    """Write features in a portable format, a batch at a time.

    npy: the vectors as float32, and beside them FILE.ids.jsonl with a line a vector; jsonl: an object a document;
    bert-jsonl: tokens and layers as google's extract_features.py writes them; csv: a line a vector.
    The features themselves are Parquet, which most tools read as it is.

    \b
    bertfeat export corpus.features --to npy --column concat4_mean
    bertfeat export corpus.features --to csv --column sum4 -o vectors.csv
    """
    from bertfeat.features import export_features

    target = output or default_output([folder], FILE_ENDINGS[to])
    report = export_features(folder, to, target, column=column, overwrite=overwrite)
    summary = f"{report.documents:,} documents, {report.vectors:,} vectors"
    files = [f"{escape_controls(str(path))}  {format_size(path.stat().st_size)}" for path in report.files]
    console.result(report, [summary, *files])
