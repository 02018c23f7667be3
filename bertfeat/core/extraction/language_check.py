"""The warnings about texts that the model cannot read well: an unknown language, or DNA given to a protein model.

The language is checked for the texts of a part together, and for each of them; and for a query.
"""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from bertfeat.core.corpus import Document
from bertfeat.core.korean import HANGUL
from bertfeat.core.tokens import TokenizedDocuments, Tokenizer
from bertfeat.core.words import split_words
from bertfeat.errors import parameter, shorten

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
_WITHOUT_SPACES = re.compile(
    "[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)  # kana and Han, where one piece per character is usual
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
    words = sum(map(_estimate_words, documents[sample]))
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
    if not _is_strange(Document(0, "", text), len(pieces.ids) + 2, unknown, least_letters=2):
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
    return [at for at in candidates.tolist() if _is_strange(documents[at], int(tokens[at]), int(unknown[at]))]


def _is_strange(document: Document, tokens: int, unknown: int, least_letters: int = _LEAST_LETTERS) -> bool:
    text = document.text + (document.pair or "")
    beginning = text[:_COUNTED]
    pieces = (tokens - 2) * len(beginning) / max(1, len(text))  # without [CLS] and [SEP]
    kinds = [unicodedata.category(character)[0] for character in beginning]
    letters, signs = sum(kind in "LM" for kind in kinds), sum(kind in "NPS" for kind in kinds)
    dense = sum(map(len, _WITHOUT_SPACES.findall(beginning)))
    if letters < least_letters:
        return False
    if unknown > _UNKNOWN_SHARE * tokens:
        return True
    words = _estimate_words(document) * len(beginning) / max(1, len(text))
    letter_by_letter = pieces - signs - dense > _PIECES_PER_LETTER * max(1, letters - dense)
    return letter_by_letter and pieces > _PIECES_PER_WORD * words


def _estimate_words(document: Document) -> float:
    """Estimate the number of words of a document from those at the beginning of each of its texts."""
    if document.words is not None:
        return len(document.words)
    return sum(map(_estimate_words_of_text, filter(None, (document.text, document.pair))))


def _estimate_words_of_text(text: str) -> float:
    beginning = text[:_COUNTED]
    runs = _WITHOUT_SPACES.findall(beginning)  # each is counted as one word, or a part of one
    words = len(split_words(beginning)) + sum(len(run) / _CHARACTERS_PER_WORD for run in runs) - len(runs)
    return words * len(text) / max(1, len(beginning))
