"""The task of extractive question answering, as in SQuAD: answers are spans of passages.

Shapes: N tokens of a passage, in its order.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from bertfeat.core import FileCorpus, Pooling, open_corpus
from bertfeat.errors import HeadError, parameter, shorten
from bertfeat.learning.example_store import ExampleBatch, ExampleRows
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork
from bertfeat.learning.scores import SpanScores, score_answers
from bertfeat.learning.sources import SourceReading, check_file, open_with_columns
from bertfeat.learning.tables import ANSWERS, ExampleTable, FeatureRows, Gold, GoldAnswer, PassageTokens, gold_values
from bertfeat.learning.task import (
    ExampleLayout,
    GoldExamples,
    Guess,
    HeadPrediction,
    HeadTexts,
    Offsets,
    PassageSpans,
    Scores,
    Task,
    Threshold,
)
from bertfeat.learning.trainer import Example

if TYPE_CHECKING:
    from transformers.utils.generic import ModelOutput

    from bertfeat.learning.sequences import HeadSequences, PassageWindow, Sequencer


# ── answers as tokens ─────────────────────────────────────────────────────────────────────────────────────


Places = Sequence[int] | NDArray[np.integer]
"""Character offsets of the starts, or of the ends, of a passage's tokens: ``[N]``."""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """The first and last token of an answer, counted from 0 in the passage."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoAnswerTokens:
    """The reason why no tokens match an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """Tokens that may be an answer, and the sum of their start's and end's scores."""

    tokens: AnswerTokens
    score: float


def find_answer_tokens(
    passage: str, token_starts: Places, token_ends: Places, text: str, start: int
) -> AnswerTokens | NoAnswerTokens:
    """Find the tokens that share any character with an answer, which stands at ``start`` in the passage.

    The first and the last one may reach beyond the answer, where it begins or ends inside a word.
    """
    stop = start + len(text)
    if not text.strip():
        return NoAnswerTokens("the answer is empty")
    if start < 0 or not passage.startswith(text, start):
        return NoAnswerTokens(f"the answer does not stand at {start} in the passage")
    begins, ends = np.asarray(token_starts), np.asarray(token_ends)
    found = np.flatnonzero((begins < stop) & (ends > start) & (begins < ends))
    if not len(found):
        return NoAnswerTokens("no token has a character of the answer")
    first, last = int(found[0]), int(found[-1])
    if last == len(ends) - 1 and passage[ends[last] : stop].strip():
        return NoAnswerTokens("the tokens end before the answer does: the passage was cut off")
    return AnswerTokens(first, last)


def best_answers(
    start_scores: NDArray[np.floating],  # [N]
    end_scores: NDArray[np.floating],  # [N]
    count: int = 1,
    most_tokens: int = 30,
) -> list[ScoredAnswer]:
    """Find the ``count`` answers of at most ``most_tokens`` tokens with the highest sums of scores, the best first.

    A token with the score -inf begins (or ends) no answer. Of equal sums, the answer that begins first comes first,
    then the shorter one. There are fewer answers if the passage is short. (Devlin et al. 2019, section 4.2.)
    """
    tokens = len(start_scores)
    width = min(most_tokens, tokens)
    if not tokens or count < 1 or width < 1:
        return []
    padded = np.concatenate([end_scores, np.full(width - 1, -np.inf)]).astype(np.float64)
    sums = (start_scores.astype(np.float64)[:, None] + sliding_window_view(padded, width)).ravel()  # [N * width]
    best = _highest(sums, count)
    return [
        ScoredAnswer(AnswerTokens(place // width, place // width + place % width), float(sums[place]))
        for place in best.tolist()
        if sums[place] > -np.inf
    ]


def answer_text(passage: str, token_starts: Places, token_ends: Places, tokens: AnswerTokens) -> str:
    """The part of a passage from the first to the last token of an answer, without white space at its ends."""
    return passage[int(token_starts[tokens.first]) : int(token_ends[tokens.last])].strip()


def _highest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The places of the ``count`` highest values, the highest first; equal ones stay in their order."""
    if count < len(values):
        least = np.partition(values, -count)[-count]
        places = np.flatnonzero(values >= least)
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:count]


