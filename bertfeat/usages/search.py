"""The usages of a word: in the order of the corpus, or nearest in meaning to a sentence; by a scan or by an index."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import FeatureSetError, IndexFolderError, UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import Address
from bertfeat.search import Hit, Index, QueryEncoder, WordEncoder, check_same_model, query_text
from bertfeat.usages.match import Match, is_word, parse_word
from bertfeat.usages.query import embed_word, find_usage_column, open_word_encoder, parse_condition_on
from bertfeat.usages.results import CONTEXT, Site, Usage, Usages
from bertfeat.usages.scan import ScanCounts, ScannedGroup, scan_features

_FETCH = 4  # hits asked for at first, for each usage wanted: punctuation is left out


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
    encoder: WordEncoder | None = None,
) -> Usages:
    """Find the ``k`` usages of a word that are nearest in meaning to the word in the sentence ``like``.

    Without ``like`` they are the first ones of the corpus. The sentence is embedded as the feature set was; where the
    word is in it more than once, stars mark the one that is meant: ``a bank on the *bank* of the river``. With
    ``match="any"`` every word of the corpus is compared. ``column`` names a column of words or tokens, or a recipe that
    the stored ones contain. Only documents that meet the condition ``where``, such as ``"year > 1900"``, are searched.
    ``context`` is how many characters are kept on either side. ``model`` says where the set's model is now, if not
    where it was; ``encoder`` replaces it.

    All texts are read; of the vectors only those row groups in which the word occurs, one at a time.

    Raises:
        UsageError: the word is not in the sentence, ``k`` is below 1, ``match="any"`` without a sentence, or a
            condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model is another one.
        NotDerivableError: the column cannot be derived from the stored ones.
    """
    if not isinstance(features, FeatureSet):
        features = FeatureSet(features)
    query, like = parse_word(word, match), None if like is None else query_text(like, parameter("like"))
    if query.match is Match.ANY and like is None:
        raise UsageError(
            f"{parameter('match', 'any')} compares every word",
            remedy=f"say with {parameter('like')} what they are compared with",
        )
    check_numbers(k, context)
    readable = find_usage_column(features, column)
    condition = parse_condition_on(features, where)
    vector = None
    if like is not None:
        if encoder is None:
            encoder = open_word_encoder(features, readable, model=model, device=device)
        else:
            recorded = features.header.model
            check_same_model(features.folder, recorded, encoder, FeatureSetError, rebuild="extract the features again")
        vector = embed_word(query, like, encoder, readable, features.header.settings)
    counts = ScanCounts()
    groups = counts.count(scan_features(features, query, readable, condition, vectors=vector is not None))
    if vector is None:
        usages = _first_usages(groups, k, one_per_document, context)
    else:
        usages = _nearest_usages(groups, vector, k, one_per_document, context)
    return Usages(word, like, readable.name, counts.documents, counts.found, counts.skipped, tuple(usages))


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
        IndexFolderError: the index has one vector a document, or keeps no texts; or the model is another one.
        UsageError: the word is not in the sentence, or a condition cannot be read.
    """
    check_numbers(k, context)
    query, like = parse_word(word, Match.ANY), query_text(like, parameter("like"))
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


def check_numbers(k: int, context: int) -> None:
    """Refuse a ``k`` below 1 and a negative ``context``."""
    if k < 1:
        raise UsageError(f"k is {k}, but at least one usage must be asked for")
    if context < 0:
        raise UsageError(f"a context of {context} characters cannot be", remedy="0 keeps none")


def first_of_each(order: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of the occurrences in that order, the first of each document."""
    _, first = np.unique(owners[order], return_index=True)
    return order[np.sort(first)]


def _first_usages(groups: Iterable[ScannedGroup], k: int, one_per_document: bool, context: int) -> list[Usage]:
    usages: list[Usage] = []
    for group in groups:  # to the end, because all are counted
        order = np.arange(len(group.sites))
        if one_per_document:
            order = first_of_each(order, group.rows)
        usages.extend(group.sites[number].usage(context) for number in order[: k - len(usages)].tolist())
    return usages


def _nearest_usages(
    groups: Iterable[ScannedGroup], vector: NDArray[np.float32], k: int, one_per_document: bool, context: int
) -> list[Usage]:
    best: list[tuple[float, Usage]] = []
    for group in groups:
        if not len(group.sites):
            continue
        scores = group.matrix @ vector
        order = np.argsort(-scores, kind="stable")  # of equal ones the earlier in the corpus
        if one_per_document:
            order = first_of_each(order, group.rows)
        best.extend(
            (scores[number], group.sites[number].usage(context, scores[number])) for number in order[:k].tolist()
        )
        best = sorted(best, key=lambda scored: -scored[0])[:k]
    return [usage for _, usage in best]


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
