"""Whole models, fine-tuned for a head.

Devlin et al. 2019, sections 4 and A.3: [CLS] of a text or a pair goes into a classifier, each token of a passage into
scores of the answer's start and end, [CLS] of a question with each choice into one score.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError, UsageError
from bertfeat.learning.record import Outputs
from bertfeat.learning.sequences import Sequencer
from bertfeat.learning.settings import GridPoint
from bertfeat.learning.task import Guess, HeadTexts, Task
from bertfeat.learning.trainer import FineTuned, fine_tuned, load_fine_tuned, model_outputs
from bertfeat.models import Model
from bertfeat.progress import OnStep, ignore_progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# ── predictions ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SavedTunedHead:
    """A fine-tuned model that predicts."""

    module: "PreTrainedModel"
    sequencer: Sequencer
    outputs: Outputs
    max_answer: int  # tokens of the longest answer

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """The guess of the model for each example, in order."""
        task = self.sequencer.task
        if texts.task is not task:
            theirs, own = (f"{each.kind.noun} of {each.name}" for each in (texts.task, task))
            raise UsageError(f"these are examples for {theirs}, and this is {own}")
        if not texts.texts:
            return []
        read = self.sequencer.read(texts)
        tensors = model_outputs(self.module, read.examples, lambda output: task.output_scores(output).float())
        scores = [tensor.numpy() for tensor in tensors]
        return task.tuned_guesses(texts, read, scores, self.outputs, self.max_answer)

    def count_truncated(self, texts: HeadTexts) -> int:
        """The number of examples that are too long for the model to read all of them."""
        return self.sequencer.read(texts).truncated


def load_tuned_head(
    folder: Path, task: Task, outputs: Outputs, *, device: str | None = None, max_answer: int = 30
) -> SavedTunedHead:
    """A fine-tuned model as it was saved."""
    model = Model(str(folder), folder)
    module = load_fine_tuned(model, task.architecture)
    if problem := task.check_config(module.config, outputs):
        raise HeadError(problem, where=folder, remedy="copy the whole head again")
    module.to(resolve_device(device))  # type: ignore[arg-type]  # transformers' decorator hides its self
    return SavedTunedHead(module, Sequencer(model, task), outputs, max_answer)


# ── fine-tuning for a task ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TunedHead:
    """A head that was just fine-tuned."""

    head: SavedTunedHead
    model: Model  # that it was made of
    tuned: FineTuned
    truncated: int  # training examples of which something was cut off

    @property
    def loss(self) -> float:
        """Mean over all steps."""
        return self.tuned.loss

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.tuned.steps

    @property
    def seconds(self) -> float:
        """Of training alone."""
        return self.tuned.seconds

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """The guess of the model for each example, in order; errors as of :class:`SavedTunedHead`."""
        return self.head.guesses(texts)

    def save(self, folder: Path) -> None:
        """Write the model with its tokenizer, for transformers and :func:`load_tuned_head` to read."""
        self.tuned.save(self.model, folder)


@contextmanager
def fine_tuned_head(
    model: Model,
    train: HeadTexts,
    outputs: Outputs,
    point: GridPoint,
    *,
    seed: int,
    device: str | None = None,
    precision: str = "auto",
    on_step: OnStep = ignore_progress,
    max_answer: int = 30,
) -> Iterator[TunedHead]:
    """Fine-tune transformers' model of a head's kind on texts; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine. Numbers are learnt at
    mean 0 and spread 1. Of a question's answers the first is learnt, in each window that holds all of it; in the others
    it has none. ``precision`` as of :func:`fine_tuned`.
    """
    if not train.texts or len(train.gold) != len(train.texts):
        raise HeadError(f"{len(train.gold):,} of {len(train.texts):,} examples say what is to be predicted")
    task = train.task
    sequencer = Sequencer(model, task)
    read = sequencer.read(train)
    with fine_tuned(
        model,
        task.architecture,
        task.with_targets(train, read, outputs),
        point,
        seed=seed,
        device=device,
        precision=precision,
        on_step=on_step,
        **task.config(outputs),
    ) as tuned:
        head = SavedTunedHead(tuned.module, sequencer, outputs, max_answer)
        yield TunedHead(head, model, tuned, read.truncated)
