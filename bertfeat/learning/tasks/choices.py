"""The task of multiple choice: find the right one of several continuations (section 4.4 of the paper)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertfeat.core import BlankLine, Corpus, CorpusSettings, Document, Failure, FeatureSet, FileCorpus, memory_corpus
from bertfeat.errors import HeadError, UsageError, parameter, quote_names
from bertfeat.learning.example_store import ExampleBatch, ExampleRows
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork
from bertfeat.learning.sources import SourceReading, check_columns
from bertfeat.learning.tables import QUESTION, RIGHT, ExampleTable, FeatureRows, Gold
from bertfeat.learning.task import (
    ExampleLayout,
    GoldExamples,
    Guess,
    HeadPrediction,
    HeadTexts,
    Offsets,
    PassageSpans,
    Scores,
)
from bertfeat.learning.tasks.labels import OneOfSeveral, label_loss, shares_of
from bertfeat.learning.trainer import Example
from bertfeat.ragged import lengths_of, offsets_of

if TYPE_CHECKING:
    from bertfeat.learning.sequences import HeadSequences, Sequencer


class Choices(OneOfSeveral):
    """The task of finding the right one of a question's choices, by softmax over them; each choice is a row."""

    name = "choices"
    kind = HeadKind.CHOOSE
    architecture = "AutoModelForMultipleChoice"
    hidden = 256
    gold_noun = "right choices"

    # ── sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def pair_form(self, how: SourceReading) -> PairForm | None:
        """A question with each of its choices."""
        return how.pairs or PairForm.APART

    def open_corpus(self, corpus: Path, how: SourceReading) -> FileCorpus:
        """Open a corpus of questions, which keeps the columns of the choices."""
        if len(how.choices) < 2:
            problem = "a chooser needs the columns of the choices, at least two"
            raise UsageError(problem, remedy=f"name them with {parameter('choices')}")
        keep = tuple(f"{name}:string" for name in how.choices)
        return super().open_corpus(corpus, replace(how, corpus=replace(how.corpus, keep=keep)))

    def open_corpora(
        self, corpus: Path, how: SourceReading, *, form: PairForm | None = None
    ) -> Iterator[tuple[str, Corpus]]:
        """The corpora of the choices of all questions, in memory, each with the suffix of its feature set's name.

        There is one corpus of pairs of question and choice; or, if they are embedded apart, one of questions and one of
        choices. Each row keeps the id of its question and, if there is a label, whether it is the right choice.
        """
        questions = self.open_corpus(corpus, how)
        label = how.label if how.label in {column.name for column in questions.kept} else None
        documents = _choice_documents(questions, how.choices, label)
        keep = CorpusSettings(keep=(f"{QUESTION}:string", *([] if label is None else [f"{RIGHT}:bool"])))
        if (form or self.pair_form(how)) is PairForm.TOGETHER:
            yield "", memory_corpus(documents, keep)
            return
        yield "", memory_corpus([replace(document, pair=None) for document in documents], keep)
        yield ".second", memory_corpus([Document(row.row, row.id, row.pair or "") for row in documents])

    def check_gold(self, features: FeatureSet, how: SourceReading) -> None:
        """Refuse a feature set that does not say which choices are right."""
        check_columns(features, (QUESTION, RIGHT))

    # ── examples, learning, predictions ─────────────────────────────────────────────────────────────────────

    def has_gold(self, table: ExampleTable, label: str | None) -> bool:
        """Whether a table has the column that says which choices are right."""
        return RIGHT in table.kept

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The number of each question's right choice; -1 where none is."""
        return _read_choices(table).right

    def lay_out(self, sets: Sequence[FeatureRows], table: ExampleTable, rows: NDArray[np.int64]) -> ExampleLayout:
        """The rows of each question's choices."""
        choices = _read_choices(table)
        return ExampleLayout(ExampleRows(choices.first, choices.stop, choices.counts))

    def vectors_per_example(self, texts: HeadTexts) -> int:
        """Return the number of choices that a question has."""
        return len(texts.others[0])

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """The number of each question's right choice: ``[E]`` int64."""
        right = np.array(gold.values, np.int64)
        for number in np.flatnonzero(right < 0)[:1].tolist():
            if gold.ids:
                raise HeadError("it has no right choice", where=f"question {gold.ids[number]}")
            raise HeadError(f"question {number + 1:,} has no right choice", where=gold.origin)
        return right

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean negative log probability of the right choices, by softmax over the C choices of each of B questions.

        Shape: ``[B·C, 1]``, targets ``[B]``.
        """
        return cross_entropy(scores.view(len(targets), -1), targets)

    def batch_loss(self, network: HeadNetwork, batch: ExampleBatch, targets: Tensor, allowed: Tensor | None) -> Tensor:
        """The same loss for a packed batch, in which the first choices of all questions come first."""
        return cross_entropy(network(batch).view(-1, batch.count).T, targets)

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The most probable choice of each question: scores of all questions' choices ``[N, 1]``."""
        shares = [shares_of(scores[None, first:last, 0])[0] for first, last in pairwise(offsets.tolist())]
        return [Guess(int(row.argmax()), tuple(row.tolist())) for row in shares]

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """Mean negative log probability of the right choices; questions without one do not count."""
        return label_loss(cast("Sequence[int]", gold), guesses)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """Id, number of the choice, its column and its probability."""
        number = int(cast("int", row.value))
        name = choices[number] if number < len(choices) else None
        return {"id": row.id, "choice": row.value, "column": name, "probability": row.probability}

    def read_texts(self, table: ExampleTable, gold: Sequence[Gold]) -> HeadTexts:
        """The texts of a table: a question, and the choices beside it."""
        rows = table.texts()
        questions = _read_choices(table)
        groups = [list(islice(rows, count)) for count in questions.counts.tolist()]
        others = tuple(tuple(second or "" for _, _, second in group) for group in groups)
        return HeadTexts(questions.questions, tuple(group[0][1] for group in groups), others, tuple(gold))

    def example_ids(self, table: ExampleTable) -> tuple[str, ...]:
        """The id of each question."""
        return _read_choices(table).questions

    def sequences(self, sequencer: "Sequencer", texts: HeadTexts) -> "HeadSequences":
        """One stack of sequences per question, each of the question with one choice."""
        return sequencer.read_choices(texts)

    def with_targets(self, train: HeadTexts, read: "HeadSequences") -> list[Example]:
        """The stacks with the number of the right choice."""
        for name, number, choices in zip(train.ids, train.gold, train.others, strict=True):
            if not 0 <= int(cast("int", number)) < len(choices):
                raise HeadError("it has no right choice", where=f"question {name}")
        return super().with_targets(train, read)

    def tuned_guesses(
        self,
        texts: HeadTexts,
        read: "HeadSequences",
        scores: Sequence[NDArray[np.float32]],
        max_answer: int,
    ) -> list[Guess]:
        """The most probable choice of each question, from one score per choice of its stack."""
        kept = [row[: len(others)] for row, others in zip(scores, texts.others, strict=True)]
        offsets = offsets_of(lengths_of(kept))
        return self.guesses(np.concatenate(kept)[:, None], offsets, None)