# ── the task ──────────────────────────────────────────────────────────────────────────────────────────────


NEVER = 1e30
"""The no-answer score of a passage without tokens."""

_NO_ANSWER = (0, 0)  # first and last token: both are [CLS]

_Answers = Sequence[tuple[GoldAnswer, ...]]


class Answers(Task):
    """The task of finding the span of a passage with the highest start score plus end score; [CLS] means no answer."""

    name = "answers"
    kind = HeadKind.ANSWER
    measure = "F1"
    architecture = "AutoModelForQuestionAnswering"
    longest = 384  # as in BERT's run_squad.py
    reads = Pooling.TOKEN
    recurrent = 1

    def pair_form(self, how: SourceReading) -> PairForm | None:
        """One sequence of question and passage."""
        return PairForm.TOGETHER

    def open_corpus(self, corpus: Path, how: SourceReading) -> FileCorpus:
        """Open a corpus of questions and passages."""
        check_file(corpus)
        plain = open_corpus([corpus], how.corpus, name=how.name)
        if not plain.has_pairs:
            file_format = plain.files[0].source.format
            held, remedy = "which column holds the passages is not said", f"name it with {parameter('pair_column')}"
            if not file_format.records:
                held, remedy = f"a {file_format.name} file has no column of passages", "give JSON, CSV or Parquet"
            raise HeadError(held, where=corpus, remedy=remedy)
        return open_with_columns(
            corpus,
            how,
            lambda known: self.columns_to_read(how, known),
            noun=self.gold_noun,
            form='it has to hold the answers as JSON lists: [{"text": "in May", "start": 17}], or [] for none',
            as_text=True,
        )

    def gold_columns(self, label: str | None, known: Collection[str]) -> tuple[str, ...]:
        """The column of answers."""
        return (ANSWERS,)

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The answers to each question."""
        return tuple(_read_answers(table))

    def lay_out(self, sets: Sequence[FeatureRows], table: ExampleTable, rows: NDArray[np.int64]) -> ExampleLayout:
        """The tokens of each question with its passage."""
        features, tokens = sets[0], PassageTokens.read(sets[0])
        if "pair" not in features.names:
            problem, remedy = "it holds no texts, and answers are cut out of them", "extract it with its texts"
            raise HeadError(problem, where=features.folder, remedy=remedy)
        passages = tuple(text for batch in features.stream(["pair"]) for text in batch.column("pair").to_pylist())
        return ExampleLayout(ExampleRows(rows, rows + 1, np.diff(tokens.offsets).astype(np.int32)), tokens, passages)

    def vectors_per_example(self, texts: HeadTexts) -> int:
        """The tokens of a question and its passage, about one in four characters."""
        pairs = zip(texts.texts, texts.others, strict=True)
        return int(np.mean([1 + len("".join((text, *others))) // 4 for text, others in pairs]))

    @property
    def width(self) -> int:
        """Scores of a start and of an end."""
        return 2

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """The first and last token of each example's first answer, both 0 ([CLS]) where it has none: ``[E, 2]``."""
        layout = gold.layout
        assert layout is not None
        assert layout.tokens is not None
        targets = np.zeros((len(gold.values), 2), np.int64)
        for number, answers in enumerate(cast("_Answers", gold.values)):
            if answers:
                passage = layout.tokens.passage(number)
                places = layout.tokens.offsets[number] + passage
                starts, ends = layout.tokens.start[places], layout.tokens.end[places]
                where, row = gold.origin, f"row {layout.rows.first[number]:,}"
                found = _locate(layout.passages[number], starts, ends, answers[0], where, row)
                targets[number] = passage[found.first], passage[found.last]
        return targets

    def batch_loss(self, network: HeadNetwork, batch: ExampleBatch, targets: Tensor, allowed: Tensor | None) -> Tensor:
        """Mean negative log probability of the first and of the last token of the answer.

        The softmax is over the tokens of each example that are ``allowed [M]``: those of the passage, and [CLS].
        Shapes: scores ``[M, 2]`` of the M tokens of all examples, packed as ``batch`` says; ``targets [B, 2]``, the
        numbers of the first and last token in their example, in the order of the batch's examples.
        """
        assert allowed is not None
        scores = network(batch).masked_fill(~allowed[:, None], float("-inf"))
        steps = PackedSequence(scores, torch.tensor(batch.sizes))
        padded, _ = pad_packed_sequence(steps, padding_value=float("-inf"))  # [T, B, 2]
        by_question = padded.flatten(1).T  # [2B, T]: over [B, T, 2] a GPU adds in no fixed order
        return cross_entropy(by_question, targets.flatten())

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The best span of each passage by its start score plus its end score, ``[N, 2]``."""
        assert spans is not None
        tokens, guesses = spans.tokens, []
        for example, first in enumerate(tokens.offsets[:-1].tolist()):
            passage = first + tokens.passage(example)
            best = best_answers(scores[passage, 0], scores[passage, 1], 1, spans.longest)
            if not best:
                guesses.append(Guess("", no_answer=NEVER))
                continue
            begin, end = passage[best[0].tokens.first], passage[best[0].tokens.last]
            none = float(scores[first].sum()) - best[0].score
            guesses.append(Guess("", start=int(tokens.start[begin]), end=int(tokens.end[end]), no_answer=none))
        return guesses

    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> SpanScores:
        """Exact match and F1 of words; where the no-answer score is above ``at``, no answer is predicted."""
        answers = [[answer.text for answer in given] for given in cast("_Answers", gold)]
        texts = [passage[guess.start : guess.end] for passage, guess in zip(passages, guesses, strict=True)]
        best = score_answers(answers, texts, [guess.no_answer for guess in guesses])
        if not isinstance(at, float):
            return best
        cut = ["" if guess.no_answer > at else text for guess, text in zip(guesses, texts, strict=True)]
        return replace(score_answers(answers, cut), best_exact=best.best_exact, best_f1=best.best_f1)

    def best_threshold(self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str]) -> Threshold:
        """The no-answer score with the best F1; None where every question has an answer."""
        best = self.score(gold, guesses, passages, None).best_f1
        return None if best is None else best.threshold

    def frequent(self, gold: Sequence[Gold]) -> Guess:
        """An empty answer, with the highest no-answer score if some question of the training set has no answer."""
        return Guess("", no_answer=0.0 if all(cast("_Answers", gold)) else NEVER)

    def prediction(
        self, owner: str, guess: Guess, passage: str, threshold: Threshold, gold: Gold | None
    ) -> HeadPrediction:
        """The guessed span, or no answer where the no-answer score is above the threshold."""
        if isinstance(threshold, float) and guess.no_answer > threshold:
            return HeadPrediction(owner, "", no_answer=guess.no_answer, gold=gold)
        text = passage[guess.start : guess.end]
        return HeadPrediction(owner, text, None, guess.start, guess.end, guess.no_answer, gold)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """Id, answer, its place in the passage, and the no-answer score."""
        return {"id": row.id, "answer": row.value, "start": row.start, "end": row.end, "no_answer": row.no_answer}

    # ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────

    def sequences(self, sequencer: "Sequencer", texts: HeadTexts) -> "HeadSequences":
        """Windows of each passage behind its question."""
        return sequencer.read_passages(texts)

    def with_targets(self, train: HeadTexts, read: "HeadSequences") -> list[Example]:
        """The windows with the first and last token of the answer, both [CLS] where a window does not hold it."""
        spans = _window_spans(train, read.windows)
        return [
            {**example, "start_positions": np.array(first), "end_positions": np.array(last)}
            for example, (first, last) in zip(read.examples, spans, strict=True)
        ]

    def output_scores(self, output: "ModelOutput") -> Tensor:
        """The scores of each token's start and end: ``[T, 2]``."""
        return torch.stack([output["start_logits"], output["end_logits"]], -1)

    def tuned_guesses(
        self,
        texts: HeadTexts,
        read: "HeadSequences",
        scores: Sequence[NDArray[np.float32]],
        max_answer: int,
    ) -> list[Guess]:
        """The best span of each passage over all its windows, ``[T, 2]`` each.

        As BERT's ``run_squad.py`` answers SQuAD 2.0: a span begins at a token that no other window reads with more
        context; the no-answer score is the least score of [CLS] over all windows, minus the best span's score. (There
        only the 20 best starts and ends are tried, here all.)
        """
        kept = [row[: len(example["input_ids"])] for row, example in zip(scores, read.examples, strict=True)]
        pairs = groupby(zip(read.windows, kept, strict=True), key=lambda pair: pair[0].example)
        return [_passage_guess(list(group), max_answer) for _, group in pairs]


