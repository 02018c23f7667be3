"""Verification of a saved tagger: every byte is read, and what can be derived is derived again and compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bertfeat.errors import BertfeatError, DamagedError, TaggerError, parameter
from bertfeat.features import FeatureSet
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.schemes import Scheme
from bertfeat.tagging.sentences import SentenceStore
from bertfeat.tagging.settings import TaggerSettings
from bertfeat.tagging.tagger_files import SETTINGS_NAME, WEIGHTS_NAME, read_tagger_settings, read_tagger_weights
from bertfeat.training import STATE_NAME, best_epoch, derive_input, find_place, history_problem, is_over, parts_digest


class FeaturesState(StrEnum):
    """The state of features that something was trained on."""

    SAME = "the same"
    CHANGED = "changed since"
    ABSENT = "not there"


@dataclass(frozen=True, slots=True)
class TaggerVerifyReport:
    """A sound tagger: what was read, and the state of its features."""

    folder: Path
    format_version: int
    bytes: int  # that were read
    tensors: int
    labels: int
    epochs: int
    features: Mapping[str, FeaturesState]  # of train and dev; those that changed do not make the tagger unsound


def verify_tagger(folder: str | Path) -> TaggerVerifyReport:
    """Read every byte of a tagger against its digests, and derive again the values that follow from others.

    The settings fit one another, the weights' names, shapes and types fit the settings, no value is infinite, the best
    epoch and its score follow from the history, and that from the training settings. If the training features are
    still where they were, the labels follow from them.

    Raises:
        TaggerError: there is no finished tagger, or something of it does not hold.
    """
    folder = Path(folder)
    settings = read_tagger_settings(folder)
    weights = read_tagger_weights(folder, settings)
    if problem := _tagger_problem(folder, settings):
        raise TaggerError(problem, where=folder / SETTINGS_NAME, remedy=_retrain_tagger_remedy())
    features = {name: _tagger_features_state(folder, settings, name) for name in settings.data}
    if features.get("train") is FeaturesState.SAME:
        _check_labels(folder, settings)
    return TaggerVerifyReport(
        folder=folder,
        format_version=settings.format_version,
        bytes=sum((folder / name).stat().st_size for name in (SETTINGS_NAME, WEIGHTS_NAME)),
        tensors=len(weights),
        labels=len(settings.labels),
        epochs=len(settings.history),
        features=features,
    )


def _tagger_problem(folder: Path, settings: TaggerSettings) -> str | None:
    """The setting that does not follow from the others, if there is one."""
    history, best = settings.history, settings.best_epoch
    if problem := history_problem(history, settings.training):
        return problem
    if not is_over(history, settings.training):
        return f"the training was not over after {len(history)} epochs"
    if best != best_epoch(history):
        return f"the best epoch is number {best_epoch(history)}, not {best}"
    if settings.format_version >= 2 and settings.score != history[best - 1]["score"]:  # measured twice before
        return f"the score is {settings.score}, and that of its best epoch {history[best - 1]['score']}"
    if set(settings.data) != {"train", "dev"}:
        return f"it was trained on {', '.join(settings.data) or 'nothing'}, and has to be on train and dev"
    if (folder / STATE_NAME).exists():
        return f"there is a {STATE_NAME} beside a tagger that is done; the command that trained it removes it"
    return None


def _tagger_features_state(folder: Path, settings: TaggerSettings, name: str) -> FeaturesState:
    if name not in settings.places:
        return FeaturesState.ABSENT
    try:
        features = FeatureSet(find_place(folder, settings.places[name]))
    except DamagedError:
        return FeaturesState.CHANGED
    except BertfeatError:
        return FeaturesState.ABSENT
    return FeaturesState.SAME if parts_digest(features) == settings.data[name] else FeaturesState.CHANGED


def _check_labels(folder: Path, settings: TaggerSettings) -> None:
    features = FeatureSet(find_place(folder, settings.places["train"]))
    store = SentenceStore(features, derive_input(settings.input, features), 1)
    labels = LabelSet.of(store.tags(), inside=Scheme(settings.training.scheme))
    if labels != settings.labels:
        problem = f"its labels are not those of {store.folder}, on which it was trained"
        raise TaggerError(problem, where=folder / SETTINGS_NAME, remedy=_retrain_tagger_remedy())


def _retrain_tagger_remedy() -> str:
    return f"train the tagger again, with {parameter('overwrite', True)}"
