"""The output of ``bertfeat merge``."""

from typing import TYPE_CHECKING

from bertfeat.display import format_size
from bertfeat.errors import pluralize

from .console import Console, escape_controls, fields_of

if TYPE_CHECKING:
    from bertfeat.distributed import MergeReport


def print_merge(report: "MergeReport", console: Console) -> None:
    """Print what the merged set holds, with warnings about rows that failed and shards that were made differently."""
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
