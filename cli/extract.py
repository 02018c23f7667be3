"""``bertfeat extract``: turn a corpus into a feature set."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED
from bertfeat.extraction import ExtractionOptions

from .app import Command, option
from .console import Console
from .errors import SigtermInterrupt
from .extract_output import print_extraction, print_extraction_estimate
from .option_types import LOCATION, FiniteRange
from .options import FeatureOptions, ModelOptions, feature_options, model_options, output_options, reading_options
from .paths import default_output
from .progress import progress_display
from .settings_options import settings_options
from .workers import WaysToWork

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.extraction import Estimate, Extractor
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
@feature_options
@model_options
@reading_options
@settings_options("run", ExtractionOptions)
@settings_options("ways", WaysToWork)
@option("--dry-run", is_flag=True, help="Estimate rows, tokens, bytes and minutes, and write nothing.")
@option(
    "--price",
    type=FiniteRange(min=0),
    metavar="PER-HOUR",
    further=True,
    help="With --dry-run: what all machines together cost an hour, to say what the run would cost.",
)
@option("--allow-failures", is_flag=True, further=True, help="Exit with 0 though some rows failed.")
@output_options
def command(
    sources: tuple[str, ...],
    output: "Location | None",
    features: FeatureOptions,
    model: ModelOptions,
    reading: "CorpusSettings",
    run: ExtractionOptions,
    ways: WaysToWork,
    dry_run: bool,
    price: float | None,
    allow_failures: bool,
    console: Console,
) -> None:
    """Run a corpus through a frozen BERT and store the chosen layers.

    CORPUS is one or more files, folders, patterns or addresses: text (a document a line), JSONL, CSV, TSV, Parquet,
    CoNLL or SQuAD, compressed or not; - is stdin. The features are a folder of Parquet files. After an interruption
    the same command continues where it stopped.

    \b
    bertfeat extract corpus.txt --layers concat4
    bertfeat extract news.jsonl.gz --text-column title,body --keep year --pooling mean,word
    zcat logs.gz | bertfeat extract - -o logs.features --layers -1,-2
    """
    folder = output or default_output(sources, ".features")
    ways.check(model.device)
    if price is not None and not dry_run:
        raise click.UsageError("--price is for --dry-run")
    if dry_run and (ways.shard is not None or ways.join):
        raise click.UsageError("--dry-run is about all parts: leave out --shard and --join")
    model = replace(model, device=ways.first_device or model.device)
    from bertfeat.extraction import Extractor  # torch: seconds
    from bertfeat.installation import kernels_note

    extractor = Extractor(**asdict(model), **asdict(features))
    ways.check_device(extractor.device.type)
    if dry_run:
        estimate = _estimate_corpus(extractor, sources, reading, run, ways)
        print_extraction_estimate(estimate, folder, price, console)
        return
    try:
        with progress_display(console) as progress:
            report = extractor.extract(
                sources,
                folder,
                corpus_settings=reading,
                progress=progress,
                engine=ways.make_engine(),
                sharing=ways.make_sharing(),
                **asdict(run),
            )
    except (KeyboardInterrupt, SigtermInterrupt):
        console.say(f"the finished parts stay in {folder}; the same command goes on from there")
        raise
    print_extraction(report, console)
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
) -> "Estimate":
    from bertfeat.extraction import estimate_extraction

    return estimate_extraction(
        extractor,
        sources,
        corpus_settings=reading,
        keep_text=run.keep_text,
        workers=ways.worker_count,
        share_cores=ways.engine is None,
    )
