"""The arguments of ``encode``: texts in any ordered container, and the keywords of sentence-transformers.

Both are checked here, and the vectors are converted as the keywords ask.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Required, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.corpus import CorpusItem, Document, memory_corpus
from bertfeat.core.extraction.similarity import normalize_rows
from bertfeat.errors import UsageError, WrongTypeError


@dataclass(frozen=True, slots=True)
class TextInput:
    """Texts in order, and whether the input was a single string."""

    items: list[CorpusItem]
    single: bool


def take_texts(inputs: object) -> TextInput:
    """Take a string, or the items of a list, tuple, array, Series, column or generator.

    An item is a string, or what :func:`memory_corpus` takes as well: a pair, words, a record or a document.

    Raises:
        WrongTypeError: something whose items are no texts in order, such as the keys of a mapping or the column names
            of a table; or an item of another type, named by its 1-based number.
    """
    if isinstance(inputs, str):
        return TextInput([inputs], single=True)
    if isinstance(inputs, np.ndarray) and inputs.ndim == 0:
        return take_texts(inputs.item())
    if reason := _why_no_texts(inputs):
        problem, remedy = reason
        raise WrongTypeError(problem, remedy=remedy)
    items = _list_items(inputs)
    for number, item in enumerate(items, 1):
        if not isinstance(item, str | tuple | list | Mapping | Document):
            raise WrongTypeError(f"item {number} is {_describe_item(item)}", remedy="give strings")
    return TextInput(items, single=False)


def text_documents(items: Sequence[CorpusItem]) -> Iterator[Document]:
    """The texts as documents.

    Raises:
        UsageError: a text is blank, or cannot be embedded for another reason.
    """
    for row in memory_corpus(items).rows():
        if not isinstance(row, Document):  # a failure with its reason, or a blank line
            raise UsageError(f"a text cannot be embedded: {getattr(row, 'reason', 'it is blank')}")
        yield row


def check_prompt(prompt: object) -> str:
    """Return a prompt if it is one."""
    if not isinstance(prompt, str):
        raise WrongTypeError(f"a prompt is a string, not {_describe_item(prompt)}")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        half = ascii(prompt[error.start])
        raise UsageError(
            f"the prompt has half of a surrogate pair ({half}) at {error.start}", remedy="remove it"
        ) from None
    return prompt


def _why_no_texts(inputs: object) -> tuple[str, str] | None:
    """Why an object holds no texts in order, and what to give instead; None if it may hold some."""
    kind = type(inputs).__name__
    if isinstance(inputs, Mapping):
        return f"a mapping ({kind}) was given, whose keys are no texts", "give a list, such as list(mapping.values())"
    if isinstance(inputs, set | frozenset):
        return f"a {kind} was given, which has no order", "give a list, such as sorted(texts)"
    if isinstance(inputs, bytes | bytearray | memoryview):
        return f"{kind} was given", "give a string, such as data.decode()"
    shape = tuple(getattr(inputs, "shape", ()))
    if len(shape) > 1:
        return f"a table ({kind} of shape {shape}) was given", "give one column of texts, such as table['text']"
    numbers = getattr(getattr(inputs, "dtype", None), "kind", "") in ("b", "i", "u", "f", "c", "m", "M", "S", "V")
    if numbers and shape and shape[0]:
        return f"a {kind} of {getattr(inputs, 'dtype', '')} was given, which holds no texts", "give strings"
    if not isinstance(inputs, Iterable):
        return f"one {kind} was given", "give a string or a list of strings"
    return None


def _list_items(inputs: object) -> list[CorpusItem]:
    if isinstance(inputs, np.ndarray):  # strings of Python, not of NumPy
        return list(inputs.tolist())
    if hasattr(inputs, "to_pylist"):  # pyarrow, whose scalars are no strings
        return list(inputs.to_pylist())
    return list(cast("Iterable[CorpusItem]", inputs))


def _describe_item(item: object) -> str:
    kind = type(item).__name__
    not_a_number = isinstance(item, float) and item != item
    if item is None or not_a_number or kind in ("NAType", "NaTType"):  # the last two are pandas'
        return f"missing ({item}), and missing values must be left out or filled first"
    if isinstance(item, bytes):
        return "of type bytes, which must be decoded first"
    return f"of type {kind}, not a text"


EncodeResult = NDArray[np.generic] | Tensor | list[Tensor]
"""The result of ``encode``: an array, one tensor, or a list of tensors."""

_QUANTIZED = ("int8", "uint8", "binary", "ubinary")


class _EncodeKeywords(TypedDict, total=False):
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


class NumpyKeywords(_EncodeKeywords, total=False):
    """The keywords of a call that returns an array of float32."""

    output_value: Literal["sentence_embedding"]
    precision: Literal["float32"] | None
    convert_to_numpy: Literal[True]
    convert_to_tensor: Literal[False]


class TensorKeywords(_EncodeKeywords, total=False):
    """The keywords of a call that returns one tensor."""

    output_value: Literal["sentence_embedding"]
    precision: str | None
    convert_to_numpy: bool
    convert_to_tensor: Required[Literal[True]]


class AnyKeywords(_EncodeKeywords, total=False):
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
    prompt: str | None = None  # put before every text; used instead of prompt_name if both are given
    batch_size: int | None = None  # most texts in one batch, besides the limit on its tokens
    show_progress_bar: bool | None = None
    output_value: str | None = "sentence_embedding"  # or "token_embeddings": one matrix per text
    precision: str | None = "float32"  # of the result: float32, int8, uint8, binary, ubinary
    convert_to_numpy: bool = True  # False: a list of tensors
    convert_to_tensor: bool = False  # True: one tensor
    device: object = None
    normalize_embeddings: bool = False  # to length 1
    truncate_dim: int | None = None  # only the first dimensions
    pool: object = None
    chunk_size: object = None
    task: str | None = None  # for models that choose modules by it; bertfeat has none
    processing_kwargs: Mapping[str, object] | None = None

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
        return np.asarray(quantize_embeddings(vectors, precision=precision))
    except ValueError as error:  # such as a single vector, of which no range can be taken
        raise UsageError(f"encode(precision={precision!r}): {error}") from error
