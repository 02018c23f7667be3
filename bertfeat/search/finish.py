"""The last step of a build or an update: digests, ``index.json``, all of it onto the disk; and can it be opened?"""

from dataclasses import replace
from pathlib import Path

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import sync
from bertfeat.search.contents import open_contents
from bertfeat.search.faiss_import import explain
from bertfeat.search.folder import file_state
from bertfeat.search.names import FILE_NAMES
from bertfeat.search.settings import FORMAT_VERSION, IndexSettings, write_settings


def finish(settings: IndexSettings, folder: Path) -> IndexSettings:
    """Finish the folder of an index that holds all its files but ``index.json``.

    Raises:
        UsageError: what FAISS wrote it cannot read again, as it is with some of its types.
    """
    paths = [path for path in sorted(folder.iterdir()) if path.name in FILE_NAMES]
    for path in paths:
        sync(path)
    files = {path.name: file_state(path) for path in paths}
    settings = replace(settings, format_version=FORMAT_VERSION, files=files)
    write_settings(settings, folder)
    sync(folder)
    try:
        open_contents(folder, mapped=True)
    except IndexFolderError as error:
        if not isinstance(error.__cause__, RuntimeError):
            raise
        problem = f"FAISS cannot make {settings.factory!r}: what it wrote it cannot read again"
        raise UsageError(f"{problem} ({explain(error.__cause__)}); choose another type") from error
    return settings
