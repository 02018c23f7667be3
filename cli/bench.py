"""``bertfeat bench``: measure the speed of extraction on this machine, and the time of each stage."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .bundles import leave_out
from .console import Console, two_columns
from .options import (
    FeatureOptions,
    ModelOptions,
    feature_options,
    model_options,
    output_options,
    reading_options,
    refuse_reading_options,
)

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.speed import Speed


@click.command(cls=Command, name="bench")
@click.argument("sources", nargs=-1, metavar="[CORPUS...]")
@option(
    "--documents",
    default=10_000,
    type=click.IntRange(1, 10**9),
    metavar="N",
    help="Number of documents, from the beginning of the corpus.",
)
@option(
    "--repeats", default=5, type=click.IntRange(1, 1000), metavar="N", help="Number of runs; the median is reported."
)
@option(
    "--work",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    further=True,
    help="Folder where features are written and deleted.",
    show_default="the system's temporary folder",
)
@feature_options
@model_options
@reading_options
@output_options
def command(
    sources: tuple[str, ...],
    documents: int,
    repeats: int,
    work: Path | None,
    features: FeatureOptions,
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Measure tokens a second from text to Parquet, the share of the hardware's limit, and the time of each stage.

    The limit is the rate at which this machine multiplies the model's own four products (QKV, output, up, down) at a
    batch's size. Without a corpus, made-up sentences are used.

    \b
    bertfeat bench corpus.txt
    bertfeat bench corpus.txt --layers concat4 --pooling word --precision fp32
    bertfeat bench --model google-bert/bert-base-cased --json
    """
    if not sources:
        refuse_reading_options("and without CORPUS none is read")
    from bertfeat.extraction import Extractor
    from bertfeat.speed import measure_speed

    speed = measure_speed(
        Extractor(**asdict(model), **asdict(features)),
        sources or None,
        documents=documents,
        repeats=repeats,
        folder=work,
        corpus_settings=reading,
        on_start=lambda number: console.say(f"measuring with {number:,} documents, {repeats} times over"),
    )
    console.result(speed, _speed_lines(speed))


leave_out(command, "keep")


def _speed_lines(speed: "Speed") -> list[str]:
    kernels = "" if speed.kernels == "none" else f", own {speed.kernels} kernels"
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
    on_thread = {**speed.stages, "wait for tokens": speed.waited_for_tokens, "wait for disk": speed.waited_for_disk}
    lines = [*two_columns(rows), "", f"{'stage':<16}  {'seconds':>8}  {'share':>6}"]
    for name, seconds in on_thread.items():
        lines.append(f"{name:<16}  {seconds:>8.3f}  {seconds / speed.seconds:>6.1%}")
    beside = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in speed.overlapped.items())
    return [*lines, f"on other threads meanwhile: {beside}"]
