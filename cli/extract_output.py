"""The output of ``bertfeat extract``: of a run, or of its estimate."""

from itertools import islice
from typing import TYPE_CHECKING

from bertfeat.display import format_duration, format_size
from bertfeat.errors import pluralize

from .console import Console, escape_controls, fields_of, two_columns

if TYPE_CHECKING:
    from bertfeat.extraction import Estimate, ExtractionReport
    from bertfeat.io import Location

SHOWN_FAILURES = 5


def print_extraction_estimate(estimate: "Estimate", folder: "Location", price: float | None, console: Console) -> None:
    """Print what a run would write, how long it would take, and what it would cost at a ``price`` an hour."""
    cost = None if price is None else price * estimate.seconds / 3600
    kinds = f"{estimate.documents:,} documents, {estimate.failed:,} failed, {estimate.blank:,} blank"
    rows = [
        ("would write", folder),
        ("rows", f"{estimate.rows:,}: {kinds}"),
        ("tokens", f"about {estimate.tokens:,}"),
        ("on disk", f"about {format_size(estimate.bytes)}"),
        ("time", f"about {format_duration(estimate.seconds)} at {estimate.tokens_per_second:,.0f} tokens/s"),
    ]
    if estimate.workers > 1:
        rows.insert(-1, ("workers", f"{estimate.workers:,}"))
    if cost is not None:
        rows.append(("cost", f"about {cost:,.2f} at {price:,.2f} an hour"))
    console.result({**fields_of(estimate), "cost": cost}, two_columns(rows))


def print_extraction(report: "ExtractionReport", console: Console) -> None:
    """Print what a run did, with warnings and notes about single rows on stderr."""
    if report.failed:
        reasons = "".join(f"\n  {reason}" for reason in _first_failures(report.folder))
        all_of_them = f"{report.failure_list} lists all of them, of which " if _has_failure_list(report) else ""
        listed = f"{all_of_them}the first are:{reasons}"
        console.warn(f"{pluralize(report.failed, 'row')} failed; {listed}")
    for note in _run_notes(report):
        console.say(note)
    rates = {"tokens_per_second": report.tokens_per_second, "padding_share": report.padding_share}
    console.result({**fields_of(report), **rates}, [escape_controls(_run_summary(report)).replace("\n", "\\n")])


def _run_summary(report: "ExtractionReport") -> str:
    """One line: what the folder holds and what the run did."""
    counts = report.counts
    contents = f"{report.folder}: {pluralize(counts.documents, 'document')}, {pluralize(counts.tokens, 'token')}"
    stored = f"{format_size(report.bytes)} in {pluralize(report.parts, 'part')}"
    if report.nothing_to_do:
        return f"{contents}, {stored}; nothing to do, all of it was there"
    existing = f" ({report.kept_parts:,} of them were there)" if report.kept_parts else ""
    return (
        f"{contents}, {stored}{existing}; {report.tokens_per_second:,.0f} tokens/s, {format_duration(report.seconds)}"
    )


def _run_notes(report: "ExtractionReport") -> list[str]:
    """Notes about single rows, tokens and words, as far as there is something to note."""
    counts = report.counts
    cut = f"{pluralize(counts.truncated_tokens, 'token')} of {pluralize(counts.truncated_documents, 'document')}"
    words = f"{counts.unaligned_words:,} of {pluralize(counts.words, 'word')}"
    notes = [
        (report.blank, f"{pluralize(report.blank, 'blank line')} skipped"),
        (counts.empty_texts, f"{pluralize(counts.empty_texts, 'empty text')}: documents of special tokens only"),
        (counts.truncated_documents, f"{cut} cut off; the column n_truncated says where"),
        (counts.unaligned_words, f"{words} without a vector: zeros, and false in the column aligned"),
        (report.split_batches, f"{report.split_batches:,} times a batch was split because memory ran out"),
    ]
    return [note for number, note in notes if number]


def _first_failures(folder: "Location") -> list[str]:
    from bertfeat.features import FeatureSet

    features = FeatureSet(folder, allow_unfinished=True)  # a shard is never finished
    return [failure.reason for failure in islice(features.failures(), SHOWN_FAILURES)]


def _has_failure_list(report: "ExtractionReport") -> bool:
    """Whether there is one: that of a shard comes with the whole set."""
    from bertfeat.io import file_stamp

    return file_stamp(report.failure_list) is not None
