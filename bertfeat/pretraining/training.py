"""The training loop: transformers' Trainer on our examples in our order, quiet, with checkpoints by time.

A training that was killed resumes to the same weights. Checkpoints are folders that the Trainer writes, each with a
seal, a file of ours that is written last. The Trainer itself would resume from any such folder. One without a seal was
left half written by a run that was killed, and is removed; the seal has the digests of the other files, so that later
changes are noticed.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from bertfeat.core import Model, is_out_of_memory
from bertfeat.display import format_duration
from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import FileDigest, JsonFormat, digest_file, storage_errors, sync, write_json
from bertfeat.learning import library_disk_errors
from bertfeat.pretraining.examples import Batch, Collator, SequenceExamples
from bertfeat.pretraining.losses import Anchor, BatchLoss, batch_loss
from bertfeat.pretraining.material import TrainingMaterial
from bertfeat.pretraining.results import HistoryPoint, anew_remedy
from bertfeat.pretraining.settings import PretrainingSettings

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler
    from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@dataclass(frozen=True, slots=True)
class PretrainingProgress:
    """Progress of a pre-training."""

    stage: str
    fraction: float  # of the stage, 0 to 1
    tokens_per_second: float | None = None
    loss: float | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        text = self.stage
        if self.tokens_per_second is not None:
            text += f", {self.tokens_per_second:,.0f} tokens/s"
        if self.loss is not None:
            text += f", loss {self.loss:.3f}"
        if self.seconds_left is not None:
            text += f", {format_duration(self.seconds_left)} left"
        return text


OnPretraining = Callable[[PretrainingProgress], None]


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────────


WARM_UP = 0.1  # share of the steps over which the learning rate rises; then it falls to 0
WEIGHT_DECAY = 0.01  # of all weights but biases and layer norms
_CLIPPED_TO = 1.0  # the largest norm of the gradients
_POINTS = 200  # of the history: at least as many, and fewer than twice; fewer steps have a point each
_NOISE = 4  # part of a seed that says that random numbers are for dropout, beside those in examples.py


@dataclass(frozen=True, slots=True)
class _TrainingTask:
    """One training: what is trained, on what, how long, and where its checkpoints go."""

    module: "PreTrainedModel"
    examples: SequenceExamples
    collator: Collator
    anchor: Anchor | None
    settings: PretrainingSettings
    steps: int
    folder: Path  # of the checkpoints
    checkpoint_seconds: float

    def loss(self, module: "PreTrainedModel", batch: Batch) -> BatchLoss:
        """The loss of a batch, computed in the precision of the training."""
        with torch.autocast(module.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            return batch_loss(module, batch, self.anchor)


def make_task(
    material: TrainingMaterial,
    module: "PreTrainedModel",
    model: Model | None,
    steps: int = 0,
    folder: Path = Path(),
    checkpoint_seconds: float = 0.0,
) -> _TrainingTask:
    """The task of training a module for ``steps``; 0: it has the examples of an epoch, to measure the speed."""
    settings, anchor = material.settings, None
    if model is not None and settings.anchor is not None:
        anchor = Anchor.of(model, settings.anchor, module.device)
    examples = material.examples(material.split.training, steps * settings.batch_size or None)
    collator = material.collator(module, keeps_unmasked=anchor is not None)
    return _TrainingTask(module, examples, collator, anchor, settings, steps, folder, checkpoint_seconds)


def seconds_a_step(task: _TrainingTask, budget: float) -> tuple[float, float]:
    """Mean seconds and tokens of a step, measured on a copy of the module for about ``budget`` seconds."""
    module = deepcopy(task.module).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-9)
    size, times, tokens, begun = task.settings.batch_size, list[float](), 0, time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < budget:
        started = time.perf_counter()
        rows = [task.examples[(len(times) * size + at) % len(task.examples)] for at in range(size)]
        batch = {name: values.to(module.device) for name, values in task.collator(rows).items()}
        torch.autograd.backward(task.loss(module, batch).total)
        torch.nn.utils.clip_grad_norm_(module.parameters(), _CLIPPED_TO)
        optimizer.step()
        optimizer.zero_grad()
        if module.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
        tokens += int(batch["attention_mask"].sum())
    return float(np.mean(times[1:])), tokens / len(times)


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _FinishedTraining:
    """Result of a training, beside its weights."""

    resumed: int  # steps of earlier runs
    tokens: int
    seconds: float
    history: tuple[HistoryPoint, ...]


class _TrainingLog:
    """The course of a training. Steps, tokens and history are in the Trainer's state, which its checkpoints keep."""

    def __init__(self, task: _TrainingTask, seconds: float) -> None:
        self._task, self._seconds_before = task, seconds
        self._losses: list[dict[str, float]] = []  # since the last point of the history

    def begin(self, state: "TrainerState") -> None:
        """Note where this run begins."""
        self._begun_at, self.resumed = time.perf_counter(), state.global_step
        self._tokens_before = state.num_input_tokens_seen

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier runs included."""
        return self._seconds_before + time.perf_counter() - self._begun_at

    def add(self, loss: BatchLoss) -> None:
        """Note the loss of a batch, which has to be a finite number."""
        refuse_no_number(float(loss.total.detach()), self._task.settings.rate)
        parts = {"words": loss.words, "pairs": loss.pairs, "anchor": loss.anchor}
        self._losses.append({name: float(part.detach()) for name, part in parts.items() if part is not None})

    def end_step(self, state: "TrainerState", rate: float) -> None:
        """Add a point to the history where one is due."""
        if state.global_step % max(1, self._task.steps // _POINTS) == 0 or state.global_step == self._task.steps:
            means = {name: sum(each[name] for each in self._losses) / len(self._losses) for name in self._losses[0]}
            state.log_history.append({"step": state.global_step, "rate": rate, **means})
            self._losses = []

    def shown(self, state: "TrainerState") -> PretrainingProgress:
        """The progress that is reported after a step."""
        seconds = max(self.seconds - self._seconds_before, 1e-9)
        left = seconds / max(state.global_step - self.resumed, 1) * (self._task.steps - state.global_step)
        speed = (state.num_input_tokens_seen - self._tokens_before) / seconds
        loss = state.log_history[-1]["words"] if state.log_history else None
        return PretrainingProgress("training", state.global_step / self._task.steps, speed, loss, left)

    def finished(self, state: "TrainerState") -> _FinishedTraining:
        """Result at the end; the Trainer's own summary, which stands in its history too, is left out."""
        points = (point for point in state.log_history if "words" in point)
        history = tuple(
            HistoryPoint(int(point["step"]), point["words"], point.get("pairs"), point.get("anchor"), point["rate"])
            for point in points
        )
        return _FinishedTraining(self.resumed, int(state.num_input_tokens_seen), self.seconds, history)


