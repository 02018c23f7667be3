"""Verification of a saved head: every byte is read, and what can be derived is derived again and compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import HeadError, parameter
from bertfeat.features import FeatureSet
from bertfeat.heads.examples import learn_outputs, open_examples
from bertfeat.heads.guesses import measure_of
from bertfeat.heads.head_files import (
    MODEL_NAME,
    RECORD_NAME,
    TUNED_WEIGHTS_NAME,
    WEIGHTS_NAME,
    check_tuned_weights,
    read_head_record,
    read_head_weights,
)
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.settings import HeadRecord
from bertfeat.training import FeaturesState, features_state, find_place, origin_problem, training_problem


@dataclass(frozen=True, slots=True)
class HeadVerifyReport:
    """A sound head: what was read, and the state of its features."""

    folder: Path
    format_version: int
    head: HeadKind
    bytes: int  # that were read
    tensors: int
    labels: int
    epochs: int
    features: Mapping[str, FeaturesState]  # of train and dev; those that changed do not make the head unsound


def verify_head(folder: str | Path) -> HeadVerifyReport:
    """Read every byte of a head against its digests, and derive again the values that follow from others.

    The weights' names, shapes and types fit the record, no value is infinite, the best epoch and its score follow from
    the history, and that from the training settings. If the training features are still where they were, the model, the
    extraction and the labels, or the numbers' mean and spread, follow from them. Of a fine-tuned model the weights are
    held against their digest.

    Raises:
        HeadError: there is no finished head, or something of it does not hold.
    """
    folder = Path(folder)
    record = read_head_record(folder)
    frozen = record.network is not None
    tensors = len(read_head_weights(folder, record)) if frozen else 0
    if not frozen:
        check_tuned_weights(folder, record)
    places = record.places or {}
    data = record.data if frozen else {}  # what is fine-tuned reads texts
    features = {name: features_state(folder, places.get(name, ()), digest) for name, digest in data.items()}
    if frozen:
        _check_training(folder, record)
    if frozen and features.get("train") is FeaturesState.SAME:
        _check_learnt(folder, record)
    names = (RECORD_NAME, WEIGHTS_NAME if frozen else f"{MODEL_NAME}/{TUNED_WEIGHTS_NAME}")
    return HeadVerifyReport(
        folder=folder,
        format_version=record.format_version,
        head=record.kind,
        bytes=sum((folder / name).stat().st_size for name in names),
        tensors=tensors,
        labels=len(record.outputs.labels),
        epochs=len(record.history),
        features=features,
    )


def _check_training(folder: Path, record: HeadRecord) -> None:
    problem = training_problem(
        folder, record.history, record.training, best=record.best_epoch, score=record.score, data=record.data
    )
    expected = measure_of(record.kind, regression=record.training.regression)
    if record.measure != expected:
        problem = f"its score is measured by {record.measure!r}, and such heads' by {expected!r}"
    if problem:
        raise _unsound_head(problem, folder)


def _check_learnt(folder: Path, record: HeadRecord) -> None:
    """Derive what the head predicts from its training features again."""
    assert record.places is not None
    sets = [FeatureSet(find_place(folder, place)) for place in record.places["train"]]
    reads, regression = record.reads(), record.training.regression
    for features in sets:
        if problem := origin_problem(features, reads.model, reads.extraction, reads.pooling):
            raise _unsound_head(problem, folder)
    examples = open_examples(
        record.kind, sets, reads.layers, reads.pooling, label=record.columns.label, regression=regression, budget=1
    )
    if not examples.gold:
        problem = (
            f"{examples.origin}, on which it was trained, does not say what is right (column {record.columns.label})"
        )
        raise _unsound_head(problem, folder)
    if learn_outputs(record.kind, examples.gold, examples.origin, regression=regression) != record.outputs:
        raise _unsound_head(f"what it predicts is not what {examples.origin} says, on which it was trained", folder)


def _unsound_head(problem: str, folder: Path) -> HeadError:
    remedy = f"train the head again, with {parameter('overwrite', True)}"
    return HeadError(problem, where=folder / RECORD_NAME, remedy=remedy)
