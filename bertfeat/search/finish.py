"""The last step of a build or an update: digests, ``index.json``, all of it onto the disk; and can it be opened?"""

from dataclasses import replace
from pathlib import Path

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import sync
from bertfeat.search.faiss_import import faiss_message
from bertfeat.search.folder import measure_file
from bertfeat.search.index_files import open_contents
from bertfeat.search.settings import FILE_NAMES, FORMAT_VERSION, IndexSettings, write_index_settings


def finish_index_folder(settings: IndexSettings, folder: Path) -> IndexSettings:
    """Finish the folder of an index that holds all its files but ``index.json``.

    Raises:
        UsageError: what FAISS wrote it cannot read again, as it is with some of its types.
    """
    paths = [path for path in sorted(folder.iterdir()) if path.name in FILE_NAMES]
    for path in paths:
        sync(path)
    files = {path.name: measure_file(path) for path in paths}
    settings = replace(settings, format_version=FORMAT_VERSION, files=files)
    write_index_settings(settings, folder)
    sync(folder)
    try:
        open_contents(folder, mapped=True)
    except IndexFolderError as error:
        if not isinstance(error.__cause__, RuntimeError):
            raise
        problem = f"FAISS cannot make {settings.factory!r}: what it wrote it cannot read again"
        raise UsageError(f"{problem} ({faiss_message(error.__cause__)}); choose another type") from error
    return settings
