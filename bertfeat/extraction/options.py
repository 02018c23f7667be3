"""The keywords of ``encode``, which are those of sentence-transformers, and the conversions that they ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, Required, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.errors import UsageError
from bertfeat.extraction.similarity import normalize_rows

EncodeResult = NDArray[np.generic] | Tensor | list[Tensor]
"""The result of ``encode``: an array, one tensor, or a list of tensors."""

_QUANTIZED = ("int8", "uint8", "binary", "ubinary")


class EncodeKeywords(TypedDict, total=False):
    """The keywords of ``encode`` that do not decide the type of its result; :class:`EncodeOptions` explains them."""

    sentences: object
    prompt_name: str | None
    prompt: str | None
    batch_size: int | None
    show_progress_bar: bool | None
    device: str | torch.device | None
    normalize_embeddings: bool
    truncate_dim: int | None
    pool: None
    chunk_size: None
    task: str | None
    processing_kwargs: Mapping[str, object] | None


class NumpyKeywords(EncodeKeywords, total=False):
    """The keywords of a call that returns an array of float32."""

    output_value: Literal["sentence_embedding"]
    precision: Literal["float32"] | None
    convert_to_numpy: Literal[True]
    convert_to_tensor: Literal[False]


class TensorKeywords(EncodeKeywords, total=False):
    """The keywords of a call that returns one tensor."""

    output_value: Literal["sentence_embedding"]
    precision: str | None
    convert_to_numpy: bool
    convert_to_tensor: Required[Literal[True]]


class AnyKeywords(EncodeKeywords, total=False):
    """The keywords of any call."""

    output_value: str | None
    precision: str | None
    convert_to_numpy: bool
    convert_to_tensor: bool


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """The keywords of one call of ``encode``, checked.

    Raises:
        UsageError: a value that cannot be right, or one that is set when the Extractor is made.
    """

    prompt_name: str | None = None  # a key of the model's prompts
    prompt: str | None = None  # set before every text; goes before prompt_name
    batch_size: int | None = None  # most texts in one batch, which a token budget limits already
    show_progress_bar: bool | None = None
    output_value: str | None = "sentence_embedding"  # or "token_embeddings": one matrix a text
    precision: str | None = "float32"  # of the result: float32, int8, uint8, binary, ubinary
    convert_to_numpy: bool = True  # False: a list of tensors
    convert_to_tensor: bool = False  # True: one tensor
    device: object = None
    normalize_embeddings: bool = False  # to length 1
    truncate_dim: int | None = None  # only the first dimensions
    pool: object = None
    chunk_size: object = None
    task: str | None = None  # for models that route by it; bertfeat has none
    processing_kwargs: Mapping[str, object] | None = None

    @classmethod
    def of(cls, keywords: Mapping[str, object]) -> Self:
        """Check the keywords of a call."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in keywords if name not in known]:
            raise UsageError(f"encode() has no keyword {unknown[0]!r}", remedy=f"known are {', '.join(known)}")
        return cls(**keywords)  # type: ignore[arg-type]  # a wrong value is found below, or where it is used

    def __post_init__(self) -> None:
        _positive("batch_size", self.batch_size)
        _positive("truncate_dim", self.truncate_dim)
        if self.output_value not in ("sentence_embedding", "token_embeddings"):
            raise UsageError(
                f"encode(output_value={self.output_value!r}): known are 'sentence_embedding' and 'token_embeddings'; "
                f"features() gives both, with the tokens and their places"
            )
        if self.precision is not None and self.precision not in ("float32", *_QUANTIZED):
            raise UsageError(
                f"encode(precision={self.precision!r}): a result is float32, {', '.join(_QUANTIZED)}; the precision of "
                f"the computation is set when the Extractor is made, as in Extractor(precision='bf16')"
            )
        if self.pool is not None or self.chunk_size is not None:
            raise UsageError("encode(pool=…, chunk_size=…): bertfeat uses all cores or one device, without processes")
        if self.processing_kwargs:
            raise UsageError("encode(processing_kwargs=…): set max_length and long when the Extractor is made")
        of_vectors = self.normalize_embeddings or self.truncate_dim or self.precision in _QUANTIZED
        if self.output_value == "token_embeddings" and of_vectors:
            raise UsageError(
                "encode(output_value='token_embeddings') gives hidden states as they are; normalize_embeddings, "
                "truncate_dim and precision are for sentence embeddings"
            )

    def convert(self, vectors: NDArray[np.float32], device: torch.device) -> EncodeResult:
        """Cut, normalize, quantize and convert vectors, in this order. Shape: ``[n, width]``."""
        result: NDArray[np.generic] = np.ascontiguousarray(vectors[:, : self.truncate_dim])
        if self.normalize_embeddings:
            result = normalize_rows(torch.from_numpy(result)).numpy()
        if self.precision in _QUANTIZED and len(result):
            result = _quantize(result, str(self.precision))
        if self.convert_to_numpy and not self.convert_to_tensor:
            return result
        tensor = torch.from_numpy(result).to(device)
        return tensor if self.convert_to_tensor else list(tensor)


def _positive(name: str, value: object) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and int(value) >= 1):  # type: ignore[call-overload]
        raise UsageError("not a whole number of at least 1", where=f"encode({name}={value!r})")


def _quantize(vectors: NDArray[np.generic], precision: str) -> NDArray[np.generic]:
    try:
        from sentence_transformers.util.quantization import quantize_embeddings
    except ImportError:
        raise UsageError(
            f"encode(precision={precision!r}) is sentence-transformers' quantization: pip install sentence-transformers"
        ) from None
    try:
        return np.asarray(quantize_embeddings(vectors, precision=precision))  # type: ignore[arg-type]
    except ValueError as error:  # such as a single vector, of which no range can be taken
        raise UsageError(f"encode(precision={precision!r}): {error}") from error
