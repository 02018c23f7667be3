"""The other approach of the paper: a whole model fine-tuned, by transformers' own models and Trainer.

Devlin et al. 2019, section A.3: dropout 0.1 as the model has it; batches of 16 or 32, learning rates of 5e-5, 3e-5 or
2e-5, 2 to 4 epochs. The rate rises over the first tenth of the steps and falls to 0, weights decay by 0.01, as in
BERT's code.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from bertfeat.encoder import Precision, resolve_precision
from bertfeat.errors import BertfeatError, TrainingError, UsageError, parameter
from bertfeat.features import ModelIdentity
from bertfeat.models import Model, find_model, silence_transformers
from bertfeat.progress import OnStep, ignore_progress
from bertfeat.tokens import save_tokenizer
from bertfeat.training.disk_errors import library_disk_errors
from bertfeat.training.grid import GridPoint
from bertfeat.training.trainer import (
    Example,
    keep_random_state,
    load_to_fine_tune,
    make_trainer,
    require_accelerate,
    single_device,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class FineTuned:
    """A model that has been fine-tuned."""

    module: "PreTrainedModel"
    loss: float  # mean over all steps
    steps: int
    seconds: float  # of training alone

    def save(self, model: Model, folder: Path) -> None:
        """Write the model with its tokenizer in safetensors and JSON, for transformers to read.

        Raises:
            StorageError: the folder cannot be written.
        """
        with library_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.module.save_pretrained(folder)
            save_tokenizer(model, folder)


@contextmanager
def fine_tuned(
    model: Model,
    kind: str,
    examples: Sequence[Example],
    point: GridPoint,
    *,
    seed: int,
    device: str | None = None,
    precision: str = "auto",
    on_step: OnStep = ignore_progress,
    **config: object,
) -> Iterator[FineTuned]:
    """Fine-tune transformers' model of a ``kind`` on examples; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine. ``precision`` fp32,
    bf16 (torch's autocast: products of matrices in bfloat16, weights and sums in float32) or auto.

    Raises:
        UsageError: settings that cannot be right.
        ModelError: transformers has no such model for it, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
    """
    if not 0 <= seed <= _MOST_SEED:
        problem = f"fine-tuning takes seeds from 0 to {_MOST_SEED:,}, as NumPy does"
        raise UsageError(problem, where=parameter("seed", seed))
    computed_in = check_tuning([point], device, precision)
    resolved = single_device(device, "fine-tuning")
    with silence_transformers(), keep_random_state(), tempfile.TemporaryDirectory() as scratch_dir:
        from transformers import set_seed

        set_seed(seed)
        module = load_to_fine_tune(model, kind, **config)
        on_cpu = resolved.type == "cpu"
        trainer = make_trainer(module, examples, point, seed, on_cpu, scratch_dir, on_step, computed_in)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            problem = f"fine-tuning at a learning rate of {point.learning_rate} came to no finite loss"
            raise BertfeatError(problem, remedy="lower it")
        yield FineTuned(module, loss, int(trainer.state.global_step), seconds)


def find_tuned_model(model: str | Path | None, revision: str | None, recorded: ModelIdentity | None = None) -> Model:
    """Find the model to fine-tune: the one that is named, or that made the features (``recorded``).

    Raises:
        ModelError: there is none.
        TrainingError: the one that is named did not make the features, so that it cannot be compared with them.
    """
    if recorded is None:
        return find_model(model, revision=revision)
    named = model is not None or revision is not None
    found = find_model(model or recorded.name, revision=revision if named else recorded.revision)
    if found.fingerprint != recorded.fingerprint:
        raise TrainingError(
            f"{found.name} (fingerprint {found.fingerprint[:12]}…) is not the model that made the features, "
            f"{recorded.name} ({recorded.fingerprint[:12]}…)",
            remedy="fine-tune that one, or give corpora in place of the feature sets",
        )
    return found


def check_tuning(points: Sequence[GridPoint], device: str | None, precision: str) -> Literal["fp32", "bf16"]:
    """Check all that can be wrong with a fine-tuning before anything is computed; returns its precision.

    Raises:
        UsageError: settings that cannot be right.
        BertfeatError: accelerate is not installed.
    """
    for point in points:
        _check_point(point)
    require_accelerate("fine-tuning")
    return tuning_precision(precision, single_device(device, "fine-tuning"))


def tuning_precision(name: str, device: torch.device) -> Literal["fp32", "bf16"]:
    """The precision that fine-tuning computes in, or by ``auto`` the one that the hardware suits.

    Raises:
        UsageError: another one.
    """
    precision = resolve_precision(name, device)
    if precision in (Precision.FP16, Precision.INT8):
        raise UsageError(f"fine-tuning does not run in {precision}", remedy="give fp32, bf16 or auto as the precision")
    return "bf16" if precision is Precision.BF16 else "fp32"


def _check_point(point: GridPoint) -> None:
    if point.batch_size < 1 or point.epochs < 1:
        raise UsageError(f"batch size {point.batch_size}, epochs {point.epochs}", remedy="give at least 1 of each")
    if not 0.0 < point.learning_rate < 1.0:
        raise UsageError(f"learning rate {point.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5")
