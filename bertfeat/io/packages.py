"""Installed packages: their versions, which results record, and the objects that they register as entry points."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points, version

from bertfeat.errors import BertfeatError

CORRECT_EXTENSION = "uninstall the package that registers it, or correct it"
"""The remedy for an entry point that cannot be used."""

installed_version = cache(version)
"""The version of an installed library; what its package says of itself is parsed once a process."""


def installed_versions(*names: str) -> dict[str, str]:
    """Give the version of each library by its name.

    Raises:
        PackageNotFoundError: one is not installed.
    """
    return {name: installed_version(name) for name in names}


def load_extensions(group: str, error: type[BertfeatError]) -> Iterator[tuple[str, object]]:
    """Load what the entry points of a group name: each with its place (``package.module:name``), for messages.

    Raises:
        BertfeatError: of that class; an entry point cannot be loaded.
    """
    for entry in entry_points(group=group):
        try:
            loaded = entry.load()
        except (ImportError, AttributeError, SyntaxError) as cause:
            problem = f"the entry point {entry.name} of {group} cannot be loaded ({cause})"
            raise error(problem, where=entry.value, remedy=CORRECT_EXTENSION) from cause
        yield entry.value, loaded
