"""The feature sets of a Table 7: those that are given, those that hold what its rows need, and those it extracts."""

from collections.abc import Mapping
from pathlib import Path

from bertfeat.errors import BertfeatError
from bertfeat.features import FeatureSet
from bertfeat.tagging.datasets import DatasetReport, features_first, first_given, is_feature_set, open_dataset
from bertfeat.tagging.stored_datasets import find_stored_features
from bertfeat.tagging.table7.plan import Table7Plan

_FEATURES_FOLDER = "features"


def open_table7_datasets(plan: Table7Plan, folder: Path) -> dict[str, FeatureSet]:
    """Open the sets that are given, and those beside corpora that hold what the rows need; extract the others.

    What is extracted lies in the table's folder and holds every single layer.

    Raises:
        BertfeatError: see :func:`bertfeat.tagging.datasets.open_dataset`.
    """
    datasets: dict[str, FeatureSet] = {}
    for name in features_first(plan.sources):
        place = _features_folder(folder, name)
        stored = None if is_feature_set(place) else find_dataset(plan, folder, name, datasets)
        if stored is None:
            like = first_given(plan.sources, datasets)
            datasets[name] = open_dataset(plan.sources[name], plan.options, like=like, folder=place)
            continue
        datasets[name] = stored
        if plan.options.on_dataset is not None:
            plan.options.on_dataset(DatasetReport(str(plan.sources[name]), stored, None))
    return datasets


def find_dataset(plan: Table7Plan, folder: Path, name: str, datasets: Mapping[str, FeatureSet]) -> FeatureSet | None:
    """Features of a corpus that are there already: those of an earlier run, or those beside it."""
    source = plan.sources[name]
    if isinstance(source, FeatureSet) or not source.is_file():
        return None
    place = _features_folder(folder, name)
    if is_feature_set(place):
        try:
            return FeatureSet(place)
        except BertfeatError:
            return None
    layers = ",".join(row.name for row in plan.rows)
    if not layers:
        return None
    return find_stored_features(
        source,
        layers=layers,
        corpus_settings=plan.options.corpus_settings,
        like=first_given(plan.sources, datasets),
        arguments=plan.options.extractor,
    )


def _features_folder(folder: Path, name: str) -> Path:
    return folder / _FEATURES_FOLDER / f"{name}.features"
