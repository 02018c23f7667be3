"""WordPiece by a C kernel of our own (``csrc/wordpiece.c``), with the ids and character offsets of ``tokenizers``.

It knows BERT's normalizer and pre-tokenizer. What single characters become it learns from the tokenizer's own
normalizer, when it meets them, so that it follows the tokenizer's version of Unicode. A text with anything else in it
(an added token such as ``[CLS]``, a character whose form depends on its neighbors) is left to ``tokenizers``.

Without a C compiler at installation there is no kernel, and ``tokenizers`` does all of it.
"""

import ctypes
import importlib.util
import logging
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer, models, normalizers, pre_tokenizers

from bertfeat.core.tokens.pieces import TextPieces
from bertfeat.core.words import CharacterTable, CharSpans, code_points
from bertfeat.ragged import Int64s, lengths_of, offsets_of

_log = logging.getLogger(__name__)
_VERSION = 1  # of csrc/wordpiece.c; raise both with every change of a struct or a function
_LETTER, _ALONE, _SPACE, _NOTHING, _SEVERAL, _REFUSED = range(1, 7)  # what a character becomes; 0 is not known yet
_BEGINS_ADDED, _VALUE_SHIFT = 8, 4
_STEP_WORDS = 2  # 64-bit words of a step of the tree of pieces
_INNER = "##"  # the beginning of pieces that go on with a word
_WIDEST = 3  # the most characters that one becomes: a syllable of Hangul
_EXPANSIONS = 1 << 17  # room for all of them; the kernel may read it while another thread adds to it


