"""A saved tagger on disk: its weights, and ``tagger.json``, which describes them and is written last."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from torch import Tensor

from bertfeat.errors import TaggerError, UsageError, parameter
from bertfeat.features import ModelIdentity
from bertfeat.io import JsonError, JsonFormat, remove_file, write_json
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.settings import TaggerSettings, TrainingSettings
from bertfeat.training import (
    EpochRecord,
    Extraction,
    FileDigest,
    TensorForm,
    TensorsError,
    parse_input,
    read_tensors,
    write_tensors,
)

FORMAT_VERSION = 2
"""Version of a tagger's format that this bertfeat writes; older ones are read, newer ones refused.

Since 2 ``tagger.json`` carries its own digest and that of the weights, and names the places of the features.
"""

SETTINGS_NAME = "tagger.json"
WEIGHTS_NAME = "tagger.safetensors"
PICTURE_NAME = "curves.png"

_MOST_LAYERS = 10_000  # of a model: what "all" means must not fill the memory


@dataclass(frozen=True, slots=True)
class _TaggerFile:
    """``tagger.json`` as it is written."""

    format_version: int
    model: ModelIdentity
    extraction: Extraction
    input: str  # a layer specification
    network: NetworkSettings
    labels: LabelSet
    training: TrainingSettings
    data: Mapping[str, str]
    best_epoch: Annotated[int, Meta(ge=1)]
    score: Annotated[float, Meta(ge=0, le=1)]
    history: Annotated[tuple[EpochRecord, ...], Meta(min_length=1)]
    versions: Mapping[str, str]
    places: Mapping[str, str] = field(default_factory=dict)
    weights: FileDigest | None = None


def network_forms(settings: NetworkSettings, labels: LabelSet) -> dict[str, TensorForm]:
    """The tensors of a network, without making it."""
    with torch.device("meta"):
        network = TaggerNetwork(settings, labels.names, spans=False)  # which labels may follow is no tensor of its own
    return {name: TensorForm.of(tensor) for name, tensor in network.state_dict().items()}


def write_tagger(folder: Path, settings: TaggerSettings, tensors: Mapping[str, Tensor]) -> TaggerSettings:
    """Save a tagger; until the last byte of ``tagger.json`` is there, the folder holds none.

    Raises:
        StorageError: the folder cannot be written.
    """
    settings = replace(settings, weights=write_tensors(folder / WEIGHTS_NAME, tensors))
    values = {
        attribute.name: getattr(settings, attribute.name)
        for attribute in fields(_TaggerFile)
        if attribute.name != "input"
    }
    write_json(folder / SETTINGS_NAME, _TaggerFile(input=settings.input.spelling or settings.input.spec, **values))
    return settings


def remove_tagger(folder: Path) -> None:
    """Remove a saved tagger, its settings first: without them the folder holds no tagger."""
    for name in (SETTINGS_NAME, WEIGHTS_NAME, PICTURE_NAME):
        remove_file(folder / name)


def has_tagger(folder: Path) -> bool:
    """Whether a folder holds a finished tagger, sound or not."""
    return (folder / SETTINGS_NAME).exists()


_FORMAT = JsonFormat(_TaggerFile, FORMAT_VERSION, error=TaggerError, remedy=lambda: _copy_remedy(), digest_from=2)


def read_tagger_settings(folder: Path) -> TaggerSettings:
    """Read ``tagger.json``.

    Raises:
        TaggerError: there is none, it cannot be read or contradicts itself, or a newer bertfeat wrote it.
    """
    path = folder / SETTINGS_NAME
    try:
        return _decoded_settings(_FORMAT.read(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = f"this is no finished tagger: it has no {SETTINGS_NAME}"
        raise TaggerError(problem, where=folder, remedy="bertfeat tag train makes one") from error
    except (JsonError, UsageError) as error:
        raise TaggerError(f"cannot be read ({error})", where=path, remedy=_copy_remedy()) from error


def read_tagger_weights(folder: Path, settings: TaggerSettings) -> dict[str, Tensor]:
    """Read the weights that belong to settings, every byte of them.

    Raises:
        TaggerError: they are not those that the settings describe.
    """
    path = folder / WEIGHTS_NAME
    try:
        return read_tensors(path, network_forms(settings.network, settings.labels), settings.weights)
    except OSError as error:
        raise TaggerError(f"cannot be read ({error.strerror or error})", where=path, remedy=_copy_remedy()) from error
    except TensorsError as error:
        raise TaggerError(
            f"these are not the weights of {SETTINGS_NAME}: {error}", where=path, remedy=_copy_remedy()
        ) from error


def _copy_remedy() -> str:
    again = f"train it again with {parameter('overwrite', True)}"
    return f"copy the whole tagger again from where it was made, or {again}"


def _decoded_settings(saved: _TaggerFile) -> TaggerSettings:
    if saved.model.num_layers > _MOST_LAYERS:
        raise JsonError(f"a model of {saved.model.num_layers:,} layers")
    values = {
        attribute.name: getattr(saved, attribute.name) for attribute in fields(_TaggerFile) if attribute.name != "input"
    }
    settings = TaggerSettings(input=parse_input(saved.input, saved.model.num_layers), **values)
    if problem := _settings_problem(settings):
        raise JsonError(problem)
    return settings


def _settings_problem(settings: TaggerSettings) -> str | None:
    """The setting that contradicts the others, if there is one."""
    network, training = settings.network, settings.training
    expected = {
        "width": settings.input.recipe.width(settings.model.hidden_size),
        "mixed_layers": settings.input.mixed_layers,
        "hidden": training.hidden,
        "crf": training.crf,
        "dropout": training.dropout,
    }
    for name, value in expected.items():
        if getattr(network, name) != value:
            return f"the network's {name} is {getattr(network, name)}, and has to be {value}"
    if settings.format_version >= 2 and settings.weights is None:
        return "it does not say what its weights' file holds"
    if settings.best_epoch > len(settings.history):
        return f"the best of {len(settings.history)} epochs is number {settings.best_epoch}"
    return None
