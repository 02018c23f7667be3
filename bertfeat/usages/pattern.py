"""Patterns of words that are looked for: simple queries with wildcards, and tokens of CQL, in one grammar.

- ``bank`` is a word, in any case; ``of course`` are words that follow one another
- ``*ing``, ``s?irit``: ``*`` stands for any letters, also none, and ``?`` for one; ``*`` alone for any word
- ``good|bad`` is one word or the other; ``\\*``, ``\\?``, ``\\|``, ``\\[``, ``\\"`` are the signs themselves
- ``"s.*t"`` and ``[word="s.*t"]`` are words that a regular expression describes, and ``[tag="V.*"]`` those whose tag it
  does; ``!=``, ``&``, ``|``, ``!`` and parentheses join such tests, and ``[]`` is any word or punctuation mark
- ``[]{1,3}``, ``[tag="ADJ"]+``: a token in brackets or quotes that is repeated

The signs within words are those of the simple queries of Sketch Engine and CQPweb; what stands in brackets and quotes
is the Corpus Query Language of their workbenches (Christ 1994; Evert and Hardie 2011).
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc
import regex

from bertfeat.arguments import require_text
from bertfeat.core import WordQuery, fold_word, is_word, split_words
from bertfeat.errors import UsageError, did_you_mean, parameter, shorten
from bertfeat.where import point_at

PATTERN_HELP = (
    'Patterns are written *ing, s?irit, good|bad, spirit of the *, go []{1,3} river (one to three between), "s.*t" (a '
    'regular expression of a word), [tag="V.*" & word!="was"]; \\* is an asterisk.'
)
"""The patterns that there are, at the end of a message."""

MOST_REPEATED = 20
"""The largest number of times that a token of a pattern is repeated."""

MOST_BETWEEN = 40
"""The largest difference of length between matches of a pattern, in words."""

# ── what a pattern is made of ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A word with signs that stand for letters."""

    expression: str  # a regular expression of the whole word, without case
    parts: tuple[str, ...]  # those of its parts, where punctuation marks stand in it, which are words of their own


@dataclass(frozen=True, slots=True)
class WrittenWord:
    """One of several words, as they are written."""

    alternatives: tuple[WordQuery | Wildcard, ...]

    @property
    def phrase(self) -> WordQuery | None:
        """Its only word, or beginning of words; None if it has several, or signs within."""
        only = self.alternatives[0]
        return only if len(self.alternatives) == 1 and isinstance(only, WordQuery) else None


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """A test of a word itself, or of its tag, by a regular expression of the whole of it."""

    attribute: str
    expression: str


@dataclass(frozen=True, slots=True)
class NotTest:
    """A test that holds where another does not."""

    of: "TokenTest"


@dataclass(frozen=True, slots=True)
class AllTests:
    """Tests that all hold; of none, that is so everywhere."""

    of: tuple["TokenTest", ...]


@dataclass(frozen=True, slots=True)
class AnyTest:
    """Tests of which one holds."""

    of: tuple["TokenTest", ...]


TokenTest = AttributeTest | NotTest | AllTests | AnyTest

EVERY_WORD = WrittenWord((Wildcard(".*", ()),))
"""An asterisk alone."""

ANY_TOKEN = AllTests(())
"""The test of a word or punctuation mark, whichever it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """A word of a pattern, or several that follow one another and pass one test."""

    token: WrittenWord | TokenTest
    least: int = 1
    most: int = 1
    spaced: bool = False  # whether only white space stands before it, and that; else nothing or white space


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words that follow one another in a text, which are looked for."""

    word: str  # as it was given
    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, word: str) -> Self:
        """Read a pattern.

        Raises:
            UsageError: there is no word, or no such pattern.
        """
        word = require_text(word, "the word to look for")
        steps = tuple(_join_phrases(_PatternReader(word).steps()))
        _check_steps(word, steps)
        return cls(word, steps)

    @classmethod
    def of_words(cls, word: str) -> Self:
        """The pattern of a word, or of words that follow one another, as they stand."""
        return cls(word, (Step(WrittenWord((WordQuery.of(word),))),))

    @classmethod
    def of_any_words(cls, number: int) -> Self:
        """The pattern of so many words in a row, whichever they are, without punctuation marks between them."""
        return cls(" ".join("*" * number), (Step(EVERY_WORD),) * number)

    @property
    def words(self) -> tuple[WordQuery, ...] | None:
        """The words, or beginnings of words, of which each hit is one; None where other words can be."""
        only = self.steps[0].token if len(self.steps) == 1 else None
        if not isinstance(only, WrittenWord):
            return None
        queries = tuple(each for each in only.alternatives if isinstance(each, WordQuery))
        return queries if len(queries) == len(only.alternatives) else None

    @property
    def is_every_word(self) -> bool:
        """Whether it is an asterisk alone."""
        return len(self.steps) == 1 and self.steps[0].token == EVERY_WORD

    @property
    def tests_tags(self) -> bool:
        """Whether it asks for tags."""
        return any(attribute != "word" for step in self.steps for attribute in _attributes(step.token))


