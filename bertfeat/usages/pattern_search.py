"""The places of a pattern in a word index: the rarest of its words first, and from there to both sides.

Of matches that begin at one word the shortest counts; and of those that end at one word, once spans and near words
are looked at, the one that begins first.

Shapes: N words, V different words, n hits or places.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import WordQuery
from bertfeat.errors import UsageError, parameter, shorten
from bertfeat.ragged import ranges
from bertfeat.usages.pattern import (
    ANY_TOKEN,
    AnyTest,
    AttributeTest,
    NotTest,
    Pattern,
    Step,
    TokenTest,
    Wildcard,
    WrittenWord,
    whole,
)
from bertfeat.usages.word_index import Hits, WordIndex

_Places = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_AT_ONCE = 1 << 24  # hits that are extended at a time, about
_FEW = 16  # of so many words one at most: then its places are listed, and not sought among all


def find_pattern(index: WordIndex, pattern: Pattern) -> Hits:
    """Find the matches of a pattern, ascending, of those that begin at one word the shortest.

    Raises:
        UsageError: it asks for tags where there are none.
    """
    if pattern.tests_tags:
        require_tags(index, repr(shorten(pattern.word)))
    return _find_steps(index, pattern.steps)


def require_tags(index: WordIndex, what: str) -> None:
    """Refuse an index without tags, for which something asks.

    Raises:
        UsageError: it has none.
    """
    if not len(index.tag_names):
        remedy = (
            f"extract a corpus that has tags, such as CoNLL-U, with {parameter('pooling', 'word')} and without "
            f"{parameter('only')}"
        )
        raise UsageError(f"{what} asks for tags, and the words of the set have none", remedy=remedy)


def outermost(hits: Hits) -> _Places:
    """The numbers of ascending hits without those that end where one that begins earlier does."""
    ends = hits.first + hits.length
    if (np.diff(ends) > 0).all():
        return np.arange(len(hits))
    _, earliest = np.unique(ends, return_index=True)
    return np.sort(earliest)


def _find_steps(index: WordIndex, steps: Sequence[Step]) -> Hits:
    """The shortest matches, beginning with the rarest token, of which some are taken at a time."""
    opened = {token: _open_token(index, token) for token in {step.token for step in steps}}
    tokens = [opened[step.token] for step in steps]
    sure = [at for at, step in enumerate(steps) if step.least and step.token != ANY_TOKEN]
    rarest = min(sure, key=lambda at: tokens[at].count)

    def after(at: int, hits: Hits, *, spaced: bool = False) -> Hits:
        return tokens[at].after(hits[_goes_on(index, hits.first + hits.length, spaced=spaced)])

    def before(at: int, hits: Hits, *, spaced: bool = False) -> Hits:
        return tokens[at].before(hits[_goes_on(index, hits.first, spaced=spaced)])

    def extend(hits: Hits) -> Hits:
        hits = _repeat(partial(after, rarest), hits, steps[rarest].least - 1, steps[rarest].most - 1)
        for at in range(rarest + 1, len(steps)):
            hits = _repeat(partial(after, at, spaced=steps[at].spaced), hits, steps[at].least, steps[at].most)
        for at in reversed(range(rarest)):
            hits = _repeat(partial(before, at, spaced=steps[at + 1].spaced), hits, steps[at].least, steps[at].most)
        return _shortest([hits])

    begun = tokens[rarest].hits()
    lengths = 1 + sum(step.most - step.least for step in steps) + sum(token.spread for token in tokens)
    some = max(1, _AT_ONCE // lengths**2)  # each has so many beginnings and ends at most
    return _shortest([extend(begun[at : at + some]) for at in range(0, len(begun), some)])


def _shortest(found: Sequence[Hits]) -> Hits:
    """All hits, ascending; of those that begin at one word the shortest."""
    hits = _different(found)
    return hits[np.flatnonzero(np.diff(hits.first, prepend=-1))]


def _repeat(extend: Callable[[Hits], Hits], hits: Hits, least: int, most: int) -> Hits:
    """Extend hits by a token from ``least`` to ``most`` times."""
    found = [] if least else [hits]
    for number in range(1, most + 1):
        hits = extend(hits)
        if number >= least:
            found.append(hits)
        if not len(hits):
            break
    return found[0] if len(found) == 1 else _different(found)


def _different(found: Sequence[Hits]) -> Hits:
    """The different hits among several, by their first words and lengths, ascending."""
    longest = 1 + max((int(each.length.max(initial=0)) for each in found), default=0)
    both = np.concatenate([np.empty(0, np.int64), *(each.first * longest + each.length for each in found)])
    both.sort()
    both = both[np.diff(both, prepend=-1) > 0]
    return Hits(both // longest, both % longest)


def _goes_on(index: WordIndex, places: _Places, *, spaced: bool) -> _Mask:
    """Whether a text goes on from the word before each place to the one at it; with ``spaced`` with white space."""
    go_on = index.go_on(places)
    if spaced:
        at = np.flatnonzero(go_on)
        go_on[at] = ~index.adjoin(places[at])
    return go_on


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Token(Protocol):
    """A token of a pattern, in an index."""

    @property
    def count(self) -> int:
        """About how many places it has."""

    @property
    def spread(self) -> int:
        """The difference of its longest and its shortest match."""

    def hits(self) -> Hits:
        """All of its places."""

    def after(self, hits: Hits) -> Hits:
        """The hits that it follows, with it."""

    def before(self, hits: Hits) -> Hits:
        """The hits that follow it, with it."""


def _open_token(index: WordIndex, token: WrittenWord | TokenTest) -> _Token:
    if not isinstance(token, WrittenWord):
        return _WordToken(_open_test(index, token))
    wildcards = [each for each in token.alternatives if isinstance(each, Wildcard)]
    longer = [_of_parts(index, each) for each in wildcards if each.parts]
    written = [index.find(each) for each in token.alternatives if isinstance(each, WordQuery)]
    if not wildcards:
        return _listed_token(index, _different(written))
    matching = _matching(index.vocabulary, whole("|".join(each.expression for each in wildcards)))
    test = _test_words(index, matching & index.letters)
    if not written and not longer:
        return _WordToken(test)
    return _ListedToken(_different([*written, *longer, Hits.of_words(test.places())]))


def _listed_token(index: WordIndex, hits: Hits) -> "_Token":
    """The token of words as they are written; one word is found faster at a place than in a list."""
    if hits.length.max(initial=0) > 1:
        return _ListedToken(hits)
    chosen = np.zeros(len(index.vocabulary), bool)
    chosen[index.words[hits.first]] = True
    return _WordToken(_test_words(index, chosen))


def _of_parts(index: WordIndex, wildcard: Wildcard) -> Hits:
    """The places of words with signs for letters that follow one another without white space."""
    steps = [Step(AttributeTest("word", each)) for each in wildcard.parts]
    hits = _find_steps(index, steps)
    for away in range(1, len(steps)):
        hits = hits[index.adjoin(hits.first + away)]
    return hits


@dataclass(frozen=True)
class _ListedToken:
    """A token that is listed in all its places: phrases, and words beside them."""

    found: Hits

    @property
    def count(self) -> int:
        return len(self.found)

    @property
    def spread(self) -> int:
        return int(np.ptp(self.found.length)) if len(self.found) else 0

    def hits(self) -> Hits:
        return self.found

    def after(self, hits: Hits) -> Hits:
        chosen, own = _meet(hits.first + hits.length, self.found.first)
        return _different([Hits(hits.first[chosen], hits.length[chosen] + self.found.length[own])])

    def before(self, hits: Hits) -> Hits:
        chosen, own = _meet(hits.first, self.found.first + self.found.length)
        return _different([Hits(self.found.first[own], self.found.length[own] + hits.length[chosen])])


def _meet(places: _Places, others: _Places) -> tuple[_Places, _Places]:
    """The numbers of all pairs of equal places among two lists."""
    order = np.argsort(others, kind="stable")
    first, stop = (np.searchsorted(others[order], places, side=side) for side in ("left", "right"))
    return np.repeat(np.arange(len(places)), stop - first), order[ranges(first, stop - first)]


@dataclass(frozen=True)
class _WordToken:
    """A token that is one word which passes a test."""

    test: "_PlaceTest"

    @property
    def count(self) -> int:
        return self.test.count

    @property
    def spread(self) -> int:
        return 0

    def hits(self) -> Hits:
        return Hits.of_words(self.test.places())

    def after(self, hits: Hits) -> Hits:
        hits = hits[self.test.holds(hits.first + hits.length)]
        return Hits(hits.first, hits.length + 1)

    def before(self, hits: Hits) -> Hits:
        hits = hits[self.test.holds(hits.first - 1)]
        return Hits(hits.first - 1, hits.length + 1)


# ── tests of one word ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _PlaceTest:
    """A test of the word at a place."""

    index: WordIndex
    count: int  # about how many words pass it
    holds: Callable[[_Places], _Mask]  # mask of those places at which it is passed
    listed: Callable[[], _Places] | None = None  # lists them without going through all words

    def places(self) -> _Places:
        """All places at which it is passed, ascending."""
        if self.listed is not None and _FEW * self.count <= len(self.index.words):
            return self.listed()
        return np.flatnonzero(self.holds(np.arange(len(self.index.words))))


def _open_test(index: WordIndex, test: TokenTest) -> _PlaceTest:
    if isinstance(test, AttributeTest):
        if test.attribute == "word":
            return _test_words(index, _matching(index.vocabulary, whole(test.expression)))
        chosen = _matching(index.tag_names, whole(test.expression, "s"))
        return _PlaceTest(index, len(index.words), lambda places: chosen[index.tags[places]])
    if isinstance(test, NotTest):
        negated = _open_test(index, test.of)
        return _PlaceTest(index, len(index.words), lambda places: ~negated.holds(places))
    tests = sorted((_open_test(index, each) for each in test.of), key=lambda each: each.count)
    if isinstance(test, AnyTest):
        count = sum(each.count for each in tests)
        return _PlaceTest(index, count, lambda places: reduce(np.logical_or, (each.holds(places) for each in tests)))
    return _test_all(index, tests)


def _test_words(index: WordIndex, chosen: _Mask) -> _PlaceTest:
    """Whether a word is one of those of a mask of the vocabulary ``[V]``."""
    counts = np.diff(index.ends)[chosen]

    def listed() -> _Places:
        return np.sort(index.places[ranges(index.ends[:-1][chosen], counts)].astype(np.int64))

    return _PlaceTest(index, int(counts.sum()), lambda places: chosen[index.words[places]], listed)


def _test_all(index: WordIndex, tests: Sequence[_PlaceTest]) -> _PlaceTest:
    """Whether all tests are passed, of which the first has the fewest places."""

    def holds(places: _Places) -> _Mask:
        return reduce(np.logical_and, (each.holds(places) for each in tests), np.ones(len(places), bool))

    def listed() -> _Places:
        places = tests[0].places()
        return places[holds(places)]

    return _PlaceTest(index, tests[0].count if tests else len(index.words), holds, listed if tests else None)


def _matching(strings: pa.LargeStringArray, expression: str) -> _Mask:
    """Mask of the strings that match a regular expression; by RE2, whose time is linear."""
    try:
        found = pc.match_substring_regex(strings, expression)
    except pa.ArrowInvalid as error:
        raise UsageError(
            "a word of the pattern is too long", remedy="write fewer signs that stand for letters"
        ) from error
    mask: _Mask = found.to_numpy(zero_copy_only=False)
    return mask
