"""The query of a usage search: its condition, the column to compare in, and the word's vector in an example sentence.

Shapes: D documents, n hits, W width of the feature column.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import require_text
from bertfeat.core import (
    DocumentFeatures,
    FeatureColumn,
    FeatureSet,
    FeatureSettings,
    Pooling,
    ReadableColumn,
    SpanCutter,
    Unit,
    WordList,
    WordRule,
    unit_vectors,
)
from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError, parameter, shell_value, shorten
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress
from bertfeat.search import Index, QueryEncoder, RecordedVectors, query_warnings, unmark_words
from bertfeat.usages.hits import ReadHits, documents_that_meet, find_hits, read_hits, require_texts
from bertfeat.usages.match import Occurrence, combine_vectors, find_occurrences
from bertfeat.usages.near import NearWord
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import outermost
from bertfeat.usages.results import CONTEXT, Usage, per_million
from bertfeat.usages.settings import ListSettings, UsageSettings
from bertfeat.usages.spans import Bounds, bound_hits, open_cutter
from bertfeat.usages.word_index import Hits, WordIndex, open_word_index
from bertfeat.where import Condition

_DOCUMENT_POOLINGS = [pooling.value for pooling in Pooling if pooling.per_document]
_PIECE_POOLINGS = [pooling for pooling in Pooling if not pooling.per_document]


def find_usage_column(
    features: FeatureSet, column: str | None, task: Literal["usages", "change"] = "usages"
) -> ReadableColumn:
    """The word column with the name or recipe ``column``, or the token column where there is no word column.

    Without a name it is the column of the layers that are best for the task, or else the only one.

    Raises:
        FeatureSetError: the set has no texts, or no vectors of tokens or words; the message gives the remedy.
        NotDerivableError: the column cannot be derived, or several could be meant.
    """
    stored = {column.pooling for column in features.columns}
    poolings = [pooling for pooling in (Pooling.WORD, Pooling.TOKEN) if pooling in stored]
    if not poolings:
        raise FeatureSetError(
            f"{features.folder} has one vector a document, but usages compare words",
            remedy=f"make a set that has them: {_describe_extraction(features)}",
        )
    require_texts(features)
    recipe, _, named = (column or "").rpartition("_")
    if named in _DOCUMENT_POOLINGS:
        raise NotDerivableError(
            f"{parameter('column', column)} is one vector a document, but usages compare words",
            remedy=f"give the recipe alone: {parameter('column', recipe)}",
        )
    problems = []
    for pooling in [None] if named in _PIECE_POOLINGS else poolings if column else poolings[:1]:
        try:
            return features.find(column, pooling, task=task)
        except NotDerivableError as error:
            problems.append(error)
    raise problems[0].within(parameter("column", column)) if column else problems[0]


@dataclass(frozen=True, slots=True)
class UsageSearch:
    """A search for usages: the feature set, the word, and where it stands."""

    features: FeatureSet
    index: WordIndex
    pattern: Pattern
    column: ReadableColumn
    hits: Hits  # [n] in documents that meet the condition, near the word that is to be near, and in a span
    bounds: Bounds  # of the spans of some hits, or of their whole texts
    documents: NDArray[np.bool_]  # [D] mask of those that meet the condition
    like: str | None = None
    vector: NDArray[np.float32] | None = None  # [W] of length 1: what the usages are compared with
    warnings: tuple[str, ...] = ()  # about the language of ``like``

    def frequency(self, found: int, documents: NDArray[np.bool_]) -> tuple[int, int, float]:
        """The words of some documents (mask ``[D]``), usages found in them, and these in a million words.

        Punctuation marks do not count.
        """
        words = int(self.index.counts[documents].sum())
        return words, found, per_million(found, words)

    def first_of_documents(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of hits that are the first of their documents, of ascending numbers."""
        _, first = np.unique(self.index.document_of(self.hits.first[numbers]), return_index=True)
        return numbers[first]

    def read_vectors(self, numbers: NDArray[np.int64]) -> Iterator[ReadHits]:
        """Read those of some hits, which have ascending numbers, that have a vector; their contexts have no bounds.

        Raises:
            DamagedError: the word index or a part does not hold what it should.
            FeatureSetError: a vector is not finite.
        """
        for read in read_hits(self.features, self.index, self.hits[numbers], self.column):
            yield replace(read, numbers=numbers[read.numbers])

    def read_usages(self, numbers: Sequence[int], context: int, scores: Sequence[float] | None = None) -> list[Usage]:
        """Read the usages of some hits in their contexts, of so many characters at most on each side.

        Raises:
            DamagedError: the word index or a part does not hold what it should.
        """
        order = np.argsort(np.array(numbers, np.int64), kind="stable")
        ascending = np.array(numbers, np.int64)[order]
        bounds, usages = self.bounds(ascending), {}
        for read in read_hits(self.features, self.index, self.hits[ascending], None):
            for at, site in zip(read.numbers.tolist(), read.sites, strict=True):
                first, last = bounds[at].tolist()
                score = None if scores is None else scores[order[at]]
                usages[int(ascending[at])] = site.usage(context, score, first, last)
        return [usages[number] for number in numbers]


