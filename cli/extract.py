"""``bertfeat extract``: turn a corpus into a feature set."""

from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.core import ExtractionOptions, ExtractorSettings
from bertfeat.display import format_duration, format_size
from bertfeat.errors import ROWS_FAILED, pluralize

from .app import Command, option
from .bundles import settings_options
from .console import Console, escape_controls, fields_of, progress_display, two_columns
from .errors import SigtermInterrupt
from .layer_search import LayerSearch
from .option_types import LOCATION
from .options import default_output, extractor_options, output_options, reading_options
from .workers import WaysToWork

if TYPE_CHECKING:
    from bertfeat.core import CorpusSettings, Estimate, ExtractionReport, Extractor
    from bertfeat.io import Location


@click.command(cls=Command, name="extract")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS...")
@option(
    "-o",
    "--output",
    type=LOCATION,
    metavar="DIR",
    help="Folder of the features, or its address: s3://bucket/corpus.features.",
    show_default="corpus.features for corpus.txt",
)
@extractor_options
@reading_options
@settings_options("run", ExtractionOptions)
@settings_options("ways", WaysToWork)
@settings_options("sought", LayerSearch)
@option("--dry-run", is_flag=True, help="Estimate rows, tokens, bytes and minutes, and write nothing.")
@option("--allow-failures", is_flag=True, further=True, help="Exit with 0 though some rows failed.")
@output_options
def command(
    sources: tuple[str, ...],
    output: "Location | None",
    settings: ExtractorSettings,
    reading: "CorpusSettings",
    run: ExtractionOptions,
    ways: WaysToWork,
    sought: LayerSearch,
    dry_run: bool,
    allow_failures: bool,
    console: Console,
) -> None:
    """Run a corpus through a frozen BERT and store the chosen layers.

    CORPUS is one or more files, folders, patterns or addresses: text (a document a line), JSON, JSONL, CSV, TSV,
    Parquet, CoNLL or SQuAD, compressed or not; - is stdin. The features are a folder of Parquet files. After an
    interruption the same command continues where it stopped.

    \b
    bertfeat extract corpus.txt --layers concat4
    bertfeat extract corpus.conll --layers auto --for tags --dev dev.conll
    bertfeat extract news.jsonl.gz --text-column title,body --keep year --pooling mean,word
    zcat logs.gz | bertfeat extract - -o logs.features --layers -1,-2
    """
    folder = output or default_output(sources, ".features")
    if settings.device is not None and "," in settings.device:
        devices = tuple(each.strip() for each in settings.device.split(","))
        settings, ways = replace(settings, device=devices[0]), replace(ways, devices=devices)
    ways.check()
    if dry_run and ways.join:
        raise click.UsageError("--dry-run is about all parts: leave out --join")
    from bertfeat.core import (
        Extractor,  # here, because it imports torch, which takes seconds
        kernels_note,
    )

    settings, chosen = sought.settle(settings, reading, folder, console, overwrite=run.overwrite)
    extractor = Extractor(**asdict(settings))
    ways.check_device(extractor.device.type)
    if dry_run:
        estimate = _estimate_corpus(extractor, sources, reading, run, ways, folder)
        _print_extraction_estimate(estimate, folder, console)
        return
    try:
        with progress_display(console) as progress:
            report = extractor.extract(
                sources,
                folder,
                corpus_settings=reading,
                progress=progress,
                engine=ways.make_engine(),
                join=ways.make_join(),
                chosen=chosen,
                **asdict(run),
            )
    except (KeyboardInterrupt, SigtermInterrupt):
        if not isinstance(folder, Path) or folder.exists():  # else it was stopped before it wrote anything
            console.say(f"the finished parts stay in {folder}; the same command goes on from there")
        raise
    _print_extraction(report, console)
    if run.width is not None or run.basis is not None:
        _say_kept(report.folder, console)
    if settings.only and not report.counts.words:
        console.warn("no word of the corpus is among those of --only, so that no vector is stored")
    if note := kernels_note():
        console.say(note)
    if report.failed and not allow_failures:
        raise click.exceptions.Exit(ROWS_FAILED)


def _estimate_corpus(
    extractor: "Extractor",
    sources: tuple[str, ...],
    reading: "CorpusSettings",
    run: ExtractionOptions,
    ways: WaysToWork,
    folder: "Location",
) -> "Estimate":
    from bertfeat.core import estimate_extraction

    return estimate_extraction(
        extractor,
        sources,
        corpus_settings=reading,
        options=run,
        workers=ways.worker_count,
        share_cores=ways.engine is None,
        folder=folder,
    )


def _print_extraction_estimate(estimate: "Estimate", folder: "Location", console: Console) -> None:
    """Print what a run would write, and how long it would take."""
    kinds = f"{estimate.documents:,} documents, {estimate.failed:,} failed, {estimate.blank:,} blank"
    rows = [
        ("would write", folder),
        ("rows", f"{estimate.rows:,}: {kinds}"),
        ("tokens", f"about {estimate.tokens:,}"),
        ("on disk", f"about {format_size(estimate.bytes)}"),
        ("time", f"about {format_duration(estimate.seconds)} at {estimate.tokens_per_second:,.0f} tokens/s"),
    ]
    if estimate.change is not None:
        rows.insert(1, ("changed", str(estimate.change)))
    if estimate.workers > 1:
        rows.insert(-1, ("workers", f"{estimate.workers:,}"))
    console.result(fields_of(estimate), two_columns(rows))


def _print_extraction(report: "ExtractionReport", console: Console) -> None:
    """Print what a run did, with warnings and notes about single rows on stderr."""
    if report.failed:
        from bertfeat.core import FeatureSet

        reasons = "".join(f"\n  {failure.reason}" for failure in islice(FeatureSet(report.folder).failures(), 5))
        told = f"{report.failure_list} lists all of them, of which the first are:{reasons}"
        console.warn(f"{pluralize(report.failed, 'row')} failed; {told}")
    for note in _run_notes(report):
        console.say(note)
    rates = {"tokens_per_second": report.tokens_per_second, "padding_share": report.padding_share}
    console.result({**fields_of(report), **rates}, [escape_controls(_run_summary(report)).replace("\n", "\\n")])


def _say_kept(folder: "Location", console: Console) -> None:
    from bertfeat.core import FeatureSet

    for column in FeatureSet(folder).columns:
        if column.basis is not None:
            kept = f"{column.basis.kept:.1%} of the squared lengths of a sample"
            console.say(f"{column.name} is stored by {column.basis.width} components, which keep {kept}")


def _run_summary(report: "ExtractionReport") -> str:
    """The summary of a run on one line: what the folder holds and what the run did."""
    counts = report.counts
    contents = f"{report.folder}: {pluralize(counts.documents, 'document')}, {pluralize(counts.tokens, 'token')}"
    stored = f"{format_size(report.bytes)} in {pluralize(report.parts, 'part')}"
    if report.nothing_to_do:
        return f"{contents}, {stored}; nothing to do, all of it was there"
    existing = f" ({report.kept_parts:,} of them were there)" if report.kept_parts else ""
    if report.copied:
        existing += f", {pluralize(report.copied, 'text')} copied"
        speed = f"{pluralize(report.computed_tokens, 'token')} computed"
    else:
        speed = f"{report.tokens_per_second:,.0f} tokens/s"
    return f"{contents}, {stored}{existing}; {speed}, {format_duration(report.seconds)}"


def _run_notes(report: "ExtractionReport") -> list[str]:
    """Notes about rows, tokens, words and batches that were not handled as usual, if there were any."""
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
