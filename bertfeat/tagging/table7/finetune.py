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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError

from bertfeat.encoder import resolve_device
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.io import storage_errors, write_json
from bertfeat.models import Model, silence_transformers
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.table7.grid import GridPoint
from bertfeat.tagging.table7.windows import Window, Windower
from bertfeat.tagging.trainer import (
    Example,
    OnStep,
    keep_random_state,
    token_classifier,
    token_trainer,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer

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


@dataclass(frozen=True, slots=True)
class _TuningData:
    """The data that a model is tuned and scored on, by set: train, dev, and perhaps test."""

    sentences: Mapping[str, Sequence[TaggedSentence]]
    windows: Mapping[str, Sequence[Window]]
    labels: LabelSet
    targets: Sequence[Sequence[int]]  # label numbers of the training sentences

    @classmethod
    def of(cls, model: Model, sentences: Mapping[str, Sequence[TaggedSentence]]) -> "_TuningData":
        labels = LabelSet.of(tags for _, tags in sentences["train"])
        windower = Windower(model)
        windows = {name: windower.windows([words for words, _ in tagged]) for name, tagged in sentences.items()}
        return cls(sentences, windows, labels, list(labels.numbers(tags for _, tags in sentences["train"])))

    @property
    def most_frequent(self) -> int:
        """The label that most words have."""
        return Counter(number for numbers in self.targets for number in numbers).most_common(1)[0][0]


def fine_tune_model(
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
    point = GridPoint(batch_size, learning_rate, epochs)
    _check_point(point)
    sentences = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, tagged in sentences.items():
        _check_sentences(name, tagged)
    on_cpu = _uses_cpu(device)
    data = _TuningData.of(model, sentences)
    with silence_transformers(), keep_random_state(), tempfile.TemporaryDirectory() as scratch_dir:
        from transformers import set_seed

        set_seed(seed)
        module = token_classifier(model, data.labels)
        examples = _examples(data.windows["train"], data.targets)
        trainer = token_trainer(module, examples, point, seed, on_cpu, scratch_dir, on_step)
        begun = time.perf_counter()
        loss = float(trainer.train().training_loss)
        seconds = time.perf_counter() - begun
        if not np.isfinite(loss):
            problem = f"fine-tuning at a learning rate of {learning_rate} came to no finite loss"
            raise BertfeatError(problem, remedy="lower it")
        report = _score_tuned(trainer, data, loss, seconds)
        if folder is not None:
            _save(module, model, Path(folder), point, seed, report)
    return report


def _score_tuned(trainer: "Trainer", data: _TuningData, loss: float, seconds: float) -> FineTuningReport:
    """Score the model on the development and the test set."""
    scores = {
        name: score_tagger([tags for _, tags in data.sentences[name]], _predict_words(trainer, data, name))
        for name in data.sentences
        if name != "train"
    }
    return FineTuningReport(
        dev=scores["dev"],
        test=scores.get("test"),
        labels=data.labels,
        loss=loss,
        steps=int(trainer.state.global_step),
        seconds=seconds,
        long_sentences=sum(_long_sentences(windows) for windows in data.windows.values()),
        words_without_pieces=sum(_without_pieces(data.windows[name], data.sentences[name]) for name in data.sentences),
    )


# ── input ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_point(point: GridPoint) -> None:
    if point.batch_size < 1 or point.epochs < 1:
        raise UsageError(f"batch size {point.batch_size}, epochs {point.epochs}", remedy="give at least 1 of each")
    if not 0.0 < point.learning_rate < 1.0:
        raise UsageError(f"learning rate {point.learning_rate}: give one between 0 and 1; the paper has 5e-5 to 2e-5")


def _check_sentences(name: str, sentences: Sequence[TaggedSentence]) -> None:
    if not any(words for words, _ in sentences):
        raise UsageError(f"there are no words in the {name} sentences")
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise UsageError(f"{name} sentence {number:,} has {len(words)} words, but {len(tags)} tags")


def _uses_cpu(device: str | None) -> bool:
    resolved = resolve_device(device)
    if resolved.index:
        remedy = "CUDA_VISIBLE_DEVICES chooses among several"
        raise UsageError(f"fine-tuning runs on cpu or cuda, not on {device}", remedy=remedy)
    return resolved.type == "cpu"


def _examples(windows: Sequence[Window], targets: Sequence[Sequence[int]] | None) -> list[Example]:
    return [
        {"input_ids": window.ids, "token_type_ids": window.types}
        | ({} if targets is None else {"labels": window.labels(targets[window.sentence])})
        for window in windows
    ]


# ── output ─────────────────────────────────────────────────────────────────────────────────────────────────


def _predict_words(trainer: "Trainer", data: _TuningData, name: str) -> list[list[str]]:
    """The tags that the model gives the words of a set's sentences."""
    most_frequent = data.most_frequent
    numbers = [[most_frequent] * len(words) for words, _ in data.sentences[name]]
    windows = sorted(data.windows[name], key=len)
    predictions = trainer.predict(_examples(windows, None)).predictions  # type: ignore[arg-type]  # a list will do
    for window, row in zip(windows, np.asarray(predictions), strict=True):  # [windows, longest], padded
        for word, place in zip(window.words.tolist(), window.places.tolist(), strict=True):
            numbers[window.sentence][word] = int(row[place])
    return [data.labels.tags(sentence) for sentence in numbers]


def _long_sentences(windows: Sequence[Window]) -> int:
    return sum(count > 1 for count in Counter(window.sentence for window in windows).values())


def _without_pieces(windows: Sequence[Window], sentences: Sequence[TaggedSentence]) -> int:
    return sum(len(words) for words, _ in sentences) - sum(len(window.words) for window in windows)


def _save(
    module: "PreTrainedModel", model: Model, folder: Path, point: GridPoint, seed: int, report: FineTuningReport
) -> None:
    """Write the model with its tokenizer in safetensors and JSON, and its scores."""
    from transformers import AutoTokenizer

    with storage_errors(folder), _disk_errors():
        folder.mkdir(parents=True, exist_ok=True)
        module.save_pretrained(folder)
        AutoTokenizer.from_pretrained(model.folder, local_files_only=True).save_pretrained(folder)
    result = {"model": model.name, "fingerprint": model.fingerprint, **asdict(point), "seed": seed, **asdict(report)}
    write_json(folder / RESULT_NAME, result)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn the exception that safetensors raises for a full or read-only disk into the system's own."""
    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error)) from error