@dataclass(frozen=True, slots=True)
class UsageRequest(ListSettings):
    """A search in a feature set, or in an index of words, for usages that are listed."""

    features: FeatureSet | Index | str | Path | Address
    word: str
    _: KW_ONLY
    model: str | Path | None = None
    device: str | None = None
    encoder: QueryEncoder | None = None
    progress: ProgressOption[StepProgress] = None


def open_usage_search(features: FeatureSet, asked: UsageRequest) -> UsageSearch:
    """Check a request, find the word, and embed it in the sentence ``like``."""
    near, pattern = NearWord.of(asked), word_pattern(features, asked.word)
    like = None if asked.like is None else require_text(asked.like, parameter("like"))
    readable = find_usage_column(features, asked.column)
    condition, cutter = parse_condition_on(features, asked.where), open_cutter(features, asked.spans)
    vector, warnings = None, tuple[str, ...]()
    if like is not None:
        encoder = asked.encoder
        if encoder is None:
            encoder = open_word_encoder(features, readable, model=asked.model, device=asked.device)
        else:
            stored = readable.derivation.inputs(features.columns)
            RecordedVectors.of_features(features, stored, features.header.settings.prompt).check(encoder)
        vector = embed_word(pattern, like, encoder, readable, features.header.settings)
        warnings = query_warnings(encoder, like)
    search = look_up(features, pattern, readable, condition, near, cutter, progress=asked.progress)
    return replace(search, like=like, vector=vector, warnings=warnings)


def look_up(
    features: FeatureSet,
    pattern: Pattern,
    column: ReadableColumn,
    condition: Condition | None = None,
    near: NearWord | None = None,
    spans: SpanCutter | None = None,
    *,
    progress: ProgressOption[StepProgress] = None,
) -> UsageSearch:
    """Find a pattern by the set's word index: in documents that meet a condition, near another word, and in spans."""
    index = open_word_index(features, progress=progress)
    hits, documents = find_hits(features, index, pattern), documents_that_meet(features, condition)
    hits = hits[documents[index.document_of(hits.first)]]
    hits, bounds = bound_hits(features, index, hits, near, spans)
    kept = outermost(hits)
    return UsageSearch(features, index, pattern, column, hits[kept], lambda numbers: bounds(kept[numbers]), documents)


def word_pattern(features: FeatureSet, word: str) -> Pattern:
    """Prepare a word or a pattern of words for a search in a feature set.

    Raises:
        UsageError: there is no word, or no such pattern; or the set keeps the vectors of other words only.
    """
    pattern, kept = Pattern.parse(word), features.header.settings.only
    if kept and not _covers(WordList(kept), pattern, features.header.settings.word_rule):
        named = pattern.words and ",".join(each.entry for each in pattern.words)
        with_it = f"with {parameter('only', named)} or " if named else ""
        raise UsageError(
            f"{shorten(word)!r} is not among the words that the set keeps: {shorten(', '.join(kept))}",
            where=features.folder,
            remedy=f"extract the corpus again {with_it}without {parameter('only')}",
        )
    return pattern


def _covers(kept: WordList, pattern: Pattern, rule: WordRule) -> bool:
    """Whether a list chooses every word that a pattern can find."""
    if pattern.is_every_word:
        return True
    return pattern.words is not None and all(kept.covers(query, rule) for query in pattern.words)


def shown_context(asked: UsageSettings) -> int:
    """The characters of context on each side, all of a span by default; refuses numbers that cannot be.

    Raises:
        UsageError: ``k`` or ``context`` is negative.
    """
    if asked.k is not None and asked.k < 0:
        raise UsageError(f"{asked.k} usages cannot be", remedy="0 only counts them", where=parameter("k", asked.k))
    if asked.context is None:
        return CONTEXT if asked.spans is None else sys.maxsize
    if asked.context < 0:
        raise UsageError(f"a context of {asked.context} characters cannot be", remedy="0 keeps none")
    return asked.context


