"""transformers' Trainer over our examples: in our order, quiet, checkpointed by the clock, the same after a kill."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from bertfeat.encoder import is_out_of_memory
from bertfeat.errors import PretrainingError, parameter
from bertfeat.pretraining.anchor import Anchor
from bertfeat.pretraining.checkpoints import (
    SealedCheckpoint,
    TrainingProgress,
    seal_checkpoint,
)
from bertfeat.pretraining.examples import Batch, Collator, SequenceExamples
from bertfeat.pretraining.losses import BatchLoss, batch_loss
from bertfeat.pretraining.report import HistoryPoint, OnPretraining, PretrainingProgress
from bertfeat.training import library_disk_errors

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler
    from transformers import (
        PreTrainedModel,
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

WARM_UP = 0.1  # share of the steps over which the learning rate rises; then it falls to 0
WEIGHT_DECAY = 0.01  # of all weights but biases and layer norms
CLIPPED_TO = 1.0  # norm of the gradients
_EPSILON = 1e-6  # of Adam, as in the paper's code
_POINTS = 200  # of the history
_NOISE = 4  # what a random number is for, beside those of sequences


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """One training: what is trained, on what, how long, and where its checkpoints go."""

    module: "PreTrainedModel"
    examples: SequenceExamples
    collator: Collator
    anchor: Anchor | None
    batch_size: int
    steps: int
    rate: float
    seed: int
    folder: Path  # of the checkpoints
    checkpoint_seconds: float
    precision: str  # fp32 or bf16

    def loss(self, module: "PreTrainedModel", batch: Batch) -> BatchLoss:
        """The loss of a batch, computed in the precision of the training."""
        with torch.autocast(module.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return batch_loss(module, batch, self.anchor)


@dataclass(slots=True)
class TrainingLog:
    """What happens at each step, and the history that is made of it."""

    steps: int
    rate: float
    begun_at: float = field(default_factory=time.perf_counter)
    before: float = 0.0  # seconds of earlier runs
    tokens: int = 0
    first: int = 0  # steps of earlier runs
    fresh: int = 0  # tokens of this run
    history: list[HistoryPoint] = field(default_factory=list)
    _sums: dict[str, float] = field(default_factory=dict)
    _count: int = 0

    def restore(self, progress: TrainingProgress) -> None:
        """Go on from a checkpoint."""
        self.before, self.tokens, self.first = progress.seconds, progress.tokens, progress.step
        self.history = list(progress.history)

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier runs included."""
        return self.before + time.perf_counter() - self.begun_at

    @property
    def every(self) -> int:
        """Steps from one point of the history to the next."""
        return max(1, self.steps // _POINTS)

    def add(self, loss: BatchLoss, batch: Batch) -> None:
        """Note the loss of a batch.

        Raises:
            PretrainingError: it is no finite number.
        """
        refuse_no_number(float(loss.total.detach()), self.rate)
        parts = {"words": loss.words, "pairs": loss.pairs, "anchor": loss.anchor}
        for name, value in parts.items():
            if value is not None:
                self._sums[name] = self._sums.get(name, 0.0) + float(value.detach())
        self._count += 1
        count = int(batch["attention_mask"].sum())
        self.tokens, self.fresh = self.tokens + count, self.fresh + count

    def end_step(self, step: int, rate: float) -> None:
        """Add a point to the history where one is due."""
        if (step % self.every and step != self.steps) or not self._count:
            return
        means = {name: total / self._count for name, total in self._sums.items()}
        self.history.append(HistoryPoint(step, means["words"], means.get("pairs"), means.get("anchor"), rate))
        self._sums, self._count = {}, 0

    def progress(self, step: int) -> TrainingProgress:
        """What a checkpoint says of it."""
        return TrainingProgress(step, self.seconds, self.tokens, tuple(self.history))

    def shown(self, step: int) -> PretrainingProgress:
        """What the user is told."""
        here = max(self.seconds - self.before, 1e-9)
        left = here / max(step - self.first, 1) * (self.steps - step)
        loss = self.history[-1].words if self.history else None
        return PretrainingProgress("training", step / self.steps, self.fresh / here, loss, left)


def run_training(
    task: TrainingTask, checkpoint: SealedCheckpoint | None, on_progress: OnPretraining | None
) -> TrainingLog:
    """Train a module in place, from a checkpoint on where there is one.

    Raises:
        PretrainingError: the loss is no finite number.
        StorageError: a checkpoint cannot be written.
    """
    log = TrainingLog(task.steps, task.rate)
    if checkpoint is not None:
        log.restore(checkpoint.progress)
    with library_disk_errors(task.folder), _memory_errors(task):
        trainer = _trainer(task, log, on_progress)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint.folder))
    return log


