"""The fingerprint of a model: one sha256 over all of its files that decides a vector.

Weights and vocabularies count by their bytes. Settings count by what they say, however they are written: keys that
change no vector are left out, and so is what ``config.json`` says of a default.
"""

import hashlib
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from bertfeat.io import canonical_json, to_plain
from bertfeat.models.config import ModelConfig
from bertfeat.models.digests import file_digest
from bertfeat.models.families import PACKED_FAMILIES
from bertfeat.models.foreign import read_model_json
from bertfeat.models.library import IGNORED_KEYS

_VOCABULARIES = ("tokenizer.json", "vocab.*", "merges.txt", "bpe.codes", "*.model", "tekken.json")
"""Files of a tokenizer's vocabulary; where the first one is there, it says all."""
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
    """Compute the digest of files, in their order and by their names, and of settings.

    Raises:
        OSError: a file cannot be read.
    """
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
    """Read what the files of a tokenizer's settings say, without what has no effect."""
    read = {file: read_model_json(name, folder, file, dict[str, object]) or {} for file in _TOKENIZER_SETTINGS}
    return {file: _that_count(said, TOKENIZER_KEYS_WITHOUT_EFFECT) for file, said in read.items()}


def config_settings(config: ModelConfig, raw: Mapping[str, object]) -> Mapping[str, object]:
    """Give what ``config.json`` says (``raw``), without what has no effect.

    Of families that are read without transformers it is all that is computed with, defaults included. Of the others it
    is what the file itself says: another version of transformers may name its settings and defaults otherwise.
    """
    if config.model_type in PACKED_FAMILIES:
        raw = {"activation": config.activation, **to_plain(config.sizes)}
    return _that_count({**raw, "model_type": config.model_type, "tokenizer": config.tokenizer_class}, _CONFIG_KEYS)


def _that_count(said: Mapping[str, object], without_effect: Container[str]) -> dict[str, object]:
    return {
        key: _that_count(value, without_effect) if isinstance(value, Mapping) else value
        for key, value in said.items()
        if value is not None and key not in without_effect
    }
