"""Fine-tuning with transformers' Trainer, with the settings of the paper's section A.3.

Devlin et al. 2019, section A.3: dropout 0.1, as in the model's configuration; batches of 16 or 32, learning rates of
5e-5, 3e-5 or 2e-5, 2 to 4 epochs. As in BERT's code, the rate rises over the first tenth of the steps and then falls
to 0, and the weight decay is 0.01.
"""

import errno
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from bertfeat.core import (
    Model,
    ModelIdentity,
    Precision,
    find_model,
    resolve_device,
    resolve_precision,
    save_tokenizer,
    silence_transformers,
)
from bertfeat.errors import BertfeatError, MissingLibraryError, ModelError, TrainingError, UsageError, parameter
from bertfeat.io import storage_errors
from bertfeat.learning.settings import GridPoint
from bertfeat.progress import OnStep, StepProgress, ignore_progress

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, Trainer, TrainerControl, TrainerState, TrainingArguments
    from transformers.utils.generic import ModelOutput


# ── full disks ────────────────────────────────────────────────────────────────────────────────────────────


_WRITERS = ("PytorchStreamWriter", "inline_container", "iostream error")  # parts of torch's messages of write errors


@contextmanager
def library_disk_errors(folder: Path) -> Iterator[None]:
    """Turn the errors of safetensors and torch about a full or read-only disk into a StorageError."""
    with storage_errors(folder):
        try:
            yield
        except (SafetensorError, RuntimeError) as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None and not any(name in str(error) for name in _WRITERS):
                raise
            full = shutil.disk_usage(folder).free < 1 << 20  # 1 MiB
            code = int(number[1]) if number else errno.ENOSPC if full else errno.EIO
            raise OSError(code, str(error)) from error


# ── the Trainer ───────────────────────────────────────────────────────────────────────────────────────────


WARM_UP = 0.1  # share of the steps over which the learning rate rises
WEIGHT_DECAY = 0.01
UNLABELED = -100
"""The label that torch's cross entropy ignores."""

Example = Mapping[str, NDArray[np.generic]]
"""The tensors of an example: token ids and types ``[T]``, labels ``[T]`` or a number; of choices ``[C, T]``."""


def load_to_fine_tune(model: Model, kind: str, **config: object) -> "PreTrainedModel":
    """Load a transformers model of a ``kind`` such as ``AutoModelForTokenClassification``: the encoder's weights, with
    an untrained head.
    """
    module, missing = _load_pretrained(model, kind, **config)
    encoder = f"{module.base_model_prefix}."
    lacking = [name for name in missing if name.startswith(encoder) and "pooler" not in name]
    _refuse_incomplete(model, lacking, remedy="it cannot be used")
    return module


def load_fine_tuned(model: Model, kind: str) -> "PreTrainedModel":
    """Load a transformers model of a ``kind`` whose head was trained, ready to predict."""
    with silence_transformers(), keep_random_state():
        module, missing = _load_pretrained(model, kind)
    _refuse_incomplete(model, missing, remedy="copy all of its files again, or fine-tune it again")
    module.eval()
    return module


