"""The usages of a word: in the order of the corpus, or nearest in meaning to a sentence."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.features import FeatureSet
from bertfeat.search.queries import query_text
from bertfeat.usages.column import condition_columns, find_usage_column
from bertfeat.usages.match import Match, parse_word
from bertfeat.usages.query import WordEncoder, check_word_encoder, embed_word, open_word_encoder
from bertfeat.usages.results import CONTEXT, Usage, Usages
from bertfeat.usages.scan import ScannedGroup, scan_features
from bertfeat.where import Condition


def find_usages(
    features: FeatureSet | str | Path,
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
    word stands in it more than once, stars mark the one that is meant: ``a bank on the *bank* of the river``. With
    ``match="any"`` every word of the corpus is compared. ``column`` names a column of words or tokens, or a recipe that
    the stored ones contain. Only documents that meet the condition ``where``, such as ``"year > 1900"``, are searched.
    ``context`` is how many characters are kept on either side. ``model`` says where the set's model is now, if not
    where it was; ``encoder`` replaces it.

    Texts are read through; of vectors only those row groups in which the word stands, one at a time.

    Raises:
        UsageError: the word is not in the sentence, ``k`` is below 1, ``match="any"`` without a sentence, or a
            condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model at hand is another one.
        NotDerivable: the column cannot be had from the stored ones.
    """
    if not isinstance(features, FeatureSet):
        features = FeatureSet(features)
    looked_for, like = parse_word(word, match), None if like is None else query_text(like, "--like")
    if looked_for.match is Match.ANY and like is None:
        raise UsageError("--match any takes every word as a candidate, so say with --like what they are compared with")
    check_numbers(k, context)
    found = find_usage_column(features, column)
    condition = None if where is None else Condition(where, condition_columns(features))
    asked = None
    if like is not None:
        if encoder is None:
            encoder = open_word_encoder(features, found, model=model, device=device)
        check_word_encoder(features, encoder)
        asked = embed_word(looked_for, like, encoder, found, features.header.settings)
    tally = ScanCounts()
    scanned = tally.over(scan_features(features, looked_for, found, condition, vectors=asked is not None))
    if asked is None:
        usages = _first(scanned, k, one_per_document, context)
    else:
        usages = _nearest(scanned, asked, k, one_per_document, context)
    return Usages(word, like, found.name, tally.documents, tally.found, tally.skipped, tuple(usages))


@dataclass(slots=True)
class ScanCounts:
    """Counts what goes by."""

    documents: int = 0
    found: int = 0
    skipped: int = 0

    def over(self, scans: Iterable[ScannedGroup]) -> Iterator[ScannedGroup]:
        """The same, counted."""
        for scanned in scans:
            self.documents += scanned.documents
            self.found += scanned.found
            self.skipped += scanned.found - len(scanned.sites)
            yield scanned


def check_numbers(k: int, context: int) -> None:
    """Refuse numbers that cannot be right."""
    if k < 1:
        raise UsageError(f"k is {k}, but at least one usage must be asked for")
    if context < 0:
        raise UsageError(f"a context of {context} characters cannot be; 0 keeps none")


def _first(scans: Iterable[ScannedGroup], k: int, one_per_document: bool, context: int) -> list[Usage]:
    usages: list[Usage] = []
    for scanned in scans:  # to the end, because all are counted
        order = np.arange(len(scanned.sites))
        if one_per_document:
            order = first_of_each(order, scanned.rows)
        usages.extend(scanned.sites[number].usage(context) for number in order[: k - len(usages)].tolist())
    return usages


def _nearest(
    scans: Iterable[ScannedGroup], vector: NDArray[np.float32], k: int, one_per_document: bool, context: int
) -> list[Usage]:
    best: list[tuple[float, Usage]] = []
    for scanned in scans:
        if not len(scanned.sites):
            continue
        scores = scanned.matrix @ vector
        order = np.argsort(-scores, kind="stable")  # of equal ones the earlier in the corpus
        if one_per_document:
            order = first_of_each(order, scanned.rows)
        best.extend(
            (scores[number], scanned.sites[number].usage(context, scores[number])) for number in order[:k].tolist()
        )
        best = sorted(best, key=lambda each: -each[0])[:k]
    return [usage for _, usage in best]


def first_of_each(order: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of the occurrences in that order, the first of each document."""
    _, first = np.unique(owners[order], return_index=True)
    return order[np.sort(first)]
