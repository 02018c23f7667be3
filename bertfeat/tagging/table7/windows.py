"""Tagged sentences as windows of tokens, a label at the first piece of each word, as fine-tuning needs them.

Texts and words become pieces as they do for features, so that both ways to a tagger see the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.models import Model
from bertfeat.tokens import TextPieces, Tokenizer
from bertfeat.training import UNLABELLED
from bertfeat.words import align_words, locate_words


@dataclass(frozen=True, slots=True)
class Window:
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


class Windower:
    """Cuts sentences into windows that a model can read at once.

    Raises:
        ModelError: the model has no fast tokenizer.
    """

    def __init__(self, model: Model) -> None:
        self._tokenizer = Tokenizer(model)
        self._template = self._tokenizer.single
        self._size = model.max_tokens - self._template.size

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[Window]:
        """The windows of sentences of words, in order; a long sentence makes several, cut between words.

        A word without pieces is in no window. Of a word that no window can hold, the first pieces are.
        """
        pieces = self._tokenizer.pieces([" ".join(words) for words in sentences], offsets=True)
        return [
            window
            for number, (words, text_pieces) in enumerate(zip(sentences, pieces, strict=True))
            for window in self._cut(number, words, text_pieces)
        ]

    def _cut(self, sentence: int, words: Sequence[str], pieces: TextPieces) -> Iterator[Window]:
        assert pieces.spans is not None
        first, stop = align_words(locate_words(words), pieces.spans)
        nonempty = np.flatnonzero(stop > first)
        starts = first[nonempty]
        begin, total = 0, len(pieces.ids)
        while begin < total:
            end = self._end(starts, begin, total)
            inside = (starts >= begin) & (starts < end)
            if inside.any():
                places = starts[inside] - begin + len(self._template.before)
                yield self._window(sentence, pieces.ids[begin:end], nonempty[inside], places)
            begin = end

    def _end(self, starts: NDArray[np.int64], begin: int, total: int) -> int:
        """Where a window that begins at a piece ends: with the sentence, before a word, or where it is full."""
        full = begin + self._size
        if full >= total:
            return total
        before = starts[(starts > begin) & (starts <= full)]
        return int(before.max()) if len(before) else full

    def _window(
        self, sentence: int, ids: NDArray[np.int32], words: NDArray[np.int64], places: NDArray[np.int64]
    ) -> Window:
        template = self._template
        types = [*template.before_types, *[template.text_types[0]] * len(ids), *template.after_types]
        whole = [*template.before, *ids.tolist(), *template.after]
        return Window(sentence, np.array(whole, np.int32), np.array(types, np.int32), words, places)
