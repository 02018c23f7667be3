"""What a head predicts, from the scores of its network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.heads.answer_scores import SpanScores, score_answers
from bertfeat.heads.answers import best_answers
from bertfeat.heads.gold import Gold, GoldAnswer
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.networks import HeadNetwork
from bertfeat.heads.scores import ClassScores, NumberScores, score_classes, score_numbers
from bertfeat.heads.settings import Outputs
from bertfeat.heads.tokens import PassageTokens
from bertfeat.training import ExampleChunk, batches_by_length, gather_batch

_EVALUATED = 256  # examples of a batch where nothing is learnt
NEVER = 1e30
"""The no-answer score of a passage without tokens."""

HeadScores = ClassScores | NumberScores | SpanScores


@dataclass(frozen=True, slots=True)
class Guess:
    """What a head predicts of one example."""

    value: str | float | int  # a label, a number, the number of a choice; of an answer see ``start`` and ``end``
    scores: tuple[float, ...] = ()  # probability of each label or choice
    start: int = 0  # of an answer, in characters of the passage
    end: int = 0
    no_answer: float = 0.0  # score of [CLS] less that of the best span: higher where an answer is less likely


@torch.no_grad()
def network_scores(network: HeadNetwork, chunk: ExampleChunk, device: torch.device) -> NDArray[np.float32]:
    """The scores of each vector of a chunk, in its order: ``[N, K]``."""
    network.eval()
    scores = np.empty((len(chunk.features), network.shape.outputs), np.float32)
    for packed in batches_by_length(chunk.offsets, _EVALUATED):
        scores[packed.vectors] = network(gather_batch(chunk.features, packed, device)).cpu().numpy()
    return scores


def class_guesses(scores: NDArray[np.float32], outputs: Outputs) -> list[Guess]:
    """The most probable label of each example ``[E, K]``, or its number ``[E, 1]``."""
    if not outputs.labels:
        return [Guess(float(value) * outputs.spread + outputs.mean) for value in scores[:, 0]]
    shares = torch.from_numpy(scores).softmax(-1).numpy()
    return [Guess(outputs.labels[row.argmax()], tuple(row.tolist())) for row in shares]


def choice_guesses(scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> list[Guess]:
    """The most probable choice of each question: scores of all questions' choices ``[N, 1]``."""
    guesses = []
    for first, last in pairwise(offsets.tolist()):
        shares = torch.from_numpy(scores[first:last, 0]).softmax(0).numpy()
        guesses.append(Guess(int(shares.argmax()), tuple(shares.tolist())))
    return guesses


def span_guesses(scores: NDArray[np.float32], tokens: PassageTokens, max_answer: int) -> list[Guess]:
    """The best span of each passage by its start score plus its end score, ``[N, 2]`` (section 4.3 of the paper)."""
    guesses = []
    for example, first in enumerate(tokens.offsets[:-1].tolist()):
        passage = first + tokens.passage(example)
        best = best_answers(scores[passage, 0], scores[passage, 1], 1, max_answer)
        if not best:
            guesses.append(Guess("", no_answer=NEVER))
            continue
        begin, end = passage[best[0].tokens.first], passage[best[0].tokens.last]
        none = float(scores[first].sum()) - best[0].score
        guesses.append(Guess("", start=int(tokens.start[begin]), end=int(tokens.end[end]), no_answer=none))
    return guesses


def score_guesses(
    kind: HeadKind,
    gold: Sequence[Gold],
    guesses: Sequence[Guess],
    *,
    regression: bool,
    passages: Sequence[str] = (),
    threshold: float | None = None,
) -> HeadScores:
    """How good guesses are.

    A question counts as one without an answer where its no-answer score is above the ``threshold`` (None: never); the
    best scores are those of the threshold that is best for these very questions.
    """
    if kind is HeadKind.ANSWER:
        answers = [[answer.text for answer in given] for given in cast("Sequence[tuple[GoldAnswer, ...]]", gold)]
        texts = [passage[guess.start : guess.end] for passage, guess in zip(passages, guesses, strict=True)]
        best = score_answers(answers, texts, [guess.no_answer for guess in guesses])
        if threshold is None:
            return best
        cut = ["" if guess.no_answer > threshold else text for guess, text in zip(guesses, texts, strict=True)]
        return replace(score_answers(answers, cut), best_exact=best.best_exact, best_f1=best.best_f1)
    if regression:
        return score_numbers([float(value) for value in gold], [float(guess.value) for guess in guesses])  # type: ignore[arg-type]
    return score_classes([str(value) for value in gold], [str(guess.value) for guess in guesses])


def score_by_own_threshold(
    kind: HeadKind, gold: Sequence[Gold], guesses: Sequence[Guess], *, regression: bool, passages: Sequence[str] = ()
) -> HeadScores:
    """How good guesses are by the threshold that is best for these very questions: those of a development set."""
    best = score_guesses(kind, gold, guesses, regression=regression, passages=passages)
    threshold = threshold_of(best)
    if threshold is None:
        return best
    return score_guesses(kind, gold, guesses, regression=regression, passages=passages, threshold=threshold)


def threshold_of(scores: HeadScores) -> float | None:
    """The best threshold of the no-answer score; None where every question has an answer, and for other kinds."""
    best = scores.best_f1 if isinstance(scores, SpanScores) else None
    return None if best is None else best.threshold


def measure_of(kind: HeadKind, *, regression: bool) -> str:
    """The name of the score that chooses the best epoch."""
    return {HeadKind.ANSWER: "F1"}.get(kind, "Spearman" if regression else "accuracy")
