"""Search for usages of a word: in an order of one's choice, or nearest in meaning to a sentence; also by an index.

Shapes: D documents, n hits, W width of the feature column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_at_least, require_text
from bertfeat.core import FeatureSet, is_word
from bertfeat.errors import IndexFolderError, UsageError, did_you_mean, parameter
from bertfeat.io import Address, ResultKind, as_location, result_kind
from bertfeat.options import takes
from bertfeat.search import Hit, Index, query_warnings
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.query import UsageRequest, UsageSearch, embed_word, open_usage_search, shown_context
from bertfeat.usages.results import Site, SlicedUsages, SliceUsages, Usage, Usages
from bertfeat.usages.settings import ListSettings
from bertfeat.usages.word_index import WordIndex
from bertfeat.where import cut_slices, dictionary_key, dictionary_ranks

_SEED = 0  # of random samples
_NEIGHBORS = 3  # words on one side by which usages are sorted
_SIDES = {"left": -1, "right": 1}


@checked
@takes(UsageRequest)
def find_usages(asked: UsageRequest) -> Usages:
    """Find the ``k`` usages of a word that are nearest in meaning to the word in the sentence ``like``.

    The word may be a pattern (docs/patterns.md): ``*ing``, ``good|bad``, ``go []{1,3} river``, ``[tag="V.*"]``.

    Without ``like`` they are the first ones: in the corpus, or sorted by the words on their ``left`` or ``right``, or
    by a kept column (``sort``). ``page=2`` gives the ``k`` that follow. With ``sample`` there are no more usages than
    that, chosen at random, always the same ones.

    The sentence is embedded as the feature set was; if it contains the word more than once, stars mark the one that is
    meant: ``a bank on the *bank* of the river``. The word ``*`` is every word of the corpus. ``column``
    names a column of words or tokens, or a recipe that the stored ones contain; without one it is the last layer, where
    they contain it, else the only one. ``context`` is the number of characters kept on either side, 300 by default.
    With ``k=0`` usages are only counted. ``model`` says where the set's model is now, if it was moved; ``encoder``
    replaces it.

    Only documents that meet the condition ``where``, such as ``"year > 1900"``, are searched. With ``near`` only usages
    count that have this word (or pattern) at most ``left`` words before them or ``right``
    words after them, 5 by default; punctuation marks are not counted.

    With ``spans`` (``"sentences"``, ``"paragraphs"``, ``"words:50"``, or ``"column:NAME"``, the places that a kept
    column lists: docs/spans.md) the context of a usage is the first span that all of it stands in, whole unless
    ``context`` cuts it; usages in no span are not found. The word ``near`` them is in the same span, anywhere unless
    ``left`` or ``right`` says how far off. The documents of all usages are read then, except for
    ``"sentences"`` and ``"paragraphs"`` of a single word that is near none.

    Words are looked up in the set's word index, which the first look-up makes; ``progress`` hears of that. Only
    documents with usages that are shown or compared (or cut into spans) are read, a row group at a time.

    With the word ``*`` and a sentence, ``features`` may be an index of words or tokens, which is faster: the scores
    are those of the index, and there is no ``column``, ``sort``, ``sample``, ``near`` or ``spans``.

    Raises:
        UsageError: a pattern that is not known; the word is not in the sentence, or no word of it is marked for one
            that is every word; ``k`` below 0, ``page`` below 1, ``sort`` with one or by something that is not there,
            spans that are unknown or of a column that was not kept, or a condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; the model is another one; or the column
            of spans lists such as are empty or outside the text.
        NotDerivableError: the column cannot be derived from the stored ones.
        DamagedError: a part or the word index is damaged.
        StorageError: the word index cannot be written anywhere.
    """
    if isinstance(asked.features, Index) or _is_index(asked.features):
        return _find_in_index(asked)
    listing = _Listing.of(asked, k=10)
    features = listing.check(asked.features, asked.like)
    search = open_usage_search(features, asked)
    (chosen,) = _choose_usages(search, listing, np.zeros(len(search.hits), np.int64), 1)
    documents = int(search.documents.sum())
    counts = search.frequency(chosen.found, search.documents)
    own = (asked.word, search.like, search.column.name, documents)
    return Usages(*own, *counts, chosen.skipped, chosen.usages, search.warnings, asked.near, asked.spans)


@dataclass(frozen=True, slots=True)
class SlicedRequest(UsageRequest):
    """A search for usages in each slice of a kept column."""

    by: str
    slices: str | int | None = None


@checked
@takes(SlicedRequest)
def find_usages_by(asked: SlicedRequest) -> SlicedUsages:
    """Find the ``k`` usages of a word in each slice of the kept column ``by``, such as years, and their frequency.

    They are the first ones, or those nearest in meaning to the word in the sentence ``like``; then each slice also has
    the mean cosine of all its usages. ``slices`` are ranges (``"1839-1895,1896-1937"``), steps (``"every:10"``), values
    or a number of slices, as in :func:`bertfeat.measure_change`. By default ``k`` is 5; with ``k=0`` there are only the
    frequencies. A ``sample`` is one of all slices together. See :func:`bertfeat.find_usages` for the rest.

    Raises:
        UsageError: ``by`` or ``slices`` do not cut the set into slices; and see :func:`bertfeat.find_usages`.
        FeatureSetError, NotDerivableError, DamagedError, StorageError: see :func:`bertfeat.find_usages`.
    """
    listing = _Listing.of(asked, k=5)
    features = listing.check(asked.features, asked.like)
    cut = cut_slices(features, asked.by, asked.slices)  # before the model is loaded
    search = open_usage_search(features, asked)
    cut = cut.among(search.documents)
    of_hits = cut.of_documents[search.index.document_of(search.hits.first)]
    found = []
    chosen_usages = _choose_usages(search, listing, of_hits, len(cut.slices))
    for number, (one, chosen) in enumerate(zip(cut.slices, chosen_usages, strict=True)):
        counts = search.frequency(chosen.found, search.documents & (cut.of_documents == number))
        found.append(SliceUsages(one, *counts, chosen.skipped, chosen.score, chosen.usages))
    counts_of_all = (int(search.documents.sum()), int((of_hits < 0).sum()))
    own = (asked.word, search.like, search.column.name, asked.by)
    return SlicedUsages(*own, *counts_of_all, tuple(found), search.warnings, asked.near, asked.spans)


# ── which usages, and in which order ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Listing:
    """Which usages of those that are found are shown, and in which order."""

    k: int
    page: int
    sort: str | None
    sample: int | None
    one_per_document: bool
    context: int

    @classmethod
    def of(cls, asked: UsageRequest, *, k: int) -> Self:
        """The listing that is asked for, of ``k`` usages unless it says another number."""
        page, context = 1 if asked.page is None else asked.page, shown_context(asked)
        number = k if asked.k is None else asked.k
        return cls(number, page, asked.sort, asked.sample, asked.one_per_document, context)

    def check(self, features: FeatureSet | Index | str | Path | Address, like: str | None) -> FeatureSet:
        """Open the feature set, and refuse what cannot be."""
        require_at_least(1, page=self.page, sample=self.sample)
        if self.sort is not None and like is not None:
            raise UsageError(f"{parameter('like')} sorts usages by likeness", remedy=f"leave out {parameter('sort')}")
        if isinstance(features, Index):
            problem = "an index has no kept columns to slice by"
            raise UsageError(problem, where=features.folder, remedy="give the features that it was made from")
        if not isinstance(features, FeatureSet):
            features = FeatureSet(features)
        names = [*_SIDES, *(column.name for column in features.kept)]
        if self.sort is not None and self.sort not in names:
            remedy = f"{did_you_mean(self.sort, names)}there are: {', '.join(names)}"
            raise UsageError(f"usages cannot be sorted by {self.sort!r}", where=features.folder, remedy=remedy)
        return features

    @property
    def stop(self) -> int:
        """The number of usages up to the end of the page."""
        return self.k * self.page

    @property
    def start(self) -> int:
        """The number of usages before the page."""
        return self.stop - self.k


@dataclass(frozen=True, slots=True)
class _ChosenUsages:
    """The usages of a slice that are listing."""

    found: int
    skipped: int
    score: float | None  # mean cosine of all compared usages
    usages: tuple[Usage, ...]


def _choose_usages(
    search: UsageSearch, listing: _Listing, of_hits: NDArray[np.int64], slices: int
) -> Iterator[_ChosenUsages]:
    """Choose the usages of each slice; ``of_hits`` ``[n]`` has the number of each hit's slice, or -1."""
    numbers = np.flatnonzero(of_hits >= 0)
    found = np.bincount(of_hits[numbers], minlength=slices).tolist()
    if listing.sample is not None and listing.sample < len(numbers):
        numbers = np.sort(np.random.default_rng(_SEED).choice(numbers, listing.sample, replace=False))
    if search.vector is None:
        pages = _first_usages(search, listing, numbers, of_hits, slices)
    else:
        pages = _nearest_usages(search, search.vector, listing, numbers, of_hits, slices)
    shown = [number for page in pages for number in page.numbers]
    scores = None if search.vector is None else [score for page in pages for score in page.scores]
    usages = iter(search.read_usages(shown, listing.context, scores))
    for count, page in zip(found, pages, strict=True):
        yield _ChosenUsages(count, page.skipped, page.score, tuple(islice(usages, len(page.numbers))))


