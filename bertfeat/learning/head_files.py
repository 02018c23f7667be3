"""A saved head on disk: its weights, or a fine-tuned model, and ``head.json``, which describes them and comes last."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.io import JsonError, JsonFormat, explain_absence, remove_file, storage_errors, sync, write_json
from bertfeat.learning.checkpoint import (
    FileDigest,
    TensorForm,
    TensorsError,
    check_recorded_files,
    digest_file,
    read_tensors,
    write_tensors,
)
from bertfeat.learning.fine_tuning import TunedHead
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.record import HeadRecord
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.task import Task
from bertfeat.learning.tasks.table import task_of

FORMAT_VERSION = 1
"""Version of a head's format that this bertfeat writes; newer ones are refused."""

RECORD_NAME = "head.json"
WEIGHTS_NAME = "head.safetensors"
MODEL_NAME = "model"  # folder of a fine-tuned model
PICTURE_NAME = "curves.png"

_MOST_LAYERS = 10_000  # of a model: what "all" means must not fill the memory


def head_forms(shape: HeadShape) -> dict[str, TensorForm]:
    """The tensors of a head's network, without making it."""
    with torch.device("meta"):
        network = HeadNetwork(shape)  # which outputs may follow one another is no tensor of its own
    return {name: TensorForm.of(tensor) for name, tensor in network.state_dict().items()}


def write_head(folder: Path, record: HeadRecord, tensors: Mapping[str, Tensor] | None) -> HeadRecord:
    """Save a head; until the last byte of ``head.json`` is there, the folder holds none."""
    if tensors is not None:
        record = replace(record, weights=write_tensors(folder / WEIGHTS_NAME, tensors))
    write_json(folder / RECORD_NAME, record)
    return record


def remove_head(folder: Path) -> None:
    """Remove a saved head, its record first: without it the folder holds no head."""
    for name in (RECORD_NAME, WEIGHTS_NAME, PICTURE_NAME):
        remove_file(folder / name)
    with storage_errors(folder):
        shutil.rmtree(folder / MODEL_NAME, ignore_errors=True)


def has_head(folder: Path) -> bool:
    """Whether a folder holds a finished head, sound or not."""
    return (folder / RECORD_NAME).exists()


def read_head_record(folder: Path) -> HeadRecord:
    """Read ``head.json``."""
    path = folder / RECORD_NAME
    try:
        record = _FORMAT.read(path)
        if problem := _record_problem(record):
            raise HeadError(f"contradicts itself: {problem}", where=path, remedy=_copy_head_remedy())
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = f"this is no finished head: it has no {RECORD_NAME}"
        problem, remedy = explain_absence(folder, problem, "bertfeat classify train makes one")
        raise HeadError(problem, where=folder, remedy=remedy) from error
    except (JsonError, UsageError) as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_copy_head_remedy()) from error
    return record


def read_head_weights(folder: Path, record: HeadRecord) -> dict[str, Tensor]:
    """Read the weights that belong to a record, every byte of them."""
    path = folder / WEIGHTS_NAME
    assert record.network is not None
    assert record.weights is not None
    try:
        return read_tensors(path, head_forms(record.network), record.weights)
    except (OSError, TensorsError) as error:
        problem = f"these are not the weights of {RECORD_NAME}: {error}"
        raise HeadError(problem, where=path, remedy=_copy_head_remedy()) from error


def save_tuned_model(folder: Path, tuned: TunedHead) -> dict[str, FileDigest]:
    """Save a fine-tuned model in the place of an unfinished one, bring it onto the disk, and return its digests."""
    place = folder / MODEL_NAME
    with storage_errors(folder):
        shutil.rmtree(place, ignore_errors=True)  # of another model, it may have files that this one does not replace
        tuned.save(place)
        files = sorted(path for path in place.iterdir() if path.is_file())
        for path in files:
            sync(path)
        return {path.name: digest_file(path) for path in files}


