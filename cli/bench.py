"""``bertfeat bench``: measure the speed of extraction on this machine, and the time of each stage."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from bertfeat.core import CorpusSettings, ExtractorSettings

from .app import Command, option
from .bundles import settings_options
from .console import Console, two_columns
from .option_types import listed_option
from .options import output_options, refuse_reading_options

if TYPE_CHECKING:
    from bertfeat.core import PrecisionComparison, Speed

_EXTRACTION = ("model", "precision", "device", "batch_tokens", "layers", "pooling", "max_length", "dtype")
_READING = ("text_columns", "format", "encoding")


@click.command(cls=Command, name="bench")
@click.argument("sources", nargs=-1, metavar="[CORPUS...]")
@option(
    "--documents",
    default=2_000,
    type=click.IntRange(1, 10**9),
    metavar="N",
    help="Number of documents, from the beginning of the corpus.",
)
@option(
    "--repeats", default=5, type=click.IntRange(1, 1000), metavar="N", help="Number of runs; the median is reported."
)
@listed_option(
    "--precisions",
    choices=("fp32", "bf16", "fp16", "int8"),
    metavar="P,P",
    help="Compare speeds and deviations from fp32: fp32,bf16,int8. Runs are in turn.",
    show_default="the one of --precision",
)
@settings_options("settings", ExtractorSettings, fields=_EXTRACTION)
@settings_options("reading", CorpusSettings, fields=_READING)
@output_options
def command(
    sources: tuple[str, ...],
    documents: int,
    repeats: int,
    precisions: tuple[str, ...],
    settings: ExtractorSettings,
    reading: CorpusSettings,
    console: Console,
) -> None:
    """Measure tokens a second from text to Parquet, the share of the hardware's limit, and the time of each stage.

    The limit is the rate at which this machine multiplies the model's own four products (QKV, output, up, down) at a
    batch's size. Without a corpus, made-up sentences are used. Features are written to the system's temporary folder
    (TMPDIR names another) and deleted.

    \b
    bertfeat bench corpus.txt
    bertfeat bench corpus.txt --layers concat4 --pooling word --precision fp32
    bertfeat bench corpus.txt --precisions fp32,bf16,int8
    bertfeat bench --model google-bert/bert-base-cased --json
    """
    if not sources:
        refuse_reading_options("and without CORPUS none is read")
    from bertfeat.core import Extractor, compare_precisions, measure_speed

    def extractor(precision: str) -> Extractor:
        return Extractor(**asdict(replace(settings, precision=precision)))

    measuring: dict[str, Any] = {
        "documents": documents,
        "repeats": repeats,
        "corpus_settings": reading,
        "on_start": lambda number: console.say(f"measuring with {number:,} documents, {repeats} times over"),
    }
    if precisions:
        if settings.precision != "auto":
            raise click.UsageError("--precision is one of --precisions: give one of the two")
        comparison = compare_precisions(
            [extractor(precision) for precision in precisions], extractor("fp32"), sources or None, **measuring
        )
        console.result(comparison, _comparison_lines(comparison))
        return
    speed = measure_speed(extractor(settings.precision), sources or None, **measuring)
    console.result(speed, _speed_lines(speed))


def _comparison_lines(comparison: "PrecisionComparison") -> list[str]:
    rows = [
        ("model", comparison.model),
        ("on", f"{comparison.device}, {comparison.threads} threads"),
        ("corpus", f"{comparison.documents:,} documents, {comparison.tokens:,} tokens"),
    ]
    lines = [*two_columns(rows), "", f"{'precision':<10} {'kernels':<8} {'tokens/s':>10} {'ratio':>6}"]
    for each in comparison.precisions:
        lines.append(f"{each.precision:<10} {each.kernels:<8} {each.tokens_per_second:>10,.0f} {each.ratio:>6.2f}")
    first = comparison.precisions[0].deviations
    note = f"; single tokens and words: the least, and how many are far, below {first[0].FAR}"
    lines += ["", f"cosine with fp32, of {comparison.compared:,} documents{note}", ""]
    columns = [deviation.column for deviation in first]
    width = max(map(len, columns))
    lines.append(f"{'column':<{width}} {'precision':<10} {'mean':>8} {'least':>8} {'least of one':>13} {'far':>5}")
    for number, column in enumerate(columns):
        for each in comparison.precisions:
            found = each.deviations[number]
            documents = f"{found.mean_cosine:>8.5f} {found.min_cosine:>8.5f}"
            singles = f"{found.least_of_one:>13.5f} {found.below:>5,}"
            lines.append(f"{column:<{width}} {each.precision:<10} {documents} {singles}")
    return lines


def _speed_lines(speed: "Speed") -> list[str]:
    own = f"own {speed.kernels} kernels" if speed.device == "cpu" else speed.kernels
    kernels = "" if speed.kernels == "none" else f", {own}"
    runs = f"{min(speed.runs):,.0f} to {max(speed.runs):,.0f}"
    rows = [
        ("model", speed.model),
        ("on", f"{speed.device}, {speed.threads} threads, {speed.precision}{kernels}"),
        ("columns", ", ".join(speed.columns)),
        ("corpus", f"{speed.documents:,} documents, {speed.tokens:,} tokens"),
        ("tokens/s", f"{speed.tokens_per_second:,.0f}  (median of {len(speed.runs)}: {runs})"),
    ]
    if speed.ceiling_tokens_per_second and speed.share_of_ceiling:
        ceiling = f"{speed.ceiling_tokens_per_second:,.0f} tokens/s if products were all"
        rows.append(("ceiling", f"{ceiling}, of which {speed.share_of_ceiling:.0%} are reached"))
    if speed.peak_tokens_per_second and speed.share_of_peak:
        peak = f"{speed.peak_tokens_per_second:,.0f} tokens/s if all were multiply-adds in registers"
        rows.append(("peak", f"{peak}, of which {speed.share_of_peak:.0%} are reached"))
    on_thread = {**speed.stages, "wait for tokens": speed.waited_for_tokens, "wait for disk": speed.waited_for_disk}
    lines = [*two_columns(rows), "", f"{'stage':<16}  {'seconds':>8}  {'share':>6}"]
    for name, seconds in on_thread.items():
        lines.append(f"{name:<16}  {seconds:>8.3f}  {seconds / speed.seconds:>6.1%}")
    beside = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in speed.overlapped.items())
    return [*lines, f"on other threads meanwhile: {beside}"]
