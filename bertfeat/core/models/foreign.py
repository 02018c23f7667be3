"""Wrappers for the libraries that read a model's files: they silence output, and turn errors into bertfeat's own.

transformers' model configurations are built here too, for the families that it runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import Any

from bertfeat.errors import BertfeatError, ModelError

_MOST_SHOWN = 300  # characters of a library's message


@contextmanager
def wrap_library_errors(problem: str, *, where: str = "") -> Iterator[None]:
    """Turn any exception of a library into a ModelError that states ``problem``, then the library's message.

    Anyone can write a model's files, and the libraries that read them may raise any exception: KeyError,
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


# ── configurations of transformers ──────────────────────────────────────────────────────────────────────────

LibraryConfig = Any
"""A configuration of transformers; which attributes it has depends on the family."""

IGNORED_KEYS = (
    "_attn_implementation",
    "attn_implementation",
    "dtype",
    "experts_implementation",
    "fusion_config",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torch_dtype",
    "transformers_weights",
)
"""Keys that say how to run a model, which bertfeat decides itself, or that describe a head's labels."""


def build_library_config(name: str, folder: Path, raw: dict[str, object]) -> LibraryConfig:
    """Build transformers' configuration from the content of ``config.json``."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    kind = raw.get("model_type", "unknown")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise ModelError(
            f"transformers cannot read this model (model_type {kind!r}) without running code from its repository, "
            f"which bertfeat never does",
            where=name,
        )
    if kind not in MODEL_MAPPING_NAMES:
        raise ModelError(
            f"transformers loads no model_type {kind!r} by itself; it is a part of another model", where=name
        )
    content = {key: value for key, value in raw.items() if key not in IGNORED_KEYS}
    with (
        silence_transformers(),
        wrap_library_errors(f"{folder / 'config.json'} does not describe a model of type {kind!r}", where=name),
    ):
        return CONFIG_MAPPING[kind].from_dict(content)


def predicts_next_word_only(model_type: str) -> bool:
    """Whether transformers lists a family with the causal language models and not with the masked ones."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
