"""A stack: all blocks of an encoder, which one call of a kernel computes for a batch.

A thread takes a few hundred rows of whole sequences through all blocks. Between blocks only the requested layers go
through main memory, and no thread waits for another (``csrc/stack.h``). Every row is computed by itself, whatever
stands beside it, so a text has the same bytes alone and in any company.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``L`` blocks.
"""

import ctypes
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder.int8 import Int8Block, KernelInt8Block
from bertfeat.core.encoder.kernels import (
    ACTIVATIONS,
    ATTENTION_STEP,
    TYPES,
    EmbeddingsStruct,
    Int8BlockStruct,
    Kernels,
    NormStruct,
    ProductStruct,
    StackBlockStruct,
    StackStruct,
    find_kernels,
)
from bertfeat.core.encoder.states import HiddenState
from bertfeat.core.encoder.weights import Affine, BlockWeights
from bertfeat.core.recipe import BlockSite, Place
from bertfeat.io import record_stages
from bertfeat.ragged import offsets_of

SITES = (
    BlockSite.OUTPUT,
    BlockSite.ATTN,
    BlockSite.MLP,
    BlockSite.MLP_IN,
    BlockSite.HEADS,
    BlockSite.MID,
    BlockSite.PRE_NORM,
)
"""The order in which ``csrc/kernels.h`` counts the places of a block."""
_STEP = 32  # widths of blocks in floating-point numbers are multiples of this
_STAGES = ("embed", "QKV", "attention", "output", "norms", "FFN")  # of csrc/stack.h


class EmbeddingTables:
    """The tables whose rows make up a token's embedding, and the norm of their sum."""

    def __init__(self, words: Tensor, positions: Tensor, types: Tensor | None, norm: Affine, eps: float) -> None:
        tables = [words, positions, *([] if types is None else [types])]
        self._kept = [table.contiguous() for table in tables]
        self._norm = _Norm(norm, eps)
        self.sizes = [len(table) for table in tables]
        pointers = [table.data_ptr() for table in self._kept]
        self.native = EmbeddingsStruct(*pointers, *([None] if types is None else []), self._norm.native)


class TokenRows(NamedTuple):
    """The tokens of a batch, as rows of the tables that their embeddings are made of."""

    tables: EmbeddingTables
    ids: NDArray[np.int32]  # [T] each
    positions: NDArray[np.int64]
    types: NDArray[np.int8]

    def check(self) -> None:
        """Refuse rows that the tables do not have, which a kernel would read all the same."""
        every: tuple[NDArray[np.integer], ...] = (self.ids, self.positions, self.types)
        for rows, size in zip(every, self.tables.sizes, strict=False):
            if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < size:
                raise IndexError(f"a table of {size} embeddings has no row {rows.min()} or {rows.max()}")


