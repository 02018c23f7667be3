"""``bertfeat extract``: a corpus becomes a feature set."""

from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED
from bertfeat.recipe import Pooling

from .app import Command, option
from .console import Console, escape_controls, fields_of, format_duration, format_size, pluralize, two_columns
from .errors import SigtermInterrupt
from .options import ModelOptions, bundle, listed_option, model_options, output_options, reading_options
from .paths import STDIN, default_output
from .progress import progress_display, view_extraction

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.extraction import Estimate, ExtractionReport, Extractor

SHOWN_FAILURES = 5


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """What is computed of each text; the names are those of ``Extractor``'s arguments."""

    layers: tuple[str, ...]
    pooling: tuple[str, ...] | None
    long: str
    max_length: int | None
    dtype: str
    subword: str
    special_tokens: bool
    prompt: str | None


feature_options = bundle(
    "features",
    lambda layers, pooling, **others: FeatureOptions(layers or ("last",), pooling or None, **others),
    ("layers", "pooling", "long", "max_length", "dtype", "subword", "special_tokens", "prompt"),
    listed_option(
        "--layers",
        metavar="SPEC[,SPEC]",
        help="Such as last, concat4, sum4, mean-all, -1,-2, all, embeddings, cls, mean=1..6, concat=9+12.",
        show_default="last",
    ),
    listed_option(
        "--pooling",
        choices=tuple(Pooling),
        metavar="KIND[,KIND]",
        help="One vector a text: mean, cls, max; one each: token, word.",
        show_default="the model's own, else mean",
    ),
    option(
        "--long",
        type=click.Choice(["window", "truncate", "error"]),
        default="window",
        further=True,
        help="Texts longer than the model's positions: overlapping windows, cut, or failed rows.",
    ),
    option(
        "--max-length",
        type=int,
        metavar="N",
        further=True,
        help="Tokens at once.",
        show_default="the model's positions",
    ),
    option(
        "--dtype",
        type=click.Choice(["float16", "float32"]),
        default="float16",
        further=True,
        help="Of token and word matrices as stored; vectors of texts are float32.",
    ),
    option(
        "--subword",
        type=click.Choice(["first", "mean", "last"]),
        default="first",
        further=True,
        help="Which piece stands for a word under word pooling.",
        show_default="first",
    ),
    option(
        "--special-tokens/--no-special-tokens",
        default=True,
        further=True,
        help="Whether [CLS] and [SEP] count in mean, max and token pooling.",
        show_default="they do",
    ),
    option("--prompt", metavar="TEXT", further=True, help="Put before each text; counts in document vectors only."),
)


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """How a run goes; the names are those of ``Extractor.extract``'s arguments."""

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
        "--overwrite", is_flag=True, help="Start anew where another run's parts are.", show_default="go on from there"
    ),
    option(
        "--part-rows",
        type=click.IntRange(min=1),
        metavar="N",
        further=True,
        help="Rows of a part.",
        show_default="16,384, or as many as make 256 MiB",
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
    help="Where the features go.",
    show_default="corpus.features for corpus.txt",
)
@feature_options
@model_options
@reading_options
@run_options
@option("--dry-run", is_flag=True, help="Say rows, tokens, bytes and minutes, and write nothing.")
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
    """Run a corpus through a frozen BERT and keep the layers asked for.

    CORPUS are files, folders or patterns: text (a document a line), JSONL, CSV, TSV, Parquet or CoNLL, compressed
    or not; - is stdin. What is written is a folder of Parquet files. Interrupted, the same command goes on from
    where it was.

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
        _tell_estimate(_estimate(extractor, sources, reading, run), folder, console)
        return
    try:
        with progress_display(console, view_extraction) as progress:
            report = extractor.extract(sources, folder, corpus_settings=reading, progress=progress, **asdict(run))
    except (KeyboardInterrupt, SigtermInterrupt):
        console.say(f"the finished parts stay in {folder}; the same command goes on from there")
        raise
    _tell(report, console)
    if note := kernels_note():
        console.say(note)
    if report.failed and not allow_failures:
        raise click.exceptions.Exit(ROWS_FAILED)


def _estimate(
    extractor: "Extractor", sources: tuple[str, ...], reading: "CorpusSettings", run: ExtractOptions
) -> "Estimate":
    from bertfeat.corpus import open_corpus
    from bertfeat.extraction import estimate_extraction

    if STDIN in sources:
        raise click.UsageError("--dry-run reads the corpus, which standard input gives only once; give it a file")
    return estimate_extraction(extractor, open_corpus(sources, reading), keep_text=run.keep_text)


def _tell_estimate(estimate: "Estimate", folder: Path, console: Console) -> None:
    kinds = f"{estimate.documents:,} documents, {estimate.failed:,} failed, {estimate.blank:,} blank"
    rows = [
        ("would write", folder),
        ("rows", f"{estimate.rows:,}: {kinds}"),
        ("tokens", f"about {estimate.tokens:,}"),
        ("on disk", f"about {format_size(estimate.bytes)}"),
        ("time", f"about {format_duration(estimate.seconds)} at {estimate.tokens_per_second:,.0f} tokens/s"),
    ]
    console.result(fields_of(estimate), two_columns(rows))


def _tell(report: "ExtractionReport", console: Console) -> None:
    if report.failed:
        listed = report.failure_list
        reasons = "".join(f"\n  {reason}" for reason in _first_failures(report.folder))
        console.warn(
            f"{pluralize(report.failed, 'row')} failed; {listed} lists all of them, of which the first are:{reasons}"
        )
    for note in _notes(report):
        console.say(note)
    rates = {"tokens_per_second": report.tokens_per_second, "padding_share": report.padding_share}
    console.result({**fields_of(report), **rates}, [escape_controls(_summary(report)).replace("\n", "\\n")])


def _summary(report: "ExtractionReport") -> str:
    """The one line that says what was done."""
    counts = report.counts
    there = f"{report.folder}: {pluralize(counts.documents, 'document')}, {pluralize(counts.tokens, 'token')}"
    stored = f"{format_size(report.bytes)} in {pluralize(report.parts, 'part')}"
    if report.nothing_to_do:
        return f"{there}, {stored}; nothing to do, all of it was there"
    kept = f" ({report.kept_parts:,} of them were there)" if report.kept_parts else ""
    return f"{there}, {stored}{kept}; {report.tokens_per_second:,.0f} tokens/s, {format_duration(report.seconds)}"


def _notes(report: "ExtractionReport") -> list[str]:
    """What happened to single rows, tokens and words."""
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


def _first_failures(folder: Path) -> list[str]:
    from bertfeat.features import FeatureSet

    return [failure.reason for failure in islice(FeatureSet(folder).failures(), SHOWN_FAILURES)]
