"""The other approach of the paper: a whole model fine-tuned, by transformers' own models and Trainer.

Devlin et al. 2019, section A.3: dropout 0.1 as the model has it; batches of 16 or 32, learning rates of 5e-5, 3e-5 or
2e-5, 2 to 4 epochs. The rate rises over the first tenth of the steps and falls to 0, weights decay by 0.01, as in
BERT's code.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.errors import BertfeatError, UsageError
from bertfeat.models import Model, silence_transformers
from bertfeat.training.disk_errors import library_disk_errors
from bertfeat.training.grid import GridPoint
from bertfeat.training.trainer import (
    Example,
    OnStep,
    keep_random_state,
    load_to_fine_tune,
    make_trainer,
    single_device,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer


@dataclass(frozen=True, slots=True)
class FineTuned:
    """A model that has been fine-tuned, as long as its scratch folder is there."""

    module: "PreTrainedModel"
    trainer: "Trainer"
    loss: float  # mean over all steps
    steps: int
    seconds: float  # of training alone

    def predict(self, examples: Sequence[Example]) -> NDArray[np.generic]:
        """What the model gives for examples without labels, in their order: ``[E, …]``."""
        return np.asarray(self.trainer.predict(examples).predictions)  # type: ignore[arg-type]  # a list will do

    def save(self, model: Model, folder: Path) -> None:
        """Write the model with its tokenizer in safetensors and JSON, for transformers to read.

        Raises:
            StorageError: the folder cannot be written.
        """
        from transformers import AutoTokenizer

        with library_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.module.save_pretrained(folder)
            AutoTokenizer.from_pretrained(model.folder, local_files_only=True).save_pretrained(folder)


@contextmanager
def fine_tuned(
    model: Model,
    kind: str,
    examples: Sequence[Example],
    point: GridPoint,
    *,
    seed: int,
    device: str | None = None,
    on_step: OnStep | None = None,
    reduce: Callable[[Tensor], Tensor] | None = None,
    **config: object,
) -> Iterator[FineTuned]:
    """Fine-tune transformers' model of a ``kind`` on examples; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine.

    Raises:
        UsageError: settings that cannot be right.
        ModelError: transformers has no such model for it, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
    """
    _check_point(point)
    on_cpu = single_device(device, "fine-tuning").type == "cpu"
    with silence_transformers(), keep_random_state(), tempfile.TemporaryDirectory() as scratch_dir:
        from transformers import set_seed

        set_seed(seed)
        module = load_to_fine_tune(model, kind, **config)
        trainer = make_trainer(module, examples, point, seed, on_cpu, scratch_dir, on_step, reduce)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            problem = f"fine-tuning at a learning rate of {point.learning_rate} came to no finite loss"
            raise BertfeatError(problem, remedy="lower it")
        yield FineTuned(module, trainer, loss, int(trainer.state.global_step), seconds)


def _check_point(point: GridPoint) -> None:
    if point.batch_size < 1 or point.epochs < 1:
        raise UsageError(f"batch size {point.batch_size}, epochs {point.epochs}", remedy="give at least 1 of each")
    if not 0.0 < point.learning_rate < 1.0:
        raise UsageError(f"learning rate {point.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5")
