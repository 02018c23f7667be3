"""One call from labelled examples to a saved head."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Unpack

import torch

from bertfeat.corpus import CorpusSettings
from bertfeat.errors import HeadError, parameter
from bertfeat.extraction import OnProgress
from bertfeat.features import FeatureSet
from bertfeat.heads.datasets import HeadOptions, HeadSource, OpenSets, extract_sets, head_extractor, open_sets
from bertfeat.heads.examples import HeadExamples, learn_outputs, open_examples
from bertfeat.heads.gold import ANSWERS
from bertfeat.heads.guesses import HeadScores, measure_of, threshold_of
from bertfeat.heads.head_files import (
    FORMAT_VERSION,
    PICTURE_NAME,
    has_head,
    read_head_record,
    read_head_weights,
    remove_head,
    write_head,
)
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.heads.loop import HeadLoop
from bertfeat.heads.settings import ExampleColumns, HeadInput, HeadRecord, HeadSettings
from bertfeat.heads.tuned_training import refuse_frozen_options, tune_head
from bertfeat.io import ResultKind, keep_freed_memory
from bertfeat.plots import draw_curves
from bertfeat.recipe import Pooling
from bertfeat.tagging import ExtractorArguments, OnDataset
from bertfeat.training import (
    GridPoint,
    OnEpoch,
    OnStep,
    best_epoch,
    check_same_features,
    choose_input,
    draw_if_possible,
    extraction_of,
    hold_result_folder,
    record_place,
    remove_checkpoint,
)

FEATURES_NAME = "features"  # folder, in a head's, of what was extracted for it


OpenSources = tuple[HeadInput, dict[str, HeadExamples]]
"""What a head reads, and the examples of each source by name."""


@dataclass(frozen=True, slots=True)
class HeadReport:
    """The result of a training."""

    folder: Path
    record: HeadRecord
    scores: HeadScores | None  # on the development set; None where nothing was left to do
    seconds: float
    resumed: int  # epochs that an earlier run had done
    warnings: tuple[str, ...] = ()


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
    progress: OnProgress | None = None,
    on_dataset: OnDataset | None = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> HeadReport:
    """Train a head (``classify``, ``answer``, ``choose``) on frozen features, and save it in ``folder``.

    ``train`` and ``dev`` are feature sets, or corpus files, which are extracted into the folder; ``corpus_settings``
    say how they are read, ``extractor`` by which model. ``label`` is the column of what is to be predicted, ``choices``
    are those of a question's choices. ``layers`` are a recipe, or ``mix4``, ``mix-all``, ``mix=1+6`` for a
    learned weighted sum. Pairs are embedded (``embed_pairs``) ``apart`` (default; the head gets u, v, |u-v|,
    u·v) or ``together``. The epoch
    with the best score on ``dev`` is kept. An interrupted training goes on after its last whole epoch.

    With ``fine_tune`` the whole model is fine-tuned on the texts instead, by transformers' own head and Trainer.

    Raises:
        NotDerivableError: the sets do not hold the layers.
        HeadError: examples that nothing can be learnt from, or sets of different models; or a folder with another
            training, unless ``overwrite``.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    folder, settings, begun = Path(folder), settings or HeadSettings(), time.perf_counter()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    options = HeadOptions(
        HeadKind(kind), layers, pooling, form, label, choices, reading, extractor, progress, on_dataset
    )
    if fine_tune is not None:
        refuse_frozen_options(options, settings)
    sources = {"train": open_sets(train), "dev": open_sets(dev)}
    with hold_result_folder(folder, ResultKind.HEAD):
        if fine_tune is not None:
            tuned = tune_head(folder, sources, options, settings, fine_tune, overwrite=overwrite, on_step=on_step)
            return HeadReport(folder, *tuned, 0)
        sets = extracted_sets(sources, options, folder, overwrite=overwrite)
        loop = _open_loop(sets, options, folder, settings, extractor.get("device"))
        report = _run_loop(loop, options, overwrite=overwrite, on_epoch=on_epoch, begun=begun)
        report = replace(report, warnings=_dev_warnings(loop))
        if not picture:
            return report
        warnings = draw_if_possible(lambda: draw_curves(report.record, folder / PICTURE_NAME))
    return replace(report, warnings=(*report.warnings, *warnings))


