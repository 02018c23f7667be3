"""transformers' own model and Trainer for fine-tuning: without output, network or files left behind."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from bertfeat.errors import BertfeatError, ModelError
from bertfeat.models import Model
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.table7.grid import GridPoint
from bertfeat.tagging.table7.windows import UNLABELLED

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, Trainer, TrainerControl, TrainerState, TrainingArguments

WARM_UP = 0.1  # share of the steps over which the learning rate rises
WEIGHT_DECAY = 0.01
_EVALUATED = 64  # windows of a batch where nothing is learnt

OnStep = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""

Example = Mapping[str, NDArray[np.integer]]
"""The token ids, types and perhaps labels of a window, ``[T]`` each."""


def token_classifier(model: Model, labels: LabelSet) -> "PreTrainedModel":
    """transformers' model for tags: the encoder's weights, and a classifier that has learnt nothing yet.

    Raises:
        ModelError: transformers has no such model for tags, or its weights are incomplete.
    """
    from transformers import AutoModelForTokenClassification

    _ = model.config, model.weight_files  # raises the error with the remedy if they are wrong
    names = dict(enumerate(labels.names))
    module: PreTrainedModel
    try:
        module, info = AutoModelForTokenClassification.from_pretrained(
            model.folder,
            num_labels=len(labels),
            id2label=names,
            label2id={name: number for number, name in names.items()},
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # of a classifier over other labels
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (ValueError, OSError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(f"transformers cannot load this model to fine-tune it: {error}", where=model.name) from error
    encoder = f"{module.base_model_prefix}."
    missing = sorted(name for name in info["missing_keys"] if name.startswith(encoder) and "pooler" not in name)
    if missing:
        problem = f"its weights lack {missing[0]} and {len(missing) - 1} more"
        raise ModelError(problem, where=model.name, remedy="it cannot be used")
    return module


def token_trainer(
    module: "PreTrainedModel",
    examples: Sequence[Example],
    point: GridPoint,
    seed: int,
    on_cpu: bool,
    scratch_dir: str,
    on_step: OnStep | None,
) -> "Trainer":
    """The Trainer that learns from examples as the paper's section A.3 says; it writes to ``scratch_dir`` only.

    Raises:
        BertfeatError: accelerate is not installed.
    """
    if find_spec("accelerate") is None:  # the Trainer needs it, and says so at length
        raise BertfeatError("fine-tuning needs accelerate", remedy="pip install 'bertfeat[finetune]'")
    from transformers import PrinterCallback, Trainer, TrainerCallback

    class StepCallback(TrainerCallback):
        def on_step_end(
            self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **_: object
        ) -> None:
            if on_step is not None:
                on_step(state.global_step, state.max_steps)

    trainer = Trainer(
        model=module,
        args=_training_arguments(point, len(examples), seed, on_cpu, scratch_dir),
        train_dataset=examples,
        data_collator=_collator(module.config),
        callbacks=[StepCallback()],
        preprocess_logits_for_metrics=lambda logits, _: logits.argmax(-1),
    )
    trainer.remove_callback(PrinterCallback)  # which prints on stdout
    return trainer


def _training_arguments(
    point: GridPoint, examples: int, seed: int, on_cpu: bool, scratch_dir: str
) -> "TrainingArguments":
    from transformers import TrainingArguments

    steps = -(-examples // point.batch_size) * point.epochs
    arguments = TrainingArguments(
        output_dir=scratch_dir,
        per_device_train_batch_size=point.batch_size,
        per_device_eval_batch_size=_EVALUATED,
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


def _collator(config: "PreTrainedConfig") -> Callable[[Sequence[Example]], dict[str, Tensor]]:
    """Pads examples to the longest: ``[T]`` each → ``[S, longest]``."""
    pads = {"input_ids": int(getattr(config, "pad_token_id", None) or 0), "token_type_ids": 0, "labels": UNLABELLED}
    has_types = int(getattr(config, "type_vocab_size", 0) or 0) > 1

    def collate(examples: Sequence[Example]) -> dict[str, Tensor]:
        names = [name for name in examples[0] if has_types or name != "token_type_ids"]
        lengths = torch.tensor([len(example["input_ids"]) for example in examples])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        batch = {"attention_mask": mask.long()}
        for name in names:
            batch[name] = torch.full(mask.shape, pads[name])
            batch[name][mask] = torch.from_numpy(np.concatenate([example[name] for example in examples])).long()
        return batch

    return collate


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