def run_training(task: _TrainingTask, on_progress: OnPretraining) -> _FinishedTraining:
    """Train a module in place, from its newest checkpoint on where there is one."""
    checkpoint = _newest_checkpoint(task.folder)
    log = _TrainingLog(task, 0.0 if checkpoint is None else checkpoint.seconds)
    with library_disk_errors(task.folder), _memory_errors(task):
        trainer = _trainer(task, log, on_progress)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint.folder))
    return log.finished(trainer.state)


@contextmanager
def _memory_errors(task: _TrainingTask) -> Iterator[None]:
    """Turn an out-of-memory error into one that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        problem = f"the memory is too small for batches of {task.settings.batch_size} sequences"
        raise PretrainingError(problem, remedy=f"give a smaller {parameter('batch_size')}") from error


def refuse_no_number(loss: float, rate: float) -> None:
    """Refuse a loss, or a sum of weights, that is no finite number."""
    if not math.isfinite(loss):
        problem = f"the loss is no finite number at a learning rate of {rate:g}"
        remedy = f"give a lower one with {parameter('learning_rate')}, and {parameter('overwrite', True)}"
        raise PretrainingError(problem, remedy=remedy)


def _trainer(task: _TrainingTask, log: _TrainingLog, on_progress: OnPretraining) -> "Trainer":
    from torch.utils.data import SequentialSampler
    from transformers import PrinterCallback, Trainer

    class PretrainingTrainer(Trainer):  # type: ignore[misc]
        """Learns from the examples in their order, by our loss."""

        def _get_train_sampler(self, *_: object) -> SequentialSampler:
            return SequentialSampler(task.examples)

        def compute_loss(self, model: torch.nn.Module, inputs: Batch, *_: object, **__: object) -> torch.Tensor:
            loss = task.loss(task.module, inputs)
            log.add(loss)
            return loss.total

    trainer = PretrainingTrainer(
        model=task.module,
        args=_arguments(task),
        train_dataset=task.examples,
        data_collator=task.collator,
        callbacks=[_callback(task, log, on_progress)],
    )
    trainer.remove_callback(PrinterCallback)  # which prints on stdout
    return trainer


def _callback(task: _TrainingTask, log: _TrainingLog, on_progress: OnPretraining) -> "TrainerCallback":
    """The callback that seeds each step, notes it, and asks for a checkpoint if one is due or after the last step."""
    from transformers import TrainerCallback

    class TrainingCallback(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            log.begin(state)
            self._saved = time.monotonic()

        def on_step_begin(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            # for dropout: a resumed training draws the same numbers
            words = np.random.SeedSequence((task.settings.seed, _NOISE, state.global_step)).generate_state(1)
            torch.manual_seed(int(words[0]))

        def on_step_end(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **others: object
        ) -> None:
            scheduler = cast("LRScheduler", others["lr_scheduler"])
            log.end_step(state, float(scheduler.get_last_lr()[0]))
            due = time.monotonic() - self._saved >= task.checkpoint_seconds
            control.should_save = due or state.global_step == task.steps
            on_progress(log.shown(state))

        def on_save(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            _seal_checkpoint(task.folder / f"checkpoint-{state.global_step}", log.seconds)
            self._saved = time.monotonic()

    return TrainingCallback()


def _arguments(task: _TrainingTask) -> "TrainingArguments":
    from transformers import TrainingArguments

    on_cpu = task.module.device.type == "cpu"
    arguments = TrainingArguments(
        output_dir=str(task.folder),
        max_steps=task.steps,
        per_device_train_batch_size=task.settings.batch_size,
        learning_rate=task.settings.rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(WARM_UP * task.steps),
        optim="adamw_torch",
        adam_epsilon=1e-6,  # as in the paper's code
        weight_decay=WEIGHT_DECAY,
        max_grad_norm=_CLIPPED_TO,
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
        eval_strategy="no",
        include_num_input_tokens_seen="non_padding",
        log_level="error",
        logging_nan_inf_filter=False,
        logging_strategy="no",
        remove_unused_columns=False,
        report_to="none",
        save_strategy="no",
        seed=task.settings.seed % (1 << 32),
        use_cpu=on_cpu,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # else several GPUs multiply the batch size
    return arguments


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────


_FORMAT_VERSION = 1
_SEAL = "sealed.json"


@dataclass(frozen=True, slots=True)
class _Seal:
    format_version: int
    seconds: float
    files: Mapping[str, FileDigest]  # by name


@dataclass(frozen=True, slots=True)
class _SealedCheckpoint:
    """A checkpoint that is whole."""

    folder: Path
    seconds: float  # of training up to it


_FORMAT = JsonFormat(_Seal, _FORMAT_VERSION, error=PretrainingError, remedy=anew_remedy)


def _seal_checkpoint(folder: Path, seconds: float) -> None:
    """Flush a checkpoint that the Trainer has written to the disk, seal it, and remove the others."""
    with storage_errors(folder):
        files = sorted(path for path in folder.iterdir() if path.is_file())
        for path in files:
            sync(path)
        digests = {path.name: digest_file(path) for path in files}
    write_json(folder / _SEAL, _Seal(_FORMAT_VERSION, seconds, digests))
    for other in folder.parent.glob("checkpoint-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def _newest_checkpoint(folder: Path) -> _SealedCheckpoint | None:
    """The newest whole checkpoint in a folder, None where there is none; half-written ones are removed."""
    for checkpoint in sorted(
        folder.glob("checkpoint-*"), key=lambda path: (len(path.name), path.name), reverse=True
    ):  # by their steps
        seal = _FORMAT.read(checkpoint / _SEAL)
        if seal is None:
            shutil.rmtree(checkpoint, ignore_errors=True)
            continue
        _FORMAT.check_files(checkpoint, seal.files, "this checkpoint is not as it was written")
        return _SealedCheckpoint(checkpoint, seal.seconds)
    return None
