"""The other approach of the paper: the whole encoder fine-tuned for tags, by transformers' own model and Trainer.

Devlin et al. 2019, sections 5.3 and A.3: the representation of a word's first piece goes into a classifier over the
labels, without a CRF. :mod:`bertfeat.training` has the rest.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bertfeat.errors import UsageError
from bertfeat.io import write_json
from bertfeat.models import Model
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.table7.windows import Window, Windower
from bertfeat.training import Example, FineTuned, GridPoint, OnStep, fine_tuned, model_outputs

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
    precision: str = "auto",
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
    sentences = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    for name, tagged in sentences.items():
        _check_sentences(name, tagged)
    data = _TuningData.of(model, sentences)
    names = dict(enumerate(data.labels.names))
    with fine_tuned(
        model,
        "AutoModelForTokenClassification",
        _examples(data.windows["train"], data.targets),
        point,
        seed=seed,
        device=device,
        precision=precision,
        on_step=on_step,
        num_labels=len(names),
        id2label=names,
        label2id={name: number for number, name in names.items()},
    ) as tuned:
        report = _score_tuned(tuned, data)
        if folder is not None:
            tuned.save(model, Path(folder))
            result = {"model": model.name, "fingerprint": model.fingerprint, **asdict(point), "seed": seed}
            write_json(Path(folder) / RESULT_NAME, result | asdict(report))
    return report


def _score_tuned(tuned: FineTuned, data: _TuningData) -> FineTuningReport:
    """Score the model on the development and the test set."""
    scores = {
        name: score_tagger([tags for _, tags in data.sentences[name]], _predict_words(tuned, data, name))
        for name in data.sentences
        if name != "train"
    }
    return FineTuningReport(
        dev=scores["dev"],
        test=scores.get("test"),
        labels=data.labels,
        loss=tuned.loss,
        steps=tuned.steps,
        seconds=tuned.seconds,
        long_sentences=sum(_long_sentences(windows) for windows in data.windows.values()),
        words_without_pieces=sum(_without_pieces(data.windows[name], data.sentences[name]) for name in data.sentences),
    )


# ── input ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_sentences(name: str, sentences: Sequence[TaggedSentence]) -> None:
    if not any(words for words, _ in sentences):
        raise UsageError(f"there are no words in the {name} sentences")
    for number, (words, tags) in enumerate(sentences, 1):
        if len(words) != len(tags):
            raise UsageError(f"{name} sentence {number:,} has {len(words)} words, but {len(tags)} tags")


def _examples(windows: Sequence[Window], targets: Sequence[Sequence[int]] | None) -> list[Example]:
    return [
        {"input_ids": window.ids, "token_type_ids": window.types}
        | ({} if targets is None else {"labels": window.labels(targets[window.sentence])})
        for window in windows
    ]


# ── output ─────────────────────────────────────────────────────────────────────────────────────────────────


def _predict_words(tuned: FineTuned, data: _TuningData, name: str) -> list[list[str]]:
    """The tags that the model gives the words of a set's sentences."""
    most_frequent = data.most_frequent
    numbers = [[most_frequent] * len(words) for words, _ in data.sentences[name]]
    windows = data.windows[name]
    predictions = model_outputs(tuned.module, _examples(windows, None), lambda output: output["logits"].argmax(-1))
    for window, row in zip(windows, predictions, strict=True):  # of each window, padded
        for word, place in zip(window.words.tolist(), window.places.tolist(), strict=True):
            numbers[window.sentence][word] = int(row[place])
    return [data.labels.tags(sentence) for sentence in numbers]


def _long_sentences(windows: Sequence[Window]) -> int:
    return sum(count > 1 for count in Counter(window.sentence for window in windows).values())


def _without_pieces(windows: Sequence[Window], sentences: Sequence[TaggedSentence]) -> int:
    return sum(len(words) for words, _ in sentences) - sum(len(window.words) for window in windows)
