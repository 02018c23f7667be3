"""Tagged sentences as windows of tokens, a label at the first piece of each word, as fine-tuning needs them.

Texts and words become pieces as they do for features, so that both ways to a tagger see the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.tokens import TextPieces, Tokenizer
from bertfeat.training import UNLABELLED
from bertfeat.words import align_words, locate_words


@dataclass(frozen=True, slots=True)
class WordWindow:
    """A sentence, or a stretch of a long one, as a sequence of T tokens of which n are first pieces of words."""

    sentence: int
    ids: NDArray[np.int32]  # [T] special tokens included
    types: NDArray[np.int32]  # [T]
    words: NDArray[np.int64]  # [n] numbers of words in the sentence
    places: NDArray[np.int64]  # [n] tokens at which they begin

    def __len__(self) -> int:
        return len(self.ids)

    def labels(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Label numbers ``[T]`` of the tokens, from those of the sentence's words."""
        labels = np.full(len(self), UNLABELLED, np.int64)
        # backwards: of two words that begin in one piece it is labelled with the first
        labels[self.places[::-1]] = np.asarray(numbers, np.int64)[self.words[::-1]]
        return labels


def cut_into_windows(tokenizer: Tokenizer, size: int, sentences: Sequence[Sequence[str]]) -> list[WordWindow]:
    """The windows of sentences of words, in order, each of ``size`` tokens at most; long ones are cut between words.

    A word without pieces is in no window. Of a word that no window can hold, the first pieces are.
    """
    room = size - tokenizer.single.size
    pieces = tokenizer.pieces([" ".join(words) for words in sentences], offsets=True)
    return [
        window
        for number, (words, text_pieces) in enumerate(zip(sentences, pieces, strict=True))
        for window in _cut_sentence(tokenizer, room, number, words, text_pieces)
    ]


def _cut_sentence(
    tokenizer: Tokenizer, room: int, sentence: int, words: Sequence[str], pieces: TextPieces
) -> Iterator[WordWindow]:
    assert pieces.spans is not None
    template = tokenizer.single
    first, stop = align_words(locate_words(words), pieces.spans)
    nonempty = np.flatnonzero(stop > first)
    starts = first[nonempty]
    begin, total = 0, len(pieces.ids)
    while begin < total:
        end = _window_end(starts, begin, total, room)
        inside = (starts >= begin) & (starts < end)
        if inside.any():
            places = starts[inside] - begin + len(template.before)
            types = [*template.before_types, *[template.text_types[0]] * (end - begin), *template.after_types]
            whole = [*template.before, *pieces.ids[begin:end].tolist(), *template.after]
            yield WordWindow(sentence, np.array(whole, np.int32), np.array(types, np.int32), nonempty[inside], places)
        begin = end


def _window_end(starts: NDArray[np.int64], begin: int, total: int, room: int) -> int:
    """Where a window that begins at a piece ends: with the sentence, before a word, or where it is full."""
    full = begin + room
    if full >= total:
        return total
    before = starts[(starts > begin) & (starts <= full)]
    return int(before.max()) if len(before) else full
