"""``bertfeat merge``: make one feature set of the shards of a run."""

from typing import TYPE_CHECKING

import click

from bertfeat.display import format_size
from bertfeat.errors import pluralize

from .app import Command, option
from .console import Console, escape_controls, fields_of, progress_display
from .option_types import LOCATION
from .options import output_options

if TYPE_CHECKING:
    from bertfeat.core import Location


@click.command(cls=Command, name="merge")
@click.argument("shards", nargs=-1, required=True, metavar="DIR...", type=LOCATION)
@option("-o", "--output", required=True, type=LOCATION, metavar="DIR", help="Folder of the whole feature set.")
@option("--overwrite", is_flag=True, help="Replace another feature set in that folder.")
@output_options
def command(shards: tuple["Location", ...], output: "Location", overwrite: bool, console: Console) -> None:
    """Make one feature set of the shards of a run, which extract --shard I/N wrote, each into its folder DIR.

    The result is the feature set that a single run would have made, byte for byte. Shards may be named in any order;
    they stay as they are, and on one file system the result takes no more room. All rows of the corpus must be there,
    once each. What is missing, damaged or of another run is named. After an interruption, or when a shard was done
    again, the same command does the rest. Rows that failed are told and listed; the exit code is 0.

    \b
    bertfeat extract corpus.txt --shard 0/3 -o shard-0
    bertfeat merge shard-* -o corpus.features
    bertfeat merge s3://bucket/shard-0 s3://bucket/shard-1 -o s3://bucket/corpus.features
    """
    from bertfeat.scale import merge_features

    with progress_display(console) as progress:
        report = merge_features(shards, output, overwrite=overwrite, progress=progress)
    if report.failed:
        console.warn(f"{pluralize(report.failed, 'row')} failed; {report.failure_list} lists them")
    for warning in report.warnings:
        console.warn(warning)
    contents = f"{report.folder}: {pluralize(report.documents, 'document')} of {pluralize(report.shards, 'shard')}"
    stored = f"{format_size(report.bytes)} in {pluralize(report.parts, 'part')}"
    there = f" ({report.kept_parts:,} of them were there)" if report.kept_parts else ""
    if report.nothing_to_do:
        there = "; nothing to do, all of it was there"
    console.result(fields_of(report), [escape_controls(f"{contents}, {stored}{there}").replace("\n", "\\n")])
