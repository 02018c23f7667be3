"""The meaning that is asked for: the vector of a word in a sentence, made as the feature set was.

Shapes: W width of the feature column.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.features import DocumentFeatures, FeatureSet, FeatureSettings, ModelIdentity, ReadableColumn
from bertfeat.recipe import FeatureColumn, Pooling
from bertfeat.usages.match import Match, WordQuery, fold_case, parse_word
from bertfeat.usages.occurrences import Occurrence, combine_vectors, find_occurrences
from bertfeat.usages.scan import subword_rule, unit

_MARK = re.compile(r"\*(\S(?:[^*]*\S)?)\*")


class WordEncoder(Protocol):
    """What embeds the sentence: an :class:`bertfeat.Extractor`, or a stand-in."""

    @property
    def model(self) -> ModelIdentity:
        """Which model it is."""
        ...

    def features(self, texts: Sequence[str]) -> list[DocumentFeatures]:
        """Tokens and words with their vectors."""
        ...


def open_word_encoder(
    features: FeatureSet, found: ReadableColumn, *, model: str | Path | None = None, device: str | None = None
) -> WordEncoder:
    """Open the model that a feature set records, with the recipe, pooling, precision and subword rule of its column.

    ``model`` says where the model is now, if not where it was.

    Raises:
        ModelError: the model cannot be found.
        FeatureSetError: it is another one.
    """
    from bertfeat.extraction import Extractor  # torch: seconds

    stored = next(column for column in features.columns if column.name in found.derivation.columns)
    column = FeatureColumn(found.recipe, found.pooling, found.width, stored.dtype)
    header = features.header
    return Extractor.from_record(header.model, header.settings, [column], name=model, device=device)


def check_word_encoder(features: FeatureSet, encoder: WordEncoder) -> None:
    """See that an encoder is the model that made the set.

    Raises:
        FeatureSetError: it is another one.
    """
    if encoder.model.fingerprint != features.header.model.fingerprint:
        raise _another_model(features, encoder.model.name, encoder.model.fingerprint)


def _another_model(features: FeatureSet, name: str, fingerprint: str) -> FeatureSetError:
    ours = features.header.model
    return FeatureSetError(
        f"{features.folder} was made with {ours.name} (fingerprint {ours.fingerprint[:12]}), but the model at hand is "
        f"{name} (fingerprint {fingerprint[:12]}): vectors of two models cannot be compared; "
        f"say with --model where the first one is"
    )


def embed_word(
    word: WordQuery, like: str, encoder: WordEncoder, column: ReadableColumn | FeatureColumn, settings: FeatureSettings
) -> NDArray[np.float32]:
    """Embed a sentence and take the vector of the word in it: the one marked ``*so*``, else its first occurrence.

    Shape: ``[W]``, of length 1.

    Raises:
        UsageError: the word is not in the sentence, or has no vector there; or several words are marked.
    """
    kind = column.pooling
    text, mark = _unmarked(like)
    (document,) = encoder.features([text])
    place = _occurrence(word, like, text, mark, document, kind, subword_rule(settings))
    if not place.picks.numbers:
        raise UsageError(f"the model gives {text[place.start : place.end]!r} in --like no vector; choose another word")
    vectors = document.matrix(column.name)[list(place.picks.numbers)]
    vector: NDArray[np.float32] = unit(combine_vectors(vectors, [place.picks]))[0]
    return vector


def _occurrence(
    word: WordQuery,
    like: str,
    text: str,
    mark: tuple[int, int] | None,
    document: DocumentFeatures,
    kind: Pooling,
    subword: str,
) -> Occurrence:
    pieces = document.words if kind is Pooling.WORD else document.tokens
    ways = (word.match,) if word.match is not Match.ANY else (Match.EXACT, Match.PREFIX)
    looked_for = [parse_word(text[slice(*mark)])] if mark else [parse_word(word.word, way) for way in ways]
    for each in looked_for:
        for place in find_occurrences(each, [text], pieces, kind, subword) if pieces else ():
            if mark is None or mark == (place.start, place.end):
                return place
    if mark:
        raise UsageError(f"--like {like!r}: what is marked must be a whole word, or several: the *river* bank")
    hint = "; --match prefix finds words that begin so" if _begins(word, text) else ""
    raise UsageError(
        f"the word {word.word!r} is not in --like {like!r}: use it in the sentence, "
        f"or mark the one that is meant: He sat on the *banks* of the river{hint}"
    )


def _begins(word: WordQuery, text: str) -> bool:
    return word.match is Match.EXACT and word.needle in fold_case(text)


def _unmarked(like: str) -> tuple[str, tuple[int, int] | None]:
    """A sentence without its mark, and the characters that it enclosed."""
    marks = list(_MARK.finditer(like))
    if not marks:
        return like, None
    if len(marks) > 1:
        raise UsageError(f"--like {like!r} has {len(marks)} words marked with stars; mark the one that is meant")
    (mark,) = marks
    return like[: mark.start()] + mark[1] + like[mark.end() :], (mark.start(), mark.start() + len(mark[1]))
