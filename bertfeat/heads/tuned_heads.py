"""A fine-tuned model that predicts for texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError, UsageError
from bertfeat.heads.guesses import Guess
from bertfeat.heads.sequences import Sequencer
from bertfeat.heads.settings import Outputs
from bertfeat.heads.task import HeadTexts, Task
from bertfeat.models import Model
from bertfeat.training import load_fine_tuned, model_outputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class SavedTunedHead:
    """A fine-tuned model that predicts."""

    module: "PreTrainedModel"
    sequencer: Sequencer
    outputs: Outputs
    max_answer: int  # tokens of the longest answer

    def guesses(self, texts: HeadTexts) -> list[Guess]:
        """The guess of the model for each example, in order.

        Raises:
            UsageError: the texts are for a head of another kind.
            HeadError: a question without a passage, or with a single choice.
        """
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
    """A fine-tuned model as it was saved.

    Raises:
        ModelError: the folder holds no sound model with its tokenizer, or one of another kind.
        HeadError: it has other labels.
        UsageError: there is no such device.
    """
    model = Model(str(folder), folder)
    module = load_fine_tuned(model, task.architecture)
    if problem := task.check_config(module.config, outputs):
        raise HeadError(problem, where=folder, remedy="copy the whole head again")
    module.to(resolve_device(device))  # type: ignore[arg-type]  # transformers' decorator hides its self
    return SavedTunedHead(module, Sequencer(model, task), outputs, max_answer)
