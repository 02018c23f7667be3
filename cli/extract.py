"""``bertfeat extract``: turn a corpus into a feature set."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from .app import Command, option
from .bundles import bundle
from .console import Console
from .errors import SigtermInterrupt
from .extract_output import print_extraction, print_extraction_estimate
from .options import FeatureOptions, ModelOptions, feature_options, model_options, output_options, reading_options
from .paths import default_output
from .progress import progress_display, view_extraction

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.extraction import Estimate, Extractor


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """Options of the run; the names are those of the arguments of ``Extractor.extract``."""

    part_rows: int | None
    max_failures: int | None
    strict: bool
    overwrite: bool
    keep_text: bool


run_options = bundle(
    "run",
    ExtractOptions,
    ("part_rows", "max_failures", "strict", "overwrite", "keep_text"),
    option(
        "--overwrite",
        is_flag=True,
        help="Start anew in a folder with parts of another run.",
        show_default="go on from there",
    ),
    option(
        "--part-rows",
        type=click.IntRange(min=1),
        metavar="N",
        further=True,
        help="Most rows of a part, which also ends at 256 MiB of features or 16 Mi characters.",
        show_default="16,384, or as in the folder",
    ),
    option("--max-failures", type=click.IntRange(min=0), metavar="N", further=True, help="Stop after N failed rows."),
    option("--strict", is_flag=True, further=True, help="Stop at the first row that fails."),
    option(
        "--text/--no-text",
        "keep_text",
        default=True,
        further=True,
        help="Whether texts, tokens and words are stored beside the features.",
        show_default="they are",
    ),
)


@click.command(cls=Command, name="extract")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS...")
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the features.",
    show_default="corpus.features for corpus.txt",
)
@feature_options
@model_options
@reading_options
@run_options
@option("--dry-run", is_flag=True, help="Estimate rows, tokens, bytes and minutes, and write nothing.")
@option("--allow-failures", is_flag=True, further=True, help="Exit with 0 though some rows failed.")
@output_options
def command(
    sources: tuple[str, ...],
    output: Path | None,
    features: FeatureOptions,
    model: ModelOptions,
    reading: "CorpusSettings",
    run: ExtractOptions,
    dry_run: bool,
    allow_failures: bool,
    console: Console,
) -> None:
    """Run a corpus through a frozen BERT and store the chosen layers.

    CORPUS is one or more files, folders or patterns: text (a document a line), JSONL, CSV, TSV, Parquet or CoNLL,
    compressed or not; - is stdin. The features are a folder of Parquet files. After an interruption the same command
    continues where it stopped.

    \b
    bertfeat extract corpus.txt --layers concat4
    bertfeat extract news.jsonl.gz --text-column title,body --keep year --pooling mean,word
    zcat logs.gz | bertfeat extract - -o logs.features --layers -1,-2
    """
    folder = output or default_output(sources, ".features")
    from bertfeat.extraction import Extractor  # torch: seconds
    from bertfeat.installation import kernels_note

    extractor = Extractor(**asdict(model), **asdict(features))
    if dry_run:
        print_extraction_estimate(_estimate_corpus(extractor, sources, reading, run), folder, console)
        return
    try:
        with progress_display(console, view_extraction) as progress:
            report = extractor.extract(sources, folder, corpus_settings=reading, progress=progress, **asdict(run))
    except (KeyboardInterrupt, SigtermInterrupt):
        console.say(f"the finished parts stay in {folder}; the same command goes on from there")
        raise
    print_extraction(report, console)
    if note := kernels_note():
        console.say(note)
    if report.failed and not allow_failures:
        raise click.exceptions.Exit(ROWS_FAILED)


def _estimate_corpus(
    extractor: "Extractor", sources: tuple[str, ...], reading: "CorpusSettings", run: ExtractOptions
) -> "Estimate":
    from bertfeat.extraction import estimate_extraction

    return estimate_extraction(extractor, sources, corpus_settings=reading, keep_text=run.keep_text)