def extracted_sets(
    sources: dict[str, OpenSets], options: HeadOptions, folder: Path, *, overwrite: bool = False
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
    outputs = learn_outputs(options.kind, train.gold, train.origin, regression=settings.regression)
    _check_dev_labels(dev, outputs.labels)
    return HeadLoop(folder, settings, device, train, dev, reads, outputs)


def open_sources(
    sets: Mapping[str, tuple[FeatureSet, ...]], options: HeadOptions, settings: HeadSettings
) -> OpenSources:
    """What a head reads of the training set, and the examples of all sets, of which is known what is to be predicted.

    Raises:
        HeadError: sets that are not alike, or do not say what is to be predicted.
    """
    first, reads = sets["train"], head_input(sets["train"], options)
    opened = {}
    for name, listed in sets.items():
        if len(listed) != len(first):
            raise HeadError(f"of train and {name}, one is of pairs that are apart", remedy="give both in one form")
        for features in listed:
            check_same_features(features, reads.model, reads.extraction, str(first[0].folder), reads.pooling)
        others = len(sets) - 1
        share = settings.memory * 3 // 4 if name == "train" else settings.memory // (4 * others)
        opened[name] = _open_known(options, listed, reads, settings, share)
    return reads, opened


def _open_known(
    options: HeadOptions, sets: tuple[FeatureSet, ...], reads: HeadInput, settings: HeadSettings, budget: int
) -> HeadExamples:
    """Examples of which is known what is to be predicted."""
    regression, label = settings.regression, options.label
    if options.kind is HeadKind.CLASSIFY and label is None:
        raise HeadError("which column holds the labels is not said", remedy=f"name it with {parameter('label')}")
    examples = open_examples(
        options.kind, sets, reads.layers, reads.pooling, label=label, regression=regression, budget=budget
    )
    if not examples.gold:
        named = "right choice" if label is None else f"column {label!r}"
        what = {HeadKind.CLASSIFY: named, HeadKind.ANSWER: f"column {ANSWERS!r}", HeadKind.CHOOSE: named}
        remedy = f"name the column with {parameter('label')}, and extract feature sets with {parameter('keep')}"
        raise HeadError(f"there is no {what[options.kind]} to learn from", where=examples.origin, remedy=remedy)
    return examples


def _check_dev_labels(dev: HeadExamples, labels: tuple[str, ...]) -> None:
    """Refuse a development set on which nothing can be right."""
    if labels and not set(labels) & {str(label) for label in dev.gold}:
        raise HeadError("the development set has only labels that the training set lacks", where=dev.origin)


def _dev_warnings(loop: HeadLoop) -> tuple[str, ...]:
    """Labels of the development set that no head of this training can predict."""
    labels = loop.outputs.labels
    unknown = sorted({str(label) for label in loop.dev.gold} - set(labels)) if labels else []
    told = f"the development set has labels that the training set lacks: {', '.join(unknown[:12])}"
    return (told,) if unknown else ()


def head_input(sets: tuple[FeatureSet, ...], options: HeadOptions) -> HeadInput:
    """What a head reads of a feature set.

    Raises:
        HeadError: it has several poolings, and none is named.
    """
    features, kind = sets[0], options.kind
    stored = list(dict.fromkeys(column.pooling for column in features.columns))
    fit = [pooling for pooling in stored if pooling.per_document and options.pooling in (None, pooling)]
    usable = [Pooling.TOKEN] if kind is HeadKind.ANSWER else fit
    if len(usable) != 1:
        problem = f"a head reads one vector a text, and this set holds {', '.join(stored)}"
        remedy = f"say which with {parameter('pooling')}, or extract with {parameter('pooling', 'mean')}"
        raise HeadError(problem, where=features.folder, remedy=remedy)
    model = features.header.model
    layers = choose_input(options.layers, features.columns, model.num_layers, usable[0])
    together = "pair" in features.names
    pairs = PairForm.APART if len(sets) == 2 else PairForm.TOGETHER if together else None
    return HeadInput(model, extraction_of(features, usable[0]), usable[0], layers, pairs)


def _run_loop(
    loop: HeadLoop, options: HeadOptions, *, overwrite: bool, on_epoch: OnEpoch | None, begun: float
) -> HeadReport:
    keep_freed_memory()
    folder = loop.folder
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
    resumed = loop.learn(on_epoch)
    scores = loop.evaluate()
    record = write_head(folder, _record(loop, options, scores), loop.network.state_dict())
    remove_checkpoint(folder)
    return HeadReport(folder, record, scores, time.perf_counter() - begun, resumed)


def _record(loop: HeadLoop, options: HeadOptions, scores: HeadScores) -> HeadRecord:
    best = best_epoch(loop.history, loop.settings)
    data = {"train": loop.examples, "dev": loop.dev}
    return HeadRecord(
        format_version=FORMAT_VERSION,
        kind=loop.kind,
        approach="frozen",
        model=loop.reads.model,
        pairs=loop.reads.pairs,
        outputs=loop.outputs,
        training=loop.head_settings,
        columns=ExampleColumns(
            options.reading.text_columns, options.reading.pair_column, options.label, options.choices
        ),
        measure=measure_of(loop.kind, regression=loop.head_settings.regression),
        score=loop.history[best - 1]["score"],
        threshold=threshold_of(scores),
        seconds=sum(epoch["seconds"] for epoch in loop.history),
        data=loop.digests,
        versions={name: version(name) for name in ("bertfeat", "torch", "numpy")}
        | {"threads": str(torch.get_num_threads())},
        extraction=loop.reads.extraction,
        pooling=loop.reads.pooling,
        layers=loop.reads.layers.spelling or loop.reads.layers.spec,
        network=loop.shape,
        places={
            name: tuple(record_place(folder, loop.folder) for folder in examples.folders)
            for name, examples in data.items()
        },
        best_epoch=best,
        history=tuple(loop.history),
    )
