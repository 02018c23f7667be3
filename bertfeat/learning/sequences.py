"""The token sequences of examples, as a model reads them that is fine-tuned.

Texts and words are split into pieces as they are for features, so that both approaches see the same tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.core import CharSpans, Model, TextPieces, Tokenizer, align_words, locate_words
from bertfeat.errors import HeadError
from bertfeat.learning.task import HeadTexts
from bertfeat.learning.trainer import UNLABELED, Example

# ── windows of words ──────────────────────────────────────────────────────────────────────────────────────


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
        labels = np.full(len(self), UNLABELED, np.int64)
        # backwards, so that a piece in which two words begin has the label of the first
        labels[self.places[::-1]] = np.asarray(numbers, np.int64)[self.words[::-1]]
        return labels


def cut_into_windows(tokenizer: Tokenizer, size: int, sentences: Sequence[Sequence[str]]) -> list[WordWindow]:
    """Cut sentences of words into windows of at most ``size`` tokens, in order; long sentences are cut between words.

    A word without pieces is in no window. A word that is too long for a window belongs to the one with its first piece.
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
    """The end of a window: that of the sentence, or before the first word that does not fit, or where it is full."""
    full = begin + room
    if full >= total:
        return total
    before = starts[(starts > begin) & (starts <= full)]
    return int(before.max()) if len(before) else full


# ── sequences ─────────────────────────────────────────────────────────────────────────────────────────────


_LONGEST_QUESTION = 64  # tokens; this value and the next are those of BERT's run_squad.py
_STEP = 128  # tokens from the beginning of one window to that of the next


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """The part of a passage that one sequence has: n of the passage's N tokens."""

    example: int  # number of the question
    spans: CharSpans  # [N] characters of all tokens of the passage
    begin: int  # first token of the passage that is read
    stop: int
    place: int  # position of that token in the sequence
    own: NDArray[np.bool_]  # [n] tokens that no other window reads with more context


@dataclass(frozen=True, slots=True)
class HeadSequences:
    """The token sequences that a model reads: E of texts, stacks of choices, or windows."""

    examples: list[Example]  # [E]
    windows: list[PassageWindow]  # [E] of questions with passages, those of a question one after the other
    truncated: int  # number of texts, pairs or questions that were cut
    words: tuple[WordWindow, ...] = ()  # [E] of sentences of words


@dataclass(frozen=True, slots=True)
class _Sequence:
    """T tokens, special ones included."""

    ids: NDArray[np.int32]  # [T]
    types: NDArray[np.int32]  # [T]
    cut: bool

    @property
    def example(self) -> dict[str, NDArray[np.generic]]:
        return {"input_ids": self.ids, "token_type_ids": self.types}


