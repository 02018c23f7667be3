"""Which files a corpus is made of: files, globs and folders become a sorted list of files with their formats."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bertfeat.corpus.compression import COMPRESSIONS
from bertfeat.errors import CorpusError, UsageError
from bertfeat.io import is_own_part, result_kind

ENDINGS = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".conllu": "conllu",
}
"""Format by the ending of a file name, below the ending of its compression."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a corpus."""

    name: str  # as the user gave it; within a folder or glob, the path that leads there
    path: Path
    format: str
    compression: str | None
    size: int  # bytes on disk


def find_sources(given: Sequence[str | Path], wanted_format: str | None) -> tuple[Source, ...]:
    """Turn files, globs and folders into the files to read; what one of the given stands for is sorted by name.

    Folders are searched to their bottom for files of known endings (of any ending when the format is given). Hidden
    files, files that begin with an underscore and what bertfeat wrote itself are left out.

    Raises:
        CorpusError: a file that is not there or no regular file, a folder or glob without files.
        UsageError: nothing was given.
    """
    if not given:
        raise UsageError("no corpus given: name a file, a folder or a glob such as 'texts/*.txt'")
    search = _Search(wanted_format)
    names = [name for one in given for name in search.expanded(os.fspath(one))]
    return tuple(_source(name, wanted_format) for name in names)


class _Search:
    """Looks for the files of a corpus; what bertfeat wrote itself is none."""

    def __init__(self, wanted_format: str | None) -> None:
        self._format = wanted_format
        self._kind_of = cache(result_kind)  # files of one folder ask for it again and again

    def expanded(self, name: str) -> list[str]:
        """The files that a name stands for: itself, those of a folder, or those that match a pattern."""
        if os.path.isdir(name):
            return self._files_in(name)
        if os.path.exists(name) or not glob.has_magic(name):
            return [name]
        files = [file for match in sorted(glob.glob(name, recursive=True)) for file in self._matched(match)]
        if not files:
            raise CorpusError(f"{name}: no file matches (what bertfeat wrote is left out); check the pattern")
        # with "**" a folder's files are matched by themselves as well
        return list(dict.fromkeys(files))

    def _matched(self, match: str) -> Iterator[str]:
        path = Path(match)
        if any(self._kind_of(folder) for folder in (path, *path.parents[:-1])):
            return
        if path.is_dir():
            yield from self._walk(match)
        elif not _is_own_part(match):
            yield match

    def _files_in(self, folder: str) -> list[str]:
        if kind := self._kind_of(Path(folder)):
            raise CorpusError(f"{folder}: not a corpus but {kind.noun}, which bertfeat wrote; name the corpus itself")
        files = list(self._walk(folder))
        if not files:
            known = "at all" if self._format else f"with a known ending ({' '.join(ENDINGS)}, compressed or not)"
            raise CorpusError(
                f"{folder}: no file {known} to read in this folder; name the files, with --format if need be"
            )
        return files

    def _walk(self, folder: str) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise CorpusError(f"{folder}: cannot be read: {error.strerror}") from error
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir(follow_symlinks=False):
                if self._kind_of(Path(entry.path)) is None:
                    yield from self._walk(entry.path)
            elif entry.is_file() and (self._format or _endings(entry.name)[0]) and not _is_own_part(entry.path):
                yield entry.path


def _is_own_part(path: str) -> bool:
    return path.endswith(".parquet") and is_own_part(Path(path))


def _source(name: str, wanted_format: str | None) -> Source:
    path = Path(name)
    if not path.exists():
        raise CorpusError(f"{name}: no such file or folder; check the path")
    if not path.is_file():
        raise CorpusError(f"{name}: not a regular file; pipe it in and give '-' instead")
    by_ending, compression = _endings(path.name)
    kind = wanted_format or by_ending or "text"
    if kind == "parquet" and compression is not None:
        raise CorpusError(f"{name}: Parquet has its own compression; decompress the file first")
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")  # a name need not be UTF-8, what is stored must be
    return Source(shown, path, kind, compression, path.stat().st_size)


def _endings(name: str) -> tuple[str | None, str | None]:
    """Format and compression that a file's name tells."""
    stem, last = os.path.splitext(name.lower())
    compression = COMPRESSIONS.get(last)
    if compression is not None:
        last = os.path.splitext(stem)[1]
    return ENDINGS.get(last), compression
