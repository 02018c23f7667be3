"""Installed packages: their versions, which results record, and the objects that they register as entry points."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions, entry_points, version
from traceback import walk_tb

from bertfeat.errors import BertfeatError

CORRECT_EXTENSION = "uninstall the package that registers it, or correct it"
"""The remedy for an entry point that cannot be used."""

installed_version = cache(version)
"""Return the version of an installed library; the metadata of each package is parsed once per process."""


def installed_versions(*names: str) -> dict[str, str]:
    """Return the version of each library, by its name.

    Raises:
        PackageNotFoundError: one is not installed.
    """
    return {name: installed_version(name) for name in names}


def load_extensions(group: str, error: type[BertfeatError]) -> Iterator[tuple[str, object]]:
    """Load the objects of a group of entry points; yields each with its place ``package.module:name``, for messages.

    Raises:
        BertfeatError: an error of the class ``error``: an entry point cannot be loaded.
    """
    for entry in entry_points(group=group):
        try:
            loaded = entry.load()
        except Exception as cause:
            problem = f"the entry point {entry.name} of {group} cannot be loaded ({type(cause).__name__}: {cause})"
            raise error(problem, where=entry.value, remedy=CORRECT_EXTENSION) from cause
        yield entry.value, loaded


def extension_at_fault(error: BaseException) -> str | None:
    """Find the package with an entry point of ours in which an error was raised; None where it was not in one.

    Where it was raised by a library, the caller of the library is meant.
    """
    registered = (entry for package in distributions() for entry in package.entry_points)
    packages = {entry.module.partition(".")[0] for entry in registered if entry.group.startswith("bertfeat.")}
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    names = [name for name in (module.partition(".")[0] for module in modules) if name in packages | {"bertfeat"}]
    return names[-1] if names and names[-1] in packages else None
