"""One call from tagged sentences to a Table 7, its picture included."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from bertfeat.corpus import CorpusSettings
from bertfeat.extraction import OnProgress
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind
from bertfeat.models import Model
from bertfeat.plots import draw_table7
from bertfeat.tagging.dataset_extractors import ExtractorArguments
from bertfeat.tagging.datasets import OnDataset, SentenceSource
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.capitals import lower_cases, share_of_capitals
from bertfeat.tagging.table7.datasets import open_table7_datasets
from bertfeat.tagging.table7.plan import SEEDS, plan_table7
from bertfeat.tagging.table7.report import PICTURE_NAME, Table7
from bertfeat.tagging.table7.rows import TableRow
from bertfeat.tagging.table7.table import OnRun, Table7Training
from bertfeat.training import GridPoint, OnEpoch, draw_if_possible, hold_result_folder

_MANY_CAPITALS = 0.01  # share of the words, above which a model that lower-cases them is warned of

_log = logging.getLogger("bertfeat")


@dataclass(frozen=True, slots=True)
class Table7Report:
    """A Table 7 that is done."""

    folder: Path
    table: Table7
    warnings: tuple[str, ...]


def train_table7(
    train: SentenceSource,
    dev: SentenceSource,
    test: SentenceSource | None,
    folder: str | Path,
    *,
    rows: Sequence[str | TableRow] = ("paper",),
    seeds: Sequence[int] = SEEDS,
    settings: TrainingSettings | None = None,
    fine_tune: bool = False,
    grid: Sequence[GridPoint] | None = None,
    corpus_settings: CorpusSettings | None = None,
    picture: bool = True,
    progress: OnProgress | None = None,
    on_dataset: OnDataset | None = None,
    on_run: OnRun | None = None,
    on_epoch: OnEpoch | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> Table7Report:
    """Compare layers as features for tagging, as Table 7 of the BERT paper does, on your own data.

    ``train``, ``dev`` and ``test`` are feature sets with tags, or corpus files; feature sets beside those are used if
    they hold what the rows need, else all layers are extracted into the folder. Every row is trained with every seed.
    ``rows`` are ``paper`` (its six), ``all`` (every layer) or layer specifications. With ``fine_tune`` the model is
    fine-tuned too: the first seed chooses the best point of the ``grid`` (default: the paper's) on ``dev``, and all
    seeds are run with it. What is done is kept, and not done again. ``table7.json``, ``table7.md`` and (``picture``)
    ``table7.png`` show the result.

    Raises:
        TaggerError: the folder holds a table of other data or settings; or see :func:`bertfeat.tagging.train_tagger`.
        UsageError: no rows or no seeds; options that have no effect.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    plan = plan_table7(
        train,
        dev,
        test,
        rows=rows,
        seeds=seeds,
        settings=settings,
        fine_tune=fine_tune,
        grid=grid,
        corpus_settings=corpus_settings,
        **extractor,
    )
    plan = replace(plan, options=replace(plan.options, progress=progress, on_dataset=on_dataset))
    folder = Path(folder)
    with hold_result_folder(folder, ResultKind.TABLE7):
        datasets = open_table7_datasets(plan, folder)
        _warn_of_lower_case(plan.model, datasets["train"])
        training = Table7Training(datasets, folder, plan.settings, extractor.get("device"), on_run, on_epoch)
        table = training.run(plan.rows, plan.seeds, tuned=plan.tuned, grid=plan.grid)
        warnings = draw_if_possible(lambda: draw_table7(table, folder / PICTURE_NAME)) if picture else ()
    return Table7Report(folder, table, warnings)


def _warn_of_lower_case(model: Model | None, features: FeatureSet) -> None:
    if model is not None and lower_cases(model) and (share := share_of_capitals(features)) > _MANY_CAPITALS:
        _log.warning(
            "%s lower-cases its input, and %.0f%% of the words here have capitals, which mark names; the paper's is a "
            "cased model: google-bert/bert-base-cased",
            model.name,
            100 * share,
        )