# ── gold answers ───────────────────────────────────────────────────────────────────────────────────────────


def _read_answers(table: ExampleTable) -> Iterator[tuple[GoldAnswer, ...]]:
    for row, value in gold_values(table, ANSWERS):
        try:
            yield _parse_answers(value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise HeadError(
                f"the {ANSWERS} of row {row:,} are {shorten(repr(value))}",
                where=table.where,
                remedy='write them as a JSON list: [{"text": "in May", "start": 17}], or [] for none',
            ) from error


def _parse_answers(value: object) -> tuple[GoldAnswer, ...]:
    """Answers as the format squad keeps them, or as Hugging Face data sets have them."""
    listed = json.loads(str(value))
    if isinstance(listed, dict):
        pairs = list(zip(listed["text"], listed["answer_start"], strict=True))
    else:
        pairs = [(item["text"], item["start"]) for item in listed]
    if not all(type(text) is str and type(start) is int for text, start in pairs):
        raise TypeError
    return tuple(GoldAnswer(text, start) for text, start in pairs)


def _locate(
    passage: str, starts: NDArray[np.int32], ends: NDArray[np.int32], answer: GoldAnswer, where: str, row: str = ""
) -> AnswerTokens:
    """The tokens of an answer in its passage; an answer that no tokens match is refused."""
    found = find_answer_tokens(passage, starts, ends, answer.text, answer.start)
    if isinstance(found, AnswerTokens):
        return found
    raise HeadError(
        f"{found.reason} ({row}{': ' if row else ''}{answer.text!r}, start {answer.start:,})",
        where=where,
        remedy="correct its text or its start, which counts the characters of the passage from 0",
    )


# ── windows of a whole model ───────────────────────────────────────────────────────────────────────────────


def _window_spans(train: HeadTexts, windows: Sequence["PassageWindow"]) -> Iterator[tuple[int, int]]:
    """The first and last token of the answer in each window, both [CLS] where the window does not hold all of it."""
    answers = cast("_Answers", train.gold)
    for window in windows:
        given, span = answers[window.example], None
        if given:
            passage, where = train.others[window.example][0], f"question {train.ids[window.example]}"
            span = _locate(passage, window.spans.start, window.spans.end, given[0], where)
        if span is None or span.first < window.begin or span.last >= window.stop:
            yield _NO_ANSWER
        else:
            offset = window.place - window.begin
            yield span.first + offset, span.last + offset


@dataclass(frozen=True, slots=True)
class _ScoredSpan:
    """A span of a passage."""

    start: int  # characters
    end: int
    score: float


def _passage_guess(read: Sequence[tuple["PassageWindow", NDArray[np.float32]]], max_answer: int) -> Guess:
    spans = [span for window, scores in read for span in _best_span(window, scores, max_answer)]
    if not spans:
        return Guess("", no_answer=NEVER)
    best = max(spans, key=lambda span: span.score)  # of equal ones the first
    none = min(float(scores[0].sum()) for _, scores in read)
    return Guess("", start=best.start, end=best.end, no_answer=none - best.score)


def _best_span(window: "PassageWindow", scores: NDArray[np.float32], max_answer: int) -> Iterator[_ScoredSpan]:
    """The best span of a window that begins at one of its own tokens; none if there is no such span."""
    starts, ends = window.spans.start[window.begin : window.stop], window.spans.end[window.begin : window.stop]
    kept = np.flatnonzero(ends > starts)
    places = window.place + kept
    begins = np.where(window.own[kept], scores[places, 0], -np.inf)
    for best in best_answers(begins, scores[places, 1], 1, max_answer):
        yield _ScoredSpan(int(starts[kept[best.tokens.first]]), int(ends[kept[best.tokens.last]]), best.score)
