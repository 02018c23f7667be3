"""Libraries that read a model's files: their output is silenced, their errors become ours."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import TypeVar

from bertfeat.errors import BertfeatError, ModelError
from bertfeat.io import JsonError, decode_json, read_regular

T = TypeVar("T")
_MOST_SHOWN = 300  # characters of a library's message


@contextmanager
def wrap_library_errors(problem: str, *, where: str = "") -> Iterator[None]:
    """Turn any exception of a library into a ModelError of this problem, followed by the library's message.

    Anyone can write a model's files, and the libraries that read them raise anything over them: KeyError,
    AttributeError, RecursionError, panics of Rust.
    """
    try:
        yield
    except BertfeatError:
        raise
    except Exception as error:
        raise ModelError(f"{problem}: {one_line_message(error)}", where=where) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of tokenizers and safetensors; it is no Exception
            raise
        raise ModelError(f"{problem}: {one_line_message(error)}", where=where) from error


def one_line_message(error: BaseException) -> str:
    """A library's message in one line, shortened; with the error's class where the message alone says little."""
    message = "".join(char if char.isprintable() else "?" for char in " ".join(str(error).split()))
    if not message:
        message = type(error).__name__
    elif isinstance(error, KeyError):
        message = f"there is no {message}"
    elif isinstance(error, (AttributeError, IndexError, TypeError)):
        message = f"{type(error).__name__}: {message}"
    return message if len(message) <= _MOST_SHOWN else f"{message[:_MOST_SHOWN]}…"


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Keep transformers from logging and from showing progress bars; bertfeat reports what matters."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def read_model_json(name: str, folder: Path, file: str, kind: type[T]) -> T | None:
    """Decode a JSON file of a model's folder by its type; None where there is none.

    Raises:
        ModelError: it is no regular file, no JSON, or of other types.
    """
    path = folder / file
    if not os.path.exists(path):
        return None
    try:
        return decode_json(read_regular(path), kind)
    except (JsonError, OSError) as error:
        raise ModelError(
            f"cannot read {path}: {error}", where=name, remedy="get the file anew from where the model came"
        ) from error
