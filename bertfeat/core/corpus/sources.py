"""The files of a corpus: files, globs and folders become a sorted list of files with their formats."""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from bertfeat.core.corpus.formats import FORMATS, Format, all_formats, format_named, format_with_ending
from bertfeat.errors import CorpusError, UsageError, parameter
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    ContextPool,
    Location,
    Stamp,
    StoredFile,
    as_location,
    file_stamp,
    is_address,
    is_own_part,
    list_files,
    result_kind,
)

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""Compression by the last ending of a file name."""

REQUESTS = 16
"""The number of addresses that are looked up at the same time."""

_MARKER = f"/{STATE_FOLDER}/kind"  # a file that marks a folder as written by bertfeat


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a corpus."""

    name: str  # as the user gave it; within a folder or glob, the path that leads there
    path: Location
    format: Format
    compression: str | None
    stamp: Stamp  # when the file was found

    @property
    def size(self) -> int:
        """Bytes of the file as it lies on disk."""
        return self.stamp.size


@dataclass(frozen=True, slots=True)
class _FoundFile:
    """A file in object storage."""

    address: Address
    stamp: Stamp


def find_sources(paths: str | Location | Sequence[str | Location], format_name: str | None) -> tuple[Source, ...]:
    """Turn one or more files, globs and folders into the files to read; those of a folder or glob are sorted by name.

    Folders are searched at any depth for files of known endings (of any ending when the format is given). Hidden files,
    files whose name begins with an underscore, and what bertfeat wrote itself are left out. A folder or glob at an
    address is listed once.

    Raises:
        CorpusError: a file that does not exist or is no regular file, a folder or glob without files.
        UsageError: no path was given, or an address of unknown storage.
        StorageError: object storage that cannot be reached.
    """
    if isinstance(paths, str | Location):
        paths = [paths] if paths else []
    if not paths:
        raise UsageError("no corpus given: name a file, a folder or a glob such as 'texts/*.txt'")
    search = _FileSearch(format_name)
    # a local file keeps the name that was given, except for file://…, whose name is the path
    places = [path if isinstance(path, str) and not is_address(path) else as_location(path) for path in paths]
    with ContextPool(REQUESTS) as pool:
        ahead = pool.map(search.expand_address, [place for place in places if isinstance(place, Address)])
        found = [next(ahead) if isinstance(place, Address) else search.expand(str(place)) for place in places]
    return tuple(source for sources in found for source in sources)


class _FileSearch:
    """Looks for the files of a corpus, and leaves out what bertfeat wrote itself."""

    def __init__(self, format_name: str | None) -> None:
        self._format_name = format_name
        self._result_kind = cache(result_kind)  # asked for every file of a folder
        self._addresses = _AddressSearch(self._is_wanted, lambda folder: self._result_kind(folder) is not None)

    def expand(self, name: str) -> list[Source]:
        """The files that a name stands for: itself, those of a folder, or those that match a pattern."""
        if os.path.isdir(name):
            self._refuse_result(Path(name))
            files = list(self._walk(name))
            if not files:
                raise self._empty_error(name)
        elif os.path.exists(name) or not glob.has_magic(name):
            files = [name]
        else:
            files = [file for match in sorted(glob.glob(name, recursive=True)) for file in self._matched(match)]
            if not files:
                raise _no_match_error(name)
        # with "**" a folder's files are matched by themselves as well
        return [_local_source(file, self._format_name) for file in dict.fromkeys(files)]

    def expand_address(self, address: Address) -> list[Source]:
        """The files that an address stands for, as :meth:`expand` finds them for a name."""
        if glob.has_magic(address.key):
            found = self._addresses.matches(address)
            if not found:
                raise _no_match_error(address)
        elif address.key and (stamp := file_stamp(address)):
            found = [_FoundFile(address, stamp)]
        else:
            self._refuse_result(address)
            listed = self._addresses.files_in(address)
            if listed is None:
                raise _missing_error(address)
            if not listed:
                raise self._empty_error(address)
            found = listed
        return [_make_source(str(file.address), file.address, file.stamp, self._format_name) for file in found]

    def _matched(self, match: str) -> Iterator[str]:
        path = Path(match)
        if any(self._result_kind(folder) for folder in (path, *path.parents[:-1])):
            return
        if path.is_dir():
            yield from self._walk(match)
        elif not _is_result_part(match):
            yield match

    def _refuse_result(self, folder: Location) -> None:
        if kind := self._result_kind(folder):
            problem = f"not a corpus but {kind.noun}, which bertfeat wrote"
            raise CorpusError(problem, where=folder, remedy="name the corpus itself")

    def _empty_error(self, folder: object) -> CorpusError:
        any_ending = self._format_name is not None
        endings = [ending for each in all_formats().values() for ending in each.endings]
        known = "at all" if any_ending else f"with a known ending ({' '.join(endings)}, compressed or not)"
        remedy = f"name the files, and their {parameter('format')} if need be"
        return CorpusError(f"no file {known} to read in this folder", where=folder, remedy=remedy)

    def _is_wanted(self, name: str) -> bool:
        return self._format_name is not None or _read_endings(name)[0] is not None

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
            elif self._is_wanted(entry.name) and _is_file(entry) and not _is_result_part(entry.path):
                yield entry.path


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError as error:
        raise CorpusError(f"cannot be read: {error.strerror}", where=entry.path) from error


def _is_result_part(path: str) -> bool:
    return path.endswith(".parquet") and is_own_part(Path(path))


def _local_source(name: str, format_name: str | None) -> Source:
    path = Path(name)
    if not path.exists():
        raise _missing_error(name)
    stamp = file_stamp(path)
    if stamp is None:
        raise CorpusError("not a regular file", where=name, remedy="pipe it in and give '-' instead")
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")  # a name need not be UTF-8, what is stored must be
    return _make_source(shown, path, stamp, format_name)


