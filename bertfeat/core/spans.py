"""Spans of texts: the rules that cut a text into sentences, paragraphs, runs of words, or where a column says."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bertfeat.core.words import CharSpans, WordRule, is_word, split_words
from bertfeat.errors import UsageError, parameter

GRAMMAR = "sentences, paragraphs, words:N, words:N:OVERLAP, column:NAME"


@dataclass(frozen=True, slots=True)
class SpanRule:
    """A rule that cuts a text into spans.

    ``sentences`` end at ``.``, ``!``, ``?`` and ``…`` before white space, at the other terminals of Unicode (``。``,
    ``।``, ``؟``, …) outside of brackets and quotation marks, and at blank lines; not after a title, an abbreviation
    before a number, or an initial, nor, in a paragraph that has capitals, before a lower-case letter.
    ``paragraphs`` end at blank lines. ``words:200`` are runs of 200 words with their punctuation, the last one of
    fewer; of ``words:200:50`` neighbors share 50 words. None of these begins or ends with white space.
    ``column:entities`` are the spans that a kept column ``entities`` of the corpus lists for each text, in JSON:
    ``[[0, 5], [9, 14, "PER"]]`` or ``[{"start": 0, "end": 5}]``, in characters, in any order; they may overlap.

    Raises:
        UsageError: an unknown kind, or a number of words that cannot be.
    """

    kind: str  # sentences, paragraphs, words, column
    size: int = 0  # words of a run
    overlap: int = 0  # words that neighboring runs share
    column: str = ""  # the name of the kept column

    def __post_init__(self) -> None:
        named = self.kind in ("sentences", "paragraphs", "words") or (self.kind == "column" and self.column)
        foreign = (self.kind != "words" and (self.size or self.overlap)) or (self.kind != "column" and self.column)
        if not named or foreign:
            raise _unknown(str(self))
        if self.kind == "words" and not 0 <= self.overlap < self.size:
            problem = "a span needs a word at least, and more than it shares with the next"
            raise UsageError(problem, where=parameter("spans", str(self)))

    def __str__(self) -> str:
        if self.kind == "column":
            return f"column:{self.column}"
        sizes = [self.size, self.overlap] if self.overlap else [self.size] if self.kind == "words" else []
        return ":".join([self.kind, *map(str, sizes)])

    @classmethod
    def parse(cls, rule: str) -> "SpanRule":
        """Read a rule as it is written.

        Raises:
            UsageError: an unknown rule, or a number of words that cannot be.
        """
        if rule.startswith("column:"):
            return cls("column", column=rule.removeprefix("column:"))
        match = re.fullmatch(r"(sentences|paragraphs)|words:([0-9]{1,9})(?::([0-9]{1,9}))?", rule)
        if match is None:
            raise _unknown(rule)
        return cls(match[1] or "words", int(match[2] or 0), int(match[3] or 0))

    @classmethod
    def of(cls, spans: str | None) -> "SpanRule | None":
        """The rule as it is written, read; None for no spans."""
        return None if spans is None else cls.parse(spans)

    def split(self, text: str, words: WordRule = WordRule.SPACES, listed: str | None = None) -> CharSpans:
        """The spans of a text, in order; a blank text has none.

        ``words`` is the rule by which words are counted, ``listed`` the value of the kept column; a text without one
        has no spans.

        Raises:
            ValueError: ``listed`` is no list of spans, or one of them is empty or lies outside the text.
        """
        if self.kind == "column":
            found: Iterable[tuple[int, int]] = sorted(_listed_spans(text, listed))
        elif self.kind == "words":
            found = _runs_of_words(text, split_words(text, words), self.size, self.overlap)
        else:
            found = _paragraphs(text) if self.kind == "paragraphs" else _sentences(text)
        spans = np.array(list(found), np.int32).reshape(-1, 2)
        return CharSpans(spans[:, 0], spans[:, 1])


def describe_vectors(column: str, spans: SpanRule | None) -> str:
    """The vectors of a column, or of spans of it, in words: ``last_mean``, or ``sentences of last_token``."""
    return column if spans is None else f"{spans} of {column}"


def _unknown(rule: str) -> UsageError:
    return UsageError("these spans are unknown", where=parameter("spans", rule), remedy=f"there are: {GRAMMAR}")


def _listed_spans(text: str, listed: str | None) -> Iterator[tuple[int, int]]:
    try:
        places = [] if not (listed or "").strip() else json.loads(listed or "")
        pairs = [_ends_of(place) for place in places] if isinstance(places, list) else None
    except (ValueError, RecursionError):
        pairs = None
    if pairs is None:
        raise ValueError('it is no list of spans, such as [[0, 5], [9, 14, "PER"]] or [{"start": 0, "end": 5}]')
    for start, end in pairs:
        if start > end:
            raise ValueError(f"the span [{start}, {end}) ends before it begins")
        if not 0 <= start <= end <= len(text):
            others = start >= 0 and end <= len(text.encode("utf-8", "replace"))
            counted = "; characters are counted, not bytes or UTF-16 units" if others else ""
            raise ValueError(f"the span [{start}, {end}) is outside the text of {len(text):,} characters{counted}")
        if start == end:
            raise ValueError(f"the span [{start}, {end}) is empty")
        yield start, end


def _ends_of(place: object) -> tuple[int, int]:
    """The offsets of a span: the first two of a list, or ``start`` and ``end`` of an object (doccano adds _offset)."""
    if isinstance(place, dict):
        ends = [place.get(name, place.get(f"{name}_offset")) for name in ("start", "end")]
    else:
        ends = list(place)[:2] if isinstance(place, list) else []
    start, end = ends
    if type(start) is not int or type(end) is not int:
        raise ValueError(place)
    return start, end


_BLANK_LINES = re.compile(r"\n\s*\n|\r\s*\r|\u2029")
_TERMINALS = (
    "\\u0589\\u061d-\\u061f\\u06d4\\u0700-\\u0702\\u07f9\\u0837\\u0839\\u083d-\\u083e\\u0964-\\u0965\\u104a-\\u104b\\u1362"
    "\\u1367-\\u1368\\u166e\\u1735-\\u1736\\u17d4-\\u17d5\\u1803\\u1809\\u1944-\\u1945\\u1aa8-\\u1aab\\u1b4e-\\u1b4f"
    "\\u1b5a-\\u1b5b\\u1b5e-\\u1b5f\\u1b7d-\\u1b7f\\u1c3b-\\u1c3c\\u1c7e-\\u1c7f\\u203c-\\u203d\\u2047-\\u2049\\u2cf9-\\u2cfb"
    "\\u2e2e\\u2e3c\\u2e53-\\u2e54\\u2e60-\\u2e61\\u3002\\ua4ff\\ua60e-\\ua60f\\ua6f3\\ua6f7\\ua876-\\ua877\\ua8ce-\\ua8cf\\ua92f"
    "\\ua9c8-\\ua9c9\\uaa5d-\\uaa5f\\uaaf0-\\uaaf1\\uabeb\\ufe12\\ufe15-\\ufe16\\ufe56-\\ufe57\\uff01\\uff1f\\uff61"
)
"""Unicode's Sentence_Terminal of the scripts in use, but for ``.``, ``!`` and ``?``: no white space follows them."""
_SENTENCE_END = re.compile(
    rf"""(?: \.(?:[ \u00a0]\.)+ [)\]}}"'”’»]* (?=\s|\Z)
    |  (?P<terminal> [!?…]*[{_TERMINALS}][{_TERMINALS}.!?…]* [)\]}}"'”’»」』》〉】）〕]* )
    |  (?<![.!?…])[.!?…]+ [)\]}}"'”’»]* (?=\s) )""",
    re.VERBOSE,
)  # fmt: skip
_CLOSING = dict(zip("([{“«「『《〈【（〔", ")]}”»」』》〉】）〕", strict=True))
_BRACKET = re.compile(f"[{re.escape(''.join([*_CLOSING, *_CLOSING.values()]))}]")
_GOES_ON = ("と", "って", "、", "，", ",")  # after a quotation, which is then no sentence by itself
_LETTER = re.compile(r"[^\W\d_]")
_OPENING = "([{\"'“‘«„「『（【"
_INITIAL = re.compile(r"(?:^|[\s(\[.-])[A-ZÀ-ÖØ-Þ]\.$")  # J. of J. Smith, and the last letter of U.S.
_LOWER_INITIAL = re.compile(r"(?:^|[\s(\[.-])[^\W\d_]\.$")  # the same in a paragraph without capitals
_TITLES = frozenset(
    "al mr mrs ms dr prof rev hon st mt gen col capt lt sgt messrs mme mlle vs cf viz ca vgl bzw e.g i.e".split()  # noqa: SIM905
)
_BEFORE_NUMBERS = frozenset(
    "no nos nr p pp vol vols fig figs ch sec eq art jan feb mar apr jun jul aug sep sept oct nov dec".split()  # noqa: SIM905
)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    breaks = [match.span() for match in _BLANK_LINES.finditer(text)]
    edges = [0, *(edge for span in breaks for edge in span), len(text)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        yield from _stripped(text, start, end)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    for start, last in _paragraphs(text):
        has_capitals = not text[start:last].islower()
        letter = _LETTER.search(text, start, last)  # a sentence has one: the mark in "1." ends none
        brackets = None  # looked at where a terminal needs it
        for match in _SENTENCE_END.finditer(text, start, last):
            if not letter or letter.start() >= match.start():
                continue
            if match["terminal"]:
                brackets = brackets or _Brackets(text, start, last)
                if brackets.hold(match):
                    continue
            if _ends_sentence(text, match, last, has_capitals):
                yield from _stripped(text, start, match.end())
                start = match.end()
                letter = _LETTER.search(text, start, last)
        yield from _stripped(text, start, last)


class _Brackets:
    """The brackets and quotation marks of a paragraph that are open; one that is never closed counts for none."""

    def __init__(self, text: str, start: int, last: int) -> None:
        self._text, self._read, self._last = text, start, last
        self._open: list[str] = []  # what closes them
        self._last_closing = {sign: text.rfind(sign, start, last) for sign in _CLOSING.values()}

    def hold(self, match: re.Match[str]) -> bool:
        """Whether a terminal stands in brackets or a quotation, or in one that the sentence goes on after."""
        for found in _BRACKET.finditer(self._text, self._read, match.end()):
            sign = found[0]
            if sign in _CLOSING and self._last_closing[_CLOSING[sign]] > found.start():
                self._open.append(_CLOSING[sign])
            elif sign in self._open:
                del self._open[self._open.index(sign) :]
        self._read = match.end()
        if self._open or match[0][-1] in "》〉":  # which stand around titles
            return True
        return match[0][-1] in _CLOSING.values() and self._text.startswith(_GOES_ON, match.end(), self._last)


def _ends_sentence(text: str, match: re.Match[str], last: int, has_capitals: bool) -> bool:
    """Whether a sentence ends at a mark: not after an abbreviation or an initial, nor before a lower-case letter."""
    following = text[match.end() : min(match.end() + 40, last)].lstrip().lstrip(_OPENING)
    if following[:1].islower() and (has_capitals or match[0].startswith(("..", ". .", "…"))):
        return False
    if match[0] != ".":
        return True
    before = text[max(0, match.start() - 20) : match.end()]
    if (_INITIAL if has_capitals else _LOWER_INITIAL).search(before):
        return False
    word = re.split(r"[\s(\[“\"'‘/-]", before[:-1])[-1]
    return word.lower() not in (_BEFORE_NUMBERS if following[:1].isdigit() else _TITLES)


def _runs_of_words(text: str, words: CharSpans, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    begins = [
        start for start, end in zip(words.start.tolist(), words.end.tolist(), strict=True) if is_word(text[start:end])
    ]
    for at in range(0, max(1, len(begins) - overlap), size - overlap):
        start = begins[at] if at else 0  # punctuation before the first word is of the first run
        yield from _stripped(text, start, begins[at + size] if at + size < len(begins) else len(text))


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The range without white space at its ends; nothing if nothing is left."""
    inner = text[start:end]
    begin = start + len(inner) - len(inner.lstrip())
    if begin < end:
        yield begin, start + len(inner.rstrip())
