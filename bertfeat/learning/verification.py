"""Verification of a saved head: every byte is read, and what can be derived is derived again and compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import HeadError, parameter
from bertfeat.features import FeatureSet
from bertfeat.learning.examples import open_examples
from bertfeat.learning.head_files import (
    MODEL_NAME,
    RECORD_NAME,
    WEIGHTS_NAME,
    check_tuned_model,
    read_head_record,
    read_head_weights,
)
from bertfeat.learning.inputs import FeaturesState, features_state, find_place, origin_problem, training_problem
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.record import HeadRecord
from bertfeat.learning.tasks.table import task_of


@displayed
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


@checked
def verify_head(folder: str | Path) -> HeadVerifyReport:
    """Read every byte of a head against its digests, and derive again the values that follow from others.

    The weights' names, shapes and types fit the record, no value is infinite, the best epoch and its score follow from
    the history, and that from the training settings. If the training features are still where they were, the model, the
    extraction and the labels, or the numbers' mean and spread, follow from them. Of a fine-tuned model every file is
    held against its digest.

    Raises:
        HeadError: there is no finished head, or something of it does not hold.
    """
    folder = Path(folder)
    record = read_head_record(folder)
    frozen = record.network is not None
    tensors = len(read_head_weights(folder, record)) if frozen else 0
    if not frozen:
        check_tuned_model(folder, record)
    places = record.places or {}
    data = record.data if frozen else {}  # what is fine-tuned reads texts
    features = {name: features_state(folder, places.get(name, ()), digest) for name, digest in data.items()}
    if frozen:
        _check_training(folder, record)
    if frozen and features.get("train") is FeaturesState.SAME:
        _check_learnt(folder, record)
    names = (RECORD_NAME, *((WEIGHTS_NAME,) if frozen else (f"{MODEL_NAME}/{name}" for name in record.files or {})))
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
    training, mixed = record.training, record.input.mixed
    trained = task_of(record.kind, training.task).has_epochs(training, mixed=mixed)
    problem = training_problem(
        folder,
        record.history,
        training if trained else None,
        best=record.best_epoch,
        score=record.candidates[0].score if trained else None,  # the network that is trained in epochs comes first
        data=record.data,
    )
    if problem:
        raise _unsound_head(problem, folder)


def _check_learnt(folder: Path, record: HeadRecord) -> None:
    """Derive what the head predicts from its training features again."""
    assert record.places is not None
    sets = [FeatureSet(find_place(folder, place)) for place in record.places["train"]]
    reads, task = record.reads(), task_of(record.kind, record.training.task)
    for features in sets:
        if problem := origin_problem(features, reads.model, reads.extraction, reads.pooling):
            raise _unsound_head(problem, folder)
    examples = open_examples(task, sets, reads.layers, reads.pooling, label=record.columns.label, budget=1)
    if not examples.gold:
        problem = (
            f"{examples.origin}, on which it was trained, does not say what is right (column {record.columns.label})"
        )
        raise _unsound_head(problem, folder)
    if examples.learn_outputs(record.training) != record.outputs:
        raise _unsound_head(f"what it predicts is not what {examples.origin} says, on which it was trained", folder)


def _unsound_head(problem: str, folder: Path) -> HeadError:
    remedy = f"train the head again, with {parameter('overwrite', True)}"
    return HeadError(problem, where=folder / RECORD_NAME, remedy=remedy)
