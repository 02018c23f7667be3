"""The fingerprint of a model: one sha256 over everything in its files that decides vectors.

Weights and vocabularies count by their bytes. Settings count by their values, however they are written: keys that
change no vector are left out. For families that are read without transformers, a default counts the same whether
``config.json`` states it or not.

The digest of an unchanged file is remembered in this process and, for files of 1 MiB or more, in ``digests.json`` in
the user's cache folder (``$XDG_CACHE_HOME/bertfeat``, by default ``~/.cache/bertfeat``). The environment variable
``BERTFEAT_CACHE`` names another folder; where it is empty, no file is kept.
"""

import hashlib
import os
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from bertfeat.core.models.config import ModelConfig
from bertfeat.core.models.families import PACKED_FAMILIES
from bertfeat.core.models.files import read_model_json
from bertfeat.core.models.foreign import IGNORED_KEYS
from bertfeat.errors import BertfeatError
from bertfeat.io import (
    atomic,
    canonical_json,
    decode_json,
    encode_json,
    open_regular,
    read_regular,
    to_plain,
    user_cache,
)

_VOCABULARIES = ("tokenizer.json", "vocab.*", "merges.txt", "bpe.codes", "*.model", "tekken.json")
"""Files of a tokenizer's vocabulary; where the first one exists, the others do not count."""
_TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that say what a tokenizer does with its vocabulary."""
TOKENIZER_KEYS_WITHOUT_EFFECT = frozenset(
    {
        "backend",
        "chat_template",
        "clean_up_tokenization_spaces",
        "do_basic_tokenize",
        "errors",
        "is_local",
        "max_len",
        "max_length",
        "model_input_names",
        "model_max_length",
        "name_or_path",
        "never_split",
        "pad_to_multiple_of",
        "pad_token_type_id",
        "padding_side",
        "processor_class",
        "sp_model_kwargs",
        "special_tokens_map_file",
        "stride",
        "tokenizer_file",
        "truncation_side",
        "truncation_strategy",
    }
)
"""Keys of ``tokenizer_config.json`` that change neither ids nor offsets."""
_CONFIG_KEYS = frozenset(
    {
        *IGNORED_KEYS,
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "attention_probs_dropout_prob",
        "attn_pdrop",
        "auto_map",
        "classifier_activation",
        "classifier_bias",
        "classifier_dropout",
        "classifier_dropout_prob",
        "classifier_pooling",
        "decoder_bias",
        "dropout",
        "dropout_rate",
        "embd_pdrop",
        "embedding_dropout",
        "finetuning_task",
        "gradient_checkpointing",
        "hidden_dropout",
        "hidden_dropout_prob",
        "initializer_factor",
        "initializer_range",
        "mlp_dropout",
        "norm_bias_initializer",
        "problem_type",
        "resid_pdrop",
        "task_specific_params",
        "transformers_version",
        "use_cache",
    }
)
"""Keys of ``config.json`` without effect: how a model was trained and made, and what follows its hidden states."""


def digest_of_model(files: Sequence[Path], settings: Mapping[str, object]) -> str:
    """Compute the digest of files, in their order and by their names, and of settings."""
    together = hashlib.sha256()
    for file in files:
        together.update(f"{file.name}:{file_digest(file)}\n".encode())
    together.update(canonical_json(settings))
    return together.hexdigest()


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """Find all files of a tokenizer: of its vocabulary, and of its settings."""
    patterns = (*_VOCABULARIES, *_TOKENIZER_SETTINGS)
    return tuple(dict.fromkeys(file for each in patterns for file in sorted(folder.glob(each)) if file.is_file()))


def vocabulary_files(folder: Path) -> tuple[Path, ...]:
    """Find the files of a tokenizer's vocabulary that count; none where there is no tokenizer."""
    files = [file for file in tokenizer_files(folder) if file.name not in _TOKENIZER_SETTINGS]
    whole = folder / _VOCABULARIES[0]
    return (whole,) if whole in files else tuple(files)


