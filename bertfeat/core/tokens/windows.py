"""Long texts: overlapping windows over the pieces of a text; each piece is taken from where it has most context."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

OVERLAP = 4  # windows overlap by a quarter of their length


class LongTextPolicy(StrEnum):
    """The treatment of a text that is longer than the model reads at once."""

    WINDOW = "window"
    TRUNCATE = "truncate"  # its end is cut off
    TRUNCATE_LEFT = "truncate-left"  # its beginning is cut off
    ERROR = "error"

    def read(self, start: int, stop: int, room: int) -> tuple[int, int]:
        """The pieces of a text from ``start`` to ``stop`` that are read where a cut text has ``room`` pieces."""
        if self is LongTextPolicy.TRUNCATE:
            return start, min(stop, start + room)
        if self is LongTextPolicy.TRUNCATE_LEFT:
            return max(start, stop - room), stop
        return start, stop


@dataclass(frozen=True, slots=True)
class TextWindow:
    """One window over the pieces of a text: the pieces that it reads, and those whose features are taken from it."""

    start: int  # first piece read
    stop: int
    take_start: int  # first piece taken
    take_stop: int


def cut_windows(num_pieces: int, capacity: int, *, causal: bool = False) -> list[TextWindow]:
    """Cut pieces into windows of at most ``capacity``; every piece is taken exactly once.

    Neighboring windows share a quarter of their pieces, and the boundary lies in the middle of what they share,
    so a piece is taken from the window where its shorter side of context is longest (as in BERT's ``run_squad.py``).
    In a ``causal`` model, where a piece sees only those before it, the boundary is the end of the earlier window. The
    last window is moved back to be full, which gives its pieces more context at the same cost.
    """
    if num_pieces <= capacity:
        return [TextWindow(0, num_pieces, 0, num_pieces)]
    step = max(1, capacity - capacity // OVERLAP)
    starts = [*range(0, num_pieces - capacity, step), num_pieces - capacity]
    stops = [start + capacity for start in starts]
    middles = [(later + stop + 1) // 2 for later, stop in zip(starts[1:], stops, strict=False)]  # of what two share
    bounds = [0, *(stops[:-1] if causal else middles)]
    ends = [*bounds[1:], num_pieces]
    return [TextWindow(s, s + capacity, first, last) for s, first, last in zip(starts, bounds, ends, strict=True)]


def cut_left_windows(begins: Sequence[int], stops: Sequence[int], num_pieces: int, capacity: int) -> list[TextWindow]:
    """Cut pieces into a window for each word, which ends with it; every piece is taken exactly once.

    Pieces between two words are taken with the later one, those after the last word with that. What does not fit into
    ``capacity`` is left out at the beginning of a window; a word of more pieces has several windows.

    Shape: ``begins [N]``, ``stops [N]``: the first piece of a word's context, and the piece after the word.
    """
    windows, taken = list[TextWindow](), 0
    for begin, stop in zip(begins, [*stops[:-1], num_pieces] if stops else [], strict=True):
        while taken < stop:
            end = min(stop, taken + capacity)
            windows.append(TextWindow(max(min(begin, taken), end - capacity), end, taken, end))
            taken = end
    return windows or cut_windows(num_pieces, capacity)


def fit_context(before: int, own: int, after: int, capacity: int) -> tuple[int, int]:
    """Choose how many pieces of context fit before and after a text's own pieces, as evenly as possible."""
    room = max(0, capacity - own)
    left = min(before, max(room // 2, room - after))
    return left, min(after, room - left)
