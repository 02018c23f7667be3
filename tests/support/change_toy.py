"""A small set of word vectors over years, which the tests keep as the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.core.features import Counts, FeatureSet, PartContent, Pieces, content_table, write_manifest, write_part
from tests.support.features_toy import toy_part

WIDTH = 32  # of concat4_word, four layers of 8


@dataclass(frozen=True)
class DatedText:
    """A document, and a vector for each of its words, which spaces part."""

    text: str
    kept: Mapping[str, Value]
    vectors: NDArray[np.float32]  # [n, WIDTH], exact in float16; a word of zeros is unaligned


def dated(text: str, vectors: ArrayLike, **kept: Value) -> DatedText:
    exact = np.asarray(vectors, np.float16).astype(np.float32)
    assert exact.shape == (len(text.split()), WIDTH)
    return DatedText(text, kept, exact)


def dated_set(
    folder: Path, documents: Sequence[DatedText], types: Mapping[str, str], part_rows: int = 50
) -> FeatureSet:
    """Write documents as a feature set with these kept columns."""
    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, len(documents), part_rows)):
        rows = documents[first : first + part_rows]
        toy = toy_part(number, first, len(rows), poolings=("word",), settings={"keep": list(types)})
        counts = Counts(documents=len(rows), tokens=sum(len(document.vectors) + 2 for document in rows))
        table = content_table(_part_content(rows, first, types), toy.header.columns)
        write_part(folder, replace(toy.header, counts=counts), table)
    write_manifest(folder, times={"seconds": 1.0}, versions={"bertfeat": "0.1.0"})
    return FeatureSet(folder)


def _part_content(documents: Sequence[DatedText], first: int, types: Mapping[str, str]) -> PartContent:
    lengths = np.array([len(document.vectors) + 2 for document in documents], np.int32)
    words = [document.text.split() for document in documents]
    wide = [np.array([len(word) for word in line]) for line in words]
    ends = [np.cumsum(each + 1) - 1 for each in wide]
    matrix = np.concatenate([document.vectors for document in documents])
    pieces = Pieces(
        offsets=np.cumsum([0, *map(len, words)], dtype=np.int64),
        strings=[word for line in words for word in line],
        start=(np.concatenate(ends) - np.concatenate(wide)).astype(np.int32),
        end=np.concatenate(ends).astype(np.int32),
        segment=None,
        aligned=np.asarray(matrix.any(axis=1)),
        matrices={"concat4_word": matrix.astype(np.float16)},
    )
    return PartContent(
        rows=np.arange(first, first + len(documents), dtype=np.int64),
        ids=[f"d{first + at}" for at in range(len(documents))],
        texts=[document.text for document in documents],
        pairs=None,
        kept={KeptColumn(name, kind): [document.kept[name] for document in documents] for name, kind in types.items()},
        n_tokens=lengths,
        n_unk=np.zeros_like(lengths),
        n_truncated=np.zeros_like(lengths),
        vectors={},
        tokens=None,
        words=pieces,
        tags=None,
    )
