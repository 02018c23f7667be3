"""The structs that the kernels take, as ``csrc/kernels.h`` declares them."""

import ctypes


def _pointers(*names: str) -> list[tuple[str, type[ctypes.c_void_p]]]:
    return [(name, ctypes.c_void_p) for name in names]


def _integers(*names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    return [(name, ctypes.c_int64) for name in names]


class AttentionStruct(ctypes.Structure):
    """The attention of a batch."""

    _fields_ = [
        *_pointers("query", "key", "value", "out", "bias", "query_bounds", "key_bounds"),
        *_integers("sequences", "heads", "width"),
        *_integers("query_stride", "key_stride", "value_stride", "out_stride"),
        *_integers("query_step", "key_step", "value_step", "group", "before", "after", "farthest"),
        *_integers("out_tile", "out_column"),
        *_integers("longest", "type", "form"),
        ("scale", ctypes.c_float),
    ]


class ProductStruct(ctypes.Structure):
    """A bfloat16 weight as tiles, and its bias."""

    _fields_ = [*_pointers("weight", "bias"), *_integers("in", "out")]


class NormStruct(ctypes.Structure):
    """A layer norm."""

    _fields_ = [*_pointers("weight", "bias"), ("eps", ctypes.c_float)]


class PostAttentionStruct(ctypes.Structure):
    """The part of a block after attention, in bfloat16."""

    _fields_ = [
        *_pointers("context", "residual", "out"),
        *_integers("rows", "activation"),
        *((name, ProductStruct) for name in ("output", "up", "down")),
        *((name, NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class StackBlockStruct(ctypes.Structure):
    """A block with its attention, in bfloat16."""

    _fields_ = [
        *((name, ProductStruct) for name in ("query_key_value", "output", "up", "down")),
        *((name, NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class EmbeddingsStruct(ctypes.Structure):
    """The tables whose rows make up a token's embedding."""

    _fields_ = [*_pointers("words", "positions", "types"), ("norm", NormStruct)]


class StackStruct(ctypes.Structure):
    """All blocks of a batch."""

    _fields_ = [
        *_pointers("rows", "tables", "ids", "positions", "types", "bounds", "blocks", "out", "bias", "cycles"),
        *_integers("sequences", "layers", "heads", "activation", "first_only", "type", "form", "farthest"),
        ("scale", ctypes.c_float),
    ]


class Int8ProductStruct(ctypes.Structure):
    """A weight of 8-bit integers as strips, with all that turns its sums into outputs."""

    _fields_ = [*_pointers("weight", "factor", "scale", "sums", "bias"), *_integers("in", "out")]


class Int8ProjectionStruct(ctypes.Structure):
    """A range of the outputs of a product of 8-bit integers."""

    _fields_ = [*_pointers("rows", "out"), *_integers("count", "begin", "end", "type"), ("product", Int8ProductStruct)]


class Int8BlockStruct(ctypes.Structure):
    """A block with its attention, its products of 8-bit integers."""

    _fields_ = [
        *((name, Int8ProductStruct) for name in ("query_key_value", "output", "up", "down")),
        *((name, NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class Int8PostAttentionStruct(ctypes.Structure):
    """The part of a block after attention, its products of 8-bit integers."""

    _fields_ = [*_pointers("context", "residual", "out", "block"), *_integers("rows", "activation", "type")]


JOBS: tuple[type[ctypes.Structure], ...] = (
    AttentionStruct,
    PostAttentionStruct,
    StackStruct,
    Int8ProjectionStruct,
    Int8PostAttentionStruct,
)
