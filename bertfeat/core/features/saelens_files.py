"""Token features as SAELens reads cached activations: a folder of Hugging Face's datasets, a row for each document.

Shapes: R documents, T tokens of each, W width of a column.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.features.columns import ReadableColumn
from bertfeat.core.features.export_folder import columns_beside_ids, write_folder
from bertfeat.core.features.record_batches import list_offsets
from bertfeat.core.grammar import hook_name
from bertfeat.errors import DamagedError, NotDerivableError, needed_library, shell_value

if TYPE_CHECKING:
    from bertfeat.core.features.reader import FeatureSet

_Arrays = Mapping[str, NDArray[np.generic]]  # token_ids [R, T], and columns [R, T, W]
_SHARD = 1 << 27  # bytes of a file, about
_FILES = ("data-*.arrow", "dataset_info.json", "state.json")


def write_saelens(features: "FeatureSet", column: str | None, folder: Path, *, overwrite: bool) -> int:
    """Write a row for each document into a folder of datasets, which is there at the end of it whole or not at all.

    A row has ``token_ids`` ``[T]`` in int32, and each column as ``Array2D`` ``[T, W]`` in the stored type, under
    TransformerLens's name of it, where it has one. Returns the number of tokens.

    Raises:
        NotDerivableError: there are no such columns, the ids are not stored, or documents differ in length.
        StorageError: the folder exists; or, with ``overwrite``, it is not one of these.
        MissingLibraryError: datasets is not installed.
    """
    with needed_library("what SAELens reads is written by datasets", "datasets>=4"):
        from datasets import List  # noqa: F401  # which older ones lack
    columns = columns_beside_ids(features, column, "saelens")
    write = partial(_write_dataset, features, columns)
    return write_folder(features, columns, folder, "saelens", _FILES, write, overwrite=overwrite)


def _write_dataset(features: "FeatureSet", columns: Sequence[ReadableColumn], folder: Path) -> int:
    size = _tokens_of_each(features)
    _join_shards([_write_shard(shard, folder) for shard in _shards(features, columns, size)], folder)
    return size * len(features)


def _tokens_of_each(features: "FeatureSet") -> int:
    """The number of tokens that every document has."""
    size: int | None = None
    for batch in features.stream(["row", "token_ids"]):
        lengths = np.diff(list_offsets(batch, "token_ids"))
        size = int(lengths[0]) if size is None and len(lengths) else size
        if len(others := np.flatnonzero(lengths != size)):
            row, other = batch.column("row")[int(others[0])].as_py(), int(lengths[others[0]])
            raise NotDerivableError(
                f"in saelens all rows have equally many tokens, and row {row} has {other:,}, not {size:,}",
                where=features.folder,
                remedy="make rows of one length with bertfeat contexts, and extract these with their special tokens",
            )
    if not size:
        raise NotDerivableError("it has no tokens", where=features.folder, remedy="export a set that has some")
    return size


def _shards(features: "FeatureSet", columns: Sequence[ReadableColumn], size: int) -> Iterator[_Arrays]:
    """The arrays of some rows at a time, by the names that their columns get."""
    specs = [column.recipe.spelling for column in columns]
    stream = features.vectors(specs, "token", shuffle=False)
    if stream.vectors != size * len(features):
        remedy = f"bertfeat verify {shell_value(features.folder)} says more"
        raise DamagedError("a part has not as many vectors as tokens", where=features.folder, remedy=remedy)
    rows = max(1, _SHARD // (size * stream.width * stream.dtype.itemsize))
    batches = features.vectors(specs, "token", shuffle=False, batch=rows * size, memory=2 * _SHARD)
    ids = _Ids(features)
    for batch in batches:
        arrays: dict[str, NDArray[np.generic]] = {"token_ids": ids.take(len(batch)).reshape(-1, size)}
        for column in columns:
            name = hook_name(column.recipe) or column.name
            arrays[name] = batch[column.name].reshape(-1, size, column.width)
        yield arrays


class _Ids:
    """The tokens' ids of a set, in order."""

    def __init__(self, features: "FeatureSet") -> None:
        self._batches = (batch.column("token_ids").flatten().to_numpy() for batch in features.stream(["token_ids"]))
        self._held: NDArray[np.int32] = np.zeros(0, np.int32)

    def take(self, number: int) -> NDArray[np.int32]:
        """The next so many."""
        held = [self._held]
        while sum(map(len, held)) < number:
            held.append(next(self._batches))
        ids = np.concatenate(held)
        self._held = ids[number:]
        return ids[:number]


def _write_shard(arrays: _Arrays, folder: Path) -> Path:
    """Write rows as a dataset of their own, in a folder."""
    from datasets import Array2D, Dataset, Features, List, Value

    matrices = {name: array for name, array in arrays.items() if array.ndim == 3}
    kinds = {name: Array2D(array.shape[1:], str(array.dtype)) for name, array in matrices.items()}
    described = Features({**kinds, "token_ids": List(Value("int32"), length=arrays["token_ids"].shape[1])})
    shard = folder / f"shard-{sum(1 for _ in folder.iterdir()):05}"
    with _without_bars():
        Dataset.from_dict(dict(arrays), features=described).save_to_disk(shard, num_shards=1)
    return shard


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep datasets from showing bars of its own."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _join_shards(shards: Sequence[Path], folder: Path) -> None:
    """Make one dataset of those that were written, without copying their files."""
    state = json.loads((shards[0] / "state.json").read_text())
    files = [f"data-{number:05}-of-{len(shards):05}.arrow" for number in range(len(shards))]
    for shard, name in zip(shards, files, strict=True):
        (file,) = shard.glob("*.arrow")
        file.rename(folder / name)
    state["_data_files"] = [{"filename": name} for name in files]
    (folder / "state.json").write_text(json.dumps(state, indent=2, sort_keys=True) + "\n")
    (shards[0] / "dataset_info.json").rename(folder / "dataset_info.json")
    for shard in shards:
        shutil.rmtree(shard)
