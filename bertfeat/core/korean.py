"""Particles of Korean (조사), which follow a word without a space: 은행에서 is 은행 (bank) and 에서 (at).

Kiwi finds them, a morphological analyzer (the extra ``[korean]``).
"""

import threading
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Protocol

import regex

from bertfeat.errors import needed_library
from bertfeat.io import installed_versions

HANGUL = regex.compile(r"\p{Hangul}")
"""A letter or syllable of Korean."""

_STRETCH = regex.compile(r".{1,2000}(?=\s|\Z)|.{1,2000}", regex.DOTALL)
"""A part of a text that is analyzed by itself, since Kiwi's time grows faster than the length."""

_PROBLEM, _PACKAGE = "particles of Korean are found by kiwipiepy", "bertfeat[korean]"

_lock = threading.Lock()


class _Morpheme(Protocol):
    """A morpheme as Kiwi gives it."""

    tag: str  # of the Sejong tag set: J… are particles, VCP is the copula 이다
    start: int  # of its first character; several morphemes may share a syllable, and the copula may have none
    end: int  # after its last character


class _Analyzer(Protocol):
    def tokenize(self, text: str) -> Sequence[_Morpheme]: ...


def find_particle_borders(text: str) -> list[int]:
    """The offsets in a text where a particle begins or ends, or where the copula 이다 begins.

    In Korean grammar particles are words, the copula with its endings among them, while endings of verbs are parts of
    their words. A particle that shares a syllable with the word before it (건 of 것은) has no border there.

    Raises:
        MissingLibraryError: Kiwi is not installed.
    """
    if not HANGUL.search(text):
        return []
    if unicodedata.is_normalized("NFC", text):
        return list(_borders_in(text))
    # Kiwi knows whole syllables only, not the letters that they are made of
    clusters = regex.findall(r"\X", text)
    composed = [unicodedata.normalize("NFC", cluster) for cluster in clusters]
    places = dict(zip(_offsets(composed), _offsets(clusters), strict=True))
    return [places[border] for border in _borders_in("".join(composed)) if border in places]


def kiwi_version() -> str:
    """The versions of Kiwi and of its model; others may find other particles.

    Raises:
        MissingLibraryError: Kiwi is not installed.
    """
    with needed_library(_PROBLEM, _PACKAGE):
        import kiwipiepy  # noqa: F401
    return " ".join(f"{name}-{version}" for name, version in installed_versions("kiwipiepy", "kiwipiepy_model").items())


def _offsets(strings: Sequence[str]) -> list[int]:
    """The offset of each string in all of them joined."""
    return list(accumulate(map(len, strings), initial=0))[:-1]


def _borders_in(text: str) -> Iterator[int]:
    for stretch in _STRETCH.finditer(text):
        if HANGUL.search(stretch.group()):
            inner = range(1, len(stretch.group()))  # at its ends are spaces, or it was cut within a word
            yield from (stretch.start() + at for at in _borders_of(_analyze(stretch.group())) if at in inner)


def _borders_of(morphemes: Sequence[_Morpheme]) -> Iterator[int]:
    before = 0  # the end of the morphemes before
    followers = [*(morpheme.start for morpheme in morphemes[1:]), None]
    for morpheme, follower in zip(morphemes, followers, strict=True):
        is_particle = morpheme.tag.startswith("J")
        if (is_particle or morpheme.tag.startswith("VCP")) and morpheme.start >= before:
            yield morpheme.start
        if is_particle and (follower is None or follower >= morpheme.end):
            yield morpheme.end
        before = max(before, morpheme.end)


def _analyze(text: str) -> Sequence[_Morpheme]:
    with _lock:  # Kiwi does not say whether several threads may ask it at once
        return _kiwi().tokenize(text)


@cache
def _kiwi() -> _Analyzer:
    with needed_library(_PROBLEM, _PACKAGE):
        from kiwipiepy import Kiwi
    with warnings.catch_warnings():  # it says that 0 once meant as many threads as there are cores
        warnings.simplefilter("ignore", DeprecationWarning)
        analyzer: _Analyzer = Kiwi(num_workers=0, load_multi_dict=False)  # whose titles hold particles
    return analyzer
