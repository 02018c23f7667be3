"""A module of transformers from a model's files: built from its configuration, and filled with its weights.

The amount of weights is checked before any memory is taken for them.
"""

import copy
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.weights import StoredTensors
from bertfeat.core.models import (
    ENCODER_HALVES,
    LibraryConfig,
    Model,
    silence_transformers,
    wrap_library_errors,
)
from bertfeat.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_MODULES, _MODULES_PER_TENSOR = 1_000, 20  # limits; most models have two modules per tensor that they store
_TOLERATED_EXCESS = 10_000_000  # numbers; with fewer missing, the model is built, and an error names the missing ones
_LEFT_OUT = "pooler"  # many modules have it, and no hidden state needs it


class _LoadingInfo(TypedDict):
    """transformers' report on the weights that it loaded."""

    missing_keys: set[str]
    mismatched_keys: set[tuple[str, tuple[int, ...], tuple[int, ...]]]  # name, shape in the file, shape wanted


def load_module(model: Model, precision: Precision) -> nn.Module:
    """Build a model's module and fill it with its weights.

    transformers is given the tensors, not the folder, so that it opens no file that the model's files name.

    Raises:
        ModelError: transformers does not know the model, or the weights do not fit it.
    """
    tensors = StoredTensors(model)
    config = copy.deepcopy(model.library_config)  # the module may change it
    if hasattr(config, "use_cache"):
        config.use_cache = False  # the cache of keys and values, which only generating tokens needs
    with silence_transformers():
        skeleton = _skeleton(model, config, len(tensors.shapes))
        _check_amount(model, skeleton, tensors)
        with wrap_library_errors("transformers cannot load this model", where=model.name):
            result = type(skeleton).from_pretrained(
                None,
                config=config,
                state_dict={name: tensors.read(name) for name in tensors.shapes},
                dtype=precision.dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that the error below can name them
            )
    module, info = cast(tuple[nn.Module, _LoadingInfo], result)
    _check_loaded(model, info)
    return module


def _check_loaded(model: Model, info: _LoadingInfo) -> None:
    """Refuse a module with weights that the files lack or hold in another shape."""
    misfits = sorted(misfit for misfit in info["mismatched_keys"] if _LEFT_OUT not in misfit[0])
    for name, stored, expected in misfits:
        raise ModelError(
            f"its weight {name} has shape {list(stored)}, and its config.json asks for {list(expected)}",
            where=model.name,
        )
    if missing := sorted(name for name in info["missing_keys"] if _LEFT_OUT not in name):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"its weights lack {missing[0]}{more}, so it cannot be used", where=model.name)


def _skeleton(model: Model, config: LibraryConfig, stored: int) -> "PreTrainedModel":
    """The module without memory for its weights."""
    from transformers import AutoModel, AutoModelForTextEncoding

    halved = model.config.model_type in ENCODER_HALVES
    from_config: Callable[..., PreTrainedModel] = (AutoModelForTextEncoding if halved else AutoModel).from_config

    most = _MODULES + _MODULES_PER_TENSOR * stored
    with (
        wrap_library_errors("transformers cannot build this model", where=model.name),
        _at_most(most, model.name),
        torch.device("meta"),
    ):
        skeleton = from_config(config, trust_remote_code=False)
    if skeleton.main_input_name != "input_ids":
        raise ModelError(
            f"it reads {skeleton.main_input_name}, not texts, so it is no encoder of texts", where=model.name
        )
    return skeleton


@contextmanager
def _at_most(modules: int, name: str) -> Iterator[None]:
    """Raise an error if more modules are built than the files can describe."""
    thread, left = threading.get_ident(), [modules]

    def count(*_: object) -> None:
        left[0] -= threading.get_ident() == thread
        if left[0] < 0:
            raise ModelError(f"its config.json describes a model of more than {modules:,} parts", where=name)

    hook = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _check_amount(model: Model, skeleton: nn.Module, tensors: StoredTensors) -> None:
    """Refuse a configuration that asks for far more numbers than the files hold, before memory is taken for them."""
    weights = sum(weight.numel() for name, weight in skeleton.named_parameters() if _LEFT_OUT not in name)
    tables = sum(table.numel() for table in skeleton.buffers())
    stored = sum(math.prod(shape) for shape in tensors.shapes.values())
    if max(weights, tables) > stored + _TOLERATED_EXCESS:
        raise ModelError(
            f"its config.json describes a model of {weights + tables:,} numbers, and its weights are {stored:,}",
            where=model.name,
        )