def check_tuned_model(folder: Path, record: HeadRecord) -> None:
    """Check that the files of a fine-tuned model are those that were saved."""
    try:
        check_recorded_files(folder / MODEL_NAME, record.files or {})
    except TensorsError as error:
        problem = f"this is not the model that {RECORD_NAME} describes: {error}"
        raise HeadError(problem, where=folder / MODEL_NAME, remedy=_copy_head_remedy()) from error


def _record_problem(record: HeadRecord) -> str | None:
    """The contradiction in a record, if there is one."""
    task = task_of(record.kind, record.training.task)
    if record.training.task != task.name:
        return "it does not say its task"
    if not task.fits(record.outputs):
        return f"its outputs are none of a head of {task.name}"
    if record.measure != (measure := task.measure_of(record.outputs)):
        return f"its score is measured by {record.measure!r}, and such heads' by {measure!r}"
    if not task.has_thresholds(record.threshold, record.outputs):
        return f"its threshold ({record.threshold}) is none of a head of {task.name}"
    if record.columns.pair is not None and record.pairs is None:
        return "it reads single texts, and names a column of second ones"
    if record.kind is not HeadKind.ANSWER and record.training.max_answer != HeadSettings().max_answer:
        return "it says how long answers are, and gives none"
    if task.per_vector and (record.columns.label, record.columns.choices) != (None, ()):
        return "it names columns of labels or choices, and words have their tags"
    crf = None if record.approach == "fine-tuned" else record.training.crf
    if record.kind is not HeadKind.TAG and (crf, record.training.scheme) != (None, HeadSettings().scheme):
        return "it says how tags are learnt, and gives none"
    if record.approach == "fine-tuned":
        told = record.point is not None and bool(record.files)
        return None if told else "it does not say how it was fine-tuned"
    return _frozen_problem(record, task)


def _frozen_problem(record: HeadRecord, task: Task) -> str | None:
    """The contradiction in the record of a head on stored features, if there is one."""
    if (record.point, record.precision, record.files) != (None, None, None):
        return "it learnt from stored features, and says how it was fine-tuned"
    if record.network is None or record.extraction is None or record.pooling is None or record.weights is None:
        return "it does not say what it reads"
    if not record.layers:
        return "it does not say which layers it reads"
    if record.model.num_layers > _MOST_LAYERS:
        return f"a model of {record.model.num_layers:,} layers"
    chosen, training, mixed = record.chosen, record.training, record.input.mixed
    epochs = task.has_epochs(training, mixed=mixed)
    learnt = {0} if task.solves(training, mixed=mixed) else set()
    learnt |= {task.hidden_of(training)} if epochs else set()
    decays = {*training.decays, training.weight_decay or 0.0}
    foreign = [each for each in record.candidates if each.weight_decay not in decays]
    shape = record.reads().shape(task, training, record.outputs)
    foreign += [each for each in record.candidates if each.inputs not in shape.input_groups]
    repeated = len(set(record.candidates)) < len(record.candidates)
    if chosen is None or foreign or repeated or {candidate.hidden for candidate in record.candidates} != learnt:
        return "its candidates are not those of its settings"
    if record.score != chosen.score:
        return f"its score is {record.score}, and that of its best candidate {chosen.score}"
    wanted = asdict(replace(shape, hidden=chosen.hidden, averaged=chosen.averaged))
    differ = [name for name, value in asdict(record.network).items() if value != wanted[name]]
    if differ:
        return f"its network has another {differ[0]} than follows from the rest"
    has_loss = not task.recurrent  # else there is a single candidate
    odd = any((candidate.loss is not None) is not has_loss for candidate in record.candidates)
    return f"candidates of {record.kind} have {'a' if has_loss else 'no'} loss" if odd else None


def _copy_head_remedy() -> str:
    again = f"train it again with {parameter('overwrite', True)}"
    return f"copy the whole head again from where it was made, or {again}"


_FORMAT = JsonFormat(HeadRecord, FORMAT_VERSION, error=HeadError, remedy=_copy_head_remedy)
