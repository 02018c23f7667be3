"""The files of a corpus: files, globs and folders become a sorted list of files with their formats."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bertfeat.corpus.compression import COMPRESSIONS
from bertfeat.corpus.formats import ENDINGS, FORMATS, Format
from bertfeat.errors import CorpusError, UsageError, parameter
from bertfeat.io import is_own_part, result_kind


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a corpus."""

    name: str  # as the user gave it; within a folder or glob, the path that leads there
    path: Path
    format: Format
    compression: str | None
    size: int  # bytes on disk


def find_sources(paths: Sequence[str | Path], format_name: str | None) -> tuple[Source, ...]:
    """Turn files, globs and folders into the files to read; the files of one folder or glob are sorted by name.

    Folders are searched at any depth for files of known endings (of any ending when the format is given). Hidden files,
    files whose name begins with an underscore, and what bertfeat wrote itself are left out.

    Raises:
        CorpusError: a file that does not exist or is no regular file, a folder or glob without files.
        UsageError: no path was given.
    """
    if not paths:
        raise UsageError("no corpus given: name a file, a folder or a glob such as 'texts/*.txt'")
    search = _FileSearch(format_name)
    names = [name for path in paths for name in search.expand(os.fspath(path))]
    return tuple(_make_source(name, format_name) for name in names)


class _FileSearch:
    """Looks for the files of a corpus, and leaves out what bertfeat wrote itself."""

    def __init__(self, format_name: str | None) -> None:
        self._any_ending = format_name is not None
        self._result_kind = cache(result_kind)  # asked for every file of a folder

    def expand(self, name: str) -> list[str]:
        """The files that a name stands for: itself, those of a folder, or those that match a pattern."""
        if os.path.isdir(name):
            return self._files_in(name)
        if os.path.exists(name) or not glob.has_magic(name):
            return [name]
        files = [file for match in sorted(glob.glob(name, recursive=True)) for file in self._matched(match)]
        if not files:
            raise CorpusError(
                "no file matches (what bertfeat wrote is left out)", where=name, remedy="check the pattern"
            )
        # with "**" a folder's files are matched by themselves as well
        return list(dict.fromkeys(files))

    def _matched(self, match: str) -> Iterator[str]:
        path = Path(match)
        if any(self._result_kind(folder) for folder in (path, *path.parents[:-1])):
            return
        if path.is_dir():
            yield from self._walk(match)
        elif not _is_result_part(match):
            yield match

    def _files_in(self, folder: str) -> list[str]:
        if kind := self._result_kind(Path(folder)):
            problem = f"not a corpus but {kind.noun}, which bertfeat wrote"
            raise CorpusError(problem, where=folder, remedy="name the corpus itself")
        files = list(self._walk(folder))
        if not files:
            known = "at all" if self._any_ending else f"with a known ending ({' '.join(ENDINGS)}, compressed or not)"
            remedy = f"name the files, and their {parameter('format')} if need be"
            raise CorpusError(f"no file {known} to read in this folder", where=folder, remedy=remedy)
        return files

    def _walk(self, folder: str) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise CorpusError(f"cannot be read: {error.strerror}", where=folder) from error
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir(follow_symlinks=False):
                if self._result_kind(Path(entry.path)) is None:
                    yield from self._walk(entry.path)
            elif (
                entry.is_file()
                and (self._any_ending or _read_endings(entry.name)[0])
                and not _is_result_part(entry.path)
            ):
                yield entry.path


def _is_result_part(path: str) -> bool:
    return path.endswith(".parquet") and is_own_part(Path(path))


def _make_source(name: str, format_name: str | None) -> Source:
    path = Path(name)
    if not path.exists():
        raise CorpusError("no such file or folder", where=name, remedy="check the path")
    if not path.is_file():
        raise CorpusError("not a regular file", where=name, remedy="pipe it in and give '-' instead")
    file_format, compression = format_of(path.name, format_name), _read_endings(path.name)[1]
    if file_format.binary and compression is not None:
        raise CorpusError(
            f"a {file_format.name} file is not compressed as a whole", where=name, remedy="decompress the file first"
        )
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")  # a name need not be UTF-8, what is stored must be
    return Source(shown, path, file_format, compression, path.stat().st_size)


def format_of(name: str, format_name: str | None = None) -> Format:
    """The format of a file: the one that is given, else by the ending of its name, else text."""
    return FORMATS[format_name] if format_name is not None else _read_endings(name)[0] or FORMATS["text"]


def _read_endings(name: str) -> tuple[Format | None, str | None]:
    """Format and compression by the endings of a file's name."""
    stem, last = os.path.splitext(name.lower())
    compression = COMPRESSIONS.get(last)
    if compression is not None:
        last = os.path.splitext(stem)[1]
    return ENDINGS.get(last), compression
