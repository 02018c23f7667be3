"""Long texts → their pieces, a segment at a time: a tokenizer needs some hundred bytes for each piece that it makes.

Segments overlap. Where the pieces of two neighbours agree for some pieces on either side of a place, what stands before
the segment no longer matters there, and the two are joined at it. Where they never agree (a word of many thousand
characters, which is one unknown piece), the two are read as one segment.

Shapes: P pieces of a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.tokens.tokenizer import TextPieces
from bertfeat.words import CharSpans

SEGMENT = 1 << 16
"""Characters of a segment; shorter texts are read whole."""

_OVERLAP = 1 << 10  # characters that two neighbours share on either side of the cut between them
_AGREEING = 12  # pieces that must agree on either side of the place where two segments are joined
_TRIED = 200  # places that are tried, on either side
_AT_ONCE = 16  # segments that a tokenizer is given at once, on all cores


class PieceReader(Protocol):
    """What splits texts into pieces: a tokenizer."""

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> list[TextPieces]:
        """Split texts into pieces."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Some characters of a text, and the pieces that they make; offsets count in the whole text."""

    start: int
    stop: int
    ids: NDArray[np.int32]  # [P]
    spans: CharSpans  # [P]


def split_texts(
    tokenizer: PieceReader, texts: Sequence[str], *, offsets: bool, segment: int = SEGMENT
) -> list[TextPieces]:
    """Split texts into pieces as the tokenizer itself does, the long ones in bounded memory."""
    found: list[TextPieces] = []
    for group in _group_texts(texts, segment):
        if len(group[0]) > segment:
            found.append(_long(tokenizer, group[0], offsets, segment))
        else:
            found.extend(tokenizer.pieces(group, offsets=offsets))
    return found


def _group_texts(texts: Sequence[str], segment: int) -> Iterator[Sequence[str]]:
    """Texts in order, as many at once as make up some segments; a long one by itself."""
    first, characters = 0, 0
    for at, text in enumerate(texts):
        long = len(text) > segment
        if at > first and (long or characters + len(text) > _AT_ONCE * segment):
            yield texts[first:at]
            first, characters = at, 0
        characters += _AT_ONCE * segment + 1 if long else len(text)  # nothing goes with a long one
    if texts:
        yield texts[first:]


def _long(tokenizer: PieceReader, text: str, offsets: bool, size: int) -> TextPieces:
    segments, joints = _join_segments(tokenizer, text, list(_segments(tokenizer, text, size)))
    firsts, stops = [0, *(there for _, there in joints)], [*(here for here, _ in joints), len(segments[-1].ids)]
    cuts = [slice(first, stop) for first, stop in zip(firsts, stops, strict=True)]
    ids = np.concatenate([segment.ids[cut] for segment, cut in zip(segments, cuts, strict=True)])
    if not offsets:
        return TextPieces(ids, None)
    start = np.concatenate([segment.spans.start[cut] for segment, cut in zip(segments, cuts, strict=True)])
    end = np.concatenate([segment.spans.end[cut] for segment, cut in zip(segments, cuts, strict=True)])
    return TextPieces(ids, CharSpans(start, end))


def _join_segments(
    tokenizer: PieceReader, text: str, read: list[_Segment]
) -> tuple[list[_Segment], list[tuple[int, int]]]:
    """Segments of which each agrees with the next, and the pieces at which they are joined."""
    segments, joints, at = [read[0]], list[tuple[int, int]](), 1
    while at < len(read):
        segment, at, joint = read[at], at + 1, None
        while segments and (joint := _joint(segments[-1], segment)) is None:
            before = segments.pop()
            del joints[-1:]
            # twice as far as it was read in vain, so that a text without any joint is read few times over
            goal = segment.stop + (segment.stop - before.start)
            while at < len(read) and read[at].stop <= goal:
                segment, at = read[at], at + 1
            (segment,) = _read_segments(tokenizer, text, [(before.start, segment.stop)])
        if joint is not None:
            joints.append(joint)
        segments.append(segment)
    return segments, joints


def _segments(tokenizer: PieceReader, text: str, size: int) -> Iterator[_Segment]:
    ends = [*range(size, len(text), size), len(text)]
    overlap = min(_OVERLAP, size // 2)
    bounds = [(max(0, end - size - overlap), min(len(text), end + overlap)) for end in ends[:-1]]
    bounds.append((max(0, (len(ends) - 1) * size - overlap), len(text)))
    for at in range(0, len(bounds), _AT_ONCE):
        yield from _read_segments(tokenizer, text, bounds[at : at + _AT_ONCE])


def _read_segments(tokenizer: PieceReader, text: str, bounds: Sequence[tuple[int, int]]) -> list[_Segment]:
    found = tokenizer.pieces([text[start:stop] for start, stop in bounds], offsets=True)
    read = []
    for (start, stop), pieces in zip(bounds, found, strict=True):
        assert pieces.spans is not None
        spans = CharSpans(pieces.spans.start + np.int32(start), pieces.spans.end + np.int32(start))
        read.append(_Segment(start, stop, pieces.ids, spans))
    return read


def _joint(left: _Segment, right: _Segment) -> tuple[int, int] | None:
    """The number, in either, of a piece around which two segments agree, near the middle of what they share."""
    middle = int(np.searchsorted(left.spans.start, (right.start + left.stop) // 2))
    for distance in range(_TRIED):
        for here in {middle - distance, middle + distance}:
            if _AGREEING <= here <= len(left.ids) - _AGREEING:
                there = int(np.searchsorted(right.spans.start, left.spans.start[here]))
                if there >= _AGREEING and _agree(left, here, right, there):
                    return here, there
    return None


def _agree(left: _Segment, here: int, right: _Segment, there: int) -> bool:
    one, other = slice(here - _AGREEING, here + _AGREEING), slice(there - _AGREEING, there + _AGREEING)
    return (
        np.array_equal(left.ids[one], right.ids[other])
        and np.array_equal(left.spans.start[one], right.spans.start[other])
        and np.array_equal(left.spans.end[one], right.spans.end[other])
    )
