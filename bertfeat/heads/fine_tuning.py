"""The other approach of the paper: whole models fine-tuned as heads, by transformers' own models and Trainer.

Devlin et al. 2019, sections 4 and A.3: [CLS] of a text or a pair goes into a classifier, each token of a passage into
scores of the answer's start and end, [CLS] of a question with each choice into one score.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import HeadError
from bertfeat.heads.guesses import Guess
from bertfeat.heads.sequences import Sequencer
from bertfeat.heads.settings import Outputs
from bertfeat.heads.task import HeadTexts
from bertfeat.heads.tuned_heads import SavedTunedHead
from bertfeat.models import Model
from bertfeat.progress import OnStep, ignore_progress
from bertfeat.training import FineTuned, GridPoint, fine_tuned


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
        """Write the model with its tokenizer, for transformers and :func:`load_tuned_head` to read.

        Raises:
            StorageError: the folder cannot be written.
        """
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

    Raises:
        UsageError: settings that cannot be right.
        HeadError: no examples, or one from which nothing can be learnt.
        ModelError: transformers has no such model for it, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
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
