"""The other approach of the paper: the whole encoder fine-tuned for tags, by transformers' own model and Trainer.

Devlin et al. 2019, sections 5.3 and A.3: the representation of a word's first piece goes into a classifier over the
labels, without a CRF; dropout 0.1 as the model has it; batches of 16 or 32, learning rates of 5e-5, 3e-5 or 2e-5, 2 to
4 epochs. The rate rises over the first tenth of the steps and falls to 0, weights decay by 0.01, as in BERT's code.
"""

import errno
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from bertfeat.encoder import resolve_device
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.io import write_json, writing
from bertfeat.models import Model
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.table7.grid import GridPoint
from bertfeat.tagging.table7.windows import Window, Windower
from bertfeat.tagging.trainer import OnStep, keep_random_state, quiet_transformers, token_classifier, token_trainer

RESULT_NAME = "finetuned.json"

TaggedSentence = tuple[Sequence[str], Sequence[str]]
"""The words of a sentence and their tags."""


@dataclass(frozen=True, slots=True)
class FineTuningReport:
    """A fine-tuning that is done, and how its tags score."""

    dev: Scores
    test: Scores | None
    labels: LabelSet
    loss: float  # mean over all steps
    steps: int
    seconds: float  # of training alone
    long_sentences: int  # cut into several windows, over all three sets
    words_without_pieces: int  # which get the label that most words have


def fine_tune(
    model: Model,
    train: Sequence[TaggedSentence],
    dev: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence] | None = None,
    *,
    batch_size: int,
    learning_rate: float,
    epochs: int,
    seed: int,
    folder: str | Path | None = None,
    device: str | None = None,
    on_step: OnStep | None = None,
) -> FineTuningReport:
    """Fine-tune a model on tagged sentences and score it; ``folder`` gets the model, for transformers to read.

    Runs on one device and needs no network. Equal seeds give equal results on the same machine.

    Raises:
        UsageError: no sentences, words and tags of different number, settings that cannot be right.
        TaggerError: one tag only.
        ModelError: transformers has no such model for tags, or its weights are incomplete.
        BertfeatError: accelerate is not installed, or the loss is no longer a number.
    """
    grid = GridPoint(batch_size, learning_rate, epochs)
    _check_grid(grid)
    sets = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, sentences in sets.items():
        _check_sentences(name, sentences)
    on_cpu = _uses_cpu(device)
    labels = LabelSet.of(tags for _, tags in train)
    windower = Windower(model)
    windows = {name: windower.windows([words for words, _ in sentences]) for name, sentences in sets.items()}
    with quiet_transformers(), keep_random_state(), tempfile.TemporaryDirectory() as nowhere:
        from transformers import set_seed

        set_seed(seed)
        module = token_classifier(model, labels)
        targets = list(labels.numbers(tags for _, tags in train))
        trainer = token_trainer(module, _examples(windows["train"], targets), grid, seed, on_cpu, nowhere, on_step)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            raise BertfeatError(f"fine-tuning at a learning rate of {learning_rate} came to no finite loss; lower it")
        frequent = Counter(number for numbers in targets for number in numbers).most_common(1)[0][0]
        found = {
            name: score_tagger(
                [tags for _, tags in sentences], _predict_tags(trainer, windows[name], sentences, labels, frequent)
            )
            for name, sentences in sets.items()
            if name != "train"
        }
        done = FineTuningReport(
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


def _check_grid(grid: GridPoint) -> None:
    if grid.batch_size < 1 or grid.epochs < 1:
        raise UsageError(f"batch size {grid.batch_size}, epochs {grid.epochs}: give at least 1 of each")
    if not 0.0 < grid.learning_rate < 1.0:
        raise UsageError(f"learning rate {grid.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5")


def _check_sentences(name: str, sentences: Sequence[TaggedSentence]) -> None:
    if not any(words for words, _ in sentences):
        raise UsageError(f"there are no words in the {name} sentences")
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise UsageError(f"{name} sentence {number:,} has {len(words)} words, but {len(tags)} tags")


def _uses_cpu(device: str | None) -> bool:
    found = resolve_device(device)
    if found.index:
        raise UsageError(
            f"fine-tuning runs on cpu or cuda, not on {device}; CUDA_VISIBLE_DEVICES chooses among several"
        )
    return found.type == "cpu"


def _examples(windows: Sequence[Window], targets: Sequence[Sequence[int]] | None) -> list[dict[str, NDArray[Any]]]:
    return [
        {"input_ids": window.ids, "token_type_ids": window.types}
        | ({} if targets is None else {"labels": window.labels(targets[window.sentence])})
        for window in windows
    ]


# ── what comes out ──────────────────────────────────────────────────────────────────────────────────────────


def _predict_tags(
    trainer: Any, windows: Sequence[Window], sentences: Sequence[TaggedSentence], labels: LabelSet, frequent: int
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


def _without_pieces(windows: Sequence[Window], sentences: Sequence[TaggedSentence]) -> int:
    return sum(len(words) for words, _ in sentences) - sum(len(window.words) for window in windows)


def _save(module: Any, model: Model, folder: Path, grid: GridPoint, seed: int, done: FineTuningReport) -> None:
    """Write the model with its tokenizer in safetensors and JSON, and what it came to."""
    from transformers import AutoTokenizer

    with writing(folder), _disk_errors():
        folder.mkdir(parents=True, exist_ok=True)
        module.save_pretrained(folder)
        AutoTokenizer.from_pretrained(model.folder, local_files_only=True).save_pretrained(folder)
    told = {"model": model.name, "fingerprint": model.fingerprint, **asdict(grid), "seed": seed, **asdict(done)}
    write_json(folder / RESULT_NAME, told)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """safetensors tells a full disk, or one that cannot be written, by an exception of its own."""
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        raise OSError(int(found[1]) if found else errno.EIO, str(error)) from error
