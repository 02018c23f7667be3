"""The warnings about texts that the model cannot read well: an unknown language, or DNA given to a protein model.

The language is checked for the texts of a part together, and for each of them; and for a query.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.korean import HANGUL
from bertfeat.core.tokens import TokenizedDocuments, Tokenizer
from bertfeat.core.words import CharacterTable, code_points, split_each
from bertfeat.errors import parameter, shorten
from bertfeat.ragged import Int64s, lengths_of, offsets_of

MOST_UNKNOWN = 0.05  # share of [UNK] among the tokens of a corpus
MOST_PIECES = 4.0  # tokens per word
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
_KOREAN_GUIDE = "; 한국어 안내: docs/ko/index.md"
_SAMPLE = 200  # texts of a part, at even distances
_COUNTED = 10_000  # characters at the beginning of a text whose words are counted
_LEAST_WORDS = 20  # fewer say nothing about a corpus

# Limits for single texts. A model that does not know a script reads it letter by letter, Korean by parts of letters,
# and Latin script by longer pieces. A warning needs one text in a hundred, and three at least; emoticons and names
# make fewer texts look strange.
_PIECES_PER_WORD = 2.5
_PIECES_PER_LETTER = 0.8
_UNKNOWN_SHARE = 0.25
_LEAST_LETTERS = 5
_MOST_TEXTS = 0.01
_LEAST_TEXTS = 3
_WITHOUT_SPACES = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # kana and Han, mostly a piece each
_NUCLEOTIDES = frozenset("ACGTUN")
_LEAST_NUCLEOTIDES = 20  # shorter peptides of these amino acids occur
_CHARACTERS_PER_WORD = 2  # in scripts without spaces


def corpus_warnings(documents: Sequence[Document], tokenized: TokenizedDocuments) -> list[str]:
    """The warnings about a part: the tokenizer does not know its language, or that of some of its texts.

    Sequences of nucleotides among proteins give a warning, too.
    """
    if genes := [document for document in documents if _is_nucleotides(document)]:
        return [
            f"{len(genes):,} of {len(documents):,} sequences, the first of them {shorten(genes[0].id)!r}, have only "
            "the letters of nucleotides (A, C, G, T, U, N), which a model of proteins reads as amino acids; "
            "translate them"
        ]
    sample = slice(0, len(documents), -(-len(documents) // _SAMPLE) or 1)
    tokens, unknown = int(tokenized.n_tokens[sample].sum()), int(tokenized.n_unknown[sample].sum())
    words = float(_Measures.of(documents[sample]).words.sum())
    problems = []
    if words >= _LEAST_WORDS and tokens:
        if unknown / tokens > MOST_UNKNOWN:
            problems.append(f"{unknown / tokens:.0%} of the tokens are unknown to the model")
        if tokens / words > MOST_PIECES:
            problems.append(f"the model splits a word into {tokens / words:.1f} pieces on average")
    if problems:
        remedy = f"it does not know this language well; {_another_model(documents[sample])}"
        return [f"{' and '.join(problems)}: {remedy}"]
    strange = _strange_texts(documents, tokenized)
    if len(strange) < max(_LEAST_TEXTS, _MOST_TEXTS * len(documents)):
        return []
    first = shorten(documents[strange[0]].id)
    return [
        f"{len(strange):,} of {len(documents):,} texts, the first of them {first!r}, are in a language that the model "
        "does not know: it reads them letter by letter, or has no tokens for them; "
        f"{_another_model([documents[at] for at in strange[:_SAMPLE]])}"
    ]


def query_warning(text: str, tokenizer: Tokenizer) -> str | None:
    """The warning about a query in a language that the model does not know; None if it knows it."""
    if text.isascii():
        return None
    (pieces,) = tokenizer.pieces([text], offsets=False)
    unknown = int((pieces.ids == tokenizer.unknown_id).sum())
    tokens = np.array([len(pieces.ids) + 2])
    if not _are_strange([Document(0, "", text)], tokens, np.array([unknown]), least_letters=2).any():
        return None
    return (
        "the model does not know the language of this text: it reads it letter by letter, or has no tokens for it; "
        f"extract the corpus with a multilingual model, for example {MULTILINGUAL}{_korean_guide(text)}"
    )


def _another_model(documents: Sequence[Document]) -> str:
    """Name a model that knows the language of documents and, to those who write Korean, their guide."""
    beginnings = "".join((document.text + (document.pair or ""))[:_COUNTED] for document in documents)
    return f"a multilingual model does, for example {parameter('model', MULTILINGUAL)}{_korean_guide(beginnings)}"


def _korean_guide(text: str) -> str:
    """The place of the guide in Korean, if half of the letters or more are Hangul; else an empty string."""
    return _KOREAN_GUIDE if len(HANGUL.findall(text)) * 2 >= sum(map(str.isalpha, text)) > 0 else ""


def _is_nucleotides(document: Document) -> bool:
    """Whether all words are letters of nucleotides, and more of them than a protein or a text has by chance."""
    words = document.words
    return words is not None and len(words) >= _LEAST_NUCLEOTIDES and _NUCLEOTIDES.issuperset(words)


def _strange_texts(documents: Sequence[Document], tokenized: TokenizedDocuments) -> list[int]:
    """The numbers of the texts that are read letter by letter, or have many unknown tokens."""
    count = len(documents)
    tokens, unknown = tokenized.n_tokens[:count], tokenized.n_unknown[:count]
    characters = np.fromiter((len(each.text) + len(each.pair or "") for each in documents), np.int64, count)
    candidates = np.flatnonzero((tokens > _PIECES_PER_LETTER / 2 * characters) | (unknown > 0))
    measured = [documents[at] for at in candidates.tolist()]
    strange: list[int] = candidates[_are_strange(measured, tokens[candidates], unknown[candidates])].tolist()
    return strange


def _are_strange(
    documents: Sequence[Document],
    tokens: NDArray[np.integer],
    unknown: NDArray[np.integer],
    *,
    least_letters: int = _LEAST_LETTERS,
) -> NDArray[np.bool_]:
    """Which documents are read letter by letter, or have many unknown tokens. Shape: ``[D]`` each → ``[D]``."""
    found = _Measures.of(documents)
    pieces = (tokens - 2) * found.share  # without [CLS] and [SEP]
    letter_by_letter = pieces - found.signs - found.dense > _PIECES_PER_LETTER * np.maximum(
        1, found.letters - found.dense
    )
    split = letter_by_letter & (pieces > _PIECES_PER_WORD * found.words * found.share)
    strange: NDArray[np.bool_] = (found.letters >= least_letters) & (split | (unknown > _UNKNOWN_SHARE * tokens))
    return strange


@dataclass(frozen=True, slots=True)
class _Measures:
    """Counts of letters, signs and words in documents, from the beginning of each."""

    share: NDArray[np.float64]  # [D] of the characters, that the beginning has
    letters: Int64s  # [D] of the beginning
    signs: Int64s  # [D] of the beginning: digits, punctuation, symbols
    dense: Int64s  # [D] of the beginning: characters of scripts without spaces
    words: NDArray[np.float64]  # [D] of the whole document, estimated

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Self:
        """Measure documents."""
        texts = [
            document.text if document.pair is None else f"{document.text} {document.pair}" for document in documents
        ]
        beginnings = [text[:_COUNTED] for text in texts]
        share = np.array([len(own) / max(1, len(text)) for own, text in zip(beginnings, texts, strict=True)])
        kinds = _KINDS.of(code_points("".join(f"{text}\n" for text in beginnings)))
        starts = offsets_of(lengths_of(beginnings) + 1)[:-1]
        dense = (kinds & _DENSE) > 0
        begins = dense.copy()  # of a run, which is counted as one word, or a part of one
        begins[1:] &= ~dense[:-1]
        letters, signs, of_dense, runs = (
            np.add.reduceat(marked, starts, dtype=np.int64) if len(starts) else starts
            for marked in ((kinds & _LETTER) > 0, (kinds & _SIGN) > 0, dense, begins)
        )
        words = (split_each(beginnings)[1] + of_dense / _CHARACTERS_PER_WORD - runs) / np.maximum(share, 1e-9)
        given = [-1 if document.words is None else len(document.words) for document in documents]
        return cls(share, letters, signs, of_dense, np.where(np.array(given, np.int64) < 0, words, given))


_OTHER, _LETTER, _SIGN, _DENSE = 1, 2, 4, 8


def _kind_of_character(character: str) -> int:
    kind = unicodedata.category(character)[0]
    script = _DENSE if _WITHOUT_SPACES.match(character) else 0
    return script | (_LETTER if kind in "LM" else _SIGN if kind in "NPS" else _OTHER)


_KINDS = CharacterTable(_kind_of_character, np.uint8)