def parse_condition_on(features: FeatureSet, where: str | None) -> Condition | None:
    """Parse a condition on the columns of a feature set; None without a condition.

    Raises:
        UsageError: it cannot be parsed, or names a column that the set does not have.
    """
    if where is None:
        return None
    integers, strings = ("row", "n_tokens", "n_unk", "n_truncated"), ("id", "text", "pair")
    own = {**dict.fromkeys(integers, "int64"), **dict.fromkeys(strings, "string")}
    kinds = {**own, **{column.name: column.type for column in features.kept}}
    return Condition(where, {name: kinds[name] for name in features.names if name in kinds})


def _describe_extraction(features: FeatureSet) -> str:
    """Describe the extraction of a set with word vectors from the same corpus, for the remedy of an error."""
    sources = " ".join(map(shell_value, features.header.sources)) or "the corpus"
    options = (
        parameter("model", features.header.model.name),
        parameter("layers", features.columns[0].recipe.spec),
        parameter("pooling", Pooling.WORD.value),
    )
    return f"extract {sources} with {', '.join(options)} into {features.folder.with_suffix('.words.features')}"


def open_word_encoder(
    features: FeatureSet, column: ReadableColumn, *, model: str | Path | None = None, device: str | None = None
) -> QueryEncoder:
    """Open the model that a feature set records, with the recipe, pooling, precision and subword rule of its column.

    ``model`` says where the model is now, if it was moved.
    """
    from bertfeat.core import Extractor  # here, because it imports torch, which takes seconds

    stored = column.derivation.inputs(features.columns)[0]
    computed = stored if stored.basis else FeatureColumn(column.recipe, column.pooling, column.width, stored.dtype)
    header = features.header
    return Extractor.from_record(
        header.model, header.settings, [computed], name=model, device=device, where=features.folder
    )


def embed_word(
    pattern: Pattern,
    like: str,
    encoder: QueryEncoder,
    column: ReadableColumn | FeatureColumn,
    settings: FeatureSettings,
) -> NDArray[np.float32]:
    """Embed a sentence and take the vector of a word in it: the one between ``*stars*``, else the first that matches.

    Shape: ``[W]``, of length 1.
    """
    text, marks = unmark_words(like)
    if len(marks) > 1:
        raise UsageError(
            f"{parameter('like', like)} has {len(marks)} words marked with stars", remedy="mark the one that is meant"
        )
    (document,) = encoder.features([text])
    unit = column.pooling.unit
    occurrence = _find_in_sentence(pattern, like, text, marks[0] if marks else None, document, unit, settings)
    if not occurrence.picks.numbers:
        word = text[occurrence.start : occurrence.end]
        raise UsageError(f"{shorten(word)!r} has no vector in {parameter('like')}", remedy="choose another word")
    vectors = document.matrix(column.name)[list(occurrence.picks.numbers)]
    vector: NDArray[np.float32] = unit_vectors(combine_vectors(vectors, [occurrence.picks]))[0]
    return vector


def _find_in_sentence(
    pattern: Pattern,
    like: str,
    text: str,
    mark: tuple[int, int] | None,
    document: DocumentFeatures,
    unit: Unit,
    settings: FeatureSettings,
) -> Occurrence:
    pieces = document.words if unit is Unit.WORD else document.tokens
    meant = _meant_in_sentence(pattern, text, mark)
    for occurrence in find_occurrences(meant, text, pieces, unit, settings) if pieces else ():
        if mark is None or mark == (occurrence.start, occurrence.end):
            return occurrence
    if mark:
        raise UsageError("mark a whole word, or several: the *river* bank", where=parameter("like", like))
    may_begin = pattern.word.isalnum() and pattern.word.lower() in text.lower()
    hint = f"; {pattern.word}* finds words that begin so" if may_begin else ""
    raise UsageError(
        f"the word {shorten(pattern.word)!r} is not in {parameter('like', like)}",
        remedy=f"use it in the sentence, or mark the one that is meant: He sat on the *banks* of the river{hint}",
    )


def _meant_in_sentence(pattern: Pattern, text: str, mark: tuple[int, int] | None) -> Pattern:
    """The pattern of the words that are marked, or else the one that is searched; a sentence has no tags."""
    if mark:
        return Pattern.of_words(text[slice(*mark)])
    if pattern.tests_tags or pattern.is_every_word:
        says = "is every word" if pattern.is_every_word else "asks for tags, which a sentence does not have"
        remedy = "mark the word that is meant: He sat on the *banks* of the river"
        raise UsageError(f"{shorten(pattern.word)!r} {says}", remedy=remedy)
    return pattern
