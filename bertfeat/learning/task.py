"""The base class of tasks: all that differs between the kinds of heads, such as taggers and classifiers.

The data, the training loop, fine-tuning, tables and folders are the same for all heads, and call the task where heads
differ. The tasks are listed in :data:`bertfeat.learning.tasks.TASKS`; to add one, write a file there and add a line.

Shapes: E examples; N vectors of all of them; K outputs of the network.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core import Corpus, FeatureSet, FileCorpus, Pooling, check_readable, open_corpus
from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.learning.example_store import ExampleBatch, ExampleChunk, ExampleRows, batches_by_length, gather_batch
from bertfeat.learning.inputs import LayerInput
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.record import Outputs
from bertfeat.learning.scores import ClassScores, MultiLabelScores, NumberScores, SpanScores
from bertfeat.learning.settings import HeadSettings, with_patience
from bertfeat.learning.sources import (
    GoldUse,
    OpenSource,
    SourceReading,
    check_columns,
    open_with_columns,
    unnamed_error,
)
from bertfeat.learning.spans import TagScores, list_labels
from bertfeat.learning.tables import ExampleTable, FeatureRows, Gold, PassageTokens, labels_of
from bertfeat.learning.tag_files import MarkSpan, PredictionForm, TaggedText
from bertfeat.learning.trainer import Example

if TYPE_CHECKING:
    from transformers.utils.generic import ModelOutput

    from bertfeat.learning.sequences import HeadSequences, Sequencer


# ── guesses ───────────────────────────────────────────────────────────────────────────────────────────────


_EVALUATION_BATCH = 256  # examples per batch outside of training

HeadScores = TagScores | ClassScores | MultiLabelScores | NumberScores | SpanScores

Threshold = float | tuple[float, ...] | None
"""A threshold from the development set: the no-answer score above which a question has no answer, or the least
probability of each label; None where the task has none."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The output of a head for one example, before a threshold is applied."""

    value: str | float | int | tuple[str, ...]  # a label, a number, a choice's number, tags; answers have a span below
    scores: tuple[float, ...] = ()  # probability of each label or choice, of which predictions have the highest
    start: int = 0  # of an answer, in characters of the passage
    end: int = 0
    no_answer: float = 0.0  # score of [CLS] minus that of the best span: the higher, the less likely is an answer


def network_scores(network: HeadNetwork, chunk: ExampleChunk, device: torch.device) -> NDArray[np.float32]:
    """The scores of each vector of a chunk, in its order: ``[N, K]``, see :meth:`HeadNetwork.decide`."""
    network.eval()
    scores = np.empty((len(chunk.features), network.shape.outputs), np.float32)
    for packed in batches_by_length(chunk.offsets, _EVALUATION_BATCH):
        scores[packed.vectors] = network.decide(gather_batch(chunk.features, packed, device)).cpu().numpy()
    return scores


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────


Scores = NDArray[np.float32]
"""Scores of a network: ``[N, K]``."""

Offsets = NDArray[np.int64]
"""The vectors at which examples begin: ``[E+1]``."""


@dataclass(frozen=True, slots=True)
class HeadTexts:
    """The texts of E examples, for a whole model that is fine-tuned."""

    ids: tuple[str, ...]  # [E]
    texts: tuple[str, ...]  # [E] the text, the first of a pair, or the question
    others: tuple[tuple[str, ...], ...]  # [E] nothing, the second of a pair, the passage, the choices, or the words
    gold: tuple[Gold, ...]  # [E], or none

    @property
    def passages(self) -> list[str]:
        """The second text of each example, empty where there is none. [E]."""
        return [others[0] if others else "" for others in self.others]


@dataclass(frozen=True, slots=True)
class ExampleLayout:
    """The rows of feature sets that hold the vectors of each of E examples."""

    rows: ExampleRows
    tokens: PassageTokens | None = None  # of questions and passages
    passages: tuple[str, ...] = ()  # [E] of questions


