"""The user's cache folder, whose files can be made again and may be deleted at any time."""

import atexit
import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp


def user_cache() -> Path | None:
    """The cache folder, which may not exist yet; None if nothing is to be kept.

    It is ``$BERTFEAT_CACHE``, by default ``bertfeat`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. Where the variable is
    empty, or the user has no home, nothing is kept.
    """
    folder = os.environ.get("BERTFEAT_CACHE")
    if folder is not None:
        return Path(folder) if folder else None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bertfeat"
    except RuntimeError:  # a user without a home
        return None


def user_cache_folder(name: str) -> Path:
    """The folder of that name in the cache; where nothing is to be kept, in one that is removed with the process."""
    return (user_cache() or _process_folder()) / name


@cache
def _process_folder() -> Path:
    folder = mkdtemp(prefix="bertfeat-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
