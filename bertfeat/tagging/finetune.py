"""The other approach of the paper: the whole encoder fine-tuned for tags, by transformers' own model and Trainer.

Devlin et al. 2019, sections 5.3 and A.3: the representation of a word's first piece goes into a classifier over the
labels, without a CRF; dropout 0.1 as the model has it; batches of 16 or 32, learning rates of 5e-5, 3e-5 or 2e-5, 2 to
4 epochs. The rate rises over the first tenth of the steps and falls to 0, weights decay by 0.01, as in BERT's code.
"""

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from bertfeat.encoder import resolve_device
from bertfeat.errors import BertfeatError, ModelError, UsageError
from bertfeat.features.files import atomic, writing
from bertfeat.models import Model
from bertfeat.tagging.labels import Labels
from bertfeat.tagging.scores import Scores, score
from bertfeat.tagging.windows import UNLABELLED, Window, Windower

RESULT_NAME = "finetuned.json"
WARM_UP = 0.1  # share of the steps over which the learning rate rises
WEIGHT_DECAY = 0.01
_EVALUATED = 64  # windows of a batch where nothing is learnt

Sentence = tuple[Sequence[str], Sequence[str]]
"""The words of a sentence and their tags."""

OnStep = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One point of the grid that the paper searches on the development set."""

    batch_size: int  # sentences
    learning_rate: float
    epochs: int


PAPER_GRID = tuple(Grid(*point) for point in product((16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)))
"""Section A.3 of the paper."""


@dataclass(frozen=True, slots=True)
class FineTuned:
    """A fine-tuning that is done, and how its tags score."""

    dev: Scores
    test: Scores | None
    labels: Labels
    loss: float  # mean over all steps
    steps: int
    seconds: float  # of training alone
    long_sentences: int  # cut into several windows, over all three sets
    words_without_pieces: int  # which get the label that most words have


def fine_tune(
    model: Model,
    train: Sequence[Sentence],
    dev: Sequence[Sentence],
    test: Sequence[Sentence] | None = None,
    *,
    batch_size: int,
    learning_rate: float,
    epochs: int,
    seed: int,
    folder: str | Path | None = None,
    device: str | None = None,
    on_step: OnStep | None = None,
) -> FineTuned:
    """Fine-tune a model on tagged sentences and score it; ``folder`` gets the model, for transformers to read.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine.

    Raises:
        UsageError: no sentences, words and tags of different number, settings that cannot be right.
        TaggerError: one tag only.
        ModelError: transformers has no such model for tags, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
    """
    grid = Grid(batch_size, learning_rate, epochs)
    _check_grid(grid)
    sets = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, sentences in sets.items():
        _check_sentences(name, sentences)
    on_cpu = _on_cpu(device)
    labels = Labels.of(tags for _, tags in train)
    windower = Windower(model)
    windows = {name: windower.windows([words for words, _ in sentences]) for name, sentences in sets.items()}
    with _quiet(), _random_state_kept(), tempfile.TemporaryDirectory() as nowhere:
        from transformers import set_seed

        set_seed(seed)
        module = _module(model, labels)
        targets = [list(labels.numbers(tags)) for _, tags in train]
        trainer = _trainer(module, _examples(windows["train"], targets), grid, seed, on_cpu, nowhere, on_step)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            raise BertfeatError(f"fine-tuning at a learning rate of {learning_rate} came to no finite loss; lower it")
        frequent = Counter(number for numbers in targets for number in numbers).most_common(1)[0][0]
        found = {
            name: score([tags for _, tags in sentences], _tags(trainer, windows[name], sentences, labels, frequent))
            for name, sentences in sets.items()
            if name != "train"
        }
        done = FineTuned(
            dev=found["dev"],
            test=found.get("test"),
            labels=labels,
            loss=loss,
            steps=int(trainer.state.global_step),
            seconds=seconds,
            long_sentences=sum(_long_sentences(each) for each in windows.values()),
            words_without_pieces=sum(_without_pieces(windows[name], sets[name]) for name in sets),
        )
        if folder is not None:
            _save(trainer.model, model, Path(folder), grid, seed, done)
    return done


# ── what comes in ───────────────────────────────────────────────────────────────────────────────────────────


def _check_grid(grid: Grid) -> None:
    if grid.batch_size < 1 or grid.epochs < 1:
        raise UsageError(f"batch size {grid.batch_size}, epochs {grid.epochs}: give at least 1 of each")
    if not 0.0 < grid.learning_rate < 1.0:
        raise UsageError(f"learning rate {grid.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5")


def _check_sentences(name: str, sentences: Sequence[Sentence]) -> None:
    if not any(words for words, _ in sentences):
        raise UsageError(f"there are no words in the {name} sentences")
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise UsageError(f"{name} sentence {number:,} has {len(words)} words, but {len(tags)} tags")


def _on_cpu(device: str | None) -> bool:
    found = resolve_device(device)
    if found.index:
        raise UsageError(
            f"fine-tuning runs on cpu or cuda, not on {device}; CUDA_VISIBLE_DEVICES chooses among several"
        )
    return found.type == "cpu"


def _module(model: Model, labels: Labels) -> Any:
    """transformers' model for tags: the encoder's weights, and a classifier that has learnt nothing yet."""
    from transformers import AutoModelForTokenClassification

    _ = model.config, model.weight_files  # the remedy, where they are not as they ought to be
    names = dict(enumerate(labels.names))
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
        raise ModelError(f"{model.name}: transformers cannot load this model to fine-tune it: {error}") from error
    encoder = f"{module.base_model_prefix}."
    missing = sorted(name for name in info["missing_keys"] if name.startswith(encoder) and "pooler" not in name)
    if missing:
        raise ModelError(f"{model.name}: its weights lack {missing[0]} and {len(missing) - 1} more; it cannot be used")
    return module


def _examples(windows: Sequence[Window], targets: Sequence[Sequence[int]] | None) -> list[dict[str, NDArray[Any]]]:
    return [
        {"input_ids": window.ids, "token_type_ids": window.types}
        | ({} if targets is None else {"labels": window.labels(targets[window.sentence])})
        for window in windows
    ]


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────


def _trainer(
    module: Any,
    examples: Sequence[Mapping[str, NDArray[Any]]],
    grid: Grid,
    seed: int,
    on_cpu: bool,
    nowhere: str,
    on_step: OnStep | None,
) -> Any:
    if find_spec("accelerate") is None:  # the Trainer needs it, and says so at length
        raise BertfeatError("fine-tuning needs accelerate: pip install 'bertfeat[finetune]'")
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    class Told(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if on_step is not None:
                on_step(state.global_step, state.max_steps)

    steps = -(-len(examples) // grid.batch_size) * grid.epochs
    arguments = TrainingArguments(
        output_dir=nowhere,
        per_device_train_batch_size=grid.batch_size,
        per_device_eval_batch_size=_EVALUATED,
        learning_rate=grid.learning_rate,
        num_train_epochs=grid.epochs,
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
    trainer = Trainer(
        model=module,
        args=arguments,
        train_dataset=examples,
        data_collator=_collator(module.config),
        callbacks=[Told()],
        preprocess_logits_for_metrics=lambda logits, _: logits.argmax(-1),
    )
    trainer.remove_callback(PrinterCallback)  # which prints on stdout
    return trainer


def _collator(config: Any) -> Callable[[Sequence[Mapping[str, NDArray[Any]]]], dict[str, Tensor]]:
    """Pads examples to the longest: ``[T]`` each → ``[S, longest]``."""
    pads = {"input_ids": int(getattr(config, "pad_token_id", None) or 0), "token_type_ids": 0, "labels": UNLABELLED}
    has_types = int(getattr(config, "type_vocab_size", 0) or 0) > 1

    def collate(examples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Tensor]:
        names = [name for name in examples[0] if has_types or name != "token_type_ids"]
        lengths = torch.tensor([len(example["input_ids"]) for example in examples])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        batch = {"attention_mask": mask.long()}
        for name in names:
            batch[name] = torch.full(mask.shape, pads[name])
            batch[name][mask] = torch.from_numpy(np.concatenate([example[name] for example in examples])).long()
        return batch

    return collate


# ── what comes out ──────────────────────────────────────────────────────────────────────────────────────────


def _tags(
    trainer: Any, windows: Sequence[Window], sentences: Sequence[Sentence], labels: Labels, frequent: int
) -> list[list[str]]:
    """The tags that the model gives the words of sentences."""
    numbers = [[frequent] * len(words) for words, _ in sentences]
    ordered = sorted(windows, key=len)
    found = trainer.predict(_examples(ordered, None)).predictions  # [windows, longest], padded
    for window, each in zip(ordered, found, strict=True):
        for word, place in zip(window.words.tolist(), window.places.tolist(), strict=True):
            numbers[window.sentence][word] = int(each[place])
    return [labels.tags(each) for each in numbers]


def _long_sentences(windows: Sequence[Window]) -> int:
    return sum(count > 1 for count in Counter(window.sentence for window in windows).values())


def _without_pieces(windows: Sequence[Window], sentences: Sequence[Sentence]) -> int:
    return sum(len(words) for words, _ in sentences) - sum(len(window.words) for window in windows)


def _save(module: Any, model: Model, folder: Path, grid: Grid, seed: int, done: FineTuned) -> None:
    """Write the model with its tokenizer in safetensors and JSON, and what it came to."""
    from transformers import AutoTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder):
        module.save_pretrained(folder)
        AutoTokenizer.from_pretrained(model.folder, local_files_only=True).save_pretrained(folder)
    told = {"model": model.name, "fingerprint": model.fingerprint, **asdict(grid), "seed": seed, **asdict(done)}
    with atomic(folder / RESULT_NAME) as temporary:
        temporary.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ── quiet, and without traces ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing of transformers' talk; what matters is told by errors."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """The Trainer seeds everybody's generators; go on after it as if nothing had been drawn."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
