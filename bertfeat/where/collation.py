"""The order of a dictionary for words of any language, whatever the locale: letters first, then accents, then case.

It follows the default order of the Unicode Collation Algorithm (UTS #10) for words: signs come before digits, these
before letters; scripts follow one another as in Unicode; *Äpfel* stands beside *Apfel*, *œuvre* as *oeuvre*. The orders
of single languages, such as the Swedish one with *å* after *z*, are not its own.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

_ALIKE = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"})
_SIGNS = {sign: chr(place) for place, sign in enumerate("_-‐–—,;:!?.'‘’\"“”()[]{}@*/\\&#%`^+<=>|~$", 0x10)}
_CLASSES = {"C": "\0", "Z": "\1", "P": "\2", "S": "\3", "N": "\4"}

DictionaryKey = tuple[str, str, str, str]


def dictionary_key(word: str) -> DictionaryKey:
    """The key by which a word is sorted: its letters, their accents, their case (small first), and the word itself."""
    pieces = unicodedata.normalize("NFKD", word)
    accents = "".join(sign for sign in pieces if _is_accent(sign))
    letters = "".join(sign for sign in pieces if not _is_accent(sign)).casefold().translate(_ALIKE)
    return "".join(map(_placed, letters)), accents, pieces.swapcase(), word


def dictionary_ranks(words: Iterable[str]) -> dict[str, int]:
    """The number of each word in the order of a dictionary, from 0."""
    return {word: number for number, word in enumerate(sorted(set(words), key=dictionary_key))}


@cache
def _is_accent(sign: str) -> bool:
    """Whether letters bear a sign: an accent, a point of Hebrew or Arabic; but not a vowel sign of Devanagari."""
    place = unicodedata.combining(sign)
    return 10 <= place <= 36 or place >= 200


@cache
def _placed(sign: str) -> str:
    """A sign of a folded word, so that signs come before digits, and these before letters; empty if it is not seen."""
    kind = unicodedata.category(sign)
    if kind[0] in "LM":
        return sign
    return "" if kind == "Cf" else _CLASSES[kind[0]] + _SIGNS.get(sign, sign)
