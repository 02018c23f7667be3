"""A folder of files for other tools, made of token features and the tokens' ids: there whole, or not at all."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.recipe import Pooling
from bertfeat.errors import NotDerivableError, StorageError, parameter
from bertfeat.io import output_exists, output_folder

if TYPE_CHECKING:
    from bertfeat.core.features.reader import FeatureSet

_INDEX = "index.json"  # of the folder: says what made it, and what is in it


def columns_beside_ids(features: "FeatureSet", column: str | None, form: str) -> list[ReadableColumn]:
    """The named columns of tokens, or all that are stored, of a set that has the tokens' ids, for a format.

    Raises:
        NotDerivableError: there are no such columns, or the ids are not stored.
    """
    if "token_ids" not in features.names:
        raise NotDerivableError(
            f"{form} needs the ids of tokens; stored are {', '.join(features.names)}",
            where=features.folder,
            remedy=f"extract with {parameter('pooling', 'token')} and texts",
        )
    if column is not None:
        return features.find_each(column, Pooling.TOKEN)
    return [features.find(known.name) for known in features.columns if known.pooling is Pooling.TOKEN]


def write_folder(
    features: "FeatureSet",
    columns: Sequence[ReadableColumn],
    folder: Path,
    form: str,
    files: Sequence[str],
    write: Callable[[Path], int],
    *,
    overwrite: bool,
) -> int:
    """Have ``write`` fill a folder, which takes the place of ``folder`` then; returns the tokens that it wrote.

    ``form`` is the format, and ``files`` are the patterns of its files: with ``overwrite`` nothing else is replaced.

    Raises:
        StorageError: the folder exists; or, with ``overwrite``, it holds other files, or another tool's; or it cannot
            be written.
    """
    with output_folder(folder, partial(_refuse_existing, folder, form, files, overwrite=overwrite)) as new:
        tokens = write(new)
        content = {
            "model": features.header.model.name,
            "columns": [each.name for each in columns],
            "documents": len(features),
            "tokens": tokens,
            "written by": _written_by(form),
        }
        (new / _INDEX).write_text(json.dumps(content, indent=1) + "\n")
    return tokens


def _written_by(form: str) -> str:
    return f"bertfeat export --to {form}"


def _refuse_existing(folder: Path, form: str, files: Sequence[str], *, overwrite: bool) -> None:
    """Refuse to replace a folder, unless it is of this kind and may be."""
    if not folder.exists():
        return
    if not folder.is_dir():
        problem = f"a file of this name is there, and {form} is a folder"
        raise StorageError(problem, where=folder, remedy="choose another name")
    if not overwrite:
        raise output_exists(folder, "folder")
    own = [_INDEX, *files]
    if not _is_ours(folder / _INDEX, form) or any(not any(map(path.match, own)) for path in folder.iterdir()):
        raise StorageError(
            f"this is no folder of {form} alone, so that it is not overwritten",
            where=folder,
            remedy="choose another name",
        )


def _is_ours(index: Path, form: str) -> bool:
    """Whether a file is the index of such a folder."""
    try:
        content = json.loads(index.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("written by") == _written_by(form)
