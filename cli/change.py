"""``bertfeat change``: how the meaning of words changes over a kept column."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from .app import Command, option
from .bundles import bundle, defer_settings
from .change_output import ChangeView, print_change
from .command_line import on_command_line
from .console import Console, pluralize
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options, width_option
from .progress import ProgressView, progress_display

if TYPE_CHECKING:
    from collections.abc import Callable

    from bertfeat.io import Location
    from bertfeat.study import ChangeSettings

SHOWN = 20
"""Words of the vocabulary that are shown."""

change_options = bundle(
    "settings",
    defer_settings("bertfeat.study", "ChangeSettings"),
    ("slices", "column", "measure", "senses", "least", "most", "usages", "context", "seed"),
    option(
        "--slices",
        metavar="SPEC",
        help="Ranges or values, 1839-1895,1896-1937 or draft,print; or a number of slices with equally many tokens.",
        show_default="2 of numbers, every value of texts",
    ),
    option(
        "--column",
        "--layer",
        "column",
        metavar="NAME",
        help="A stored column, or one derived from it: sum4, -2, last_word.",
        show_default="the only one",
    ),
    option(
        "--measure",
        type=click.Choice(["prt", "apd", "jsd"]),
        default="prt",
        help="That ranks the words: prototype distance, average pairwise distance, or divergence of senses.",
    ),
    option(
        "--senses",
        type=click.IntRange(min=2),
        default=4,
        further=True,
        metavar="N",
        help="Of a word, for jsd (scikit-learn).",
    ),
    option(
        "--least",
        type=click.IntRange(min=2),
        default=20,
        metavar="N",
        help="Usages that a word must have in every slice.",
    ),
    option(
        "--most",
        type=click.IntRange(2, 10_000),
        default=100,
        metavar="N",
        help="Usages compared of every slice, a random sample.",
    ),
    option(
        "--usages",
        type=click.IntRange(0, 10_000),
        default=3,
        metavar="N",
        help="Usages shown of the first and of the last slice: those that moved most.",
    ),
    option(
        "--context",
        type=click.IntRange(0, 10_000),
        default=300,
        further=True,
        metavar="N",
        help="Characters kept on each side of a usage.",
    ),
    option(
        "--seed", type=click.IntRange(min=0), default=1, further=True, metavar="N", help="Of samples and intervals."
    ),
)


@click.command(cls=Command, name="change")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("words", metavar="[WORD...]", nargs=-1)
@option("--by", required=True, metavar="COL", help="A kept column, such as the year.")
@change_options
@option("--all", "whole", is_flag=True, help="Rank every word that has --least usages in every slice.")
@option(
    "-k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of words shown.",
    show_default=f"all that are named, {SHOWN} of --all",
)
@option("--plot", type=LOCAL_PATH, metavar="FILE", help="Draw the words shown: .png, .pdf or .svg.")
@width_option
@output_options
def command(
    folder: "Location",
    words: tuple[str, ...],
    by: str,
    settings: "Callable[[], ChangeSettings]",
    whole: bool,
    k: int | None,
    plot: Path | None,
    width: int | None,
    console: Console,
) -> None:
    """Measure how the meaning of words changes over a kept column, from features with --pooling word or token.

    Usages in the first slice are compared with those in the last one, and each slice with the next one, equally many
    of each; with intervals of 95 %. Below the table stand the usages that moved most: of the first slice those least
    like the last, and the other way round. Words with fewer than --least usages in a slice are named, and the exit
    code is then 3.

    \b
    bertfeat change novels.features wireless cell --by year --slices 1839-1895,1896-1937
    bertfeat change novels.features --all --by year --slices 3 --layer last --plot change.png
    """
    _check_change_options(words, whole, console)
    from bertfeat.plots import draw_change, picture_path
    from bertfeat.study import measure_change

    if plot is not None:
        picture_path(plot)
    with progress_display(console, _view_word) as show:
        on_word = None if show is None else lambda done, total: show((done, total))
        report = measure_change(folder, words or None, by, settings(), on_word=on_word)
    shown = len(report.words) if k is None and words else k or SHOWN
    if plot is not None:
        draw_change(report, plot, words=shown)
    print_change(report, ChangeView(console, shown, width))
    if report.unmeasured:
        raise click.exceptions.Exit(ROWS_FAILED)


def _view_word(step: tuple[int, int]) -> ProgressView:
    return ProgressView(step[0] / step[1], f"{step[0]:,} of {pluralize(step[1], 'word')}")


def _check_change_options(words: tuple[str, ...], whole: bool, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if whole == bool(words):
        raise click.UsageError("name words, or give --all for every word; one of the two")
    if console.as_json and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --json has none; leave it out")
