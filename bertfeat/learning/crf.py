"""A linear-chain conditional random field over packed sentences (Lafferty et al. 2001).

Shapes: B sentences, longest first; T words of the longest; N words of all; L labels. Packed means time by time, as
``torch.nn.utils.rnn.PackedSequence`` does it: the first words of all B sentences, then the second words of those that
have one, and so on; ``sizes [T]`` says how many there are at each time.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

_NEVER = -1e4  # of a forbidden transition: far below any sum of learned scores, but finite, so no NaN in gradients


class Crf(nn.Module):
    """Scores of transitions between labels, and of first and last labels; forbidden transitions never win.

    ``allowed [L+2, L+2]`` says which label (row) may be followed by which (column); the last two stand for the
    beginning and the end of a sentence. None allows everything.
    """

    penalty: Tensor

    def __init__(self, labels: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(labels + 2, labels + 2))
        allowed = torch.ones(labels + 2, labels + 2, dtype=torch.bool) if allowed is None else allowed
        self.register_buffer("penalty", torch.where(allowed, 0.0, _NEVER), persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, sizes: Sequence[int]) -> Tensor:
        """Log probability of each sentence's tags.

        Shape: packed ``emissions [N, L]``, ``tags [N]`` → ``[B]``.
        """
        between, begin, end = self._scores()
        steps, golds = torch.split(emissions, list(sizes)), torch.split(tags, list(sizes))
        path = begin[golds[0]] + _gather_scores(steps[0], golds[0])  # [B] score of the path of the tags
        total = begin + steps[0]  # [B, L] log-sum-exp of the scores of all paths to each label
        paths, totals = [], []
        for (before, gold), step in zip(pairwise(golds), steps[1:], strict=True):
            paths.append(path[len(gold) :] + end[before[len(gold) :]])
            totals.append(torch.logsumexp(total[len(gold) :] + end, 1))
            path = path[: len(gold)] + between[before[: len(gold)], gold] + _gather_scores(step, gold)
            total = torch.logsumexp(total[: len(gold), :, None] + between, 1) + step
        paths.append(path + end[golds[-1]])
        totals.append(torch.logsumexp(total + end, 1))
        return torch.cat(paths[::-1]) - torch.cat(totals[::-1])  # the shortest sentences ended first

    @torch.no_grad()
    def decode(self, emissions: Tensor, sizes: Sequence[int]) -> Tensor:
        """The best path of each sentence (Viterbi): packed ``emissions [N, L]`` → labels ``[N]``."""
        between, begin, end = self._scores()
        steps = torch.split(emissions, list(sizes))
        best, pointers = begin + steps[0], []  # [B, L] score of the best path to each label
        ended: list[Tensor] = []
        for step in steps[1:]:
            ended.append(best[len(step) :])
            best, pointer = (best[: len(step), :, None] + between).max(1)
            best = best + step
            pointers.append(pointer)
        ended.append(best)
        label = (ended.pop() + end).argmax(1)
        path = [label]
        for pointer in reversed(pointers):
            label = torch.cat([_gather_scores(pointer, label), (ended.pop() + end).argmax(1)])
            path.append(label)
        return torch.cat(path[::-1])

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores between labels ``[L, L]``, and of the first and last one ``[L]``."""
        scores = self.transitions + self.penalty
        return scores[:-2, :-2], scores[-2, :-2], scores[:-2, -1]


def _gather_scores(scores: Tensor, labels: Tensor) -> Tensor:
    """The score of one label in each row: ``[n, L]``, ``[n]`` → ``[n]``."""
    return scores.gather(1, labels[:, None])[:, 0]


def allowed_transitions(labels: Sequence[str]) -> Tensor:
    """The table of which BIO or IOBES label may follow which, ``[L+2, L+2]`` as :class:`Crf` takes it.

    I and E may follow only B or I of the same type. In IOBES, B and I must be followed by I or E.
    """
    must_close = any(label[:2] in ("E-", "S-") for label in labels)  # IOBES: an open span must be closed
    # the beginning and the end of a sentence are like O; nothing follows the end or comes before the beginning
    before, after = [*labels, "O", ""], [*labels, "", "O"]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(label[2:] for label in before))}
    is_open, needs_open = _have_prefix(before, ("B-", "I-")), _have_prefix(after, ("I-", "E-"))
    same_kind = _kind_numbers(before, kinds)[:, None] == _kind_numbers(after, kinds)[None, :]
    continues = is_open[:, None] & needs_open[None, :] & same_kind
    must_continue = needs_open[None, :] | (is_open[:, None] & must_close)
    return continues | ~must_continue


def _have_prefix(labels: Sequence[str], prefixes: tuple[str, ...]) -> Tensor:
    return torch.tensor([label.startswith(prefixes) for label in labels])


def _kind_numbers(labels: Sequence[str], kinds: Mapping[str, int]) -> Tensor:
    return torch.tensor([kinds[label[2:]] for label in labels])
