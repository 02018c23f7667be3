"""Token features as vLLM writes hidden states: a safetensors file for each document, with its token ids.

Trainers of draft models, probes and dictionaries read such folders. Shapes: T tokens of a document, L places of the
network, H width of one.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.export_folder import columns_beside_ids, write_folder
from bertfeat.core.features.record_batches import Matrix, list_offsets, stored_matrices
from bertfeat.core.features.vector_reader import own_dtype
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import DamagedError, NotDerivableError, parameter, shell_value

if TYPE_CHECKING:
    from bertfeat.core.features.reader import FeatureSet


def write_hidden_states(features: "FeatureSet", column: str | None, folder: Path, *, overwrite: bool) -> int:
    """Write a file for each document into a folder, which is there at the end of it whole or not at all.

    A file is named after the document's row, and holds ``token_ids`` ``[T]`` and ``hidden_states`` ``[T, L, H]`` of the
    named columns of tokens, or of all that are stored. Returns the number of tokens.

    Raises:
        NotDerivableError: there are no such columns, their vectors differ in width, or the ids are not stored.
        StorageError: the folder exists; or, with ``overwrite``, it is not one of these.
    """
    columns = columns_beside_ids(features, column, "hidden-states")
    _refuse_widths(features, columns)
    write = partial(_write_files, features, columns)
    return write_folder(features, columns, folder, "hidden-states", ("*.safetensors",), write, overwrite=overwrite)


def _refuse_widths(features: "FeatureSet", columns: Sequence[ReadableColumn]) -> None:
    """Refuse columns that cannot stand side by side."""
    widths = {each.width // each.recipe.width(1): each.name for each in columns}
    if len(widths) > 1:
        listed = " and ".join(f"{name} {width}" for width, name in widths.items())
        raise NotDerivableError(
            f"the vectors of one file are of one width, and these are not: {listed}",
            where=features.folder,
            remedy=f"name those of one width with {parameter('column')}",
        )


def _write_files(features: "FeatureSet", columns: Sequence[ReadableColumn], folder: Path) -> int:
    """Write the files of all documents; returns the number of tokens."""
    from safetensors.numpy import save_file

    count = 0
    stored = [known for known in features.columns if any(known.name in each.derivation.columns for each in columns)]
    for batch in features.stream(["row", "id", "token_ids", *(column.name for column in stored)]):
        ids, offsets = batch.column("token_ids").flatten().to_numpy(), list_offsets(batch, "token_ids").tolist()
        matrices = stored_matrices(batch, stored)
        if any(len(matrix) != len(ids) for matrix in matrices.values()):
            remedy = f"bertfeat verify {shell_value(features.folder)} says more"
            raise DamagedError("a part has fewer vectors than tokens", where=features.folder, remedy=remedy)
        states = _side_by_side(columns, features.columns, matrices)
        rows = zip(batch.column("row").to_pylist(), batch.column("id").to_pylist(), pairwise(offsets), strict=True)
        for row, name, (start, stop) in rows:
            tensors = {"token_ids": ids[start:stop].astype(np.int64), "hidden_states": states[start:stop]}
            save_file(tensors, folder / f"{row:08}.safetensors", {"id": name})
        count += len(ids)
    return count


def _side_by_side(
    columns: Sequence[ReadableColumn], stored: Sequence[FeatureColumn], matrices: Mapping[str, Matrix]
) -> Matrix:
    """The vectors of all columns, place by place, in the type in which they are stored. Shape: ``[N, L, H]``."""
    number, places = len(next(iter(matrices.values()))), [each.recipe.width(1) for each in columns]
    width = columns[0].width // places[0]
    states = np.empty((number, sum(places), width), own_dtype(columns, stored))
    flat, at = states.reshape(number, sum(places) * width), 0
    for column in columns:
        column.derivation.fill(flat[:, at : at + column.width], matrices)
        at += column.width
    return states
