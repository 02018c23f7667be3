"""One call from labelled examples to a saved head."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import torch

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings
from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind, installed_versions, keep_freed_memory
from bertfeat.learning.checkpoint import remove_checkpoint
from bertfeat.learning.datasets import (
    ALL_LAYERS,
    ExtractorArguments,
    HeadOptions,
    HeadSource,
    OnDataset,
    OpenSets,
    check_examples,
    extract_sets,
    head_extractor,
    open_sets,
    settle_task,
)
from bertfeat.learning.examples import HeadExamples, open_examples
from bertfeat.learning.folders import draw_if_possible, hold_result_folder
from bertfeat.learning.head_files import (
    FORMAT_VERSION,
    PICTURE_NAME,
    has_head,
    read_head_record,
    read_head_weights,
    remove_head,
    write_head,
)
from bertfeat.learning.inputs import (
    check_same_features,
    choose_input,
    count_failed_rows,
    derive_input,
    extraction_of,
    record_place,
)
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.loop import HeadLoop
from bertfeat.learning.record import ExampleColumns, HeadInput, HeadRecord, best_candidate
from bertfeat.learning.schedule import OnEpoch, OnPace, best_epoch
from bertfeat.learning.settings import GridPoint, HeadSettings
from bertfeat.learning.spans import list_labels
from bertfeat.learning.task import HeadScores, Threshold
from bertfeat.learning.tasks.labels import merged_labels_warnings
from bertfeat.learning.tasks.table import task_of
from bertfeat.learning.trainer import check_tuning
from bertfeat.learning.tuned_training import tune_head
from bertfeat.plots import draw_curves
from bertfeat.progress import AnyProgress, ProgressOption, StepProgress, telling

FEATURES_NAME = "features"  # folder, in a head's, of what was extracted for it


OpenSources = tuple[HeadInput, dict[str, HeadExamples]]
"""The features that a head reads, and the examples of each source by name."""


@displayed
@dataclass(frozen=True, slots=True)
class HeadReport:
    """The result of a training."""

    folder: Path
    record: HeadRecord
    scores: HeadScores | None  # on the development set; None where nothing was left to do
    seconds: float
    resumed: int  # epochs that an earlier run had done
    warnings: tuple[str, ...] = ()
    failed: int = 0  # rows of the corpora that were read, of which nothing could be learnt


@checked
def train_head(
    kind: HeadKind | str,
    train: HeadSource,
    dev: HeadSource,
    folder: str | Path,
    *,
    label: str | None = None,
    choices: tuple[str, ...] = (),
    layers: str | None = None,
    pooling: str | None = None,
    embed_pairs: PairForm | str | None = None,
    settings: HeadSettings | None = None,
    corpus_settings: CorpusSettings | None = None,
    fine_tune: GridPoint | None = None,
    overwrite: bool = False,
    picture: bool = True,
    progress: ProgressOption[AnyProgress] = None,
    on_dataset: OnDataset | None = None,
    on_epoch: OnEpoch | None = None,
    on_pace: OnPace | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> HeadReport:
    """Train a head (``tag``, ``classify``, ``answer``, ``choose``) on frozen features, and save it in ``folder``.

    ``train`` and ``dev`` are feature sets, or corpus files, which are extracted into the folder; ``corpus_settings``
    say how they are read, ``extractor`` by which model. ``label`` is the column of what is to be predicted, ``choices``
    are those of a question's choices. ``layers`` are a recipe, or ``mix4``, ``mix-all``, ``mix=1+6`` for a
    learned weighted sum. Pairs are embedded (``embed_pairs``) ``apart`` (default; the head gets u, v, |u-v|,
    u·v, and the cosines of their layers) or ``together``. Of labels, numbers and choices linear heads are solved, with
    several weight decays, beside the network that is trained in epochs; of these and the mean of both, what has the
    least loss on ``dev`` is kept. An interrupted
    training goes on after its last whole epoch.

    With ``fine_tune`` the whole model is fine-tuned on the texts instead, by transformers' own head and Trainer.
    ``progress`` hears of extraction and fine-tuning, and of epochs unless ``on_epoch`` does.

    Raises:
        NotDerivableError: the sets do not hold the layers.
        HeadError: examples that nothing can be learnt from, or sets of different models; or a folder with another
            training, unless ``overwrite``.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    folder, settings, begun = Path(folder), settings or HeadSettings(), time.perf_counter()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    sources = {"train": open_sets(train), "dev": open_sets(dev)}
    settings = settle_task(HeadKind(kind), settings, label, sources["train"], reading)
    task = task_of(HeadKind(kind), settings.task)
    if layers == ALL_LAYERS:
        raise UsageError("a head reads one recipe, and 'all' means every layer", remedy="mix-all weighs all layers")
    options = HeadOptions(task, layers, pooling, form, label, choices, reading, extractor, None, on_dataset)
    stored, epochs = fine_tune is None, task.has_epochs(settings, mixed=(layers or "").startswith("mix"))
    check_examples(options, sources, settings, stored=stored, tuning=not stored, epochs=epochs)
    if fine_tune is not None:
        if form is PairForm.APART:
            problem = "a whole model reads both texts as one sequence"
            raise UsageError(problem, where=parameter("embed_pairs", form), remedy="leave it out")
        check_tuning([fine_tune], extractor.get("device"), extractor.get("precision", "auto"))
    warnings = merged_labels_warnings(sources.values(), label if task.name == "labels" else None)
    with hold_result_folder(folder, ResultKind.HEAD), telling(progress) as tell:
        options = replace(options, progress=tell)
        if fine_tune is not None:
            record, scores, seconds, failed = tune_head(
                folder, sources, options, settings, fine_tune, overwrite=overwrite, on_step=tell
            )
            return HeadReport(folder, record, scores, seconds, 0, warnings, failed)
        sets = extracted_sets(sources, options, folder, overwrite=overwrite)
        hear = on_epoch or (lambda epoch: tell(StepProgress("", epoch.number, settings.epochs, "epochs")))
        loop = _open_loop(sets, options, folder, settings, extractor.get("device"))
        report = _run_loop(loop, options, overwrite=overwrite, on_epoch=hear, on_pace=on_pace, begun=begun)
        warnings += _dev_warnings(loop)
        report = replace(report, warnings=warnings, failed=count_failed_rows(sources, sets))
        if not picture:
            return report
        warnings += _draw_epochs(report.record, folder)
    return replace(report, warnings=warnings)


