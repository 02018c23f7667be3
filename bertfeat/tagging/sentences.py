"""The tagged sentences of a feature set: which they are, their tags, and their digest."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from bertfeat.derivation import Derivation
from bertfeat.errors import TaggerError, parameter
from bertfeat.features import FeatureSet, list_offsets
from bertfeat.training import ExampleRows, ExampleStore, describe_source, parts_digest

_SCAN = 8192  # sentences at a time whose tags alone are read


class SentenceStore(ExampleStore):
    """The sentences of a feature set that have words, with what a tagger reads of them (its ``derivation``).

    Raises:
        TaggerError: its words have no tags, or it has no words.
    """

    def __init__(self, features: FeatureSet, derivation: Derivation, budget: int) -> None:
        self.folder = features.folder
        self.origin = describe_source(features)  # for messages
        self.digest = parts_digest(features)
        self._features = features
        if "tags" not in features.names:
            raise TaggerError(
                "its words have no tags",
                where=self.origin,
                remedy=f"CoNLL files bring them, and JSONL, CSV or Parquet by {parameter('pretokenized', True)} and "
                f"{parameter('tag_column')}",
            )
        super().__init__([features], [derivation], _sentence_rows(features), budget)

    def tags(self) -> Iterator[tuple[str, ...]]:
        """The tags of each sentence, in order; nothing else is read."""
        for batch in self._features.stream(["tags"], batch_rows=_SCAN):
            for tags in batch.column("tags").to_pylist():
                if tags:
                    yield tuple(tags)


def _sentence_rows(features: FeatureSet) -> ExampleRows:
    """The sentences that have words."""
    rows: list[NDArray[np.int64]] = []
    lengths: list[NDArray[np.int32]] = []
    for batch in features.stream(["row", "word_start"], batch_rows=_SCAN):
        counts = np.diff(list_offsets(batch, "word_start"))
        rows.append(batch.column("row").to_numpy()[counts > 0])
        lengths.append(counts[counts > 0].astype(np.int32))
    if not sum(map(len, rows)):
        raise TaggerError("there is no sentence with words in it", where=features.folder)
    first = np.concatenate(rows)
    return ExampleRows(first, first + 1, np.concatenate(lengths))


def sentences_digest(features: FeatureSet) -> str:
    """The digest of the sentences alone: words (or, in a set without texts, their places) and tags.

    Sets of one corpus have the same, whichever layers they hold and however they are cut into parts.
    """
    words = ["words"] if "words" in features.names else ["word_start", "word_end"]
    digest = sha256()
    for batch in features.stream([*words, "tags"], batch_rows=_SCAN):
        columns = [batch.column(name).to_pylist() for name in (*words, "tags")]
        for lists in zip(*columns, strict=True):
            digest.update("".join(map(_length_prefixed, lists)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _length_prefixed(items: Iterable[object] | None) -> str:
    """Items, each after its length, so that no two different lists are written alike."""
    texts = [str(item) for item in items or ()]
    return f"{len(texts)};" + "".join(f"{len(text)}:{text}" for text in texts)