@dataclass(frozen=True, slots=True)
class GoldExamples:
    """The gold values of E examples to learn from, and where each is, for messages."""

    values: Sequence[Gold]  # [E]
    origin: str
    ids: Sequence[str] = ()  # [E], or none: messages name the origin
    layout: ExampleLayout | None = None  # None in fine-tuning, which reads texts


@dataclass(frozen=True, slots=True)
class PassageSpans:
    """The spans that can be answers: those in passages, of at most ``longest`` tokens."""

    tokens: PassageTokens
    longest: int


@displayed
@dataclass(frozen=True, slots=True)
class HeadPrediction:
    """The prediction of a head for one example, by the threshold that was chosen on the development set."""

    id: str
    value: str | float | int | tuple[str, ...]  # a label, a number, a choice's number, an answer ("": none), labels
    probability: float | None = None  # of that label or choice
    start: int | None = None  # of an answer, in characters of the passage
    end: int | None = None
    no_answer: float | None = None  # higher where an answer is less likely
    gold: Gold | None = None
    probabilities: Mapping[str, float] | None = None  # of each label, where a text has any number of them


Prediction = HeadPrediction | TaggedText
"""The prediction of a head for one example; for a sentence, its words with their tags."""


class Task(ABC):
    """A task that a head learns, with the outputs (such as labels) found in its training set; before that, none.

    The defaults suit texts or pairs that have one label each.
    """

    name: ClassVar[str]
    kind: ClassVar[HeadKind] = HeadKind.CLASSIFY  # the verb of the shell
    architecture: ClassVar[str | None] = "AutoModelForSequenceClassification"
    """The class of transformers that is fine-tuned, with its own loss; None: the task is learned from features only."""
    problem_type: ClassVar[str | None] = None  # transformers' setting of that name: it chooses the loss
    hidden: ClassVar[int] = 128  # width of the hidden layer, if the settings do not say it
    least_hidden: ClassVar[int] = 0  # smallest width that the settings may give
    longest: ClassVar[int] = 512  # most tokens of a sequence in fine-tuning
    compares: ClassVar[bool] = False  # whether the cosine of a pair's vectors is a baseline
    reads: ClassVar[Pooling | None] = None  # the pooling of the vectors; None: any with one vector per text
    recurrent: ClassVar[int] = 0  # BiLSTM layers over the vectors of an example, as hidden layers; 0: a plain one
    per_vector: ClassVar[bool] = False  # whether each vector has a target, not each example
    row_noun: ClassVar[str] = "row"  # the word for a row of its corpora
    gold_noun: ClassVar[str] = "labels"  # the word for gold values
    noun: ClassVar[str] = "examples"  # the word for what the speed of training counts
    baseline: ClassVar[str] = "Most frequent answer"  # the title of :meth:`frequent` in a table

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = outputs or Outputs()

    @property
    @abstractmethod
    def measure(self) -> str:
        """The name of the score that chooses the best epoch: the ``value`` of the scores, of which higher is better."""

    # ── sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def pair_form(self, how: SourceReading) -> PairForm | None:
        """The form in which pairs are embedded; None for single texts."""
        return (how.pairs or PairForm.APART) if how.corpus.has_pairs else None

    def open_corpus(self, corpus: Path, how: SourceReading) -> FileCorpus:
        """Open a corpus file, which keeps the columns with gold values; these may be missing if they are not needed.

        Raises:
            CorpusError, HeadError: the file cannot be read, or lacks columns.
        """
        return open_with_columns(corpus, how, lambda known: self.columns_to_read(how, known), noun=self.gold_noun)

    def open_corpora(
        self, corpus: Path, how: SourceReading, *, form: PairForm | None = None
    ) -> Iterator[tuple[str, Corpus]]:
        """The corpora to extract from one corpus file, each with the suffix of its feature set's name.

        There are two where the texts of pairs are embedded apart; ``form`` overrides the form in which pairs are.
        """
        pairs, reading = self.pair_form(how), how.corpus
        if pairs is None or (form or pairs) is PairForm.TOGETHER:
            yield "", self.open_corpus(corpus, how)
            return
        if reading.pair_column is None:
            raise UsageError(f"pairs of lines have no labels: name columns with {parameter('pair_column')}")
        first = replace(reading, pair_column=None, pairs=False)
        yield "", self.open_corpus(corpus, replace(how, corpus=first))
        second = replace(first, text_columns=(reading.pair_column,))
        yield ".second", open_corpus([corpus], second, name=how.name)

    def check_source(self, source: OpenSource, how: SourceReading) -> None:
        """Refuse a source without what is to be predicted, if that is needed; only its beginning is read."""
        if isinstance(source, Path):
            opened = self.open_corpus(source, how)
            next(check_readable(opened.rows(), opened), None)
        elif how.gold is GoldUse.NEEDED:
            self.check_gold(source[0], how)

    def check_gold(self, features: FeatureSet, how: SourceReading) -> None:
        """Refuse a feature set without gold values."""
        needed = self.gold_columns(how.label, tuple(each.name for each in features.kept))
        if not needed:
            raise unnamed_error(how, self.gold_noun)
        check_columns(features, needed)

    # ── gold values ─────────────────────────────────────────────────────────────────────────────────────────

    def gold_columns(self, label: str | None, known: Collection[str]) -> tuple[str, ...]:
        """The columns of a corpus that hold the gold values, of those that are ``known``; none where none is named."""
        return () if label is None else (label,)

    def columns_to_read(self, how: SourceReading, known: Collection[str]) -> tuple[str, ...]:
        """The columns with gold values; none where these are not read."""
        return () if how.gold is GoldUse.IGNORED else self.gold_columns(how.label, known)

    def has_gold(self, table: ExampleTable, label: str | None) -> bool:
        """Whether a table holds the gold values."""
        columns = self.gold_columns(label, table.kept)
        return bool(columns) and set(columns) <= set(table.kept)

    def gold_of(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The gold value of each example of a table; none where it has none."""
        return self.read_gold(table, label) if self.has_gold(table, label) else ()

    @abstractmethod
    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """Read the gold values of a table that has them, one per example, with labels spelled as in the outputs.

        ``label`` is a column of the table. Values from CSV files are strings.

        Raises:
            HeadError: the value of a row does not have the right form.
        """

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """Derive the outputs of a head from the gold values of its training set.

        Raises:
            HeadError: the values are all the same, so that there is nothing to learn.
        """
        return Outputs()

    def learned(self, gold: Sequence[Gold], origin: str, settings: HeadSettings, columns: Sequence[str] = ()) -> Self:
        """The same task with the outputs of :meth:`learn_outputs`; the gold values stand in these columns.

        Raises:
            HeadError: there is nothing to learn, in the whole or of one of the columns.
        """
        return self.with_outputs(self.learn_outputs(gold, origin, settings))

    def with_outputs(self, outputs: Outputs) -> Self:
        """The same task with the outputs that a head learned."""
        return type(self)(outputs)

    def unknown(self, gold: Sequence[Gold]) -> tuple[str, ...]:
        """The labels among gold values that a head never learned, sorted."""
        labels = set(self.outputs.labels)
        return tuple(sorted({label for value in gold for label in labels_of(value)} - labels)) if labels else ()

    def unlearned_warnings(self, dev: Sequence[Gold]) -> tuple[str, ...]:
        """A warning about labels of a development set that the training set lacks, so that no head predicts them."""
        unknown, noun = self.unknown(dev), "tags" if self.per_vector else "labels"
        warning = f"the development set has {noun} that the training set lacks: {list_labels(unknown)}"
        return (warning,) if unknown else ()

    def check_dev(self, gold: Sequence[Gold], origin: str) -> None:
        """Refuse a development set for which no prediction can be right.

        Raises:
            HeadError: it has only labels that the training set lacks.
        """
        labels = set(self.outputs.labels)
        if labels and not labels & {label for value in gold for label in labels_of(value)}:
            raise HeadError("the development set has only labels that the training set lacks", where=origin)

    # ── features, network ───────────────────────────────────────────────────────────────────────────────────

    def check_settings(self, settings: HeadSettings) -> None:
        """Refuse settings that the task cannot be learned with.

        Raises:
            UsageError: the hidden layer is too narrow.
        """
        if 0 <= settings.hidden < self.least_hidden:
            problem, remedy = f"{self.kind.noun} has a hidden layer", f"give at least {self.least_hidden}"
            raise UsageError(problem, where=parameter("hidden", settings.hidden), remedy=remedy)

    def settle(self, settings: HeadSettings, examples: int) -> HeadSettings:
        """Complete the settings for training on so many examples."""
        return with_patience(settings, examples)

    def lay_out(self, sets: Sequence[FeatureRows], table: ExampleTable, rows: NDArray[np.int64]) -> ExampleLayout:
        """Find the vectors of examples in the listed rows of feature sets; by default each row is one, with one vector.

        Raises:
            HeadError: the sets lack something that the task reads.
        """
        return ExampleLayout(ExampleRows(rows, rows + 1, np.ones(len(rows), np.int32)))

    def vectors_per_example(self, texts: HeadTexts) -> int:
        """Estimate the number of vectors that an example has."""
        return 1

    @property
    def width(self) -> int:
        """Number K of scores that the network gives for a vector: one for each label."""
        return max(1, len(self.outputs.labels))

    def hidden_of(self, settings: HeadSettings) -> int:
        """The width of the hidden layer of the network that is trained in epochs."""
        return self.hidden if settings.hidden < 0 else settings.hidden

    def solves(self, settings: HeadSettings, *, mixed: bool) -> bool:
        """Whether linear heads are fitted by a solver: not where a BiLSTM reads the vectors, or layers are mixed."""
        return settings.hidden <= 0 and not self.recurrent and not mixed

    def has_epochs(self, settings: HeadSettings, *, mixed: bool) -> bool:
        """Whether a network is trained in epochs."""
        return settings.hidden != 0 or not self.solves(settings, mixed=mixed)

    def make_network(self, shape: HeadShape) -> HeadNetwork:
        """Make an untrained network of a shape."""
        return HeadNetwork(shape)

    def shape(self, layers: LayerInput, layer_width: int, settings: HeadSettings, *, apart: bool) -> HeadShape:
        """The shape of the network on features of a model; ``apart``: the texts of a pair have a vector each."""
        texts = 2 if apart else 1
        return HeadShape(
            width=texts * layers.recipe.width(layer_width),
            texts=texts,
            layers=layers.side_by_side,
            mixed=layers.mixed,
            hidden=self.hidden_of(settings),
            recurrent=self.recurrent,
            crf=bool(settings.crf),
            outputs=self.width,
            dropout=settings.dropout,
        )

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """Turn gold values into the targets that the network is trained for.

        Raises:
            HeadError: an example that nothing can be learned from.
        """

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of examples by their scores ``[N, K]``, example after example; convex in the scores.

        A task whose loss needs more than the scores overrides :meth:`batch_loss` instead, and has no linear heads.
        """
        raise NotImplementedError

    def batch_loss(self, network: HeadNetwork, batch: ExampleBatch, targets: Tensor, allowed: Tensor | None) -> Tensor:
        """The mean loss of a batch that is packed time by time; ``allowed [N]`` marks tokens that answers can have."""
        return self.mean_loss(network(batch), targets)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The guess of each example from the scores of its vectors ``[N, K]``, which begin at ``offsets [E+1]``."""

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """The mean loss of guesses, as in :meth:`mean_loss`, by which candidates are compared.

        None for a task without linear heads, which has a single candidate.
        """
        return None

    @abstractmethod
    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> HeadScores:
        """Score guesses against gold values, with the threshold ``at`` (None: without one)."""

    def best_threshold(self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str]) -> Threshold:
        """The threshold that is best for these examples, a development set; None where the task has none."""
        return None

    def best_scores(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str] = ()
    ) -> tuple[HeadScores, Threshold]:
        """The scores of a development set by the threshold that is best for it, and that threshold."""
        threshold = self.best_threshold(gold, guesses, passages)
        return self.score(gold, guesses, passages, threshold), threshold

    def frequent(self, gold: Sequence[Gold]) -> Guess | None:
        """The best guess for an unseen example, such as the most frequent label, as a baseline; else None."""
        return None

    def predictions(
        self,
        table: ExampleTable,
        guesses: Sequence[Guess],
        threshold: Threshold,
        passages: Sequence[str],
        gold: Sequence[Gold],
    ) -> Iterator[Prediction]:
        """The predictions for the examples of a table, in order; ``passages`` and ``gold`` are as many, or none."""
        ids = self.example_ids(table)
        rights: Sequence[Gold | None] = gold or (None,) * len(ids)
        for owner, guess, passage, right in zip(ids, guesses, passages or ("",) * len(ids), rights, strict=True):
            yield self.prediction(owner, guess, passage, threshold, right)

    def prediction(
        self, owner: str, guess: Guess, passage: str, threshold: Threshold, gold: Gold | None
    ) -> HeadPrediction:
        """The prediction for an example."""
        return HeadPrediction(owner, guess.value, max(guess.scores, default=None), gold=gold)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """A prediction as a JSON object; ``choices`` are the names of the columns that hold the choices."""
        return {"id": row.id, "value": row.value}

    def writer(
        self, to: PredictionForm | None, choices: tuple[str, ...], mark: MarkSpan | None
    ) -> Callable[[Prediction], str]:
        """Make the function that turns a prediction into text, without a final line end; by default a line of JSON.

        Raises:
            UsageError: the task has no such form.
        """
        if to not in (None, "jsonl") or mark is not None:
            problem = f"predictions of {self.kind.noun} are lines of JSON"
            raise UsageError(problem, where=parameter("to", to), remedy="leave it out")
        return lambda row: json.dumps(
            self.line(cast("HeadPrediction", row), choices), ensure_ascii=False, allow_nan=False
        )

    # ── texts, fine-tuning ──────────────────────────────────────────────────────────────────────────────────

    def read_texts(self, table: ExampleTable, gold: Sequence[Gold]) -> HeadTexts:
        """The texts of a table, in the order of its examples.

        Raises:
            HeadError: texts are not stored.
        """
        listed = list(table.texts())
        others = tuple(() if second is None else (second,) for _, _, second in listed)
        return HeadTexts(tuple(row[0] for row in listed), tuple(row[1] for row in listed), others, tuple(gold))

    def example_ids(self, table: ExampleTable) -> tuple[str, ...]:
        """The id of each example."""
        return tuple(table.ids())

    def sequences(self, sequencer: "Sequencer", texts: HeadTexts) -> "HeadSequences":
        """The sequences of tokens that a whole model reads.

        Raises:
            HeadError: an example that is no question with a passage, or with choices.
        """
        return sequencer.read_texts(texts)

    def config(self) -> Mapping[str, object]:
        """The configuration of transformers' model: the number of scores, and the names of the labels if it has any."""
        names = dict(enumerate(self.outputs.labels))
        labels = {"id2label": names, "label2id": {label: number for number, label in names.items()}} if names else {}
        asked = {} if self.problem_type is None else {"problem_type": self.problem_type}
        return {"num_labels": self.width, **labels, **asked}

    def with_targets(self, train: HeadTexts, read: "HeadSequences") -> list[Example]:
        """The sequences with the targets of the model, under the names that transformers has for them.

        Raises:
            HeadError: an example that nothing can be learned from.
        """
        targets = self.make_targets(GoldExamples(train.gold, "the training set", train.ids))
        return [{**example, "labels": target} for example, target in zip(read.examples, targets, strict=True)]

    def output_scores(self, output: "ModelOutput") -> Tensor:
        """The scores that transformers' model gives for each sequence."""
        logits: Tensor = output["logits"]
        return logits

    def tuned_guesses(
        self,
        texts: HeadTexts,
        read: "HeadSequences",
        scores: Sequence[NDArray[np.float32]],
        max_answer: int,
    ) -> list[Guess]:
        """The guess of each example from the scores of its sequences."""
        return self.guesses(np.stack(scores), np.arange(len(scores) + 1), None)
