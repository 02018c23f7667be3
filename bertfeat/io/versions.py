"""Versions of installed libraries, which results record."""

from functools import cache
from importlib.metadata import version

installed_version = cache(version)
"""The version of an installed library; what its package says of itself is parsed once a process."""


def installed_versions(*names: str) -> dict[str, str]:
    """Give the version of each library by its name.

    Raises:
        PackageNotFoundError: one is not installed.
    """
    return {name: installed_version(name) for name in names}
