"""Search for usages of a word, in corpus order or nearest in meaning to a sentence, by a scan or by an index.

Shape: W width of the feature column.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_text
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import Address
from bertfeat.search import Hit, Index, QueryEncoder
from bertfeat.usages.query import check_numbers, embed_word, open_usage_search, parse_condition_on
from bertfeat.usages.results import CONTEXT, Site, SlicedUsages, SliceUsages, Usage, Usages
from bertfeat.usages.scan import ScanCounts, ScannedGroup
from bertfeat.where import cut_slices
from bertfeat.words import Match, WordQuery, is_word


@checked
def find_usages(
    features: FeatureSet | str | Path | Address,
    word: str,
    *,
    like: str | None = None,
    match: Match | str = Match.EXACT,
    k: int = 10,
    column: str | None = None,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
) -> Usages:
    """Find the ``k`` usages of a word that are nearest in meaning to the word in the sentence ``like``.

    Without ``like`` they are the first ones in the corpus. The sentence is embedded as the feature set was; if it
    contains the word more than once, stars mark the one that is meant: ``a bank on the *bank* of the river``. With
    ``match="any"`` every word of the corpus is compared. ``column`` names a column of words or tokens, or a recipe that
    the stored ones contain; without one it is the last layer, where they contain it, else the only one. Only documents
    that meet the condition ``where``, such as ``"year > 1900"``, are searched. ``context`` is the number of characters
    kept on either side. ``model`` says where the set's model is now, if it was moved; ``encoder`` replaces it.

    All texts are read; vectors are read only from row groups in which the word occurs, one group at a time.

    Raises:
        UsageError: the word is not in the sentence, ``k`` is below 1, ``match="any"`` without a sentence, or a
            condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model is another one.
        NotDerivableError: the column cannot be derived from the stored ones.
    """
    check_numbers(k, context)
    search = open_usage_search(features, word, like, match, column, where, model, device, encoder)
    ranking = _UsageRanking(search.vector, k, one_per_document, context)
    counts = ScanCounts()
    for group in counts.count(search.groups()):
        ranking.add(group)
    found = (search.column.name, counts.documents, counts.found, counts.skipped, ranking.usages)
    return Usages(word, search.like, *found)


@checked
def find_usages_by(
    features: FeatureSet | str | Path | Address,
    word: str,
    by: str,
    slices: str | int | None = None,
    *,
    like: str | None = None,
    match: Match | str = Match.EXACT,
    k: int = 5,
    column: str | None = None,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
) -> SlicedUsages:
    """Find the ``k`` usages of a word in each slice of the kept column ``by``, such as years.

    They are the first ones, or those nearest in meaning to the word in the sentence ``like``; then each slice also has
    the mean cosine of all its usages. ``slices`` are ranges (``"1839-1895,1896-1937"``), values or a number of slices,
    as in :func:`bertfeat.measure_change`. See :func:`bertfeat.find_usages` for the rest.

    Raises:
        UsageError: ``by`` or ``slices`` do not cut the set into slices; and see :func:`bertfeat.find_usages`.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model is another one.
        NotDerivableError: the column cannot be derived from the stored ones.
    """
    check_numbers(k, context)
    if not isinstance(features, FeatureSet):
        features = FeatureSet(features)
    cut = cut_slices(features, by, slices, parse_condition_on(features, where))  # before the model is loaded
    search = open_usage_search(features, word, like, match, column, where, model, device, encoder)
    rankings = [_UsageRanking(search.vector, k, one_per_document, context) for _ in cut]
    counts, all_counts = [ScanCounts() for _ in cut], ScanCounts()
    for group in all_counts.count(search.groups()):
        for one, ranking, count in zip(cut, rankings, counts, strict=True):
            part = group.within(by, [one])
            count.add(part)
            ranking.add(part)
    found = tuple(
        SliceUsages(one, count.found, count.skipped, ranking.score, ranking.usages)
        for one, ranking, count in zip(cut, rankings, counts, strict=True)
    )
    outside = all_counts.found - sum(one.found for one in found)
    return SlicedUsages(word, search.like, search.column.name, by, all_counts.documents, outside, found)


class _UsageRanking:
    """A ranking of the ``k`` first usages, or the ``k`` nearest to ``vector`` ``[W]``; groups come in corpus order."""

    def __init__(self, vector: NDArray[np.float32] | None, k: int, one_per_document: bool, context: int) -> None:
        self._vector, self._k, self._one_per_document, self._context = vector, k, one_per_document, context
        self._sum, self._compared = 0.0, 0
        self._best: list[tuple[float, Usage]] = []

    @property
    def usages(self) -> tuple[Usage, ...]:
        """The usages chosen from the groups so far."""
        return tuple(usage for _, usage in self._best)

    @property
    def score(self) -> float | None:
        """The mean cosine of all usages to the vector; None where there is no vector or no usage."""
        return round(self._sum / self._compared, 6) if self._compared else None

    def add(self, group: ScannedGroup) -> None:
        """Add the usages of a group, and keep the ``k`` best of all so far."""
        if not len(group.sites):
            return
        if self._vector is None:
            order = np.arange(len(group.sites))
            if self._one_per_document:
                order = group.first_of_documents(order)
            chosen = order[: self._k - len(self._best)].tolist()
            self._best.extend((0.0, group.sites[number].usage(self._context)) for number in chosen)
            return
        scores = group.matrix @ self._vector
        self._sum += float(scores.sum(dtype=np.float64))
        self._compared += len(scores)
        order = np.argsort(-scores, kind="stable")  # of equal scores, the earlier in the corpus comes first
        if self._one_per_document:
            order = group.first_of_documents(order)
        self._best.extend(
            (scores[number], group.sites[number].usage(self._context, scores[number]))
            for number in order[: self._k].tolist()
        )
        self._best = sorted(self._best, key=lambda scored: -scored[0])[: self._k]


# ── by an index ─────────────────────────────────────────────────────────────────────────────────────────────


_FETCH = 4  # first 4 k hits are asked for, then 4 times as many in each round: punctuation among them is left out


@checked
def find_usages_in_index(
    index: Index | str | Path | Address,
    word: str,
    *,
    like: str,
    k: int = 10,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
) -> Usages:
    """Find the words nearest in meaning to ``word`` in the sentence ``like``, as ``match="any"`` does, by an index.

    In an index of tokens they are tokens. Scores are those of the index. ``model``, ``device`` and ``encoder`` are for
    an index that is given as a folder; see :func:`find_usages` for the rest.

    Raises:
        IndexFolderError: the index has one vector per document, or keeps no texts; or the model is another one.
        UsageError: the word is not in the sentence, ``k`` is below 1, or a condition cannot be read.
    """
    check_numbers(k, context)
    query, like = WordQuery.parse(word, Match.ANY), require_text(like, parameter("like"))
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device, encoder=encoder)
    settings, folder = index.settings, index.vectors.folder
    if settings.per_document:
        raise IndexFolderError(
            f"{folder} holds {settings.column.name}, one vector a document, but usages compare words",
            remedy=f"give the features, or an index of a word column, made with {parameter('column', 'concat4_word')}",
        )
    if not settings.has_text:
        raise IndexFolderError(
            f"{folder} keeps no texts, so there is nothing to show", remedy="give the features instead"
        )
    index.check_sources()
    scope = index.count(where)
    vector = embed_word(query, like, index.encoder, settings.column, settings.extraction)
    depth = k
    while True:
        depth = min(depth * _FETCH, max(scope.vectors, 1))
        (answer,) = index.search_vectors(vector[None], depth, where=where)
        usages = list(_usages_of_hits(answer.hits, one_per_document, context))[:k]
        if len(usages) == k or depth >= scope.vectors:
            return Usages(word, like, settings.column.name, scope.documents, scope.vectors, 0, tuple(usages))


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
