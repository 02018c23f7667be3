"""The characters that tokens and words stand for, by which those of two models are matched."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.features import PiecePositions, RecordBatch

_TEXTS = ("text", "pair")  # by segment


def without_blanks(batch: RecordBatch, tokens: PiecePositions) -> PiecePositions:
    """Tokens whose characters begin behind white space, which some tokenizers count as a part of the next token.

    Where the batch has no texts, the tokens as they are.
    """
    segment, start = _segments(tokens), tokens.start.copy()
    for number, name in enumerate(name for name in _TEXTS if name in batch.schema.names):
        texts = batch.column(name).to_pylist()
        begins = np.cumsum([0, *map(len, texts)])
        own = segment == number
        begin = begins[:-1][tokens.owners[own]]
        after = _next_characters("".join(texts))[np.clip(begin + start[own], 0, begins[-1])]
        start[own] = np.minimum(after - begin, tokens.end[own])
    return replace(tokens, start=start)


def _next_characters(text: str) -> NDArray[np.int64]:
    """For each place in a text, and its end, the next one that holds no white space, ``[n+1]``."""
    characters = np.frombuffer(text.encode("utf-32-le"), "<U1")
    places = np.where(np.char.isspace(characters), len(characters), np.arange(len(characters)))
    return np.minimum.accumulate(np.append(places, len(characters))[::-1])[::-1]


def match_characters(positions: Sequence[PiecePositions]) -> list[NDArray[np.int64]]:
    """The numbers of the usable pieces of two sets that have the same characters of the same document, ``[n]`` of each.

    Where several pieces are of the same characters, as the bytes of an emoji may be, the first of them counts.
    """
    numbers = [np.flatnonzero(each.usable) for each in positions]
    spans = [
        np.stack([each.owners, _segments(each), each.start, each.end], axis=1)[usable]
        for each, usable in zip(positions, numbers, strict=True)
    ]
    _, keys = np.unique(np.concatenate(spans), axis=0, return_inverse=True)
    ours, theirs = np.split(keys.reshape(-1), [len(spans[0])])
    _, *places = np.intersect1d(ours, theirs, return_indices=True)
    return [usable[place] for usable, place in zip(numbers, places, strict=True)]


def _segments(positions: PiecePositions) -> NDArray[np.int8]:
    return np.zeros(len(positions.start), np.int8) if positions.segment is None else positions.segment