def tokenizer_settings(name: str, folder: Path) -> Mapping[str, object]:
    """Read the settings in a tokenizer's files, without those that have no effect."""
    read = {file: read_model_json(name, folder, file, dict[str, object]) or {} for file in _TOKENIZER_SETTINGS}
    return {file: _with_effect(said, TOKENIZER_KEYS_WITHOUT_EFFECT) for file, said in read.items()}


def config_settings(config: ModelConfig, raw: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings of ``config.json`` (``raw``), without those that have no effect.

    For families that are read without transformers these are all that the computation uses, defaults included. For the
    others they are those in the file itself: another version of transformers may have other names and defaults.
    """
    if config.model_type in PACKED_FAMILIES:
        raw = {"activation": config.activation, **to_plain(config.sizes)}
    return _with_effect({**raw, "model_type": config.model_type, "tokenizer": config.tokenizer_class}, _CONFIG_KEYS)


def _with_effect(said: Mapping[str, object], without_effect: Container[str]) -> dict[str, object]:
    """The settings that have an effect, nested ones included; None counts as not set."""
    return {
        key: _with_effect(value, without_effect) if isinstance(value, Mapping) else value
        for key, value in said.items()
        if value is not None and key not in without_effect
    }


# ── digests of files ────────────────────────────────────────────────────────────────────────────────────────

_MOST_ENTRIES = 256  # of the cache on disk
_SETTLED = 2_000_000_000  # nanoseconds; a file changed more recently may change again and keep the same time
_LEAST_BYTES = 1 << 20  # size from which a file's digest is worth an entry in the cache


@dataclass(frozen=True, slots=True)
class _FileStatus:
    """The identity of a file's content, by its status: it changes when the file does."""

    path: str
    device: int
    inode: int
    size: int
    modified: int  # nanoseconds
    changed: int  # nanoseconds, of the inode; no program can set this time back

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> "_FileStatus":
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def settled(self) -> bool:
        """Whether the file was last changed long enough ago."""
        return time.time_ns() - max(self.modified, self.changed) > _SETTLED


@dataclass(frozen=True, slots=True)
class _Entry:
    state: _FileStatus
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class _Cache:
    entries: tuple[_Entry, ...] = ()  # the oldest first


_known_digests: dict[_FileStatus, str] = {}  # of this process


def file_digest(file: Path) -> str:
    """Compute the sha256 of a file, or recall it where the file is as it was."""
    path = os.path.realpath(file)
    with open_regular(file) as stream:
        before = _FileStatus.of(path, os.fstat(stream.fileno()))
        if known := _known_digests.get(before) or _recall(before):
            _known_digests[before] = known
            return known
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if _FileStatus.of(path, os.fstat(stream.fileno())) == before:  # else it was written to meanwhile
            _known_digests[before] = sha256
            _store(before, sha256)
    return sha256


def _cache_file(state: _FileStatus) -> Path | None:
    """The file that keeps the digest of such a file; None for a small file, one that may change again, or no cache."""
    folder = user_cache()
    if folder is None or state.size < _LEAST_BYTES or not state.settled:
        return None
    return folder / "digests.json"


def _read_cache(file: Path) -> _Cache:
    """Read the cache; where it is missing, damaged or unreadable, it is empty."""
    try:
        return decode_json(read_regular(file), _Cache)
    except (OSError, ValueError):  # JsonError is one of these
        return _Cache()


def _recall(state: _FileStatus) -> str | None:
    file = _cache_file(state)
    if file is None:
        return None
    return next((entry.sha256 for entry in _read_cache(file).entries if entry.state == state), None)


def _store(state: _FileStatus, sha256: str) -> None:
    """Keep a digest on disk. Where that cannot be done, nothing is lost but time."""
    file = _cache_file(state)
    if file is None:
        return
    others = [entry for entry in _read_cache(file).entries if entry.state.path != state.path]
    entries = [*others, _Entry(state, sha256)][-_MOST_ENTRIES:]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic(file) as temporary:
            temporary.write_text(encode_json(_Cache(tuple(entries))), "utf-8")
    except (BertfeatError, OSError, ValueError):
        return
