"""The output of ``bertfeat pretrain``, and of ``info`` for what it wrote."""

from typing import TYPE_CHECKING

from bertfeat.display import format_duration
from bertfeat.errors import pluralize

from .console import Console, fields_of, two_columns

if TYPE_CHECKING:
    from bertfeat.pretraining import HeldOutScores, PretrainingEstimate, PretrainingRecord, PretrainingReport


def print_pretraining_estimate(estimate: "PretrainingEstimate", console: Console) -> None:
    """Print what a pre-training would take."""
    rows = [
        ("model", f"{estimate.parameters:,} parameters"),
        ("corpus", f"about {estimate.pieces:,} pieces, {estimate.sequences:,} sequences an epoch"),
        ("steps", f"{estimate.steps:,}"),
        ("speed", f"{estimate.tokens_per_second:,.0f} tokens/s"),
        ("time", format_duration(estimate.seconds)),
    ]
    console.result(fields_of(estimate), two_columns(rows))


def print_pretraining(report: "PretrainingReport", console: Console) -> None:
    """Print what a pre-training did."""
    for note in report.notes:
        console.say(note)
    for warning in report.warnings:
        console.warn(warning)
    if not report.trained:
        console.say(f"{report.folder}: trained already, nothing to do")
    record = report.record
    result: dict[str, object] = {"folder": report.folder, "trained": report.trained, "resumed": report.resumed}
    result |= {"steps": record.steps, "tokens": record.tokens, "seconds": record.seconds}
    result |= {"before": record.before, "after": record.after, "figures": record.figures}
    console.result(result, two_columns([("model", report.folder), *pretraining_rows(record)]))


def pretraining_rows(record: "PretrainingRecord") -> list[tuple[str, object]]:
    """Format a record for people, as names and values."""
    settings, figures = record.identity.settings, record.figures
    begun = f"a new {settings.shape}" if record.model is None else f"going on from {record.model}"
    return [
        ("trained", f"{begun}, {settings.objective}, {record.steps:,} steps of {settings.batch_size} sequences"),
        ("corpus", f"{pluralize(figures.documents, 'document')}, {figures.pieces:,} pieces"),
        ("held out", f"{figures.held_out}, {figures.held_out_pieces:,} pieces"),
        *_score_rows(record.before, record.after),
        ("speed", f"{record.tokens / max(record.seconds, 1e-9):,.0f} tokens/s"),
        ("time", format_duration(record.seconds)),
    ]


def _score_rows(before: "HeldOutScores | None", after: "HeldOutScores | None") -> list[tuple[str, object]]:
    """Each score before and after."""
    if before is None or after is None:
        return []
    rows: list[tuple[str, object]] = [
        (
            "loss",
            f"{before.loss:.3f} → {after.loss:.3f}; by frequencies alone {after.unigram_loss:.3f}, "
            f"with unchanged pieces copied {after.copying_loss:.3f}",
        ),
        (
            "accuracy",
            f"{before.accuracy:.1%} → {after.accuracy:.1%} of {after.predicted:,} predicted pieces; "
            f"by frequencies and copying {after.copying_accuracy:.1%}",
        ),
    ]
    if before.next_accuracy is not None and after.next_accuracy is not None:
        shown = f"{before.next_accuracy:.1%} → {after.next_accuracy:.1%} of {after.sequences:,} pairs"
        rows.append(("next sentence", shown))
    if before.perplexity is not None and after.perplexity is not None:
        rows.append(("perplexity", f"{before.perplexity:,.1f} → {after.perplexity:,.1f}"))
    return rows
