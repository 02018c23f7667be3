"""The usages of a word, slice by slice of a kept column, such as years."""

from collections.abc import Sequence
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.features import FeatureSet
from bertfeat.io import Address
from bertfeat.search import QueryEncoder
from bertfeat.usages.match import Match
from bertfeat.usages.query import open_usage_search, parse_condition_on
from bertfeat.usages.ranking import UsageRanking, check_numbers
from bertfeat.usages.results import CONTEXT, SlicedUsages, SliceUsages
from bertfeat.usages.scan import ScanCounts, ScannedGroup
from bertfeat.where import Slice, cut_slices, slice_number


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

    They are the first ones, or the nearest in meaning to the word in the sentence ``like``, with the mean cosine of all
    usages of the slice. ``slices`` are ranges (``"1839-1895,1896-1937"``), values or a number of slices, as
    :func:`bertfeat.measure_change` has them. See :func:`bertfeat.find_usages` for the rest.

    Raises:
        UsageError: slices that cannot be; and see :func:`bertfeat.find_usages`.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model is another one.
        NotDerivableError: the column cannot be derived from the stored ones.
    """
    check_numbers(k, context)
    if not isinstance(features, FeatureSet):
        features = FeatureSet(features)
    cut = cut_slices(features, by, slices, parse_condition_on(features, where))  # before the model is loaded
    search = open_usage_search(features, word, like, match, column, where, model, device, encoder)
    rankings = [UsageRanking(search.vector, k, one_per_document, context) for _ in cut]
    counts, all_counts = [ScanCounts() for _ in cut], ScanCounts()
    for group in all_counts.count(search.groups()):
        for one, ranking, count in zip(cut, rankings, counts, strict=True):
            part = within_slices(group, by, [one])
            count.add(part)
            ranking.add(part)
    found = tuple(
        SliceUsages(one, count.found, count.skipped, ranking.score, ranking.usages)
        for one, ranking, count in zip(cut, rankings, counts, strict=True)
    )
    outside = all_counts.found - sum(one.found for one in found)
    return SlicedUsages(word, search.like, search.column.name, by, all_counts.documents, outside, found)


def within_slices(group: ScannedGroup, by: str, slices: Sequence[Slice]) -> ScannedGroup:
    """The occurrences of a group whose documents are in one of the slices of a kept column."""
    return group.only(lambda site: slice_number(slices, site.values[by]) is not None)
