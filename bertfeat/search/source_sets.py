"""The feature sets that an index was made from: what it remembers of them, and whether they are still the same."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.features import FeatureSet
from bertfeat.search.settings import IndexSettings, SourceSet


def describe_source_set(features: FeatureSet) -> SourceSet:
    """What an index remembers of a feature set."""
    digest = hashlib.sha256()
    for entry in features.entries:
        digest.update(f"{entry.name} {entry.sha256}\n".encode())
    return SourceSet(str(features.folder.absolute()), len(features), digest.hexdigest())


def merge_sources(
    known: Sequence[SourceSet], sets: Sequence[FeatureSet]
) -> tuple[tuple[SourceSet, ...], tuple[int, ...]]:
    """All sources, and the number of each of the sets among them; one that was there already is brought up to date."""
    sources = list(known)
    number_of = {source.path: number for number, source in enumerate(sources)}
    numbers = []
    for features in sets:
        new = describe_source_set(features)
        number = number_of.setdefault(new.path, len(sources))
        sources[number : number + 1] = [new]
        numbers.append(number)
    return tuple(sources), tuple(numbers)


def changed_sources(settings: IndexSettings) -> Iterator[tuple[SourceSet, SourceSet]]:
    """The feature sets that are in their places, but not as they were: what each was, and what it is now.

    Raises:
        FeatureSetError: what is in the place of one is no sound feature set.
    """
    for source in settings.sources:
        if Path(source.path).is_dir():
            now = describe_source_set(FeatureSet(source.path))
            if now.digest != source.digest:
                yield source, now


def unchanged_sources(settings: IndexSettings) -> Iterator[tuple[int, FeatureSet]]:
    """The feature sets that are in their places as they were, and the number of each among the sources."""
    for number, source in enumerate(settings.sources):
        if not Path(source.path).is_dir():
            continue
        try:
            features = FeatureSet(source.path)
        except BertfeatError:
            continue  # no sound feature set, so not as it was
        if describe_source_set(features).digest == source.digest:
            yield number, features


def check_sources(settings: IndexSettings, folder: Path) -> None:
    """See that the feature sets, where they still are in their places, are those that the index was made from.

    Raises:
        IndexFolderError: one was changed since.
    """
    for then, now in changed_sources(settings):
        raise IndexFolderError(
            f"{then.path} changed since the index {folder} was made from it ({then.documents:,} documents "
            f"then, {now.documents:,} now); build it again: bertfeat index {then.path} -o {folder}"
        )