def extracted_sets(
    sources: dict[str, OpenSets], options: HeadOptions, folder: Path, *, overwrite: bool | None = None
) -> dict[str, tuple[FeatureSet, ...]]:
    """The feature sets of the sources; corpora are extracted as the first feature set was, if one is given."""
    sets = {name: source for name, source in sources.items() if not isinstance(source, Path)}
    like = next(iter(sets.values()))[0] if sets else None
    corpora = {name: source for name, source in sources.items() if isinstance(source, Path)}
    extractor = head_extractor(options, like) if corpora else None
    for name, corpus in corpora.items():
        assert extractor is not None
        sets[name] = extract_sets(corpus, options, extractor, folder / FEATURES_NAME, name, overwrite=overwrite)
    return sets


def _open_loop(
    sets: dict[str, tuple[FeatureSet, ...]],
    options: HeadOptions,
    folder: Path,
    settings: HeadSettings,
    device: str | None,
) -> HeadLoop:
    reads, opened = open_sources(sets, options, settings)
    train, dev = opened["train"], opened["dev"]
    return HeadLoop(folder, settings, device, train, dev, reads, train.learn_outputs(settings))


def open_sources(
    sets: Mapping[str, tuple[FeatureSet, ...]], options: HeadOptions, settings: HeadSettings
) -> OpenSources:
    """The features that a head reads of the training set, and the examples of all sets with their gold values."""
    first, reads = sets["train"], head_input(sets["train"], options)
    opened: dict[str, HeadExamples] = {}
    known = None
    for name in sorted(sets, key=lambda name: name != "train"):
        listed = sets[name]
        if len(listed) != len(first):
            raise HeadError(f"of train and {name}, one is of pairs that are apart", remedy="give both in one form")
        for features in listed:
            check_same_features(features, reads.model, reads.extraction, str(first[0].folder), reads.pooling)
        others = len(sets) - 1
        share = settings.memory * 3 // 4 if name == "train" else settings.memory // (4 * others)
        opened[name] = made = open_examples(
            options.task, listed, reads.layers, reads.pooling, label=options.label, budget=share, known=known
        )
        known = known or made.learn_outputs(settings)
        if name == "dev":
            options.task.check_dev(made.gold, known, made.origin)
    return reads, opened


