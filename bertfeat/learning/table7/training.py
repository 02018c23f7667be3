"""The call that compares layers, as the paper's Table 7 does."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings
from bertfeat.display import displayed
from bertfeat.errors import UsageError
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind
from bertfeat.learning.datasets import (
    ALL_LAYERS,
    ExtractorArguments,
    HeadOptions,
    HeadSource,
    OnDataset,
    check_examples,
    open_sets,
    recorded_model,
    settle_task,
)
from bertfeat.learning.folders import draw_if_possible, hold_result_folder
from bertfeat.learning.inputs import count_failed_rows, record_place
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.schedule import OnEpoch, OnPace
from bertfeat.learning.settings import PAPER_GRID, GridPoint, HeadSettings
from bertfeat.learning.table7.results import (
    PICTURE_NAME,
    HeadRuns,
    HeadTable,
    TableIdentity,
    TableRow,
    parse_rows,
    write_head_table,
)
from bertfeat.learning.table7.table import HeadTableTraining, OnHeadRun, rows_have_epochs
from bertfeat.learning.tasks.labels import Labels, merged_labels_warnings
from bertfeat.learning.tasks.table import task_of
from bertfeat.learning.trainer import check_tuning, find_tuned_model
from bertfeat.learning.training import OpenSources, extracted_sets, open_sources
from bertfeat.models import Model, find_model
from bertfeat.plots import draw_table7
from bertfeat.progress import AnyProgress, OnStep, ProgressOption, StepProgress, telling
from bertfeat.recipe import Pooling
from bertfeat.tokens import Tokenizer

# ── capitals ──────────────────────────────────────────────────────────────────────────────────────────────


_SAMPLE = 2000  # sentences
_MANY_CAPITALS = 0.01  # share of the words, above which a model that lower-cases them is warned of

_log = logging.getLogger("bertfeat")


def warn_of_lower_case(name: str | Path | None, revision: str | None, features: FeatureSet) -> None:
    """Warn where a model lower-cases words whose capitals may mark names."""
    model = find_model(name, revision=revision)
    if lower_cases(model) and (share := share_of_capitals(features)) > _MANY_CAPITALS:
        _log.warning(
            "%s lower-cases its input, and %.0f%% of the words here have capitals, which mark names; the paper's is a "
            "cased model: google-bert/bert-base-cased",
            model.name,
            100 * share,
        )


def lower_cases(model: Model) -> bool:
    """Whether a model's tokenizer makes no difference between capitals and small letters."""
    tokenizer = Tokenizer(model)
    pair = tokenizer.pieces(["Paris", "paris"], offsets=False)
    return bool(np.array_equal(pair[0].ids, pair[1].ids))


def share_of_capitals(features: FeatureSet) -> float:
    """The share of words with a capital letter among the first sentences; 0 where no words are stored."""
    if "words" not in features.names:
        return 0.0
    sentences = (words for batch in features.stream(["words"]) for words in batch.column("words").to_pylist())
    words = [word for sentence in islice(sentences, _SAMPLE) for word in sentence]
    return sum(1 for word in words if word != word.lower()) / max(1, len(words))


# ── the call ──────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class HeadTableReport:
    """A Table 7 of heads that is done."""

    folder: Path
    table: HeadTable
    warnings: tuple[str, ...]
    failed: int = 0  # rows of the corpora, of which nothing could be learnt