class Sequencer:
    """Turns texts into sequences of at most ``longest`` tokens, for one model.

    If two texts together are too long, the longer one is cut first. A question about a passage is cut after 64 tokens.
    A passage that does not fit beside its question is read in windows, each of which begins 128 tokens (at most half a
    window) after the one before, as in BERT's ``run_squad.py``.
    """

    def __init__(self, model: Model, longest: int) -> None:
        self._tokenizer = Tokenizer(model)
        self.size = min(model.max_tokens, longest)
        self._padding = max(model.sizes.pad_token_id or 0, 0)

    def read_texts(self, texts: HeadTexts) -> HeadSequences:
        """Make one sequence of each text or pair."""
        seconds = [other[0] if other else None for other in texts.others]
        sequences = self._sequences(texts.texts, seconds)
        return HeadSequences([sequence.example for sequence in sequences], [], sum(each.cut for each in sequences))

    def read_choices(self, texts: HeadTexts) -> HeadSequences:
        """Make one stack of sequences of each question: the question with each of its choices."""
        counts = [len(choices) for choices in texts.others]
        if counts and min(counts) < 2:
            raise HeadError("it has fewer than two choices", where=f"question {texts.ids[int(np.argmin(counts))]}")
        questions = [text for text, count in zip(texts.texts, counts, strict=True) for _ in range(count)]
        sequences = iter(self._sequences(questions, [choice for choices in texts.others for choice in choices]))
        groups = [[next(sequences) for _ in range(count)] for count in counts]
        examples = [_stack_choices(group, self._padding) for group in groups]
        return HeadSequences(examples, [], sum(any(sequence.cut for sequence in group) for group in groups))

    def read_words(self, texts: HeadTexts) -> HeadSequences:
        """Make the windows of each sentence of words; a long sentence has several."""
        windows = cut_into_windows(self._tokenizer, self.size, texts.others)
        examples: list[Example] = [{"input_ids": each.ids, "token_type_ids": each.types} for each in windows]
        return HeadSequences(examples, [], 0, tuple(windows))

    def read_passages(self, texts: HeadTexts) -> HeadSequences:
        """Make the windows of each passage, each after the question."""
        for number, other in enumerate(texts.others):
            if not other:
                raise HeadError("it has no passage", where=f"question {texts.ids[number]}")
        questions = self._tokenizer.pieces(texts.texts, offsets=False)
        passages = self._tokenizer.pieces([other[0] for other in texts.others], offsets=True)
        examples: list[Example] = []
        windows = []
        cut = set()
        for number, (question, passage) in enumerate(zip(questions, passages, strict=True)):
            for sequence, window in self._windows(number, question, passage):
                examples.append(sequence.example)
                windows.append(window)
                cut |= {number} if sequence.cut else set()
        return HeadSequences(examples, windows, len(cut))

    def _windows(
        self, number: int, question: TextPieces, passage: TextPieces
    ) -> Iterator[tuple[_Sequence, PassageWindow]]:
        assert passage.spans is not None
        room = self.size - self._tokenizer.pair.size
        asked = question.ids[: min(_LONGEST_QUESTION, room // 2)]
        place = len(self._tokenizer.pair.before) + len(asked) + len(self._tokenizer.pair.between)
        stretches = _overlapping_stretches(len(passage.ids), room - len(asked))
        for (begin, stop), own in zip(stretches, _mark_most_context(stretches), strict=True):
            sequence = self._join(asked, passage.ids[begin:stop], cut=len(asked) < len(question.ids))
            yield sequence, PassageWindow(number, passage.spans, begin, stop, place, own)

    def _sequences(self, firsts: Sequence[str], seconds: Sequence[str | None]) -> list[_Sequence]:
        """Texts, or pairs of them, as sequences."""
        first_pieces = self._tokenizer.pieces(firsts, offsets=False)
        second_pieces = iter(self._tokenizer.pieces([text for text in seconds if text is not None], offsets=False))
        return [
            self._sequence(pieces.ids, None if second is None else next(second_pieces).ids)
            for pieces, second in zip(first_pieces, seconds, strict=True)
        ]

    def _sequence(self, first: NDArray[np.int32], second: NDArray[np.int32] | None) -> _Sequence:
        if second is None:
            room = self.size - self._tokenizer.single.size
            return self._join(first[:room], None, cut=len(first) > room)
        room = self.size - self._tokenizer.pair.size
        first_size, second_size = _share_room(len(first), len(second), room)
        return self._join(first[:first_size], second[:second_size], cut=len(first) + len(second) > room)

    def _join(self, first: NDArray[np.int32], second: NDArray[np.int32] | None, *, cut: bool) -> _Sequence:
        """One or two texts between the special tokens."""
        template = self._tokenizer.single if second is None else self._tokenizer.pair
        last = np.empty(0, np.int32) if second is None else second
        ids: list[ArrayLike] = [template.before, first, template.between, last, template.after]
        types: list[ArrayLike] = [
            template.before_types,
            np.full(len(first), template.text_types[0]),
            template.between_types,
            np.full(len(last), template.text_types[1]),
            template.after_types,
        ]
        return _Sequence(_concatenated(ids), _concatenated(types), cut)


def _concatenated(parts: Sequence[ArrayLike]) -> NDArray[np.int32]:
    return np.concatenate([np.asarray(part, np.int32) for part in parts])


def _share_room(first: int, second: int, room: int) -> tuple[int, int]:
    """Divide a room between the pieces of two texts; the longer text is cut first."""
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


def _stack_choices(choices: Sequence[_Sequence], padding: int) -> Example:
    """The sequences of a question's C choices as one example: ``[C, T]``."""
    shape = (len(choices), max(len(choice.ids) for choice in choices))
    ids, types, mask = np.full(shape, padding, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for number, choice in enumerate(choices):
        stop = len(choice.ids)
        ids[number, :stop], types[number, :stop], mask[number, :stop] = choice.ids, choice.types, 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def _overlapping_stretches(length: int, capacity: int) -> list[tuple[int, int]]:
    """The stretches of a passage's tokens that its windows read; one, which may be empty, where it is short."""
    step = max(1, min(_STEP, capacity // 2))
    return [(begin, min(begin + capacity, length)) for begin in range(0, max(length - capacity, 0) + step, step)]


def _mark_most_context(stretches: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """Mark in each stretch the tokens that have most context there: the shorter side counts, and 1% of the length."""
    most, whose = np.full(stretches[-1][1], -1.0), np.zeros(stretches[-1][1], np.int64)
    for number, (begin, stop) in enumerate(stretches):
        left = np.arange(stop - begin)
        context = np.minimum(left, left[::-1]) + 0.01 * (stop - begin)
        better = context > most[begin:stop]
        most[begin:stop][better], whose[begin:stop][better] = context[better], number
    return [whose[begin:stop] == number for number, (begin, stop) in enumerate(stretches)]