def _dev_warnings(loop: HeadLoop) -> tuple[str, ...]:
    """A warning of labels of the development set that no head can predict."""
    unknown = loop.task.unknown(loop.dev.gold, loop.outputs)
    noun = "tags" if loop.task.per_vector else "labels"
    told = f"the development set has {noun} that the training set lacks: {list_labels(unknown)}"
    return (told,) if unknown else ()


def head_input(sets: tuple[FeatureSet, ...], options: HeadOptions) -> HeadInput:
    """The features that a head reads of a feature set."""
    features, reads = sets[0], options.task.reads
    stored = list(dict.fromkeys(column.pooling for column in features.columns))
    fit = [pooling for pooling in stored if pooling.per_document and options.pooling in (None, pooling)]
    usable = fit if reads is None else [reads]
    if len(usable) != 1:
        problem = f"a head reads one vector a text, and this set holds {', '.join(stored)}"
        remedy = f"say which with {parameter('pooling')}, or extract with {parameter('pooling', 'mean')}"
        raise HeadError(problem, where=features.folder, remedy=remedy)
    model = features.header.model
    layers = choose_input(options.layers, features.columns, model.num_layers, usable[0])
    derive_input(layers, features, usable[0])  # refuses a set without these layers
    together = "pair" in features.names
    pairs = PairForm.APART if len(sets) == 2 else PairForm.TOGETHER if together else None
    return HeadInput(model, extraction_of(features, usable[0]), usable[0], layers, pairs)


def _run_loop(
    loop: HeadLoop,
    options: HeadOptions,
    *,
    overwrite: bool,
    on_epoch: OnEpoch | None,
    on_pace: OnPace | None,
    begun: float,
) -> HeadReport:
    keep_freed_memory()
    folder = loop.folder
    loop.check_memory()
    if overwrite:
        remove_head(folder)
        remove_checkpoint(folder)
    if has_head(folder):
        record = read_head_record(folder)
        if record.network is None:
            loop.check_same({**loop.identity, "layers": None}, "a model that was fine-tuned")
        loop.check_same(record.identity(), "a head that was trained")
        read_head_weights(folder, record)  # one that is reported as finished must be sound
        return HeadReport(folder, record, None, 0.0, len(record.history))
    resumed = loop.learn(on_epoch, on_pace)
    scores, threshold = loop.evaluate()
    record = write_head(folder, _record(loop, options, threshold), loop.network.state_dict())
    remove_checkpoint(folder)
    return HeadReport(folder, record, scores, time.perf_counter() - begun, resumed)


def _draw_epochs(record: HeadRecord, folder: Path) -> tuple[str, ...]:
    """Draw the curves of the candidate that was trained in epochs, if one was."""
    if not record.history:
        return ()
    shown = replace(record, score=record.history[record.best_epoch - 1]["score"])
    return draw_if_possible(lambda: draw_curves(shown, folder / PICTURE_NAME))


def _record(loop: HeadLoop, options: HeadOptions, threshold: Threshold) -> HeadRecord:
    data = {"train": loop.examples, "dev": loop.dev}
    return HeadRecord(
        format_version=FORMAT_VERSION,
        kind=loop.task.kind,
        approach="frozen",
        model=loop.reads.model,
        pairs=loop.reads.pairs,
        outputs=loop.outputs,
        training=loop.settings,
        columns=ExampleColumns(
            options.reading.text_columns, options.reading.pair_column, options.label, options.choices
        ),
        measure=loop.task.measure_of(loop.outputs),
        score=best_candidate(loop.candidates).score,
        threshold=threshold,
        seconds=loop.seconds,
        data=loop.digests,
        versions=installed_versions("bertfeat", "torch", "numpy") | {"threads": str(torch.get_num_threads())},
        extraction=loop.reads.extraction,
        pooling=loop.reads.pooling,
        layers=loop.reads.layers.spelling or loop.reads.layers.spec,
        network=loop.network.shape,
        places={
            name: tuple(record_place(folder, loop.folder) for folder in examples.folders)
            for name, examples in data.items()
        },
        candidates=tuple(loop.candidates),
        best_epoch=best_epoch(loop.history, loop.settings),
        history=tuple(loop.history),
    )
