"""A small corpus to pre-train on, and flat stores of pieces whose every number tells where it stands."""

import random
from pathlib import Path

import numpy as np

from bertfeat.pretraining.corpus import CONTINUES, TokenStore

_TEXT = """
the a river bank money water ran fast old mill stood near town people went to market day night sun moon star
tree green red blue walked slowly home again while rain fell on roof of house and dog barked at cat
"""
_WORDS = _TEXT.split()


def write_corpus(path: Path, documents: int = 12, sentences: int = 10, seed: int = 0) -> Path:
    """Write documents of sentences over a few words each, blank lines between them."""
    rng = random.Random(seed)
    lines = []
    for _ in range(documents):
        topic = rng.sample(_WORDS, 12)
        lines += [" ".join(rng.choices(topic, k=rng.randint(4, 14))) + "." for _ in range(sentences)]
        lines.append("")
    path.write_text("\n".join(lines), "utf-8")
    return path


def numbered_store(lengths: list[list[int]], *, continued: float = 0.0, seed: int = 0) -> TokenStore:
    """A store in which a piece's id is its place; ``lengths`` are those of the sentences of each document.

    ``continued``: the share of pieces that continue a word.
    """
    sizes = [length for document in lengths for length in document]
    if not sizes:
        return TokenStore(np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int64))
    pieces = np.arange(sum(sizes), dtype=np.uint32)
    sentences = np.cumsum([0, *sizes[:-1]])
    documents = np.cumsum([0, *(sum(document) for document in lengths[:-1])])
    marks = np.random.default_rng(seed).random(len(pieces)) < continued
    marks[sentences] = False
    pieces[marks] |= CONTINUES
    return TokenStore(pieces, sentences.astype(np.int64), documents.astype(np.int64))