@dataclass(frozen=True, slots=True)
class _ChoiceRows:
    """The rows of Q questions with choices."""

    first: NDArray[np.int64]  # [Q] row of the first choice
    stop: NDArray[np.int64]  # [Q]
    counts: NDArray[np.int32]  # [Q] choices
    right: tuple[int, ...]  # [Q] number of the right choice; -1 where none is known
    questions: tuple[str, ...]  # [Q]


def _read_choices(table: ExampleTable) -> _ChoiceRows:
    """Read the questions of a table with one row per choice, in which the choices of a question are consecutive."""
    if QUESTION not in table.kept:
        raise HeadError(
            f"it has no column {QUESTION!r} that says which rows are choices of one question; kept are "
            f"{quote_names(table.kept) or 'none'}",
            where=table.where,
            remedy=f"give the corpus, or extract one row a choice with {parameter('keep', (QUESTION, RIGHT))}",
        )
    runs: list[tuple[str, list[int], list[bool]]] = []
    rights = (bool(right) for _, right in table.column(RIGHT)) if RIGHT in table.kept else repeat(False)
    for (row, question), right in zip(table.column(QUESTION), rights, strict=False):
        if not runs or runs[-1][0] != str(question):
            runs.append((str(question), [], []))
        runs[-1][1].append(row)
        runs[-1][2].append(right)
    _check_choices(table, runs)
    rows = [run[1] for run in runs]
    return _ChoiceRows(
        np.array([listed[0] for listed in rows], np.int64),
        np.array([listed[-1] + 1 for listed in rows], np.int64),
        np.array([len(listed) for listed in rows], np.int32),
        tuple(run[2].index(True) if any(run[2]) else -1 for run in runs),
        tuple(run[0] for run in runs),
    )


