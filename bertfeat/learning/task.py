"""A task: what is learned from features, and the guesses of a head.

The data, the loop, fine-tuning, tables and folders are the same for all heads and ask the task where heads differ. The
tasks stand in :data:`bertfeat.learning.tasks.TASKS`; a new one is a file there and a line of that table.

Shapes: E examples; B examples of a batch; N vectors of all of them; K outputs of the network; T tokens of a sequence.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.learning.example_store import ExampleBatch, ExampleChunk, ExampleRows, batches_by_length, gather_batch
from bertfeat.learning.inputs import LayerInput
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.record import Outputs
from bertfeat.learning.scores import ClassScores, MultiLabelScores, NumberScores, SpanScores
from bertfeat.learning.settings import HeadSettings, with_patience
from bertfeat.learning.spans import TagScores
from bertfeat.learning.tables import ExampleTable, FeatureRows, Gold, PassageTokens, labels_of
from bertfeat.learning.tag_files import MarkSpan, PredictionForm, TaggedText
from bertfeat.learning.trainer import Example
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from transformers.utils.generic import ModelOutput

    from bertfeat.learning.sequences import HeadSequences, Sequencer


# ── guesses ───────────────────────────────────────────────────────────────────────────────────────────────


_EVALUATED = 256  # examples of a batch where nothing is learned

HeadScores = TagScores | ClassScores | MultiLabelScores | NumberScores | SpanScores

Threshold = float | tuple[float, ...] | None
"""Chosen on the development set: the no-answer score above which a question has none, or a probability a label."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The prediction of a head for one example."""

    value: str | float | int | tuple[str, ...]  # a label, a number, a choice's number, tags; of an answer see below
    scores: tuple[float, ...] = ()  # probability of each label or choice, the highest of which is told; or none
    start: int = 0  # of an answer, in characters of the passage
    end: int = 0
    no_answer: float = 0.0  # score of [CLS] less that of the best span: higher where an answer is less likely


def network_scores(network: HeadNetwork, chunk: ExampleChunk, device: torch.device) -> NDArray[np.float32]:
    """The scores of each vector of a chunk, in its order: ``[N, K]``, see :meth:`HeadNetwork.decide`."""
    network.eval()
    scores = np.empty((len(chunk.features), network.shape.outputs), np.float32)
    for packed in batches_by_length(chunk.offsets, _EVALUATED):
        scores[packed.vectors] = network.decide(gather_batch(chunk.features, packed, device)).cpu().numpy()
    return scores


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────


Scores = NDArray[np.float32]
"""Scores of a network: ``[N, K]``."""

Offsets = NDArray[np.int64]
"""The vectors at which examples begin: ``[E+1]``."""


@dataclass(frozen=True, slots=True)
class HeadTexts:
    """Examples as texts, as a whole model reads them that is fine-tuned: E in number."""

    ids: tuple[str, ...]  # [E]
    texts: tuple[str, ...]  # [E] the text, the first of a pair, or the question
    others: tuple[tuple[str, ...], ...]  # [E] none; the second of a pair, or the passage; the choices; the words
    gold: tuple[Gold, ...]  # [E], or none

    @property
    def passages(self) -> list[str]:
        """The second text of each example, empty where there is none. [E]."""
        return [others[0] if others else "" for others in self.others]


@dataclass(frozen=True, slots=True)
class ExampleLayout:
    """The rows of feature sets that each of E examples has its vectors in."""

    rows: ExampleRows
    tokens: PassageTokens | None = None  # of questions and passages
    passages: tuple[str, ...] = ()  # [E] of questions


@dataclass(frozen=True, slots=True)
class GoldExamples:
    """The gold values of E examples to learn from, and where each is, for messages."""

    values: Sequence[Gold]  # [E]
    origin: str
    ids: Sequence[str] = ()  # [E], or none: messages name the origin
    layout: ExampleLayout | None = None  # of examples with features


@dataclass(frozen=True, slots=True)
class PassageSpans:
    """The spans that can be answers: those of the tokens of passages, up to a number of tokens."""

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
"""The prediction of a head for one example; of a sentence its words with their tags."""


