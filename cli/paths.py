"""Names of outputs, taken from those of inputs."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bertfeat.io import Location

STDIN = "-"
_COMPRESSION = re.compile(r"\.(gz|bz2|zst|xz)$")
_FEATURES = ".features"


def _is_pattern(source: str) -> bool:
    return source == STDIN or any(sign in source for sign in "*?[")


def default_output(sources: "Sequence[str | Location]", ending: str) -> Path:
    """Name the output after the only source, in the working folder.

    ``news/corpus.txt.gz`` gives ``corpus.features``, and ``s3://bucket/corpus.features`` gives ``corpus.index``.

    Raises:
        click.UsageError: several sources, a pattern or stdin, which give no name.
    """
    (source, *others) = map(str, sources)
    absent = [place for place in others if not (_is_pattern(place) or "://" in place or os.path.lexists(place))]
    if absent:
        remedy = "several values of an option stand together: --keep year,title"
        raise click.UsageError(f"there is no file or folder {absent[0]!r}; {remedy}")
    if others or _is_pattern(source):
        raise click.UsageError(f"name the output with -o: {' '.join([source, *others][:3])!r} gives it no name")
    path = Path(source).absolute()
    if path.name.endswith(_FEATURES):
        return Path(path.name.removesuffix(_FEATURES) + ending)
    return Path((path.name if path.is_dir() else Path(_COMPRESSION.sub("", path.name)).stem) + ending)
