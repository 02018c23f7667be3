"""transformers' own models and Trainer for fine-tuning: without output, network or files left behind."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from bertfeat.encoder import resolve_device
from bertfeat.errors import MissingLibraryError, ModelError, UsageError
from bertfeat.models import Model, silence_transformers
from bertfeat.progress import OnStep, StepProgress
from bertfeat.training.grid import GridPoint

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, Trainer, TrainerControl, TrainerState, TrainingArguments
    from transformers.utils.generic import ModelOutput

WARM_UP = 0.1  # share of the steps over which the learning rate rises
WEIGHT_DECAY = 0.01
UNLABELLED = -100
"""The label that torch's cross entropy ignores."""

_EVALUATED = 64  # sequences of a batch where nothing is learnt

Example = Mapping[str, NDArray[np.generic]]
"""What is read of an example: token ids and types ``[T]``, labels ``[T]`` or a number; of choices ``[C, T]``."""


def load_to_fine_tune(model: Model, kind: str, **config: object) -> "PreTrainedModel":
    """transformers' model of a ``kind`` such as ``AutoModelForTokenClassification``: the encoder's weights, and a head
    that has learnt nothing yet.

    Raises:
        ModelError: transformers has no such model for it, or its weights are incomplete.
    """
    module, missing = _load_pretrained(model, kind, **config)
    encoder = f"{module.base_model_prefix}."
    lacking = [name for name in missing if name.startswith(encoder) and "pooler" not in name]
    _refuse_incomplete(model, lacking, remedy="it cannot be used")
    return module


def load_fine_tuned(model: Model, kind: str) -> "PreTrainedModel":
    """transformers' model of a ``kind`` whose head has learnt; it predicts.

    Raises:
        ModelError: transformers has no such model for it, or its weights are incomplete.
    """
    with silence_transformers(), keep_random_state():
        module, missing = _load_pretrained(model, kind)
    _refuse_incomplete(model, missing, remedy="copy all of its files again, or fine-tune it again")
    module.eval()
    return module


def _load_pretrained(model: Model, kind: str, **config: object) -> tuple["PreTrainedModel", list[str]]:
    """transformers' model, and the weights that its files lack."""
    import transformers

    _ = model.config, model.weight_files  # raises the error with the remedy if they are wrong
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
    """The Trainer that learns from examples as the paper's section A.3 says; it writes to ``scratch_dir`` only.

    A batch has random examples of similar length, so that there is little padding.

    Raises:
        BertfeatError: accelerate is not installed.
    """
    require_accelerate("fine-tuning")
    from transformers import PrinterCallback, Trainer, TrainerCallback
    from transformers.trainer_pt_utils import LengthGroupedSampler

    class PrecisionTrainer(Trainer):
        def compute_loss(self, *args: object, **settings: object) -> Tensor | tuple[Tensor, object]:
            with torch.autocast(module.device.type, torch.bfloat16, enabled=precision == "bf16"):
                return super().compute_loss(*args, **settings)  # type: ignore[arg-type]

        def _get_train_sampler(self, _: object = None) -> LengthGroupedSampler:
            lengths = [example["input_ids"].shape[-1] for example in examples]  # of choices the longest
            return LengthGroupedSampler(point.batch_size, lengths=lengths)

    class StepCallback(TrainerCallback):
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
    """Refuse to begin without accelerate, which the Trainer needs and asks for at length.

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
    """What ``take`` makes of the model's output, ``[…]`` of each example, in order; with padding at its end.

    Computed in float32, sequences of similar length together, the longest first.
    """
    module.eval()
    collate = make_collator(module.config)
    order = sorted(range(len(examples)), key=lambda number: -examples[number]["input_ids"].shape[-1])
    first = examples[0]["input_ids"] if examples else np.empty(0)
    size = max(1, _EVALUATED // (1 if first.ndim == 1 else len(first)))
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
    pads = {"input_ids": int(getattr(config, "pad_token_id", None) or 0), "token_type_ids": 0, "labels": UNLABELLED}
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
    """Arrays of one number of dimensions, padded at their ends, as one tensor of integers or float32."""
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
