"""The output of ``bertfeat export``: of files, and of what a database was loaded with."""

from typing import TYPE_CHECKING

from bertfeat.display import format_size
from bertfeat.errors import pluralize

from .console import Console, escape_controls, two_columns

if TYPE_CHECKING:
    from bertfeat.features import ExportReport
    from bertfeat.search import DatabaseReport


def print_files(report: "ExportReport", console: Console) -> None:
    """Print what was written."""
    summary = f"{report.documents:,} documents, {report.vectors:,} vectors"
    files = [f"{escape_controls(str(path))}  {format_size(path.stat().st_size)}" for path in report.files]
    console.result(report, [summary, *files])


def print_database(report: "DatabaseReport", console: Console) -> None:
    """Print what was loaded, with a warning where its recall is low."""
    if report.resumed:
        console.say(f"an interrupted export had loaded {pluralize(report.resumed, 'vector')}; the others were added")
    if report.zero_vectors:
        console.warn(f"{pluralize(report.zero_vectors, 'zero vector')} without direction, which no search will find")
    if report.advice:
        console.warn(report.advice)
    measured = report.recall
    recall = (
        f"{measured.default:.3f} at {measured.nearest}, for {measured.of.noun} ({measured.queries:,})"
        if measured
        else "not measured"
    )
    rows = [
        ("database", report.place),
        ("collection", report.collection),
        ("vectors", f"{report.vectors:,} of {report.column}, cosine"),
        ("documents", f"{report.documents:,}"),
        ("skipped", f"{report.skipped:,} special tokens and words without a vector" if report.skipped else None),
        ("index", report.index),
        ("recall", recall),
    ]
    console.result(report, two_columns(rows))