class Stack:
    """The blocks of an encoder, for a kernel that computes all of them.

    ``blocks`` compute in floating-point numbers, or have products of 8-bit integers and float32 values between blocks.
    """

    def __init__(
        self,
        blocks: "FloatBlocks | Int8Blocks",
        heads: int,
        activation: str,
        kernels: Kernels,
        function: str,
        bias: Tensor | None = None,
    ) -> None:
        self._scale = (blocks.hidden // heads) ** -0.5
        self._bias = None if bias is None else (bias / self._scale).contiguous()  # before scores are scaled
        self._kernels, self._function, self._heads = kernels, f"bertfeat_{function}", heads
        self._blocks, self._activation = blocks, ACTIVATIONS[activation]

    def __call__(
        self,
        inputs: Tensor | TokenRows,
        lengths: NDArray[np.int64],
        places: Collection[Place],
        *,
        first_token_only: bool,
    ) -> Iterator[HiddenState]:
        """Yield the chosen places, layer by layer; with ``first_token_only`` the deepest layer for first tokens only.

        Shape: tokens, or the embedding output ``[T, H]`` → ``[T, H]`` each, or ``[S, H]``.
        """
        deepest, width, dtype = max(places).layer, self._blocks.hidden, self._blocks.dtype
        if self._blocks.whole_layers_only and any(place.site is not BlockSite.OUTPUT for place in places):
            raise NotImplementedError("blocks of integers give whole layers only")
        first_token_only = first_token_only and deepest > 0
        bounds = offsets_of(lengths)
        rows = int(bounds[-1])
        states = {
            place: torch.empty(
                len(lengths) if first_token_only and place.layer == deepest else rows, width, dtype=dtype
            )
            for place in sorted(places)
        }
        out = (ctypes.c_void_p * ((deepest + 1) * len(SITES)))()
        for place, state in states.items():
            out[place.layer * len(SITES) + SITES.index(place.site)] = state.data_ptr()
        cycles = (ctypes.c_uint64 * len(_STAGES))()
        attention_dtype = self._blocks.attention_dtype
        job = StackStruct(
            bounds=bounds.ctypes.data,
            blocks=ctypes.addressof(self._blocks.natives),
            out=ctypes.addressof(out),
            bias=None if self._bias is None else self._bias.data_ptr(),
            cycles=ctypes.addressof(cycles),
            sequences=len(lengths),
            layers=deepest,
            heads=self._heads,
            activation=self._activation,
            first_only=first_token_only,
            type=TYPES[attention_dtype],
            form=self._kernels.attention_form(attention_dtype, width // self._heads),
            farthest=0 if self._bias is None else self._bias.shape[1] // 2,
            scale=self._scale,
        )
        if isinstance(inputs, Tensor):
            job.rows = inputs.data_ptr()
        else:
            inputs.check()
            job.tables = ctypes.addressof(inputs.tables.native)
            job.ids, job.positions, job.types = (
                each.ctypes.data for each in (inputs.ids, inputs.positions, inputs.types)
            )
        begin = time.perf_counter()
        self._kernels.call(self._function, job)
        seconds, spent = time.perf_counter() - begin, max(1, sum(cycles))
        record_stages({name: seconds * each / spent for name, each in zip(_STAGES, cycles, strict=True) if each})
        for place, state in states.items():
            yield HiddenState(place, state, first_token_only=first_token_only and place.layer == deepest)


class FloatBlocks:
    """Blocks in bfloat16 or float32, their weights packed in one piece of memory."""

    whole_layers_only = False

    def __init__(self, blocks: Sequence[BlockWeights], eps: float, kernels: Kernels, dtype: torch.dtype) -> None:
        self.attention_dtype = self.dtype = dtype
        self._kernels, self._eps, self.hidden = kernels, eps, blocks[0].up.weight.shape[1]
        affines = [(*each.products, each.attention_norm, each.out_norm) for each in blocks]
        places = offsets_of([product.weight.numel() for block in affines for product in block[:4]]).tolist()
        packed = kernels.huge_room(places[-1], dtype)
        rooms = (packed[begin:end] for begin, end in pairwise(places))
        self._kept: list[Tensor | _Norm] = [packed]
        self.natives = (StackBlockStruct * len(blocks))(
            *(
                StackBlockStruct(
                    *(self._product(product, next(rooms)) for product in block[:4]), *map(self._norm, block[4:])
                )
                for block in affines
            )
        )

    def _product(self, product: Affine, room: Tensor) -> ProductStruct:
        outputs, inputs = product.weight.shape
        if self.dtype is torch.bfloat16:
            self._kernels.pack(product.weight.bfloat16().contiguous(), room)
        else:  # csrc/fp32_stack.h
            strip = 32 if self._kernels.has_avx512 else 16
            strips = product.weight.float().reshape(outputs // strip, strip, inputs)
            room.view(outputs // strip, inputs, strip).copy_(strips.transpose(1, 2))
        bias = product.bias.float().contiguous()
        self._kept.append(bias)
        return ProductStruct(room.data_ptr(), bias.data_ptr(), inputs, outputs)

    def _norm(self, norm: Affine) -> NormStruct:
        made = _Norm(norm, self._eps)
        self._kept.append(made)
        return made.native


class Int8Blocks:
    """Blocks whose products are of 8-bit integers; values around attention are float32 or bfloat16."""

    dtype = torch.float32
    whole_layers_only = True

    def __init__(self, blocks: Sequence[KernelInt8Block], attention_dtype: torch.dtype) -> None:
        self._kept, self.attention_dtype, self.hidden = blocks, attention_dtype, blocks[0].hidden
        self.natives = (Int8BlockStruct * len(blocks))(*(block.native for block in blocks))


class _Norm:
    """The weight and bias of a layer norm, where a kernel reads them."""

    def __init__(self, norm: Affine, eps: float) -> None:
        self._weight, self._bias = norm.weight.float().contiguous(), norm.bias.float().contiguous()
        self.native = NormStruct(self._weight.data_ptr(), self._bias.data_ptr(), eps)


def float_stack(
    blocks: Sequence[BlockWeights],
    eps: float,
    heads: int,
    activation: str,
    device: torch.device,
    dtype: torch.dtype,
    bias: Tensor | None = None,
) -> Stack | None:
    """Make a stack in floating-point numbers if this device has a kernel for such blocks; else None."""
    inner, hidden = blocks[0].up.weight.shape
    serves = device.type == "cpu" and not (hidden % _STEP or inner % _STEP)
    kernels = find_kernels() if serves else None
    form = kernels.stack_form(dtype, hidden // heads) if kernels else ""
    if kernels is None or not form:
        return None
    return Stack(FloatBlocks(blocks, eps, kernels, dtype), heads, activation, kernels, f"stack_{form}", bias)


def int8_stack(blocks: Sequence[Int8Block], heads: int, activation: str, bias: Tensor | None = None) -> Stack | None:
    """Make a stack of blocks of integers if there is a kernel for such blocks; else None."""
    by_kernels = [block.by_kernels for block in blocks if block.by_kernels]
    if not by_kernels:
        return None
    kernels, instructions = by_kernels[0].kernels
    if (by_kernels[0].hidden // heads) % ATTENTION_STEP:
        return None
    made, function = Int8Blocks(by_kernels, blocks[0].attention_dtype), f"int8_stack_{instructions}"
    return Stack(made, heads, activation, kernels, function, bias)
