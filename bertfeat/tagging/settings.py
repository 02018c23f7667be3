"""How a tagger is trained, and what it says of itself: ``tagger.json``."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertfeat.errors import TaggerError, UsageError
from bertfeat.features import FeatureSet, ModelIdentity
from bertfeat.tagging.inputs import TaggerInput, parse_input
from bertfeat.tagging.labels import Labels
from bertfeat.tagging.network import NetworkSettings
from bertfeat.tagging.schemes import Scheme

FORMAT_VERSION = 1
SETTINGS_NAME = "tagger.json"
WEIGHTS_NAME = "tagger.safetensors"
MEMORY = 4 * 2**30

_DECISIVE = ("long", "max_length", "prompt", "document_context", "subword")
_KEPT = (*_DECISIVE, "precision", "dtype", "special_tokens")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a tagger is trained.

    Raises:
        UsageError: a number that cannot be right.
    """

    hidden: int = 256  # of each direction of the LSTM; the paper has 768
    crf: bool = False
    scheme: str = "BIO"  # that spans are learnt in: BIO or IOBES
    dropout: float = 0.5
    batch_size: int = 32  # sentences
    learning_rate: float = 1e-3
    epochs: int = 40  # at most
    patience: int = 6  # epochs without a better score on the development set, after which training ends
    seed: int = 1
    memory: int = MEMORY  # bytes of features that are held

    def __post_init__(self) -> None:
        for name in ("hidden", "batch_size", "epochs", "patience", "memory"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name.replace('_', ' ')} {getattr(self, name)}: give at least 1")
        if not 0.0 <= self.dropout < 1.0:
            raise UsageError(f"dropout {self.dropout}: give a share from 0 up to, not including, 1")
        if not 0.0 < self.learning_rate < 1.0:
            raise UsageError(f"learning rate {self.learning_rate}: give one between 0 and 1; the default is 0.001")
        if self.seed < 0:
            raise UsageError(f"seed {self.seed}: give 0 or more")
        if self.scheme not in ("BIO", "IOBES"):
            raise UsageError(f"scheme {self.scheme!r}: spans are learnt as BIO or IOBES, and written as BIO")


@dataclass(frozen=True, slots=True)
class TaggerSettings:
    """What a saved tagger is: which features it reads, which labels it gives, and how it came about."""

    format_version: int
    model: ModelIdentity  # that makes the features
    extraction: Mapping[str, Any]  # how it makes them
    input: TaggerInput
    network: NetworkSettings
    labels: Labels
    training: TrainingSettings
    data: Mapping[str, str]  # digest of the train and dev features
    best_epoch: int
    score: float  # on the development set
    history: tuple[Mapping[str, float], ...]  # of each epoch
    versions: Mapping[str, str]


def extraction_of(features: FeatureSet) -> dict[str, Any]:
    """The settings of a feature set that decide what its words' features are."""
    return {name: features.header.settings[name] for name in _KEPT}


def check_same_features(ours: FeatureSet, model: ModelIdentity, extraction: Mapping[str, Any], what: str) -> None:
    """Refuse features that were made by another model or in another way than those of ``what``.

    Raises:
        TaggerError: names what differs.
    """
    theirs = ours.header
    if theirs.model.fingerprint != model.fingerprint:
        raise TaggerError(
            f"{ours.folder} was made by {theirs.model.name} (fingerprint {theirs.model.fingerprint[:12]}…), and {what} "
            f"by {model.name} ({model.fingerprint[:12]}…); extract it again with --model {model.name}"
        )
    differ = [name for name in _DECISIVE if theirs.settings[name] != extraction[name]]
    if differ:
        told = ", ".join(f"{name} is {theirs.settings[name]!r}, not {extraction[name]!r}" for name in differ)
        raise TaggerError(f"{ours.folder} was extracted in another way than {what}: {told}; extract it again as that")


def write_settings(settings: TaggerSettings, path: Path) -> None:
    """Write ``tagger.json``."""
    plain = asdict(settings) | {"input": settings.input.given or settings.input.spec}
    path.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> TaggerSettings:
    """Read ``tagger.json``.

    Raises:
        TaggerError: there is none, it cannot be read, or a newer bertfeat wrote it.
    """
    path = folder / SETTINGS_NAME
    try:
        raw = json.loads(path.read_bytes())
        version = int(raw["format_version"])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TaggerError(
            f"{folder}: this is no finished tagger: it has no {SETTINGS_NAME}; bertfeat tag train makes one"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaggerError(f"{path}: cannot be read ({error!r}); train the tagger again") from error
    if version > FORMAT_VERSION:
        raise TaggerError(
            f"{path}: written in format {version} by a newer bertfeat; this one reads formats up to "
            f"{FORMAT_VERSION}: upgrade bertfeat"
        )
    try:
        model = ModelIdentity(**raw["model"])
        return TaggerSettings(
            **{
                **raw,
                "model": model,
                "input": parse_input(raw["input"], model.num_layers),
                "network": NetworkSettings(**raw["network"]),
                "labels": Labels(tuple(raw["labels"]["names"]), Scheme(raw["labels"]["scheme"])),
                "training": TrainingSettings(**raw["training"]),
                "history": tuple(raw["history"]),
            }
        )
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise TaggerError(f"{path}: cannot be read ({error!r}); train the tagger again") from error
