"""Where a corpus comes from and where its features go."""

import re
from pathlib import Path

import click

STDIN = "-"
_COMPRESSION = re.compile(r"\.(gz|bz2|zst|xz)$")


def default_output(sources: tuple[str, ...], ending: str) -> Path:
    """Name the output after the only source: ``corpus.features`` for ``news/corpus.txt.gz``, in the working folder.

    Raises:
        click.UsageError: several sources, a pattern or stdin, which give no name.
    """
    (source, *others) = sources
    if others or source == STDIN or any(sign in source for sign in "*?["):
        raise click.UsageError(f"name the output with -o: {' '.join(sources[:3])!r} gives it no name")
    path = Path(source).absolute()
    return Path((path.name if path.is_dir() else Path(_COMPRESSION.sub("", path.name)).stem) + ending)
