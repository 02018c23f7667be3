"""Verification of every training: that its epochs follow from its settings, and what became of its features."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path

from bertfeat.errors import BertfeatError, DamagedError, TrainingError
from bertfeat.features import FeatureSet, ModelIdentity
from bertfeat.recipe import Pooling
from bertfeat.training.checkpoint import STATE_NAME
from bertfeat.training.extraction import Extraction, check_same_features
from bertfeat.training.feature_digests import parts_digest
from bertfeat.training.feature_places import find_place
from bertfeat.training.schedule import EpochRecord, best_epoch, history_problem, is_over
from bertfeat.training.settings import LoopSettings


class FeaturesState(StrEnum):
    """The state of features that something was trained on."""

    SAME = "the same"
    CHANGED = "changed since"
    ABSENT = "not there"


def training_problem(
    folder: Path,
    history: Sequence[EpochRecord],
    training: LoopSettings | None,
    *,
    best: int,
    score: float | None,
    data: Collection[str],
) -> str | None:
    """The value in a finished training that does not follow from its settings or its epochs, if there is one.

    ``training`` is None where nothing was trained in epochs. ``score`` is that of the best epoch, None where
    there is none; ``data`` are the names of its sources.
    """
    if training is None and (history or best):
        return f"it has {len(history)} epochs, and nothing was trained in epochs"
    if training is not None and training.schedule == "plateau" and training.patience is None:
        return "it does not say how many epochs it waited for a better one (patience)"
    if training is not None and (problem := history_problem(history, training)):
        return problem
    if training is not None and not is_over(history, training):
        return f"the training was not over after {len(history)} epochs"
    if training is not None and best != best_epoch(history, training):
        return f"the best epoch is number {best_epoch(history, training)}, not {best}"
    if score is not None and score != history[best - 1]["score"]:
        return f"the score is {score}, and that of its best epoch {history[best - 1]['score']}"
    if set(data) != {"train", "dev"}:
        return f"it was trained on {', '.join(data) or 'nothing'}, and has to be on train and dev"
    if (folder / STATE_NAME).exists():
        return f"there is a {STATE_NAME} beside it, though it is done; the command that trained it removes it"
    return None


def features_state(folder: Path, places: Sequence[str], digest: str) -> FeaturesState:
    """The state of the features that a folder records: of one set, or of several that were read together."""
    if not places:
        return FeaturesState.ABSENT
    try:
        sets = [FeatureSet(find_place(folder, place)) for place in places]
    except DamagedError:
        return FeaturesState.CHANGED
    except BertfeatError:
        return FeaturesState.ABSENT
    return FeaturesState.SAME if join_digests(sets) == digest else FeaturesState.CHANGED


def origin_problem(features: FeatureSet, model: ModelIdentity, extraction: Extraction, pooling: Pooling) -> str | None:
    """The contradiction between features and the record of a training on them, if there is one."""
    try:
        check_same_features(features, model, extraction, "what it says of them", pooling)
    except TrainingError as error:
        return error.problem
    return None


def join_digests(sets: Sequence[FeatureSet]) -> str:
    """The digest that identifies the features of one set, or of several that are read together."""
    return "+".join(map(parts_digest, sets))