def _load_pretrained(model: Model, kind: str, **config: object) -> tuple["PreTrainedModel", list[str]]:
    """Load a transformers model; returns it, and the names of weights that its files lack or have in other shapes."""
    import transformers

    _ = model.config, model.weight_files  # if they are wrong, this raises an error with a remedy
    module: PreTrainedModel
    try:
        module, info = getattr(transformers, kind).from_pretrained(
            model.folder,
            **config,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # of a head over other labels
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (ValueError, OSError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(f"transformers cannot load this model as {kind}: {error}", where=model.name) from error
    mismatched = [str(each[0] if isinstance(each, tuple) else each) for each in info["mismatched_keys"]]
    return module, sorted({*info["missing_keys"], *mismatched})


def _refuse_incomplete(model: Model, missing: Sequence[str], *, remedy: str) -> None:
    if missing:
        problem = f"its weights lack {missing[0]} and {len(missing) - 1} more"
        raise ModelError(problem, where=model.name, remedy=remedy)


def make_trainer(
    module: "PreTrainedModel",
    examples: Sequence[Example],
    point: GridPoint,
    seed: int,
    on_cpu: bool,
    scratch_dir: str,
    on_step: OnStep,
    precision: Literal["fp32", "bf16"],
) -> "Trainer":
    """Make a Trainer with the settings of the paper's section A.3; it writes to ``scratch_dir`` only.

    A batch has random examples of similar length, so that there is little padding.
    """
    require_accelerate("fine-tuning")
    from transformers import PrinterCallback, Trainer, TrainerCallback
    from transformers.trainer_pt_utils import LengthGroupedSampler

    class PrecisionTrainer(Trainer):  # type: ignore[misc]
        def compute_loss(self, *args: object, **settings: object) -> Tensor | tuple[Tensor, object]:
            with torch.autocast(module.device.type, torch.bfloat16, enabled=precision == "bf16"):
                loss: Tensor | tuple[Tensor, object] = super().compute_loss(*args, **settings)
                return loss

        def _get_train_sampler(self, _: object = None) -> LengthGroupedSampler:
            lengths = [example["input_ids"].shape[-1] for example in examples]  # of choices the longest
            return LengthGroupedSampler(point.batch_size, lengths=lengths)

    class StepCallback(TrainerCallback):  # type: ignore[misc]
        def on_step_end(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            on_step(StepProgress("fine-tuning", state.global_step, state.max_steps, "steps"))

    trainer = PrecisionTrainer(
        model=module,
        args=_training_arguments(point, len(examples), seed, on_cpu, scratch_dir),
        train_dataset=examples,
        data_collator=make_collator(module.config),
        callbacks=[StepCallback()],
    )
    trainer.remove_callback(PrinterCallback)  # which prints on stdout
    return trainer


def single_device(device: str | None, what: str) -> torch.device:
    """The device that the Trainer runs on.

    Raises:
        UsageError: one of several GPUs is named.
    """
    resolved = resolve_device(device)
    if resolved.index:
        remedy = "CUDA_VISIBLE_DEVICES chooses among several"
        raise UsageError(f"{what} runs on cpu or cuda, not on {device}", remedy=remedy)
    return resolved


def require_accelerate(what: str) -> None:
    """Refuse to begin without accelerate, which the Trainer needs; its own error message is long.

    Raises:
        MissingLibraryError: it is not installed.
    """
    if find_spec("accelerate") is None:
        remedy = "pip install 'bertfeat[finetune]'"
        raise MissingLibraryError(f"{what} needs accelerate, which is not installed", remedy=remedy)


def _training_arguments(
    point: GridPoint, examples: int, seed: int, on_cpu: bool, scratch_dir: str
) -> "TrainingArguments":
    from transformers import TrainingArguments

    steps = -(-examples // point.batch_size) * point.epochs
    arguments = TrainingArguments(
        output_dir=scratch_dir,
        per_device_train_batch_size=point.batch_size,
        learning_rate=point.learning_rate,
        num_train_epochs=point.epochs,
        warmup_steps=round(WARM_UP * steps),
        weight_decay=WEIGHT_DECAY,
        seed=seed,
        use_cpu=on_cpu,
        report_to="none",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # a loss that is no number must not pass for one
        save_strategy="no",
        eval_strategy="no",
        disable_tqdm=True,
        log_level="error",
        remove_unused_columns=False,
        dataloader_pin_memory=not on_cpu,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # else several GPUs multiply the batch size
    return arguments


def model_outputs(
    module: "PreTrainedModel", examples: Sequence[Example], take: Callable[["ModelOutput"], Tensor]
) -> list[Tensor]:
    """The tensor ``[…]`` that ``take`` selects from the model's output, for each example in order, padded at its end.

    It is computed in float32, in batches of sequences of similar length, the longest first.
    """
    module.eval()
    collate = make_collator(module.config)
    order = sorted(range(len(examples)), key=lambda number: -examples[number]["input_ids"].shape[-1])
    first = examples[0]["input_ids"] if examples else np.empty(0)
    size = max(1, 64 // (1 if first.ndim == 1 else len(first)))  # at most 64 sequences, or one stack of choices
    outputs = [torch.empty(0)] * len(examples)
    for at in range(0, len(order), size):
        numbers = order[at : at + size]
        batch = collate([examples[number] for number in numbers])
        with torch.inference_mode():
            output = module(**{name: tensor.to(module.device) for name, tensor in batch.items()})
        for number, row in zip(numbers, take(output).cpu(), strict=True):
            outputs[number] = row
    return outputs


def make_collator(config: "PreTrainedConfig") -> Callable[[Sequence[Example]], dict[str, Tensor]]:
    """A function that pads examples in every dimension: ``[…, T]`` each → ``[S, …, longest]``; numbers become ``[S]``.

    Examples that hold padding themselves have an ``attention_mask``; for others it is made.
    """
    pads = {"input_ids": int(getattr(config, "pad_token_id", None) or 0), "token_type_ids": 0, "labels": UNLABELED}
    has_types = int(getattr(config, "type_vocab_size", 0) or 0) > 1

    def collate(examples: Sequence[Example]) -> dict[str, Tensor]:
        batch = {}
        for name in (name for name in examples[0] if has_types or name != "token_type_ids"):
            values = [example[name] for example in examples]
            batch[name] = _stack(values, pads.get(name, 0))
        if "attention_mask" not in batch:
            batch["attention_mask"] = _stack([np.ones_like(example["input_ids"]) for example in examples], 0)
        return batch

    return collate


def _stack(values: Sequence[NDArray[np.generic]], pad: int) -> Tensor:
    """Stack arrays with equally many dimensions, padded at their ends, into a tensor of int64 or float32."""
    shape = np.max([value.shape for value in values], axis=0).astype(int)
    kind = np.float32 if np.issubdtype(values[0].dtype, np.floating) else np.int64
    stacked = np.full((len(values), *shape), pad, kind)
    for number, value in enumerate(values):
        place: tuple[int | slice, ...] = (number, *(slice(size) for size in value.shape))
        stacked[place] = value
    return torch.from_numpy(stacked)


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the random generators of Python, NumPy and torch afterwards: the Trainer seeds all of them."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


# ── a fine-tuned model ────────────────────────────────────────────────────────────────────────────────────


_MOST_SEED = 2**32 - 1  # NumPy's largest seed


@dataclass(frozen=True, slots=True)
class FineTuned:
    """A model that has been fine-tuned."""

    module: "PreTrainedModel"
    loss: float  # mean over all steps
    steps: int
    seconds: float  # of training alone

    def save(self, model: Model, folder: Path) -> None:
        """Write the model with its tokenizer in safetensors and JSON, for transformers to read."""
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
    tell: OnStep = ignore_progress,
    **config: object,
) -> Iterator[FineTuned]:
    """Fine-tune a transformers model of a ``kind`` on examples; inside the block it predicts.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine. ``precision`` is fp32,
    bf16 (torch's autocast: products of matrices in bfloat16, weights and sums in float32) or auto.
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
        trainer = make_trainer(module, examples, point, seed, on_cpu, scratch_dir, tell, computed_in)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            problem = f"fine-tuning at a learning rate of {point.learning_rate} came to no finite loss"
            raise BertfeatError(problem, remedy="lower it")
        yield FineTuned(module, loss, int(trainer.state.global_step), seconds)


def find_tuned_model(model: str | Path | None, revision: str | None, recorded: ModelIdentity | None = None) -> Model:
    """Find the model to fine-tune: the one that is named, or the one that made the features (``recorded``); where both
    are given, they must be the same.
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
    """Check the settings, libraries and device of a fine-tuning before anything is computed; returns its precision."""
    for point in points:
        if point.batch_size < 1 or point.epochs < 1:
            raise UsageError(f"batch size {point.batch_size}, epochs {point.epochs}", remedy="give at least 1 of each")
        if not 0.0 < point.learning_rate < 1.0:
            problem = f"learning rate {point.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5"
            raise UsageError(problem)
    require_accelerate("fine-tuning")
    return tuning_precision(precision, single_device(device, "fine-tuning"))


def tuning_precision(name: str, device: torch.device) -> Literal["fp32", "bf16"]:
    """The precision that fine-tuning computes in; ``auto`` stands for the one that suits the hardware.

    Raises:
        UsageError: a precision that fine-tuning does not run in.
    """
    precision = resolve_precision(name, device)
    if precision in (Precision.FP16, Precision.INT8):
        raise UsageError(f"fine-tuning does not run in {precision}", remedy="give fp32, bf16 or auto as the precision")
    return "bf16" if precision is Precision.BF16 else "fp32"
