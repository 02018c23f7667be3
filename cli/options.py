"""The options that several commands share, and the default name of an output, if ``-o`` is not given."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from bertfeat.core import CorpusSettings, ExtractorSettings
from bertfeat.search import MaxSim

from .app import option
from .bundles import bundle, option_names, options_on_command_line, settings_options
from .console import Console

if TYPE_CHECKING:
    from bertfeat.io import Location

output_options = bundle(
    "console",
    Console,
    ("as_json", "quiet"),
    option("--json", "as_json", is_flag=True, help="Print the result as JSON, one object a line."),
    option("--quiet", is_flag=True, further=True, help="No progress and no notes on stderr; warnings and errors stay."),
)
"""``--json`` and ``--quiet``, which every command has; it gets ``console``."""

width_option = option(
    "--width",
    type=click.IntRange(1, 10_000),
    further=True,
    metavar="N",
    help="Columns of a line.",
    show_default="as fits",
)
"""The option ``--width`` of commands that print lines of text."""


recorded_model_option = option(
    "--model", metavar="DIR", further=True, help="Where the model of the features is, if it moved."
)
recorded_device_option = option(
    "--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1.", show_default="a GPU if there is one"
)
"""The options of commands that compute with the model that an index, a feature set or a head records."""


def _with_words_of_files(settings: ExtractorSettings) -> ExtractorSettings:
    """Put the words of a file in the place of each ``@FILE``; a word that begins with @ is written with two."""
    if not any(word.startswith("@") for word in settings.only or ()):
        return settings
    words: list[str] = []
    for word in settings.only or ():
        if word.startswith("@") and not word.startswith("@@"):
            words += _words_of_file(word.removeprefix("@"))
        else:
            words.append(word.removeprefix("@"))
    return replace(settings, only=tuple(words))


def _words_of_file(name: str) -> Sequence[str]:
    from bertfeat.search import read_queries

    if name == STDIN and STDIN in click.get_current_context().params.get("sources", ()):
        raise click.UsageError("--only @- and CORPUS - would both read standard input; give one of them as a file")
    try:
        with click.open_file(name, "rb") as file:
            listed = list(read_queries(cast("BinaryIO", file), name))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise click.UsageError(f"--only @{name}: {problem}; a word that begins with @ is written @@{name}") from error
    if not listed:
        raise click.UsageError(f"--only @{name}: there are no words in it")
    return listed


extractor_options = settings_options("settings", ExtractorSettings, finish=_with_words_of_files)
"""The options of a model and of the features; the command gets ``settings``, an :class:`ExtractorSettings`."""

reading_options = settings_options("reading", CorpusSettings)
"""The options of reading a corpus; the command gets ``reading``, a ``CorpusSettings``."""


def refuse_reading_options(reason: str) -> None:
    """Refuse options of :data:`reading_options` on the command line of a command that reads no corpus."""
    if names := options_on_command_line(among=option_names(CorpusSettings)):
        raise click.UsageError(f"{names[0]} says how a corpus is read, {reason}; leave it out")


RERANK_NAMES = ("rerank", *option_names(MaxSim))


def _unless_unused(options: MaxSim, *, rerank: str | None) -> MaxSim | None:
    """The options, or None without ``--rerank``; then its further options are refused, as they would do nothing."""
    if rerank is None:
        for name in options_on_command_line(among=RERANK_NAMES):
            raise click.UsageError(f"{name} is for --rerank maxsim")
        return None
    return options


rerank_options = settings_options(
    "rerank",
    MaxSim,
    option(
        "--rerank", type=click.Choice(["maxsim"]), help="Score the best hits again, by the vectors of their tokens."
    ),
    names=("rerank",),
    finish=_unless_unused,
)
"""The options of scoring the best hits again; the command gets ``rerank``, a ``MaxSim`` or None."""

STDIN = "-"


def _is_pattern(source: str) -> bool:
    return source == STDIN or any(sign in source for sign in "*?[")


def default_output(sources: "Sequence[str | Location]", ending: str) -> Path:
    """Name the output after the only source, in the working folder.

    ``news/corpus.txt.gz`` gives ``corpus.features``, and ``s3://bucket/corpus.features`` gives ``corpus.index``.
    Several sources, a pattern and stdin give no name, and are refused.
    """
    (source, *others) = map(str, sources)
    absent = [place for place in others if not (_is_pattern(place) or "://" in place or os.path.lexists(place))]
    if absent:
        remedy = "several values of an option stand together: --keep year,title"
        raise click.UsageError(f"there is no file or folder {absent[0]!r}; {remedy}")
    if others or _is_pattern(source):
        raise click.UsageError(f"name the output with -o: {' '.join([source, *others][:3])!r} gives it no name")
    path = Path(source).absolute()
    if path.name.endswith(".features"):
        return Path(path.name.removesuffix(".features") + ending)
    if path.is_dir():
        return Path(path.name + ending)
    return Path(Path(re.sub(r"\.(gz|bz2|zst|xz)$", "", path.name)).stem + ending)