@dataclass(frozen=True, slots=True)
class _Page:
    """The hits of a slice that are listed."""

    numbers: Sequence[int]
    scores: Sequence[float] = ()  # of each, where they are compared with a vector
    skipped: int = 0
    score: float | None = None


def _first_usages(
    search: UsageSearch, listing: _Listing, numbers: NDArray[np.int64], of_hits: NDArray[np.int64], slices: int
) -> list[_Page]:
    """The first usages of each slice."""
    if listing.one_per_document:
        numbers = search.first_of_documents(numbers)
    numbers = _sort_hits(search, listing.sort, numbers)
    own = [numbers[of_hits[numbers] == one] for one in range(slices)]
    return [_Page(each[listing.start : listing.stop].tolist()) for each in own]


def _sort_hits(search: UsageSearch, sort: str | None, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort ascending numbers of hits by the words beside them, or by a kept column; equal ones stay in order.

    Words and texts have the order of a dictionary.
    """
    if sort is None:
        return numbers
    hits, index = search.hits[numbers], search.index
    if sort in _SIDES:
        nearest = hits.first - 1 if _SIDES[sort] < 0 else hits.first + hits.length
        bounds = search.bounds(numbers)
        words = [index.neighbors(hits.first, nearest + _SIDES[sort] * away, bounds) for away in range(_NEIGHBORS)]
        return numbers[np.lexsort(_dictionary_places(index, np.array(words))[::-1])]
    values = [value for batch in search.features.stream([sort]) for value in batch.column(0).to_pylist()]
    known = {value for value in values if value == value and value is not None}
    texts = all(isinstance(value, str) for value in known)
    rank = {value: number for number, value in enumerate(sorted(known, key=dictionary_key if texts else None))}
    ranks = np.fromiter((rank.get(value, len(rank)) for value in values), np.int64, len(values))  # null and NaN last
    return numbers[np.argsort(ranks[index.document_of(hits.first)], kind="stable")]


def _dictionary_places(index: WordIndex, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of words of the vocabulary, by their numbers, in the order of a dictionary; -1 for -1. Same shape."""
    known, of_words = np.unique(numbers, return_inverse=True)
    words = index.spell(known[known >= 0])
    ranks = dictionary_ranks(words)
    places = np.array([-1] * int(np.count_nonzero(known < 0)) + [ranks[word] for word in words], np.int64)
    return places[of_words].reshape(numbers.shape)


def _nearest_usages(
    search: UsageSearch,
    vector: NDArray[np.float32],
    listing: _Listing,
    numbers: NDArray[np.int64],
    of_hits: NDArray[np.int64],
    slices: int,
) -> list[_Page]:
    """The usages of each slice that are nearest to a vector ``[W]``."""
    rankings = [_UsageRanking(listing) for _ in range(slices)]
    for read in search.read_vectors(numbers):
        own, scores = of_hits[read.numbers], read.matrix @ vector
        documents = search.index.document_of(search.hits.first[read.numbers])
        for one in np.unique(own):
            chosen = own == one
            rankings[one].add(read.numbers[chosen], scores[chosen], documents[chosen])
    asked = np.bincount(of_hits[numbers], minlength=slices).tolist()
    return [ranking.page(number) for number, ranking in zip(asked, rankings, strict=True)]


class _UsageRanking:
    """A ranking of the usages of a slice by their scores; they come in corpus order."""

    def __init__(self, listing: _Listing) -> None:
        self._listing, self._sum, self._compared = listing, 0.0, 0
        self._best: list[tuple[float, int]] = []  # scores, and numbers of hits

    def add(self, numbers: NDArray[np.int64], scores: NDArray[np.float32], documents: NDArray[np.int64]) -> None:
        """Add some hits, and keep the best of all so far; ``[n]`` each."""
        self._sum += float(scores.sum(dtype=np.float64))
        self._compared += len(scores)
        order = np.argsort(-scores, kind="stable")  # of equal scores, the earlier in the corpus comes first
        if self._listing.one_per_document:
            _, first = np.unique(documents[order], return_index=True)
            order = order[np.sort(first)]
        order = order[: self._listing.stop]
        self._best.extend(zip(scores[order].tolist(), numbers[order].tolist(), strict=True))
        self._best = sorted(self._best, key=lambda scored: -scored[0])[: self._listing.stop]

    def page(self, asked: int) -> _Page:
        """The usages of the page, of as many as were to be compared; with the mean score of all that were."""
        shown = self._best[self._listing.start :]
        mean = round(self._sum / self._compared, 6) if self._compared else None
        return _Page([number for _, number in shown], [score for score, _ in shown], asked - self._compared, mean)


# ── by an index ─────────────────────────────────────────────────────────────────────────────────────────────


_FETCH = 4  # first 4 k hits are asked for, then 4 times as many in each round: punctuation among them is left out


def _is_index(place: FeatureSet | str | Path | Address) -> bool:
    return not isinstance(place, FeatureSet) and result_kind(as_location(place)) is ResultKind.INDEX


def _find_in_index(asked: UsageRequest) -> Usages:
    """Find the words nearest in meaning to the word in the sentence ``like``, in an index of words or tokens.

    Raises:
        IndexFolderError: the index has one vector per document, or keeps no texts; or the model is another one.
        UsageError: the word is not in the sentence, ``k`` is below 1, a condition cannot be read, or something is asked
            that an index does not answer.
    """
    pattern = Pattern.parse(asked.word)
    refuse_for_index(pattern, asked, asked.features.folder if isinstance(asked.features, Index) else asked.features)
    like = require_text(asked.like, parameter("like"))
    listing = _Listing.of(asked, k=10)
    require_at_least(1, k=listing.k, page=listing.page)
    index = asked.features
    if not isinstance(index, Index):
        assert not isinstance(index, FeatureSet)
        index = Index(index, model=asked.model, device=asked.device, encoder=asked.encoder)
    settings, folder = index.settings, index.vectors.folder
    if not settings.marks_words:
        raise IndexFolderError(
            f"{folder} holds {settings.contents}, one vector a {settings.unit}, but usages compare words",
            remedy=f"give the features, or an index of a word column, made with {parameter('column', 'concat4_word')}",
        )
    if not settings.has_text:
        raise IndexFolderError(
            f"{folder} keeps no texts, so there is nothing to show", remedy="give the features instead"
        )
    index.check_sources()
    scope = index.count(asked.where)
    vector = embed_word(pattern, like, index.encoder, settings.column, settings.extraction)
    depth = listing.stop
    while True:
        depth = min(depth * _FETCH, max(scope.vectors, 1))
        (answer,) = index.search_vectors(vector[None], depth, where=asked.where)
        usages = list(_usages_of_hits(answer.hits, listing.one_per_document, listing.context))[: listing.stop]
        if len(usages) == listing.stop or depth >= scope.vectors:
            found = (scope.documents, None, scope.vectors, None, 0)
            warnings = query_warnings(index.encoder, like)
            return Usages(asked.word, like, settings.column.name, *found, tuple(usages[listing.start :]), warnings)


def refuse_for_index(pattern: Pattern, asked: ListSettings, where: object) -> None:
    """Refuse a search that an index does not answer; ``where`` is its folder.

    Raises:
        UsageError: it asks for something other than the words nearest to one in a sentence.
    """
    names = ("column", "sort", "sample", "near", "left", "right", "spans")
    others = [name for name in names if getattr(asked, name) is not None]
    if not pattern.is_every_word or asked.like is None or others:
        without = f", without {', '.join(map(parameter, others))}" if others else ""
        answered = f"* (every word) with {parameter('like')}, by its own column{without}"
        raise UsageError(
            f"is an index, which answers only {answered}",
            where=where,
            remedy="give the features that it was made from",
        )


def _usages_of_hits(hits: Iterable[Hit], one_per_document: bool, context: int) -> Iterator[Usage]:
    seen: set[tuple[str, int]] = set()
    for hit in hits:
        piece = hit.piece
        text = hit.text if piece is None or not piece.in_pair else hit.pair
        if piece is None or text is None or not is_word(piece.string or ""):
            continue
        if one_per_document and (hit.source, hit.row) in seen:
            continue
        seen.add((hit.source, hit.row))
        site = Site(hit.row, hit.id, text, piece.in_pair, piece.start, piece.end, hit.values)
        yield site.usage(context, hit.score)