@checked
def train_head_table7(
    kind: HeadKind | str,
    train: HeadSource,
    dev: HeadSource,
    test: HeadSource | None,
    folder: str | Path,
    *,
    rows: Sequence[str | TableRow] = ("paper",),
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    label: str | None = None,
    choices: tuple[str, ...] = (),
    pooling: str | None = None,
    embed_pairs: PairForm | str | None = None,
    settings: HeadSettings | None = None,
    fine_tune: bool = False,
    grid: Sequence[GridPoint] = (),
    corpus_settings: CorpusSettings | None = None,
    picture: bool = True,
    progress: ProgressOption[AnyProgress] = None,
    on_dataset: OnDataset | None = None,
    on_run: OnHeadRun | None = None,
    on_epoch: OnEpoch | None = None,
    on_pace: OnPace | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> HeadTableReport:
    """Compare layers as features for a head, as Table 7 of the BERT paper does for tagging, on your own data.

    Corpora are extracted into the folder with every layer. Every row is trained with every seed; beside them stand the
    most frequent answer, of numbers of pairs the cosine of their vectors, and with ``fine_tune`` the model fine-tuned:
    the first seed chooses the best point of the ``grid`` (default: the paper's) on ``dev``, and all seeds are run with
    it. What is done is kept, and not done again. ``progress`` hears of extraction, and of runs unless ``on_run`` does.

    Raises:
        HeadError: the folder holds a table of other data or settings; or see :func:`train_head`.
        UsageError: no rows or no seeds; options that have no effect.
    """
    if not seeds or not (rows or fine_tune):
        raise UsageError("a table needs at least one row and one seed")
    folder, settings = Path(folder), settings or HeadSettings()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    sources = {"train": open_sets(train), "dev": open_sets(dev)} | ({} if test is None else {"test": open_sets(test)})
    settings = settle_task(HeadKind(kind), settings, label, sources["train"], reading)
    task = task_of(HeadKind(kind), settings.task)
    settings = replace(settings, crf=bool(settings.crf)) if task.reads is Pooling.WORD else settings  # as the paper
    options = HeadOptions(task, None, pooling, form, label, choices, reading, extractor, None, on_dataset)
    epochs = rows_have_epochs(rows, task, settings)
    check_examples(options, sources, settings, tuning=fine_tune, epochs=epochs, grid=tuple(grid))
    points, tuned, precision = tuple(grid or PAPER_GRID), None, None
    if fine_tune:
        tuned = find_tuned_model(extractor.get("model"), extractor.get("revision"), recorded_model(sources))
        precision = check_tuning(points, extractor.get("device"), extractor.get("precision", "auto"))
    with hold_result_folder(folder, ResultKind.TABLE7), telling(progress) as tell:
        options = replace(options, progress=tell)
        sets = extracted_sets(sources, replace(options, layers=ALL_LAYERS), folder)
        if task.reads is Pooling.WORD and any(isinstance(source, Path) for source in sources.values()):
            warn_of_lower_case(extractor.get("model"), extractor.get("revision"), sets["train"][0])
        model = sets["train"][0].header.model
        last = open_sources(sets, replace(options, layers="last"), settings)  # refuses sets before anything is written
        places = {name: tuple(record_place(each.folder, folder) for each in made) for name, made in sets.items()}
        runs = HeadRuns(folder, _table_identity(last, options, settings), places)
        chosen = parse_rows(rows, model.num_layers)
        total = (len(chosen) + fine_tune) * len(seeds) + (len(points) if fine_tune and len(points) > 1 else 0)
        hear = on_run or _RunCounter(tell, total)
        training = HeadTableTraining(sets, options, settings, last, runs, hear, on_epoch, on_pace)
        table = training.run(chosen, tuple(seeds), tuned=tuned, grid=points, precision=precision)
        write_head_table(folder, table)
        warnings = merged_labels_warnings(sources.values(), label if isinstance(task, Labels) else None)
        if picture:
            warnings += draw_if_possible(lambda: draw_table7(table, folder / PICTURE_NAME))
    return HeadTableReport(folder, table, warnings, count_failed_rows(sources, sets))


class _RunCounter:
    """Tells how many runs of a table are done."""

    def __init__(self, tell: OnStep, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def __call__(self, *_: object) -> None:
        self._done += 1
        self._tell(StepProgress("", self._done, self._total, "runs"))


def _table_identity(sources: OpenSources, options: HeadOptions, settings: HeadSettings) -> TableIdentity:
    """The settings and data shared by all runs of a table."""
    reads, opened = sources
    return TableIdentity(
        kind=options.kind,
        model=reads.model.fingerprint,
        pooling=reads.pooling,
        pairs=reads.pairs,
        label=options.label,
        extraction=reads.extraction,
        training=replace(settings, seed=HeadSettings().seed),
        data={name: examples.digest for name, examples in opened.items()},
    )
