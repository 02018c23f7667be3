"""The texts that ``encode`` takes: one, or many in any ordered container."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from bertfeat.corpus import CorpusItem, Document
from bertfeat.errors import UsageError, WrongTypeError


@dataclass(frozen=True, slots=True)
class TextInput:
    """Texts in order, and whether the input was a single string."""

    items: list[CorpusItem]
    single: bool


def take_texts(inputs: object) -> TextInput:
    """Take a string, or the items of a list, tuple, array, Series, column or generator.

    Raises:
        UsageError: something whose items are no texts in order, such as the keys of a mapping or the column names of a
            table; or an item of another type, named by its 1-based number.
    """
    if isinstance(inputs, str):
        return TextInput([inputs], single=True)
    if isinstance(inputs, np.ndarray) and inputs.ndim == 0:
        return take_texts(inputs.item())
    if problem := _why_no_texts(inputs):
        raise WrongTypeError(problem[0], remedy=problem[1])
    items = _list_items(inputs)
    for number, item in enumerate(items, 1):
        if type(item) is not str and not isinstance(item, str | tuple | list | Mapping | Document):
            raise WrongTypeError(f"item {number} is {_describe_item(item)}", remedy="give strings")
    return TextInput(items, single=False)


def check_prompt(prompt: object) -> str:
    """Return a prompt if it is one.

    Raises:
        UsageError: a prompt that is no string, or one that no file can hold.
    """
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
