"""Features the slow and obvious way, from Hugging Face's hidden states of one window at a time."""

import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.recipe import Operation, Recipe
from bertfeat.core.tokens.windows import cut_windows
from tests.support.tiny_models import Tiny, reference_states, reference_tokenizer

Spans = list[tuple[int, int]]


def slow_words(text: str) -> Spans:
    """Runs between white space and Unicode punctuation; each punctuation mark a word."""
    found: Spans = []
    begin: int | None = None
    for at, character in enumerate(text):
        mark = unicodedata.category(character).startswith("P")
        if (mark or is_space(character)) and begin is not None:
            found.append((begin, at))
            begin = None
        if mark:
            found.append((at, at + 1))
        elif not is_space(character) and begin is None:
            begin = at
    return found if begin is None else [*found, (begin, len(text))]


def is_space(character: str) -> bool:
    """White space as Unicode has it (Python counts four separators of ASCII too)."""
    return character.isspace() and character not in "\x1c\x1d\x1e\x1f"


@dataclass(frozen=True)
class SlowText:
    """Every token of one text (or pair) once, with all layers."""

    hidden: NDArray[np.float32]  # [L+1, M, H]
    spans: Spans  # [M] of each token in its text
    segments: list[int]  # [M]
    special: list[bool]  # [M]

    def layer_mix(self, recipe: Recipe) -> NDArray[np.float32]:
        """The recipe of every token. Shape: ``[M, W]``."""
        layers = [self.hidden[layer] for layer in recipe.layers]
        if recipe.operation is Operation.CONCAT:
            return np.concatenate(layers, axis=1)
        total = np.array(layers).sum(axis=0)
        return np.array(total / len(layers) if recipe.operation is Operation.MEAN else total, np.float32)

    def word(
        self, mix: NDArray[np.float32], span: tuple[int, int], subword: str, segment: int = 0
    ) -> NDArray[np.float32]:
        """One word's vector; zeros where it has no pieces."""
        rows = [
            mix[at]
            for at, (start, end) in enumerate(self.spans)
            if not self.special[at] and self.segments[at] == segment and start < span[1] and end > span[0]
        ]
        if not rows:
            return np.zeros(mix.shape[1], np.float32)
        vector = {"first": rows[0], "last": rows[-1], "mean": np.array(rows).mean(axis=0)}[subword]
        return np.array(vector, np.float32)


def slow_text(tiny: Tiny, text: str, pair: str | None = None, max_length: int | None = None) -> SlowText:
    """Feed every window to Hugging Face alone, and keep each token from where it has most context."""
    encoded = reference_tokenizer(tiny.folder)(
        [text],
        [pair] if pair is not None else None,
        return_token_type_ids=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    ids, types = encoded["input_ids"][0], encoded["token_type_ids"][0]
    own = encoded.sequence_ids(0)
    body = [at for at, sequence in enumerate(own) if sequence == (0 if pair is None else 1)]
    first = body[0] if body else len(ids) - 1
    stop = body[-1] + 1 if body else first
    room = (max_length or tiny.model.max_tokens) - (len(ids) - len(body))
    kept: list[NDArray[np.float32]] = []
    cuts = cut_windows(len(body), room)
    for number, each in enumerate(cuts):
        rows = [*range(first), *range(first + each.start, first + each.stop), *range(stop, len(ids))]
        states = reference_states(tiny.folder, [ids[at] for at in rows], [types[at] for at in rows])
        begin = 0 if number == 0 else first + each.take_start - each.start
        end = len(rows) if number == len(cuts) - 1 else first + each.take_stop - each.start
        kept.append(states[:, begin:end])
    hidden = np.concatenate(kept, axis=1)
    assert hidden.shape[1] == len(ids)
    segments = [0 if sequence is None else sequence for sequence in own]
    return SlowText(hidden, encoded["offset_mapping"][0], segments, [sequence is None for sequence in own])
