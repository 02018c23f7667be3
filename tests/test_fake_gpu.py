"""The packed encoder and its poolings on CUDA tensors without values, which need no GPU and no driver: make fake-gpu.

An operator that mixes devices or formats, or whose shapes do not fit, fails here as it would there. What only values
or kernels can tell is in test_gpu.py.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from bertfeat.core.encoder import Precision, attention, load_encoder
from bertfeat.core.encoder.weights import read_weights
from bertfeat.core.extraction.compute import FeatureMatrices, compute_features
from bertfeat.core.recipe import FeatureColumn, Pooling
from bertfeat.core.tokens import TokenizedDocuments, tokenize
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny, documents

DEVICE = torch.device("cuda:0")
LAYERS = "0,2,last,concat4,mean4"
pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch is built without CUDA: make fake-gpu")


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16])
@pytest.mark.parametrize("poolings", [tuple(Pooling), *((each,) for each in Pooling)], ids=lambda each: "+".join(each))
def test_every_column_has_the_shape_and_format_of_a_cpu(
    packed_tiny: Tiny, precision: Precision, poolings: tuple[Pooling, ...]
) -> None:
    columns = packed_tiny.columns(LAYERS, *poolings, dtype="float16")
    tokenized = tokenized_texts(packed_tiny, columns)
    wanted = compute_features(packed_tiny.encoder, tokenized, columns, batch_tokens=100)
    found = on_a_fake_gpu(packed_tiny, precision, tokenized, columns)
    assert forms(found) == forms(wanted)


@pytest.mark.parametrize(
    ("capability", "heads", "precision", "is_flash"),
    [
        ((9, 0), 4, Precision.BF16, True),
        ((8, 0), 4, Precision.FP16, True),
        ((7, 5), 4, Precision.FP16, False),  # a T4
        ((9, 0), 8, Precision.BF16, False),  # heads 4 wide
        ((9, 0), 4, Precision.FP32, False),
    ],
)
def test_flash_attention_is_used_where_it_serves(
    bert_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    heads: int,
    precision: Precision,
    is_flash: bool,
) -> None:
    config = json.loads((bert_folder / "config.json").read_text())
    (bert_folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": heads}))
    tiny = Tiny.load(bert_folder)
    columns = tiny.columns("last", Pooling.MEAN)
    tokenized = tokenized_texts(tiny, columns)
    flash = Mock(wraps=attention.flash_attention)
    monkeypatch.setattr(attention, "flash_attention", flash)
    on_a_fake_gpu(tiny, precision, tokenized, columns, capability)
    assert flash.called is is_flash


def tokenized_texts(tiny: Tiny, columns: Sequence[FeatureColumn]) -> TokenizedDocuments:
    return tokenize(documents([*TEXTS, LONG_TEXT] * 2), tiny.tokenizer, tiny.settings(columns))


def forms(found: FeatureMatrices) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    return {name: (matrix.shape, matrix.dtype) for name, matrix in found.matrices.items()}


def on_a_fake_gpu(
    tiny: Tiny,
    precision: Precision,
    tokenized: TokenizedDocuments,
    columns: Sequence[FeatureColumn],
    capability: tuple[int, int] = (9, 0),
) -> FeatureMatrices:
    with fake_gpu(capability):
        encoder = load_encoder(tiny.model, precision, DEVICE)
        return compute_features(encoder, tokenized, columns, batch_tokens=100)


# ── a device without values ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def fake_gpu(capability: tuple[int, int]) -> Iterator[None]:
    """Compute without values, and answer what the driver would be asked."""
    mode, to_numpy = FakeTensorMode(allow_non_fake_inputs=True), Tensor.numpy

    def without_values(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, FakeTensor):
            return mode.from_tensor(tensor)
        tensor.constant = None  # of NumPy's numbers, which are known
        return tensor

    def faked_weights(*args: Any) -> Any:
        with unset_fake_temporarily():
            read = read_weights(*args)
        return map_tensors(without_values, read)

    def as_numpy(tensor: Tensor) -> Any:
        known = not isinstance(tensor, FakeTensor)
        return to_numpy(tensor) if known else np.zeros(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))

    answers: dict[str, Any] = {
        "torch.cuda.get_device_capability": lambda *_: capability,
        "torch.cuda._exchange_device": lambda _: 0,
        "torch.cuda._maybe_exchange_device": lambda _: 0,
        "torch.cuda.current_stream": lambda *_: None,
        "torch.cuda.Event": _Event,
        "torch.backends.cudnn.version": lambda: None,
        "torch.Tensor.pin_memory": without_values,
        "torch.Tensor.numpy": as_numpy,
        "bertfeat.core.encoder.packed.read_weights": faked_weights,
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch(name, answer))
        for each in (mode, _Indexing()):
            stack.enter_context(each)
        yield


def map_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The same named tuples and dataclasses of other tensors."""
    if isinstance(value, Tensor):
        return function(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: map_tensors(function, getattr(value, field.name)) for field in fields(value)}
        return replace(value, **parts)
    if isinstance(value, tuple):
        parts_of = [map_tensors(function, each) for each in value]
        return type(value)(*parts_of) if hasattr(value, "_fields") else tuple(parts_of)
    return value


class _Event:
    def record(self, _: object) -> None: ...

    def synchronize(self) -> None: ...


class _Indexing(TorchFunctionMode):
    """Indexing, which asks the driver even of tensors without values, on the device that has no driver: meta."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        is_get, is_set = function is Tensor.__getitem__, function is Tensor.__setitem__
        if not (is_get or is_set) or args[0].device != DEVICE:
            return function(*args, **(kwargs or {}))
        target, *rest = (tree_map_only(Tensor, on_meta, each) for each in args)
        if is_get:
            picked = target[rest[0]]
            return torch.empty_strided(picked.shape, picked.stride(), dtype=picked.dtype, device=DEVICE)
        assert not isinstance(args[2], Tensor) or args[2].device == DEVICE
        target[rest[0]] = rest[1]
        return None


def on_meta(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
