"""The feature sets that an index was made from: what it records of them, and whether they are still the same."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertfeat.errors import IndexFolderError, StorageError, UsageError
from bertfeat.features import FeatureSet
from bertfeat.io import Address, Location, ResultKind, as_location, result_kind
from bertfeat.search.settings import IndexSettings, SourceSet

FeatureSets = str | Path | Address | FeatureSet | Sequence[str | Path | Address | FeatureSet]
"""One feature set or several, open or as folders, also at addresses."""


def open_feature_sets(features: FeatureSets) -> list[FeatureSet]:
    """The feature sets as a list."""
    several = [features] if isinstance(features, str | Path | Address | FeatureSet) else features
    return [one if isinstance(one, FeatureSet) else FeatureSet(one) for one in several]


def describe_source_set(features: FeatureSet) -> SourceSet:
    """The record of a feature set in an index."""
    digest = hashlib.sha256()
    for entry in features.entries:
        digest.update(f"{entry.name} {entry.sha256}\n".encode())
    return SourceSet(str(features.folder.absolute()), len(features), digest.hexdigest())


def merge_sources(
    known: Sequence[SourceSet], sets: Sequence[FeatureSet]
) -> tuple[tuple[SourceSet, ...], tuple[int, ...]]:
    """All sources, and the number of each of the sets among them; a known source is updated."""
    sources = list(known)
    number_of = {source.path: number for number, source in enumerate(sources)}
    numbers = []
    for features in sets:
        new = describe_source_set(features)
        number = number_of.setdefault(new.path, len(sources))
        sources[number : number + 1] = [new]
        numbers.append(number)
    return tuple(sources), tuple(numbers)


def changed_sources(settings: IndexSettings, *, local: bool = False) -> Iterator[tuple[SourceSet, SourceSet]]:
    """The feature sets that still exist but changed: the recorded one and the present one.

    With ``local`` those at addresses are left out.

    Raises:
        FeatureSetError: a folder is no sound feature set any more.
    """
    for source in settings.sources:
        place = as_location(source.path)
        if not (local and isinstance(place, Address)) and _is_there(place):
            now = describe_source_set(FeatureSet(place))
            if now.digest != source.digest:
                yield source, now


def _is_there(place: Location) -> bool:
    """Whether there is a folder; one at an address that cannot be reached from here is not."""
    if not isinstance(place, Address):
        return place.is_dir()
    try:
        return result_kind(place) is ResultKind.FEATURES
    except (StorageError, UsageError):  # no rights, no network, or no library for addresses
        return False


def check_sources(settings: IndexSettings, folder: Location) -> None:
    """Check that the feature sets on this machine, where they still exist, are those that the index was made from.

    Raises:
        IndexFolderError: one was changed since.
    """
    for then, now in changed_sources(settings, local=True):
        raise IndexFolderError(
            f"{then.path} changed since the index {folder} was made from it ({then.documents:,} documents "
            f"then, {now.documents:,} now)",
            remedy=f"build it again: bertfeat index {then.path} -o {folder}",
        )
