"""The fine-tuning of whole models for the tasks of heads: texts become a saved model with its ``head.json``.

As in Devlin et al. 2019, sections 4 and A.3: the vector of [CLS] of a text or a pair goes into a classifier, that of
each token of a passage into scores of the answer's start and end, that of [CLS] of a question with each choice into one
score.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.core import Model, ModelIdentity, resolve_device
from bertfeat.errors import HeadError, parameter, pluralize
from bertfeat.io import canonical_json, installed_versions, to_plain
from bertfeat.learning.datasets import Training
from bertfeat.learning.head_files import (
    FORMAT_VERSION,
    HeadReport,
    check_tuned_model,
    has_head,
    read_head_record,
    remove_checkpoint,
    remove_head,
    save_tuned_model,
    write_head,
)
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.record import ExampleColumns, HeadRecord
from bertfeat.learning.sequences import Sequencer
from bertfeat.learning.settings import GridPoint, HeadSettings
from bertfeat.learning.sources import OpenSource, SourceReading
from bertfeat.learning.tables import CorpusTable, ExampleTable, FeatureTable, check_pairs
from bertfeat.learning.task import Guess, HeadTexts, Task
from bertfeat.learning.trainer import (
    FineTuned,
    find_tuned_model,
    fine_tuned,
    load_fine_tuned,
    model_outputs,
    tuning_precision,
)
from bertfeat.progress import OnStep, ignore_progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TunedHead:
    """A fine-tuned model that predicts for a task."""

    task: Task
    module: "PreTrainedModel"
    sequencer: Sequencer
    max_answer: int  # tokens of the longest answer
    truncated: int = 0  # number of training examples of which something was cut off

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """The guess of the model for each example, in order."""
        if not texts.texts:
            return []
        read = self.task.sequences(self.sequencer, texts)
        tensors = model_outputs(self.module, read.examples, lambda output: self.task.output_scores(output).float())
        return self.task.tuned_guesses(texts, read, [tensor.numpy() for tensor in tensors], self.max_answer)


def load_tuned_head(folder: Path, task: Task, *, device: str | None = None, max_answer: int = 30) -> TunedHead:
    """Load a fine-tuned model that was saved in ``folder``."""
    model = Model(str(folder), folder)
    module = load_fine_tuned(model, task.architecture or "")
    module.to(resolve_device(device))
    return TunedHead(task, module, Sequencer(model, task.longest), max_answer)


@contextmanager
def fine_tuned_head(
    model: Model,
    task: Task,
    train: HeadTexts,
    point: GridPoint,
    settings: HeadSettings,
    *,
    device: str | None = None,
    precision: str = "auto",
    tell: OnStep = ignore_progress,
) -> Iterator[tuple[TunedHead, FineTuned]]:
    """Fine-tune the transformers model of a task on texts; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine. Numbers are learned at
    mean 0 and standard deviation 1. Only the first answer to a question is learned, in the windows of its passage that
    hold all of it; the other windows are learned as without an answer. ``precision`` is as in :func:`fine_tuned`.
    """
    sequencer = Sequencer(model, task.longest)
    read = task.sequences(sequencer, train)
    with fine_tuned(
        model,
        task.architecture or "",
        task.with_targets(train, read),
        point,
        seed=settings.seed,
        device=device,
        precision=precision,
        tell=tell,
        **task.config(),
    ) as tuned:
        yield TunedHead(task, tuned.module, sequencer, settings.max_answer, read.truncated), tuned


# ── a head from texts ─────────────────────────────────────────────────────────────────────────────────────


def tune_head(
    folder: Path, training: Training, point: GridPoint, tell: OnStep, *, overwrite: bool = False
) -> HeadReport:
    """Fine-tune a model for a head and save it, in a folder that :func:`hold_result_folder` holds."""
    begun, asked, how = time.perf_counter(), training.asked, training.how
    tables = {name: open_table(training.task, source, how) for name, source in training.sources.items()}
    train, task = learn_outputs(training, tables["train"])
    has_pairs = tables["train"].has_pairs is True
    check_pairs(tables["dev"].has_pairs, tables["dev"].where, needed=has_pairs, other=tables["train"].where)
    dev = known_texts(task, tables["dev"], asked.label)
    task.check_dev(dev.gold, tables["dev"].where)
    failed = sum(len(tables[name].failures) for name in training.corpora)
    model = find_tuned_model(asked.model, asked.revision, training.recorded_model)
    precision = tuning_precision(asked.precision, resolve_device(asked.device))
    record = HeadRecord(
        format_version=FORMAT_VERSION,
        kind=task.kind,
        approach="fine-tuned",
        model=ModelIdentity.of(model),
        pairs=PairForm.TOGETHER if has_pairs else None,
        outputs=task.outputs,
        training=training.settings,
        columns=ExampleColumns.of(how),
        measure=task.measure,
        score=0.0,
        threshold=None,
        seconds=0.0,
        data={"train": _texts_digest(train), "dev": _texts_digest(dev)},
        versions=installed_versions("bertfeat", "torch", "transformers"),
        point=point,
        precision=precision,
    )
    if overwrite:
        remove_head(folder)
        remove_checkpoint(folder)
    if has_head(folder):
        return HeadReport(folder, _same_record(folder, record), None, 0.0, failed=failed)
    with fine_tuned_head(
        model, task, train, point, training.settings, device=asked.device, precision=precision, tell=tell
    ) as (head, tuned):
        scores, threshold = task.best_scores(dev.gold, head.guesses(dev), dev.passages)
        files = save_tuned_model(folder, model, tuned)
    record = replace(record, files=files, score=scores.value, threshold=threshold, seconds=tuned.seconds)
    longest = f"the {head.sequencer.size:,} tokens that the model reads at once"
    cut = f"{pluralize(head.truncated, 'training example')} had more than {longest}; what is beyond was cut off"
    record = write_head(folder, record, None)
    warnings = (*((cut,) if head.truncated else ()), *task.unlearned_warnings(dev.gold))
    return HeadReport(folder, record, scores, time.perf_counter() - begun, warnings=warnings, failed=failed)


def open_table(task: Task, source: OpenSource, how: SourceReading) -> ExampleTable:
    """The rows of feature sets, or of a corpus file, with both texts of a pair in one row."""
    if not isinstance(source, Path):
        return FeatureTable(source, task.reads)
    _, corpus = next(iter(task.open_corpora(source, how, form=PairForm.TOGETHER)))
    return CorpusTable(corpus)


def learn_outputs(training: Training, table: ExampleTable) -> tuple[HeadTexts, Task]:
    """The examples of a training set, and the task with the outputs that it learned from their gold values."""
    task, label = training.task, training.asked.label
    texts = known_texts(task, table, label)
    return texts, task.learned(texts.gold, table.where, training.settings, task.gold_columns(label, table.kept))


def known_texts(task: Task, table: ExampleTable, label: str | None) -> HeadTexts:
    """The examples of a table with their gold values."""
    gold = task.gold_of(table, label)
    if not gold:
        raise HeadError("there is no example in it", where=table.where)
    return task.read_texts(table, gold)


def _same_record(folder: Path, asked: HeadRecord) -> HeadRecord:
    """Read the head that the folder already holds; refuse one that was made in another way or was changed since."""
    record = read_head_record(folder)
    names = ("kind", "approach", "model", "outputs", "training", "data", "point", "precision")
    if differ := [name for name in names if getattr(record, name) != getattr(asked, name)]:
        raise HeadError(
            f"{folder} holds a head that was trained in another way (they differ in: {', '.join(differ)})",
            remedy=f"name another folder with {parameter('folder')}, or start anew with {parameter('overwrite', True)}",
        )
    check_tuned_model(folder, record)  # one that is reported as finished must be sound
    return record


def _texts_digest(texts: HeadTexts) -> str:
    """The digest of the texts and gold values of examples, which identifies them."""
    gold = [to_plain(value) for value in texts.gold]
    return hashlib.sha256(canonical_json([texts.texts, texts.others, gold])).hexdigest()