def _check_steps(word: str, steps: Sequence[Step]) -> None:
    """Refuse steps that name no word, have no effect, or have too many matches for memory."""
    problem = ""
    if not any(step.least and step.token != ANY_TOKEN for step in steps):
        problem = "names no word"
    elif steps[-1].least < steps[-1].most:
        problem = "ends in a token that may be repeated, and the shortest match counts; leave that out, or go on"
    elif sum(step.most - step.least for step in steps) > MOST_BETWEEN:
        problem = f"is longer by more than {MOST_BETWEEN} words in one place than in another"
    elif sum(_tests_of(step.token) for step in steps) > _MOST_TESTS:
        problem = f"has more than {_MOST_TESTS} words and tests"
    if problem:
        raise UsageError(f"{shorten(word)!r} {problem}\n{PATTERN_HELP}")


def _tests_of(token: WrittenWord | TokenTest) -> int:
    """The number of words and tests of which a token is made."""
    if isinstance(token, WrittenWord):
        return sum(len(each.parts) or 1 if isinstance(each, Wildcard) else 1 for each in token.alternatives)
    return max(1, sum(1 for _ in _attributes(token)))


def _attributes(token: WrittenWord | TokenTest) -> Iterator[str]:
    if isinstance(token, AttributeTest):
        yield token.attribute
    elif isinstance(token, NotTest):
        yield from _attributes(token.of)
    elif isinstance(token, AllTests | AnyTest):
        for each in token.of:
            yield from _attributes(each)


def _join_phrases(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps, with words that follow one another as one phrase, which a set may have as one word."""
    held: Step | None = None
    for step in steps:
        phrase, before = _phrase_of(step), None if held is None else _phrase_of(held)
        if step.spaced and held is not None and phrase and before and not before.begins:
            joined = WordQuery.of(f"{before.word} {phrase.word}", begins=phrase.begins)
            held = replace(held, token=WrittenWord((joined,)))
            continue
        if held is not None:
            yield held
        held = step
    if held is not None:
        yield held


def _phrase_of(step: Step) -> WordQuery | None:
    return step.token.phrase if isinstance(step.token, WrittenWord) else None


# ── how it is read ──────────────────────────────────────────────────────────────────────────────────────────

_MOST_TESTS = 100
_MOST_DEPTH = 50  # of parentheses and signs for not
_SPACE = regex.compile(r"\s*")
_WORD = regex.compile(r'(?:\\.|[^\s\\\["])+', regex.DOTALL)
_STRING = regex.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1(%c)?""", regex.DOTALL)
_REPEATED = regex.compile(r"\{\s*(\d{1,6})\s*(?:(,)\s*(\d{1,6})?\s*)?\}|[?+*]")
_NAME = regex.compile(r"\w+")
_OPERATOR = regex.compile(r"!?==?")
_BAR = regex.compile(r"\\.(*SKIP)(*FAIL)|\|", regex.DOTALL)  # between words, without a backslash before it
_RANGE = regex.compile(r"\d+\s*\.\.\s*\d+")
_LETTERS = regex.compile(r"\\(.)|([*?])|([^\\*?]+|\\)", regex.DOTALL)
_FOREIGN = (
    (
        regex.compile(r"^/.*/$|(?<!\\)\.[*+]|\\[wdsbWDSB]"),
        'a regular expression stands in quotes, "tr.*", and tr\\.* is a full stop before any letters',
    ),
    (regex.compile(r"(?<!\\)\{"), 'a token in brackets or quotes is repeated: "very"{1,2}; the sign itself is \\{'),
    (regex.compile(r"\(.*(?<!\\)\||(?<!\\)\|.*\)"), "one word or the other has no parentheses: good|bad"),
    (regex.compile(r"^<.*>$"), f"for words in one sentence there is {parameter('spans', 'sentences')}"),
)
_AFTER_TOKENS = regex.compile(r"(?:[*+?&!]|::|%\w*|within|containing|meet|union)(?!\S)")
_UPPER_OR_LOWER = regex.compile(r"\\[pP]\{?\^?L[ult&]|\[\[:(?:upper|lower):\]\]")
_SPECIAL = regex.compile(r"[\\.^$*+?()\[\]{}|]")
_ATTRIBUTES = ("word", "tag")
_ALIKE = {"pos": "tag", "upos": "tag", "form": "word"}
_STANDS_FOR = {"*": ".*", "?": "."}
_STANDS_BETWEEN_MARKS = {"*": r"[^\p{P}]*", "?": r"[^\p{P}]"}
_HOLD_PLACES = {"*": "\ue000", "?": "\ue001"}  # letters of no script, while a word is split at punctuation


