"""``bertfeat pretrain``: pre-train a model on a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.core import CorpusSettings
from bertfeat.display import format_duration
from bertfeat.errors import pluralize
from bertfeat.pretraining import PretrainingSettings

from .app import Command, option
from .bundles import set_aside, settings_options
from .console import Console, fields_of, progress_display, two_columns
from .errors import SigtermInterrupt
from .option_types import LOCAL_PATH
from .options import default_output, output_options

if TYPE_CHECKING:
    from bertfeat.pretraining import HeldOutScores, PretrainingEstimate, PretrainingRecord, PretrainingReport


@click.command(cls=Command, name="pretrain")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS...")
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="DIR",
    show_default="corpus.model for corpus.txt",
    help="Where the model goes.",
)
@option("--model", metavar="NAME|DIR", show_default="a new model", help="A model that goes on learning.")
@settings_options("settings", PretrainingSettings)
@option(
    "--document-column",
    metavar="COL",
    help="Rows in a row with one value in it are one document.",
    show_default="blank lines of text files, else files",
)
@settings_options("reading", CorpusSettings, fields=("text_columns", "format", "encoding"))
@option("--revision", further=True, metavar="REV", help="The hub's branch, tag or commit of the model.")
@option("--device", further=True, metavar="DEVICE", show_default="a GPU if there is one", help="cpu or cuda.")
@option(
    "--checkpoint-minutes",
    type=float,
    default=5.0,
    further=True,
    metavar="M",
    help="Time from one checkpoint to the next.",
)
@option("--dry-run", is_flag=True, help="Measure tokens/s, estimate hours, and write nothing.")
@option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is.")
@output_options
def command(
    sources: tuple[str, ...],
    output: Path | None,
    model: str | None,
    settings: PretrainingSettings,
    document_column: str | None,
    reading: CorpusSettings,
    revision: str | None,
    device: str | None,
    checkpoint_minutes: float,
    dry_run: bool,
    overwrite: bool,
    console: Console,
) -> None:
    """Pre-train a BERT on a corpus: from scratch, or going on from another model.

    The rows of CORPUS are sentences or paragraphs. DIR gets a model of Hugging Face with its heads, which
    extract --model and transformers open. Interrupted, the same command goes on from the last checkpoint.

    \b
    bertfeat pretrain corpus.txt --shape tiny --vocabulary 8000 --minutes 10
    bertfeat pretrain novels.csv --document-column title --dry-run
    bertfeat pretrain domain.jsonl --model bert-base-uncased --epochs 3 -o domain.model
    """
    folder = output or default_output(sources, ".model")
    from bertfeat.pretraining import estimate_pretraining, pretrain_model

    if dry_run:
        estimate = estimate_pretraining(
            sources,
            model=model,
            revision=revision,
            settings=settings,
            corpus_settings=reading,
            document_column=document_column,
            device=device,
        )
        _print_pretraining_estimate(estimate, console)
        return
    try:
        with progress_display(console) as progress:
            report = pretrain_model(
                sources,
                folder,
                model=model,
                revision=revision,
                settings=settings,
                corpus_settings=reading,
                document_column=document_column,
                device=device,
                checkpoint_minutes=checkpoint_minutes,
                overwrite=overwrite,
                progress=progress,
            )
    except (KeyboardInterrupt, SigtermInterrupt):
        if folder.exists():  # else it was stopped before it wrote anything
            console.say(
                f"what is done up to the last checkpoint stays in {folder}; the same command goes on from there"
            )
        raise
    _print_pretraining(report, console)


set_aside(command, "text_columns")


def _print_pretraining_estimate(estimate: "PretrainingEstimate", console: Console) -> None:
    """Print how many steps and how much time a pre-training would take."""
    rows = [
        ("model", f"{estimate.parameters:,} parameters"),
        ("corpus", f"about {estimate.pieces:,} pieces, {estimate.sequences:,} sequences an epoch"),
        ("steps", f"{estimate.steps:,}"),
        ("speed", f"{estimate.tokens_per_second:,.0f} tokens/s"),
        ("time", format_duration(estimate.seconds)),
    ]
    console.result(fields_of(estimate), two_columns(rows))


def _print_pretraining(report: "PretrainingReport", console: Console) -> None:
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
    """Each score on the held-out pieces before and after training."""
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
