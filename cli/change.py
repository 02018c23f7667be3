"""``bertfeat change``: how the meaning of words changes over a kept column."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED
from bertfeat.study import ChangeSettings

from .app import Command, option
from .bundles import on_command_line
from .change_output import ChangeView, print_change
from .console import Console
from .option_types import LOCAL_PATH, LOCATION
from .options import output_options, width_option
from .progress import progress_display
from .settings_options import settings_options

if TYPE_CHECKING:
    from bertfeat.io import Location

SHOWN = 20
"""Words of the vocabulary that are shown."""


@click.command(cls=Command, name="change")
@click.argument("folder", metavar="FEATURES", type=LOCATION)
@click.argument("words", metavar="[WORD...]", nargs=-1)
@option("--by", required=True, metavar="COL", help="A kept column, such as the year.")
@settings_options("settings", ChangeSettings)
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
    settings: ChangeSettings,
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
    with progress_display(console) as progress:
        report = measure_change(folder, words or None, by, settings, progress=progress)
    shown = len(report.words) if k is None and words else k or SHOWN
    if plot is not None:
        draw_change(report, plot, words=shown)
    print_change(report, ChangeView(console, shown, width))
    if report.unmeasured:
        raise click.exceptions.Exit(ROWS_FAILED)


def _check_change_options(words: tuple[str, ...], whole: bool, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if whole == bool(words):
        raise click.UsageError("name words, or give --all for every word; one of the two")
    if console.as_json and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --json has none; leave it out")