class _PatternReader:
    """Reads the text of a pattern from the left to the right."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def steps(self) -> list[Step]:
        """The steps of the whole text."""
        steps, after_word = list[Step](), False
        while self._skip_space() < len(self._text):
            if self._text[self._at] in '["':
                token = self._test() if self._text[self._at] == "[" else self._quoted()
                steps.append(Step(token, *self._repetition()))
                self._check_end_of_token()
                after_word = False
            else:
                steps.append(Step(self._word(), spaced=after_word))
                after_word = True
        return steps

    def _check_end_of_token(self) -> None:
        """Refuse what other tools read after a token in quotes or brackets, and this one as a word."""
        start = self._at
        if start < len(self._text) and not self._text[start].isspace() and self._text[start] not in '["':
            self._refuse("after a token in quotes or brackets comes white space, or how often it is repeated", start)
        foreign = _AFTER_TOKENS.match(self._text, self._skip_space())
        if foreign is not None:
            word = f'"{foreign[0]}"' if foreign[0].isalpha() else f"\\{foreign[0]}"
            any_word = {"*": ', and any word is [word=".*\\pL.*"]', "?": ', and a word of one letter is "."'}
            problem = f"{foreign[0]} does nothing here; as a word it is {word}{any_word.get(foreign[0], '')}"
            self._refuse(problem, *foreign.span())

    def _skip_space(self) -> int:
        self._at = _SPACE.match(self._text, self._at).end()
        return self._at

    def _take(self, pattern: regex.Pattern[str]) -> "regex.Match[str] | None":
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _refuse(self, problem: str, start: int, end: int | None = None) -> NoReturn:
        stop = len(self._text) if end is None else end
        raise UsageError("\n".join([problem, *point_at(self._text, start, max(stop, start + 1)), PATTERN_HELP]))

    # ── words as they are written ───────────────────────────────────────────────────────────────────────────

    def _word(self) -> WrittenWord:
        """One word or several, as they are written."""
        start = self._at
        match = self._take(_WORD)
        if match is None:
            self._refuse("a backslash stands before the sign that it makes a letter", start)
        if self._text[self._at : self._at + 1] in ("[", '"'):
            self._refuse(f"within a word, {self._text[self._at]} has a backslash before it", self._at, self._at + 1)
        written = match[0]
        for sign, meant in _FOREIGN:
            if sign.search(written):
                self._refuse(meant, start, self._at)
        alternatives = list(map(_alternative, _BAR.split(written)))
        if None in alternatives:
            self._refuse("a word is missing here", start, self._at)
        return WrittenWord(tuple(each for each in alternatives if each is not None))

    def _quoted(self) -> AttributeTest:
        """A regular expression of a word, in quotes."""
        start, found = self._at, self._string("word")
        if " " in found.expression:
            remedy = "words that follow one another have no quotes within a pattern, or each has its own"
            self._refuse(f"what stands in quotes is one word; {remedy}", start, self._at)
        return found

    # ── tokens of CQL ───────────────────────────────────────────────────────────────────────────────────────

    def _test(self) -> TokenTest:
        """A token in brackets."""
        start = self._at
        self._at += 1
        self._skip_space()
        if _RANGE.match(self._text, self._at):
            self._refuse("so many words between are []{1,3}", start)
        test = ANY_TOKEN if self._text[self._at : self._at + 1] == "]" else self._any_of(start)
        self._skip_space()
        if self._at == len(self._text):
            self._refuse("this bracket is not closed", start, start + 1)
        if self._text[self._at] != "]":
            self._refuse("between tests stands & or |, and ] after them", self._at, self._at + 1)
        self._at += 1
        return test

    def _any_of(self, start: int) -> TokenTest:
        tests = [self._all_of(start)]
        while self._sign("|"):
            tests.append(self._all_of(start))
        return tests[0] if len(tests) == 1 else AnyTest(tuple(tests))

    def _all_of(self, start: int) -> TokenTest:
        tests = [self._one(start)]
        while self._sign("&"):
            tests.append(self._one(start))
        return tests[0] if len(tests) == 1 else AllTests(tuple(tests))

    def _one(self, start: int) -> TokenTest:
        if self._sign("!"):
            return NotTest(self._deeper(self._one, start))
        if self._sign("("):
            test = self._deeper(self._any_of, start)
            if not self._sign(")"):
                self._refuse("this parenthesis is not closed", self._at)
            return test
        self._skip_space()
        if self._quote_follows():
            return self._string("word")
        at = self._at
        name = self._take(_NAME)
        if name is None:
            self._refuse('a test such as word="go" is missing', at)
        self._skip_space()
        operator = self._take(_OPERATOR)
        self._skip_space()
        if operator is None or not self._quote_follows():
            self._refuse(f'a test is written {name[0]}="…", with = or != and quotes', at)
        attribute = _ALIKE.get(name[0].lower(), name[0].lower())
        if attribute not in _ATTRIBUTES:
            meant = did_you_mean(attribute, _ATTRIBUTES)
            self._refuse(f"tokens have no {name[0]}; {meant}they have word, and tag where the corpus has tags", at)
        found = self._string(attribute, literal=operator[0].endswith("=="))
        return NotTest(found) if operator[0].startswith("!") else found

    def _deeper(self, read: Callable[[int], TokenTest], start: int) -> TokenTest:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._refuse(f"tests are nested {_MOST_DEPTH} deep at most", start)
        test = read(start)
        self._depth -= 1
        return test

    def _quote_follows(self) -> bool:
        return self._text[self._at : self._at + 1] in ('"', "'")

    def _sign(self, sign: str) -> bool:
        if self._text.startswith(sign, self._skip_space()):
            self._at += len(sign)
            return True
        return False

    def _string(self, attribute: str, *, literal: bool = False) -> AttributeTest:
        """A regular expression in quotes; with ``literal`` a string as it stands."""
        start = self._at
        match = self._take(_STRING)
        if match is None:
            self._refuse("this quote is not closed", start, start + 1)
        expression = match[2].replace(f"\\{match[1]}", match[1])
        if literal:
            letters = regex.sub(r"\\(.)", r"\1", expression)
            expression = _as_letters(fold_word(letters) if attribute == "word" else letters)
        elif attribute == "word":
            if _UPPER_OR_LOWER.search(expression):
                self._refuse(r"case does not matter: \p{L} is any letter", start, self._at)
            expression = _without_case(expression)
        try:
            for one in (expression, whole(expression)):
                pc.match_substring_regex(pa.array([""]), one)
        except pa.ArrowInvalid as error:
            problem = str(error).removeprefix("Invalid regular expression: ")
            self._refuse(f"this is no regular expression: {problem}", start, self._at)
        return AttributeTest(attribute, f"(?i:{expression})" if match[3] else expression)

    def _repetition(self) -> tuple[int, int]:
        """The least and the largest number of times that a token comes."""
        start = self._at
        match = self._take(_REPEATED)
        if match is None:
            if self._text[self._at : self._at + 1] == "{":
                self._refuse("so often is written {2}, {1,3} or {2,}", start)
            return 1, 1
        least, most = {"?": (0, 1), "*": (0, MOST_REPEATED), "+": (1, MOST_REPEATED)}.get(match[0], (0, 0))
        if match[1]:
            least = int(match[1])
            most = int(match[3]) if match[3] else MOST_REPEATED if match[2] else least
        if not least <= most <= MOST_REPEATED or not most:
            self._refuse(
                f"a token is repeated from 0 to {MOST_REPEATED} times, the smaller number first", start, self._at
            )
        return least, most


def _alternative(written: str) -> WordQuery | Wildcard | None:
    """A word as it is written, or with signs that stand for letters; None where nothing is written."""
    pieces = [(match[1] or match[3], match[2]) for match in _LETTERS.finditer(written)]
    signs = [sign for _, sign in pieces if sign]
    letters = "".join(text for text, sign in pieces if not sign)
    if not signs and not fold_word(letters):
        return None
    if not signs:
        return WordQuery.of(letters)
    if signs == ["*"] and pieces[-1][1] and is_word(letters[-1:]):
        return WordQuery.of(letters, begins=True)
    held = fold_word("".join(_HOLD_PLACES[sign] if sign else text for text, sign in pieces))
    spans = split_words(held)
    parts = [held[start:end] for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
    between = tuple(_expression(part, _STANDS_BETWEEN_MARKS) for part in parts) if len(parts) > 1 else ()
    return Wildcard(_expression(held, _STANDS_FOR), between)


def whole(expression: str, flags: str = "si") -> str:
    """The regular expression of strings of which the whole matches another one, without case."""
    return f"(?{flags})^(?:{expression})$"


def _without_case(expression: str) -> str:
    """A regular expression for words without case, whose own letters are as those of the index."""
    composed = unicodedata.normalize("NFC", expression)
    return "".join(sign if sign.isascii() else sign.casefold() for sign in composed)


def _expression(held: str, stands_for: Mapping[str, str]) -> str:
    """The regular expression of a word whose signs hold their places."""
    stands = {place: stands_for[sign] for sign, place in _HOLD_PLACES.items()}
    return "".join(stands.get(letter) or _as_letters(letter) for letter in held)


def _as_letters(letters: str) -> str:
    """The regular expression of letters as they stand, for RE2."""
    return str(_SPECIAL.sub(r"\\\g<0>", letters))