class WordPiece:
    """A kernel for the vocabulary and the normalizer of a tokenizer."""

    def __init__(self, library: ctypes.CDLL, tokenizer: FastTokenizer, vocabulary: Mapping[str, int]) -> None:
        model = tokenizer.model
        assert isinstance(model, models.WordPiece)
        self._library, self._tokenizer = library, tokenizer
        self._unknown, self._most = vocabulary[model.unk_token], model.max_input_chars_per_word
        self._table = CharacterTable(self._entry, np.uint32)
        self._expansions, self._expanded = np.zeros(_EXPANSIONS, np.uint32), 0
        self._added, self._first_of_others = _added_tokens(tokenizer)
        listed = [[len(each), *map(ord, each)] for each in self._added]
        self._listed = np.array([*chain.from_iterable(listed), 0], np.uint32)
        self._reorders = _reorders_marks(tokenizer.normalizer)
        self._steps, self._shift = _build_tree(library, vocabulary, _INNER)
        self._table.learn(np.arange(128, dtype=np.uint32))

    @classmethod
    def of(cls, tokenizer: FastTokenizer) -> "WordPiece | None":
        """The kernel for a tokenizer; None where it was not built, or does not know what the tokenizer does."""
        library, model, normalizer = _load_library(), tokenizer.model, tokenizer.normalizer
        if library is None or not isinstance(model, models.WordPiece) or model.continuing_subword_prefix != _INNER:
            return None
        if not isinstance(normalizer, normalizers.BertNormalizer) or not normalizer.clean_text:
            return None
        if not isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer):
            return None
        vocabulary = tokenizer.get_vocab(with_added_tokens=False)
        if model.unk_token not in vocabulary or model.max_input_chars_per_word < 1:
            return None
        return cls(library, tokenizer, vocabulary)

    def split(self, texts: Sequence[str], *, offsets: bool) -> tuple[TextPieces, Int64s]:
        """Split texts into pieces, and give the numbers of those that are left to the tokenizer."""
        characters = code_points("".join(texts))
        bounds = offsets_of(lengths_of(texts))
        split = self._call(characters, bounds, offsets=offsets)
        if split is None:
            self._table.learn(characters)
            split = self._call(characters, bounds, offsets=offsets)
        assert split is not None
        return split

    def _call(
        self, characters: NDArray[np.uint32], bounds: Int64s, *, offsets: bool
    ) -> tuple[TextPieces, Int64s] | None:
        """Split texts; None where a character of theirs is not in the table yet."""
        texts, room = len(bounds) - 1, max(1, len(characters) * _WIDEST)
        ids = np.empty(room, np.int32)
        starts, ends = (np.empty(room, np.int32) if offsets else None for _ in range(2))
        counts, word = np.empty(texts, np.int64), np.empty(2 * self._most, np.uint32)
        job = _SplitStruct(
            _TreeStruct(self._steps.ctypes.data, len(self._steps) // _STEP_WORDS, self._shift),
            table=self._table.entries.ctypes.data,
            expansions=self._expansions.ctypes.data,
            added=self._listed.ctypes.data,
            unknown=self._unknown,
            most=self._most,
            text=characters.ctypes.data,
            bounds=bounds.ctypes.data,
            texts=texts,
            ids=ids.ctypes.data,
            starts=None if starts is None else starts.ctypes.data,
            ends=None if ends is None else ends.ctypes.data,
            counts=counts.ctypes.data,
            word=word.ctypes.data,
        )
        if self._library.bertfeat_wordpiece_split(ctypes.byref(job)):
            return None
        left, counts = np.flatnonzero(counts < 0), np.maximum(counts, 0)
        found = int(counts.sum())
        spans = None if starts is None or ends is None else CharSpans(starts[:found], ends[:found])
        return TextPieces(ids[:found], spans, counts), left

    def _entry(self, character: str) -> int:
        """The entry of a character in the table, by the tokenizer's own normalizer and pre-tokenizer."""
        if unicodedata.category(character) in ("Cs", "Cn"):
            return _REFUSED  # half of a pair, or of another version of Unicode
        normalizer, splitter = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        assert normalizer is not None
        assert splitter is not None
        between = normalizer.normalize_str(character)
        words = [word for word, _ in splitter.pre_tokenize_str(f"a{between}a")]
        if self._first_of_others & {character, *between}:
            return _REFUSED
        if self._reorders and between and any(map(unicodedata.combining, (character, *between))):
            return _REFUSED
        begins = _BEGINS_ADDED if character.lower() in {each[:1] for each in self._added} else 0
        match words:
            case ["aa"]:
                return _NOTHING | begins
            case ["a", "a"]:
                return _SPACE | begins
            case ["a", alone, "a"] if len(alone) == 1:
                return _ALONE | begins | ord(alone) << _VALUE_SHIFT
            case [one] if len(one) == 3:
                return _LETTER | begins | ord(one[1]) << _VALUE_SHIFT
            case [several] if len(several) - 2 <= _WIDEST and self._expanded < _EXPANSIONS - _WIDEST:
                place, more = self._expanded, [len(several) - 2, *map(ord, several[1:-1])]
                self._expansions[place : place + len(more)] = more
                self._expanded += len(more)
                return _SEVERAL | begins | place << _VALUE_SHIFT
        return _REFUSED


def _build_tree(library: ctypes.CDLL, vocabulary: Mapping[str, int], inner: str) -> tuple[NDArray[np.uint64], int]:
    """The tree of pieces, and the shift that a hash of its steps takes."""
    goes_on = np.array([piece.startswith(inner) and piece != inner for piece in vocabulary], np.int8)
    pieces = [piece.removeprefix(inner) if inside else piece for piece, inside in zip(vocabulary, goes_on, strict=True)]
    characters = code_points("".join(pieces))
    bounds = offsets_of(lengths_of(pieces))
    ids = np.fromiter(vocabulary.values(), np.int32, len(vocabulary))
    bits = 4
    while True:
        steps = np.zeros(_STEP_WORDS << bits, np.uint64)
        tree = _TreeStruct(steps.ctypes.data, 1 << bits, 64 - bits)
        given = [array.ctypes.data_as(ctypes.c_void_p) for array in (characters, bounds, ids, goes_on)]
        if not library.bertfeat_wordpiece_build(ctypes.byref(tree), *given, ctypes.c_int64(len(pieces))):
            return steps, 64 - bits
        bits += 1


def _added_tokens(tokenizer: FastTokenizer) -> tuple[list[str], set[str]]:
    """Added tokens that are looked for in a text as it is, in lower case, and first characters of all others.

    These are looked for in the normalized text, or are more than ASCII.
    """
    exact, first = list[str](), set[str]()
    normalizer = tokenizer.normalizer
    assert normalizer is not None
    for token in tokenizer.get_added_tokens_decoder().values():
        if token.content.isascii() and not token.normalized:
            exact.append(token.content.lower())
        else:
            first |= {token.content[:1], normalizer.normalize_str(token.content).strip()[:1]}
    return exact, first


def _reorders_marks(normalizer: normalizers.Normalizer | None) -> bool:
    """Whether a normalizer decomposes characters, by which marks change places."""
    assert isinstance(normalizer, normalizers.BertNormalizer)
    return bool(normalizer.lowercase if normalizer.strip_accents is None else normalizer.strip_accents)


@cache
def _load_library() -> ctypes.CDLL | None:
    """Load the built kernel; None where there is none, or one of other sources."""
    built = importlib.util.find_spec("bertfeat.core.tokens._wordpiece")
    if built is None or built.origin is None:
        return None
    try:
        library = ctypes.CDLL(built.origin)
        sizes = (ctypes.c_int64 * 2)()
        for name in ("version", "build", "split"):
            getattr(library, f"bertfeat_wordpiece_{name}").restype = ctypes.c_int64
        version = library.bertfeat_wordpiece_version(sizes)
    except (OSError, AttributeError) as error:
        _log.warning("%s cannot be loaded: %s", built.origin, error)
        return None
    if version != _VERSION or [*sizes] != [ctypes.sizeof(_TreeStruct), ctypes.sizeof(_SplitStruct)]:
        _log.warning("%s was built from other sources, so tokenizers is used instead", built.origin)
        return None
    return library


class _TreeStruct(ctypes.Structure):
    """The tree of pieces."""

    _fields_ = [("steps", ctypes.c_void_p), ("slots", ctypes.c_int64), ("shift", ctypes.c_int64)]


class _SplitStruct(ctypes.Structure):
    """Texts to split, and room for their pieces."""

    _fields_ = [
        ("tree", _TreeStruct),
        ("table", ctypes.c_void_p),
        ("expansions", ctypes.c_void_p),
        ("added", ctypes.c_void_p),
        ("unknown", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("text", ctypes.c_void_p),
        ("bounds", ctypes.c_void_p),
        ("texts", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("word", ctypes.c_void_p),
    ]
