"""Training examples: sequences of token ids with labels, and the batches that transformers' models take."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.pretraining.masking import UNPREDICTED, Ids, Masker
from bertfeat.pretraining.ranges import DocumentRanges
from bertfeat.pretraining.sequences import SegmentDrawer
from bertfeat.pretraining.settings import MaskShares, Objective, PretrainingSettings, parse_mask
from bertfeat.pretraining.token_store import TokenStore

Batch = dict[str, Tensor]
"""The arguments of a model's ``forward``, and ``unmasked_ids``; ``[S, T]`` each, ``next_sentence_label`` ``[S]``."""

_PADS = {"token_type_ids": 0, "labels": UNPREDICTED, "attention_mask": 0}


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The ids around and between segments, and which ids stand for pieces of texts."""

    cls: int
    sep: int
    pad: int
    mask: int
    ordinary: NDArray[np.bool_]  # [V], False for special tokens


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence. Shapes: ``[T]``."""

    ids: Ids  # as the text has them
    seen: Ids  # as the model sees them
    types: Ids  # 0 for the first segment, 1 for the second
    labels: Ids
    is_next: bool


class SequenceExamples(Sequence[Example]):
    """The examples of a training in their order, each made when it is asked for.

    Number i is sequence i mod n of epoch i // n, where an epoch has n.
    """

    def __init__(
        self,
        store: TokenStore,
        ranges: DocumentRanges,
        settings: PretrainingSettings,
        special: SpecialTokens,
        count: int | None = None,
    ) -> None:
        self._store, self.special, self.objective = store, special, settings.goal
        self._drawer = SegmentDrawer(store, ranges, settings.goal, settings.max_length, settings.seed)
        left_to_right = MaskShares(masked=100, random=0, kept=0)  # a piece that is predicted is not seen
        self.masker = Masker(
            parse_mask(settings.mask) if settings.goal.has_masks else left_to_right,
            settings.mask_rate,
            whole_words=settings.whole_words,
            mask_id=special.mask,
            ordinary=special.ordinary,
        )
        self._count = len(self._drawer) if count is None else count

    @property
    def epoch(self) -> int:
        """The number of sequences of an epoch."""
        return len(self._drawer)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Example:  # type: ignore[override]  # nobody slices them
        if not 0 <= number < self._count:
            raise IndexError(number)
        segments, rng = self._drawer.draw(*divmod(number, self.epoch))
        ids, types, starts = self._joined(segments.first, segments.second)
        if self.objective is Objective.LTR:
            seen, labels = ids, np.where(self.special.ordinary[ids], ids, UNPREDICTED)
        else:
            seen, labels = self.masker.mask(ids, starts, rng)
        return Example(ids, seen, types, labels, segments.is_next)

    def _joined(self, first: tuple[int, int], second: tuple[int, int] | None) -> tuple[Ids, Ids, NDArray[np.bool_]]:
        """Ids, segment ids and starts of words of ``[CLS] first [SEP] second [SEP]``.

        The first piece of a segment begins a word, though that word may have begun before.
        """
        ids: list[Ids] = [np.array([self.special.cls])]
        starts: list[NDArray[np.bool_]] = [np.array([True])]
        sizes = [1]
        for segment in (first, second):
            if segment is not None:
                ids += [self._store.ids(*segment), np.array([self.special.sep])]
                starts += [self._store.starts(*segment), np.array([True])]
                starts[-2][0] = True
                sizes.append(segment[1] - segment[0] + 1)
        sizes = [sizes[0] + sizes[1], *sizes[2:]]
        return np.concatenate(ids), np.repeat(np.arange(len(sizes)), sizes), np.concatenate(starts)


@dataclass(frozen=True, slots=True)
class Collator:
    """Makes batches of examples, padded to the longest one."""

    pad: int
    has_types: bool  # whether the model tells segments apart
    has_pairs: bool
    keeps_unmasked: bool  # whether the ids before masking are wanted

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Pad and stack: ``[T]`` each → ``[S, longest]``."""
        columns: dict[str, list[Ids]] = {
            "input_ids": [example.seen for example in examples],
            "attention_mask": [np.ones_like(example.ids) for example in examples],
            "labels": [example.labels for example in examples],
        }
        if self.has_types:
            columns["token_type_ids"] = [example.types for example in examples]
        if self.keeps_unmasked:
            columns["unmasked_ids"] = [example.ids for example in examples]
        batch = {name: _padded(rows, _PADS.get(name, self.pad)) for name, rows in columns.items()}
        if self.has_pairs:
            batch["next_sentence_label"] = torch.tensor([int(not example.is_next) for example in examples])
        return batch


def _padded(rows: Sequence[Ids], pad: int) -> Tensor:
    table = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(table)