@contextmanager
def _memory_errors(task: TrainingTask) -> Iterator[None]:
    """Turn the exception of a memory that is too small into one that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        problem = f"the memory is too small for batches of {task.batch_size} sequences"
        raise PretrainingError(problem, remedy=f"give a smaller {parameter('batch_size')}") from error


def refuse_no_number(loss: float, rate: float) -> None:
    """Refuse a loss, or a sum of weights, that is no finite number.

    Raises:
        PretrainingError: it is not.
    """
    if not math.isfinite(loss):
        problem = f"the loss is no finite number at a learning rate of {rate:g}"
        remedy = f"give a lower one with {parameter('learning_rate')}, and {parameter('overwrite', True)}"
        raise PretrainingError(problem, remedy=remedy)


def step_seed(seed: int, step: int) -> int:
    """The seed of torch's generator, and so of dropout, at a step: a resumed training draws the same."""
    return int(np.random.SeedSequence((seed, _NOISE, step)).generate_state(1)[0])


def _trainer(task: TrainingTask, log: TrainingLog, on_progress: OnPretraining | None) -> "Trainer":
    from torch.utils.data import SequentialSampler
    from transformers import PrinterCallback, Trainer

    class PretrainingTrainer(Trainer):
        """Learns from the examples in their order, by our loss."""

        def _get_train_sampler(self, *_: object) -> SequentialSampler:
            return SequentialSampler(task.examples)

        def compute_loss(self, model: torch.nn.Module, inputs: Batch, *_: object, **__: object) -> torch.Tensor:
            loss = task.loss(task.module, inputs)
            log.add(loss, inputs)
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


def _callback(task: TrainingTask, log: TrainingLog, on_progress: OnPretraining | None) -> "TrainerCallback":
    """Seeds each step, notes it, and asks for a checkpoint when it is time for one, and after the last step."""
    from transformers import TrainerCallback

    class TrainingCallback(TrainerCallback):
        def __init__(self) -> None:
            self._saved = time.monotonic()

        def on_step_begin(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            torch.manual_seed(step_seed(task.seed, state.global_step))

        def on_step_end(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **others: object
        ) -> None:
            scheduler = cast("LRScheduler", others["lr_scheduler"])
            log.end_step(state.global_step, float(scheduler.get_last_lr()[0]))
            due = time.monotonic() - self._saved >= task.checkpoint_seconds
            control.should_save = due or state.global_step == task.steps
            if on_progress is not None:
                on_progress(log.shown(state.global_step))

        def on_save(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            step = state.global_step
            seal_checkpoint(task.folder / f"checkpoint-{step}", log.progress(step))
            self._saved = time.monotonic()

    return TrainingCallback()


def _arguments(task: TrainingTask) -> "TrainingArguments":
    from transformers import TrainingArguments

    on_cpu = task.module.device.type == "cpu"
    arguments = TrainingArguments(
        output_dir=str(task.folder),
        max_steps=task.steps,
        per_device_train_batch_size=task.batch_size,
        learning_rate=task.rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(WARM_UP * task.steps),
        optim="adamw_torch",
        adam_epsilon=_EPSILON,
        weight_decay=WEIGHT_DECAY,
        max_grad_norm=CLIPPED_TO,
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
        eval_strategy="no",
        log_level="error",
        logging_nan_inf_filter=False,
        logging_strategy="no",
        remove_unused_columns=False,
        report_to="none",
        save_strategy="no",
        seed=task.seed % (1 << 32),
        use_cpu=on_cpu,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # else several GPUs multiply the batch size
    return arguments