def _check_choices(table: ExampleTable, runs: Sequence[tuple[str, list[int], list[bool]]]) -> None:
    where = table.where
    if not runs:
        raise HeadError("there is no question in it", where=where)
    usual = len(runs[0][1])
    for question, rows, right in runs:
        if len(rows) != usual or usual < 2:
            raise HeadError(
                f"question {question!r} (row {rows[0]:,}) has {len(rows)} choices, and the first one {usual}",
                where=where,
                remedy="give every question equally many, at least two; a choice that failed is listed in its set",
            )
        if sum(right) > 1:
            raise HeadError(f"question {question!r} (row {rows[0]:,}) has {sum(right)} right choices", where=where)


# ── corpora ───────────────────────────────────────────────────────────────────────────────────────────────


def _choice_documents(questions: Corpus, choices: Sequence[str], label: str | None) -> list[Document]:
    """The choices of all questions, each a pair with its question."""
    documents: list[Document] = []
    before = None
    for question in questions.rows():
        made = list(_choice_rows(question, questions, choices, label))
        if made and made[0].id == before:  # the choices of both would be taken for those of one question
            problem, remedy = "it has the id of the one before it", "give each question an id of its own"
            raise HeadError(problem, where=f"{', '.join(questions.sources[:3])}, row {made[0].row}", remedy=remedy)
        before = made[0].id if made else before
        documents += made
    return documents


def _choice_rows(
    question: Document | Failure | BlankLine, corpus: Corpus, choices: Sequence[str], label: str | None
) -> Iterator[Document]:
    if isinstance(question, BlankLine):
        return
    where = f"{', '.join(corpus.sources[:3])}, question {question.id}"
    if isinstance(question, Failure):
        raise HeadError(question.reason, where=where)
    values = dict(zip((column.name for column in corpus.kept), question.kept, strict=True))
    for name in choices:
        if not values[name]:
            problem, remedy = f"it has no choice {name!r}", "every question has to have equally many choices"
            raise HeadError(problem, where=where, remedy=remedy)
    right = None if label is None else _right_choice(values[label], choices, where)
    for number, name in enumerate(choices):
        kept = (question.id,) if right is None else (question.id, number == right)
        yield Document(question.row, f"{question.id}:{name}", question.text, str(values[name]), kept=kept)


def _right_choice(label: object, choices: Sequence[str], where: str) -> int:
    """The number of the right choice; the label is this number, counted from 0, or the name of the choice's column."""
    names = {**{str(number): number for number in range(len(choices))}, **{name: n for n, name in enumerate(choices)}}
    text = str(label)
    if text not in names and re.fullmatch(r"[0-9]+\.0*", text):  # a column of numbers with gaps, as pandas writes it
        text = text.partition(".")[0]
    if text not in names:
        raise HeadError(
            f"its label {label!r} names none of its {len(choices)} choices",
            where=where,
            remedy=f"write its number from 0 to {len(choices) - 1}, or one of {quote_names(tuple(choices))}, or name "
            f"another column with {parameter('label')}",
        )
    return names[text]
