"""Ranges of a corpus that are learned from or held out: whole documents, or the ends of documents."""

from dataclasses import dataclass

import numpy as np

from bertfeat.errors import CorpusError, parameter
from bertfeat.pretraining.token_store import Positions, TokenStore

FEWEST_WHOLE = 20
"""Held-out documents below which the ends of all documents are held out in place of some whole ones."""


@dataclass(frozen=True, slots=True)
class DocumentRanges:
    """Stretches of pieces, each of one document. Shapes: ``[D]``."""

    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Positions:
        """Pieces of each."""
        return self.ends - self.starts

    @property
    def pieces(self) -> int:
        """Pieces of all."""
        return int(self.lengths.sum())

    def where(self, chosen: "np.typing.NDArray[np.bool_]") -> "DocumentRanges":
        """Return the ranges whose place in ``chosen`` is true."""
        return DocumentRanges(self.starts[chosen], self.ends[chosen])


@dataclass(frozen=True, slots=True)
class CorpusSplit:
    """The ranges that are learned from, and those that are held out."""

    training: DocumentRanges
    held_out: DocumentRanges
    described: str  # for people: what is held out


def refuse_few_pairs(held_out: DocumentRanges, share: float) -> None:
    """Refuse held-out pieces that give no pairs of segments."""
    if len(held_out) and (held_out.lengths >= 2).sum() < 2:
        problem = f"the {share:g} of the corpus that is held out is of one document, and next sentences need two"
        raise CorpusError(problem, remedy=f"give a larger {parameter('held_out')}, or {parameter('held_out', 0)}")


def split_corpus(store: TokenStore, share: float, seed: int) -> CorpusSplit:
    """Hold a share of the corpus out: whole documents drawn at random, or the last sentences of each document."""
    if not len(store.pieces):
        raise CorpusError("the corpus is empty: none of its rows has a text", remedy="check the files and their column")
    documents = DocumentRanges(np.asarray(store.documents), np.append(store.documents[1:], len(store.pieces)))
    if share == 0:
        return CorpusSplit(documents, documents.where(np.zeros(len(documents), bool)), "nothing")
    enough = share * len(documents) >= FEWEST_WHOLE
    found = _whole(documents, share, seed) if enough else _tails(store, documents, share)
    if not len(found.held_out) or not len(found.training):
        problem = f"the corpus is too small to hold out {share:g} of it"
        raise CorpusError(problem, remedy=f"give more text, or {parameter('held_out', 0)}")
    return found


def _whole(documents: DocumentRanges, share: float, seed: int) -> CorpusSplit:
    count = round(share * len(documents))
    held = np.zeros(len(documents), bool)
    held[np.random.default_rng(np.random.SeedSequence((seed, 0))).choice(len(documents), count, replace=False)] = True
    described = f"{count:,} of {len(documents):,} documents"
    return CorpusSplit(documents.where(~held), documents.where(held), described)


def _tails(store: TokenStore, documents: DocumentRanges, share: float) -> CorpusSplit:
    """The sentences in the last share of each document, at least one; none of a document of one sentence."""
    wanted = documents.ends - np.maximum(1, (share * documents.lengths).astype(np.int64))
    at = np.searchsorted(store.sentences, wanted, side="right") - 1
    cuts = np.asarray(store.sentences)[at]
    cuts = np.where(cuts > documents.starts, cuts, documents.ends)
    ends = DocumentRanges(cuts, documents.ends)
    held = ends.where(ends.lengths > 0)
    described = f"the last sentences of {len(held):,} of {len(documents):,} documents"
    return CorpusSplit(DocumentRanges(documents.starts, cuts), held, described)