def _make_source(name: str, place: Location, stamp: Stamp, format_name: str | None) -> Source:
    file_format, compression = format_of(place.name, format_name), _read_endings(place.name)[1]
    if file_format.binary and compression is not None:
        raise CorpusError(
            f"a {file_format.name} file is not compressed as a whole", where=name, remedy="decompress the file first"
        )
    return Source(name, place, file_format, compression, stamp)


def _missing_error(place: object) -> CorpusError:
    return CorpusError("no such file or folder", where=place, remedy="check the path")


def _no_match_error(pattern: object) -> CorpusError:
    return CorpusError("no file matches (what bertfeat wrote is left out)", where=pattern, remedy="check the pattern")


def format_of(name: str, format_name: str | None = None) -> Format:
    """The format of a file: the one that is given, else by the ending of its name, else text."""
    return format_named(format_name) if format_name is not None else _read_endings(name)[0] or FORMATS["text"]


def bare_names(name: str) -> tuple[str, ...]:
    """A file's name as it is, and without its ending; of ``a.txt.gz`` also ``a.txt``."""
    stem, last = os.path.splitext(name)
    if last.lower() in _COMPRESSIONS:
        return name, stem, os.path.splitext(stem)[0]
    return name, stem


def _read_endings(name: str) -> tuple[Format | None, str | None]:
    """Format and compression by the endings of a file's name."""
    stem, last = os.path.splitext(name.lower())
    compression = _COMPRESSIONS.get(last)
    if compression is not None:
        last = os.path.splitext(stem)[1]
    return format_with_ending(last), compression


# ── object storage, by the rules of folders on this machine ───────────────────────────────────────────────────


class _AddressSearch:
    """Looks for files by one listing of a folder, and leaves out what bertfeat wrote: folders that have its marker."""

    def __init__(self, is_wanted: Callable[[str], bool], is_result: Callable[[Address], bool]) -> None:
        self._is_wanted = is_wanted  # whether a folder's file of that name is read
        self._is_result = is_result  # whether bertfeat wrote a folder

    def files_in(self, folder: Address) -> list[_FoundFile] | None:
        """The files of a folder that are to be read; None if there is no such folder."""
        stored = list_files(folder)
        return self._walk(folder, "", _without_results(stored)) if stored else None

    def matches(self, pattern: Address) -> list[_FoundFile]:
        """The files that match a pattern, and those of the folders that match it; sorted by what matched."""
        folder, below, beginning = _split_pattern(pattern)
        stored = list_files(folder, beginning)
        named = [file for file in stored if f"{file.name}/".startswith(f"{below}/")]
        if named:  # a file or folder of exactly that name takes precedence over the pattern
            found = [_FoundFile(folder / file.name, file.stamp) for file in named if file.name == below]
            return found or self._walk(folder, f"{below}/", _without_results(named))
        if any(map(self._is_result, _with_parents(folder))):
            return []
        steps = tuple(below.split("/"))
        files: dict[str, _FoundFile] = {}
        folders: dict[str, list[StoredFile]] = {}
        for file in _without_results(stored):
            path = file.name.split("/")
            if _fits(steps, path):
                files[file.name] = _FoundFile(folder / file.name, file.stamp)
            for depth in range(len(path)):
                if _fits(steps, path[:depth]):
                    folders.setdefault("".join(f"{step}/" for step in path[:depth]), []).append(file)
        found = []
        for match in sorted([*files, *folders], key=lambda match: match.rstrip("/")):
            found += [files[match]] if match in files else self._walk(folder, match, folders[match])
        return list(dict.fromkeys(found))  # with "**" a folder's files are matched by themselves as well

    def _walk(self, folder: Address, above: str, stored: list[StoredFile]) -> list[_FoundFile]:
        """The visible files with wanted names, sorted by their paths; the folders ``above`` may be hidden."""
        paths = sorted((file.name.removeprefix(above).split("/"), file) for file in stored)
        return [
            _FoundFile(folder / file.name, file.stamp)
            for path, file in paths
            if self._is_wanted(path[-1]) and not any(step.startswith((".", "_")) for step in path)
        ]


def _split_pattern(pattern: Address) -> tuple[Address, str, str]:
    """The folder that a pattern begins with, the pattern below it, and its beginning without magic characters."""
    steps = pattern.key.split("/")
    first = next(number for number, step in enumerate(steps) if glob.has_magic(step))
    folder = Address(pattern.scheme, pattern.bucket, "/".join(steps[:first]))
    return folder, "/".join(steps[first:]), re.split(r"[*?[]", steps[first])[0]


def _without_results(stored: list[StoredFile]) -> list[StoredFile]:
    """The files that are not below a folder with a marker."""
    results = {file.name.removesuffix(_MARKER) for file in stored if file.name.endswith(_MARKER)}
    return [file for file in stored if not any(folder in results for folder in _folders_of(file.name))]


def _folders_of(name: str) -> list[str]:
    steps = name.split("/")
    return ["/".join(steps[:depth]) for depth in range(1, len(steps))]


def _with_parents(folder: Address) -> list[Address]:
    steps = folder.key.split("/") if folder.key else []
    return [Address(folder.scheme, folder.bucket, "/".join(steps[:depth])) for depth in range(1, len(steps) + 1)]


def _fits(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a path matches a pattern, step by step, as ``glob.glob`` does: ``*`` matches no hidden names."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return _fits(pattern[1:], path) or bool(path and not path[0].startswith(".") and _fits(pattern, path[1:]))
    return bool(
        path
        and fnmatchcase(path[0], pattern[0])
        and path[0].startswith(".") <= pattern[0].startswith(".")
        and _fits(pattern[1:], path[1:])
    )