class Task(ABC):
    """A task that heads learn, with the outputs that were learned; the defaults suit a labeled text or pair.

    Before anything is learned the outputs are empty.
    """

    name: ClassVar[str]
    kind: ClassVar[HeadKind] = HeadKind.CLASSIFY  # the verb of the shell
    architecture: ClassVar[str | None] = "AutoModelForSequenceClassification"
    """transformers' own model, which is fine-tuned by its own loss; None: the task is learned from features alone."""
    problem_type: ClassVar[str | None] = None  # as transformers calls it, where it asks: it chooses the model's loss
    hidden: ClassVar[int] = 128  # width of the hidden layer, if the settings do not say it
    least_hidden: ClassVar[int] = 0
    longest: ClassVar[int] = 512  # tokens of a sequence
    compares: ClassVar[bool] = False  # the plain cosine of a pair is a baseline
    reads: ClassVar[Pooling | None] = None  # whose vectors are read; None: any that gives a text one vector
    recurrent: ClassVar[int] = 0  # the hidden layers are so many of a BiLSTM over the vectors of an example
    per_vector: ClassVar[bool] = False  # what is learned is of each vector, and not of each example
    row_noun: ClassVar[str] = "row"  # the word for a row of its corpora
    noun: ClassVar[str] = "examples"  # the word for what is learned from
    baseline: ClassVar[str] = "Most frequent answer"  # the title of :meth:`frequent` in a table

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = outputs or Outputs()

    @property
    @abstractmethod
    def measure(self) -> str:
        """The name of the score that chooses the best epoch: the ``value`` of the scores, better the higher."""

    # ── gold values ─────────────────────────────────────────────────────────────────────────────────────────

    def gold_columns(self, label: str | None, known: Collection[str]) -> tuple[str, ...]:
        """The columns of a corpus that hold the gold values, of those that are ``known``; none where none is named."""
        return () if label is None else (label,)

    def has_gold(self, table: ExampleTable, label: str | None) -> bool:
        """Whether a table holds the gold values."""
        columns = self.gold_columns(label, table.kept)
        return bool(columns) and set(columns) <= set(table.kept)

    def gold_of(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The gold value of each example of a table; none where it has none."""
        return self.read_gold(table, label) if self.has_gold(table, label) else ()

    @abstractmethod
    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The gold value of each example of a table that has them; labels are spelled as those of the outputs.

        ``label`` is the column, which is in the table. What CSV files hold comes as texts.

        Raises:
            HeadError: a row does not say it as it should.
        """

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """The outputs of a head that learns from gold values.

        Raises:
            HeadError: they are all the same, so that there is nothing to learn.
        """
        return Outputs()

    def learned(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Self:
        """The same task with the outputs of :meth:`learn_outputs`."""
        return self.with_outputs(self.learn_outputs(gold, origin, settings))

    def with_outputs(self, outputs: Outputs) -> Self:
        """The same task with the outputs that a head learned."""
        return type(self)(outputs)

    def unknown(self, gold: Sequence[Gold]) -> tuple[str, ...]:
        """The labels among gold values that a head never learned, sorted."""
        labels = set(self.outputs.labels)
        return tuple(sorted({label for value in gold for label in labels_of(value)} - labels)) if labels else ()

    def check_dev(self, gold: Sequence[Gold], origin: str) -> None:
        """Refuse a development set on which nothing can be right.

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
        """The settings of a training on so many examples, with what was left to the data."""
        return with_patience(settings, examples)

    def lay_out(self, sets: Sequence[FeatureRows], table: ExampleTable, rows: NDArray[np.int64]) -> ExampleLayout:
        """The examples of feature sets whose rows are listed: one a row, with one vector.

        Raises:
            HeadError: the sets lack something that the task reads.
        """
        return ExampleLayout(ExampleRows(rows, rows + 1, np.ones(len(rows), np.int32)))

    def vectors_an_example(self, texts: HeadTexts) -> int:
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
        """Whether heads without a hidden layer are solved: not where a BiLSTM reads tokens, or layers are mixed."""
        return settings.hidden <= 0 and not self.recurrent and not mixed

    def has_epochs(self, settings: HeadSettings, *, mixed: bool) -> bool:
        """Whether a network is trained in epochs."""
        return settings.hidden != 0 or not self.solves(settings, mixed=mixed)

    def make_network(self, shape: HeadShape) -> HeadNetwork:
        """A network of a shape that has learned nothing yet."""
        return HeadNetwork(shape)

    def shape(self, layers: LayerInput, hidden_size: int, settings: HeadSettings, *, apart: bool) -> HeadShape:
        """The shape of the network on features of a model; pairs are embedded ``apart`` or not."""
        texts = 2 if apart else 1
        return HeadShape(
            width=texts * layers.recipe.width(hidden_size),
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
        """The values that the network is to give for each example.

        Raises:
            HeadError: an example that nothing can be learned from.
        """

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of examples whose scores ``[N, K]`` stand one after the other, convex in the scores.

        A task whose loss needs more than the scores has :meth:`batch_loss`, and no linear heads.
        """
        raise NotImplementedError

    def batch_loss(self, network: HeadNetwork, batch: ExampleBatch, targets: Tensor, allowed: Tensor | None) -> Tensor:
        """The mean loss of a batch that is packed time by time; ``allowed [N]`` tokens can be an answer's."""
        return self.mean_loss(network(batch), targets)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The guess of each example from the scores of its vectors ``[N, K]``, which begin at ``offsets [E+1]``."""

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """The mean loss of guesses, by which candidates are compared: that of :meth:`mean_loss`.

        None of a task that solves no linear heads, so that there is a single candidate.
        """
        return None

    @abstractmethod
    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> HeadScores:
        """The agreement of guesses with gold values by a threshold (None: by none)."""

    def best_threshold(self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str]) -> Threshold:
        """The threshold that is best for these very examples: those of a development set."""
        return None

    def best_scores(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str] = ()
    ) -> tuple[HeadScores, Threshold]:
        """The scores of a development set by the threshold that is best for it, and that threshold."""
        threshold = self.best_threshold(gold, guesses, passages)
        return self.score(gold, guesses, passages, threshold), threshold

    def frequent(self, gold: Sequence[Gold]) -> Guess | None:
        """The best guess without a look at the example, such as the most frequent label: the baseline of a table."""
        return None

    def predictions(
        self,
        table: ExampleTable,
        guesses: Sequence[Guess],
        threshold: Threshold,
        passages: Sequence[str],
        gold: Sequence[Gold],
    ) -> Iterator[Prediction]:
        """The predictions for the examples of a table, in order; ``passages`` and ``gold`` of each, or none."""
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
        """A prediction as the object of its line; ``choices`` are the names of the columns of the choices."""
        return {"id": row.id, "value": row.value}

    def writer(
        self, to: PredictionForm | None, choices: tuple[str, ...], mark: MarkSpan | None
    ) -> Callable[[Prediction], str]:
        """The function that writes a prediction in a form, without the end of its last line: JSON.

        Raises:
            UsageError: there is no such form.
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
        """The settings of transformers' model: the names of the labels, or the number of scores."""
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
