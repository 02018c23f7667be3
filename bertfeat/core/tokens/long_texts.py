"""Long texts → their pieces, one section at a time, because a tokenizer needs some hundred bytes of memory per piece.

Sections overlap. Where two neighbors have the same pieces for a while on either side of a place, the text before the
section no longer matters there, and the two are joined at that place. Where they never agree (a word of many thousand
characters, which is one unknown piece), the two are read as one section.

Shapes: P pieces of a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.tokens.pieces import TextPieces
from bertfeat.core.words import CharSpans, cut_into_blocks

SECTION = 1 << 16
"""Characters of a section; shorter texts are read whole."""

_OVERLAP = 1 << 10  # characters that two neighbors share on either side of the cut between them
_AGREEING = 12  # pieces that must agree on either side of the place where two sections are joined
_TRIED = 200  # places that are tried for a joint, on either side of the middle of the overlap
_AT_ONCE = 16  # sections that a tokenizer is given at once, on all cores, more or less


class PieceReader(Protocol):
    """A tokenizer, which splits texts into pieces."""

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
        """Split texts into pieces."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of a text, and the pieces that it makes; offsets count in the whole text."""

    start: int
    stop: int
    ids: NDArray[np.int32]  # [P]
    spans: CharSpans  # [P]


def split_texts(tokenizer: PieceReader, texts: Sequence[str], *, offsets: bool, section: int = SECTION) -> TextPieces:
    """Split texts into pieces as the tokenizer itself does, the long ones in bounded memory."""
    split = (
        _split_long_text(tokenizer, group[0], offsets, section)
        if len(group[0]) > section
        else tokenizer.pieces(group, offsets=offsets)
        for group in cut_into_blocks(texts, _AT_ONCE * section, section)
    )
    return TextPieces.join([*split], offsets=offsets)


def _split_long_text(tokenizer: PieceReader, text: str, offsets: bool, size: int) -> TextPieces:
    sections, joints = _join_sections(tokenizer, text, list(_sections(tokenizer, text, size)))
    firsts, stops = [0, *(right for _, right in joints)], [*(left for left, _ in joints), len(sections[-1].ids)]
    cuts = [slice(first, stop) for first, stop in zip(firsts, stops, strict=True)]
    ids = np.concatenate([section.ids[cut] for section, cut in zip(sections, cuts, strict=True)])
    if not offsets:
        return TextPieces.of_one(ids, None)
    spans = CharSpans.join([section.spans.take(cut) for section, cut in zip(sections, cuts, strict=True)])
    return TextPieces.of_one(ids, spans)


def _join_sections(
    tokenizer: PieceReader, text: str, read: list[_Section]
) -> tuple[list[_Section], list[tuple[int, int]]]:
    """Sections of which each agrees with the next, and the pieces at which they are joined."""
    sections, joints, at = [read[0]], list[tuple[int, int]](), 1
    while at < len(read):
        section, at, joint = read[at], at + 1, None
        while sections and (joint := _joint(sections[-1], section)) is None:
            before = sections.pop()
            del joints[-1:]
            # read twice as far as before, so that a text without any joint is read only a few times
            goal = section.stop + (section.stop - before.start)
            while at < len(read) and (read[at].stop <= goal or _is_poor(section)):
                section, at = read[at], at + 1
            (section,) = _read_sections(tokenizer, text, [(before.start, section.stop)])
        if joint is not None:
            joints.append(joint)
        sections.append(section)
    return sections, joints


def _is_poor(section: _Section) -> bool:
    """Whether a section has too few pieces to be joined with any: all of it may lie in one endless word."""
    return len(section.ids) < 2 * _AGREEING


def _sections(tokenizer: PieceReader, text: str, size: int) -> Iterator[_Section]:
    ends = [*range(size, len(text), size), len(text)]
    overlap = min(_OVERLAP, size // 2)
    bounds = [(max(0, end - size - overlap), min(len(text), end + overlap)) for end in ends[:-1]]
    bounds.append((max(0, (len(ends) - 1) * size - overlap), len(text)))
    for at in range(0, len(bounds), _AT_ONCE):
        yield from _read_sections(tokenizer, text, bounds[at : at + _AT_ONCE])


def _read_sections(tokenizer: PieceReader, text: str, bounds: Sequence[tuple[int, int]]) -> list[_Section]:
    texts = tokenizer.pieces([text[start:stop] for start, stop in bounds], offsets=True)
    sections = []
    for (start, stop), pieces in zip(bounds, texts, strict=True):
        assert pieces.spans is not None
        spans = CharSpans(pieces.spans.start + np.int32(start), pieces.spans.end + np.int32(start))
        sections.append(_Section(start, stop, pieces.ids, spans))
    return sections


def _joint(left: _Section, right: _Section) -> tuple[int, int] | None:
    """The number in each section of a piece around which the two agree, near the middle of their overlap, or None."""
    middle = int(np.searchsorted(left.spans.start, (right.start + left.stop) // 2))
    for distance in range(_TRIED):
        for here in {middle - distance, middle + distance}:
            if _AGREEING <= here <= len(left.ids) - _AGREEING:
                other = int(np.searchsorted(right.spans.start, left.spans.start[here]))
                if other >= _AGREEING and _agree(left, here, right, other):
                    return here, other
    return None


def _agree(left: _Section, left_at: int, right: _Section, right_at: int) -> bool:
    one, other = slice(left_at - _AGREEING, left_at + _AGREEING), slice(right_at - _AGREEING, right_at + _AGREEING)
    return (
        np.array_equal(left.ids[one], right.ids[other])
        and np.array_equal(left.spans.start[one], right.spans.start[other])
        and np.array_equal(left.spans.end[one], right.spans.end[other])
    )
