"""Files of a model's folder: find its weights, decode its JSON, refuse special files and paths outside of it."""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from safetensors import safe_open

from bertfeat.core.models.foreign import wrap_library_errors
from bertfeat.errors import ModelError, parameter
from bertfeat.io import JsonError, decode_json, open_regular, read_regular

T = TypeVar("T")

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLED = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.ckpt.index",
)


@dataclass(frozen=True, slots=True)
class _Shards:
    weight_map: dict[str, str] = field(default_factory=dict)  # name of a tensor → file


def refuse_special_files(name: str, folder: Path) -> None:
    """Refuse a folder with a pipe or device among its files: a library that opened it would wait for ever."""
    for entry in sorted(os.listdir(folder)):
        try:
            mode = os.stat(folder / entry).st_mode
        except OSError:  # a dangling link counts as no file
            continue
        if any(is_kind(mode) for is_kind in (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR, stat.S_ISBLK)):
            raise ModelError(
                f"{folder / entry} is no regular file", where=name, remedy="put a copy of the model's own file there"
            )


def path_inside_model(name: str, folder: Path, file: str, named_in: str) -> Path:
    """Return the path of a file that one of the model's files names, which must lie in the model's folder."""
    path = PurePosixPath(file)
    if not file.isprintable() or path.is_absolute() or ".." in path.parts or "\\" in file:
        raise ModelError(f"{named_in} names {file!r}, which is outside of the model's folder", where=name)
    return folder / path


def read_model_json(name: str, folder: Path, file: str, kind: type[T]) -> T | None:
    """Decode a JSON file of a model's folder by its type; None where there is none."""
    path = folder / file
    if not os.path.exists(path):
        return None
    try:
        return decode_json(read_regular(path), kind)
    except (JsonError, OSError) as error:
        raise ModelError(
            f"cannot read {path}: {error}", where=name, remedy="get the file anew from where the model came"
        ) from error


def open_weights(name: str, file: Path, framework: str) -> safe_open:
    """Open a safetensors file of a model, and read only its header.

    Raises:
        ModelError: the file cannot be read, or is not a safetensors file.
    """
    with wrap_library_errors("its weights cannot be read", where=name):
        open_regular(file).close()  # safe_open would wait for a pipe's writer
        return safe_open(file, framework=framework)


def find_weight_files(name: str, folder: Path) -> tuple[Path, ...]:
    """Find the safetensors files of a model, sharded or not."""
    if (folder / _WEIGHTS).is_file():
        return (folder / _WEIGHTS,)
    shards = read_model_json(name, folder, _INDEX, _Shards) or _Shards()
    files = tuple(path_inside_model(name, folder, file, _INDEX) for file in sorted(set(shards.weight_map.values())))
    for file in files:
        if not os.path.isfile(file):  # unlike Path.is_file, it takes names of any length
            raise ModelError(f"{file.name} is named in {_INDEX} but is missing", where=name)
    if files:
        return files
    pickled = [file for file in _PICKLED if (folder / file).exists()]
    weights = f"only {pickled[0]}" if pickled else "no weights"
    raise ModelError(
        f"{folder} has {weights}",
        where=name,
        remedy="bertfeat reads safetensors only. Convert it once with\n"
        f"  python -c \"from transformers import AutoModel, AutoTokenizer; m, to = '{name}', 'converted'; "
        'AutoModel.from_pretrained(m).save_pretrained(to); AutoTokenizer.from_pretrained(m).save_pretrained(to)"\n'
        f"and use {parameter('model', 'converted')}",
    )
