"""Verification of a saved tagger: every byte is read, and what can be derived is derived again and compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import TaggerError, parameter
from bertfeat.features import FeatureSet
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.schemes import Scheme
from bertfeat.tagging.sentences import SentenceStore
from bertfeat.tagging.settings import TaggerSettings
from bertfeat.tagging.tagger_files import SETTINGS_NAME, WEIGHTS_NAME, read_tagger_settings, read_tagger_weights
from bertfeat.training import (
    FeaturesState,
    derive_input,
    features_state,
    find_place,
    origin_problem,
    training_problem,
)


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
    still where they were, the model, the extraction and the labels follow from them.

    Raises:
        TaggerError: there is no finished tagger, or something of it does not hold.
    """
    folder = Path(folder)
    settings = read_tagger_settings(folder)
    weights = read_tagger_weights(folder, settings)
    score = settings.score if settings.format_version >= 2 else None  # measured twice before
    problem = training_problem(
        folder, settings.history, settings.training, best=settings.best_epoch, score=score, data=settings.data
    )
    if problem:
        raise TaggerError(problem, where=folder / SETTINGS_NAME, remedy=_retrain_tagger_remedy())
    places = {name: (settings.places[name],) if name in settings.places else () for name in settings.data}
    features = {name: features_state(folder, places[name], digest) for name, digest in settings.data.items()}
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


def _check_labels(folder: Path, settings: TaggerSettings) -> None:
    features = FeatureSet(find_place(folder, settings.places["train"]))
    if problem := origin_problem(features, settings.model, settings.extraction):
        raise TaggerError(problem, where=folder / SETTINGS_NAME, remedy=_retrain_tagger_remedy())
    store = SentenceStore(features, derive_input(settings.input, features), 1)
    labels = LabelSet.of(store.tags(), inside=Scheme(settings.training.scheme))
    if labels != settings.labels:
        problem = f"its labels are not those of {store.folder}, on which it was trained"
        raise TaggerError(problem, where=folder / SETTINGS_NAME, remedy=_retrain_tagger_remedy())


def _retrain_tagger_remedy() -> str:
    return f"train the tagger again, with {parameter('overwrite', True)}"
