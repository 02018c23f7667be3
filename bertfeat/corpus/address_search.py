"""The files of a corpus in object storage, found by the rules of folders on this machine."""

import glob
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bertfeat.io import STATE_FOLDER, Address, Stamp, StoredFile, list_files

_MARKER = f"/{STATE_FOLDER}/kind"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in object storage."""

    address: Address
    stamp: Stamp


class AddressSearch:
    """Looks for files by one listing of a folder, and leaves out what bertfeat wrote: folders that have its marker."""

    def __init__(self, is_wanted: Callable[[str], bool], is_result: Callable[[Address], bool]) -> None:
        self._is_wanted = is_wanted  # whether a folder's file of that name is read
        self._is_result = is_result  # whether bertfeat wrote a folder

    def files_in(self, folder: Address) -> list[FoundFile] | None:
        """The files of a folder that are to be read; None if there is no such folder."""
        stored = list_files(folder)
        return self._walk(folder, "", _without_results(stored)) if stored else None

    def matches(self, pattern: Address) -> list[FoundFile]:
        """The files that match a pattern, and those of the folders that match it; sorted by what matched."""
        folder, below, beginning = _split_pattern(pattern)
        stored = list_files(folder, beginning)
        named = [file for file in stored if f"{file.name}/".startswith(f"{below}/")]
        if named:  # a file or folder of that name comes before a pattern
            found = [FoundFile(folder / file.name, file.stamp) for file in named if file.name == below]
            return found or self._walk(folder, f"{below}/", _without_results(named))
        if any(map(self._is_result, _with_parents(folder))):
            return []
        steps = tuple(below.split("/"))
        files: dict[str, FoundFile] = {}
        folders: dict[str, list[StoredFile]] = {}
        for file in _without_results(stored):
            path = file.name.split("/")
            if _fits(steps, path):
                files[file.name] = FoundFile(folder / file.name, file.stamp)
            for depth in range(len(path)):
                if _fits(steps, path[:depth]):
                    folders.setdefault("".join(f"{step}/" for step in path[:depth]), []).append(file)
        found = []
        for match in sorted([*files, *folders], key=lambda match: match.rstrip("/")):
            found += [files[match]] if match in files else self._walk(folder, match, folders[match])
        return list(dict.fromkeys(found))  # with "**" a folder's files are matched by themselves as well

    def _walk(self, folder: Address, above: str, stored: list[StoredFile]) -> list[FoundFile]:
        """The visible files with wanted names, sorted by their paths; what they have ``above`` does not matter."""
        paths = sorted((file.name.removeprefix(above).split("/"), file) for file in stored)
        return [
            FoundFile(folder / file.name, file.stamp)
            for path, file in paths
            if self._is_wanted(path[-1]) and not any(step.startswith((".", "_")) for step in path)
        ]


def _split_pattern(pattern: Address) -> tuple[Address, str, str]:
    """The folder that a pattern begins with, the pattern below it, and what of that has no magic characters."""
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
