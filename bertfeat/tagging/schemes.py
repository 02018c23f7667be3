"""Tag schemes: how tags of single words stand for spans of them, and back."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from bertfeat.arguments import checked
from bertfeat.errors import CorpusError

OUTSIDE = "O"
NO_LABEL = "_"
"""Label of a span whose tags are plain ``B`` and ``I``."""

_SPAN_TAG = re.compile(r"[BIESLU](-.*)?", re.DOTALL)
_OTHER_SPELLING = re.compile(r"[BIESLUbieslu]?[-_:./|].+|.+[-_:./|][BIESLU]", re.DOTALL)  # B_PER, b-per, -PER, PER-B
_OUTSIDE_WORDS = frozenset({"o", "0", "_", "-", "none", "other", "out", "outside"})  # in small letters
_SAME = {"L": "E", "U": "S"}  # BILOU's names for what IOBES calls E and S


class Scheme(StrEnum):
    """How tags stand for spans."""

    BIO = "BIO"  # B- begins a span, I- continues it; also called IOB2
    IOB1 = "IOB1"  # I- throughout; B- only where a span follows one of its own label
    IOBES = "IOBES"  # E- ends a span, S- is a span of one word; as BILOU with L- and U-
    PLAIN = "PLAIN"  # every tag stands for itself, as parts of speech do

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans."""
        return self is not Scheme.PLAIN


@dataclass(frozen=True, slots=True)
class TagSpan:
    """A labelled stretch of words, ``start <= word < stop``."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _ParsedTag:
    prefix: str  # B, I, E, S or O
    label: str


@checked
def read_spans(tags: Sequence[str]) -> list[TagSpan]:
    """The spans of a sentence's tags in BIO, IOB1, IOBES or BILOU, as conlleval and seqeval read them.

    Any sequence can be read: a tag that continues nothing (I- after O, or after another label) begins a span.

    Raises:
        CorpusError: a tag of no such scheme.
    """
    spans: list[TagSpan] = []
    start = 0
    before = _ParsedTag(OUTSIDE, "")
    for at, tag in enumerate([*map(_parse_tag, tags), _ParsedTag(OUTSIDE, "")]):
        if before.prefix != OUTSIDE and (tag.prefix == OUTSIDE or _begins_span(before, tag)):
            spans.append(TagSpan(before.label, start, at))
        if _begins_span(before, tag):
            start = at
        before = tag
    return spans


@checked
def to_bio(tags: Sequence[str]) -> list[str]:
    """The same spans as BIO tags.

    Raises:
        CorpusError: a tag of no scheme with spans.
    """
    written = [OUTSIDE] * len(tags)
    for span in read_spans(tags):
        written[span.start : span.stop] = _bio(span)
    return written


@checked
def to_iobes(tags: Sequence[str]) -> list[str]:
    """The same spans as IOBES tags.

    Raises:
        CorpusError: a tag of no scheme with spans.
    """
    written = [OUTSIDE] * len(tags)
    for span in read_spans(tags):
        written[span.start : span.stop] = _bio(span)
        written[span.stop - 1] = f"{'S' if span.stop - span.start == 1 else 'E'}-{span.label}"
    return written


@checked
def detect_scheme(sentences: Sequence[Sequence[str]]) -> Scheme:
    """Find the scheme of sentences of tags; where all are ``O``, BIO.

    Raises:
        CorpusError: tags of spans, but for one that has no prefix.
    """
    seen = dict.fromkeys(tag for tags in sentences for tag in tags)
    others = [tag for tag in seen if not is_span_tag(tag)]
    if others:
        _refuse_mixture(seen, others, sentences)
        return Scheme.PLAIN
    if any(tag[0] in "ESLU" for tag in seen):
        return Scheme.IOBES
    kinds = {_scheme_of_beginning(before, tag) for tags in sentences for before, tag in _neighbours(tags)}
    return Scheme.IOB1 if Scheme.IOB1 in kinds and Scheme.BIO not in kinds else Scheme.BIO


def label_of(tag: str) -> str:
    """The label in a tag of a span: ``PER`` of ``B-PER``; ``O`` is its own."""
    parsed = _parse_tag(tag)
    return OUTSIDE if parsed.prefix == OUTSIDE else parsed.label


def is_tag_of(scheme: Scheme, tag: str) -> bool:
    """Whether a tag may occur in a scheme; any may among plain ones."""
    if not scheme.has_spans:
        return True
    prefixes = "BIES" if scheme is Scheme.IOBES else "BI"
    return tag == OUTSIDE or (tag[:1] in prefixes and tag[1:2] == "-")


def is_span_tag(tag: str) -> bool:
    """Whether a tag may stand for a span, or for none."""
    return tag == OUTSIDE or _SPAN_TAG.fullmatch(tag) is not None


def _bio(span: TagSpan) -> list[str]:
    return [f"B-{span.label}", *[f"I-{span.label}"] * (span.stop - span.start - 1)]


def _parse_tag(tag: str) -> _ParsedTag:
    if not is_span_tag(tag):
        raise CorpusError(f"{tag!r} is no tag of a span: those are O, and labels after B-, I-, E-, S-, L- or U-")
    return _ParsedTag(_SAME.get(tag[0], tag[0]), tag[2:] or NO_LABEL)


def _begins_span(before: _ParsedTag, tag: _ParsedTag) -> bool:
    """Whether a span begins at a tag: conlleval's startOfChunk."""
    if tag.prefix == OUTSIDE:
        return False
    return tag.prefix in "BS" or before.prefix in (OUTSIDE, "E", "S") or before.label != tag.label


def _neighbours(tags: Sequence[str]) -> Iterable[tuple[_ParsedTag, _ParsedTag]]:
    return pairwise([_ParsedTag(OUTSIDE, ""), *map(_parse_tag, tags)])


def _scheme_of_beginning(before: _ParsedTag, tag: _ParsedTag) -> Scheme | None:
    """The scheme that alone can begin a span in this way."""
    if tag.prefix == "I" and _begins_span(before, tag):
        return Scheme.IOB1
    if tag.prefix == "B" and (before.prefix == OUTSIDE or before.label != tag.label):
        return Scheme.BIO
    return None


def _refuse_mixture(seen: Iterable[str], others: Sequence[str], sentences: Sequence[Sequence[str]]) -> None:
    """One mistyped tag, or another spelling, must not turn a file of spans into one of plain tags."""
    spans = [tag for tag in seen if tag[:2] in ("B-", "I-")]
    outside = [tag for tag in seen if tag.lower() in _OUTSIDE_WORDS]
    misspelt = [tag for tag in others if _OTHER_SPELLING.fullmatch(tag)]
    only_misspelt = {*others} <= {*misspelt, *outside}
    is_scheme = OUTSIDE in outside or any(f"B-{tag[2:]}" in spans for tag in spans if tag[0] == "I")
    if not (is_scheme or only_misspelt if spans else only_misspelt and misspelt and outside):
        return
    wrong = others[0]
    if wrong in misspelt or wrong in outside:
        problem = f"{wrong!r} is a tag of spans in another spelling"
        remedy = "write a scheme with O, and with B- and I- before labels"
    else:
        problem = f"{wrong!r} stands among tags of spans such as {spans[0]!r}"
        remedy = "write it with B- or I- before its label, or O"
    number = next(number for number, tags in enumerate(sentences, 1) if wrong in tags)
    raise CorpusError(problem, where=f"sentence {number:,}", remedy=remedy)
