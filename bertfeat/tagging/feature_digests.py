"""Digests that identify features, and the tagged sentences behind them."""

from collections.abc import Iterable
from hashlib import sha256

from bertfeat.features import FeatureSet

_SCAN = 8192  # sentences at a time


def parts_digest(features: FeatureSet) -> str:
    """The digest of a feature set's parts: of every value in it."""
    return sha256("".join(entry.sha256 for entry in features.entries).encode()).hexdigest()


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
