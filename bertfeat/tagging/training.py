"""One call from tagged sentences to a saved tagger."""

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from bertfeat.corpus import CorpusSettings
from bertfeat.extraction import OnProgress
from bertfeat.io import ResultKind
from bertfeat.plots import draw_curves
from bertfeat.tagging.dataset_extractors import ExtractorArguments
from bertfeat.tagging.datasets import (
    DatasetOptions,
    OnDataset,
    SentenceSource,
    open_datasets,
    open_source,
    refuse_unused_options,
)
from bertfeat.tagging.report import TrainingReport
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.tagger_files import PICTURE_NAME
from bertfeat.tagging.training_loop import TaggerLoop
from bertfeat.training import OnEpoch, draw_if_possible, hold_result_folder


def train_tagger(
    train: SentenceSource,
    dev: SentenceSource,
    folder: str | Path,
    *,
    layers: str | None = None,
    settings: TrainingSettings | None = None,
    corpus_settings: CorpusSettings | None = None,
    overwrite: bool = False,
    picture: bool = True,
    progress: OnProgress | None = None,
    on_dataset: OnDataset | None = None,
    on_epoch: OnEpoch | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> TrainingReport:
    """Train a tagger (a two-layer BiLSTM, of spans with a CRF on top) on frozen features of words, saved in ``folder``.

    ``train`` and ``dev`` are feature sets with tags, or corpus files, which are extracted into feature sets beside
    them; ``corpus_settings`` say how the files are read, ``extractor`` by which model. ``layers`` is what the tagger
    reads of each word: a recipe, or ``mix4``, ``mix-all``, ``mix=1+6`` for a learned weighted sum; by default the only
    stored word column, else ``concat4``. The epoch with the best score on ``dev`` is kept. ``picture``: draw
    ``curves.png`` too. An interrupted training goes on after its last whole epoch.

    Raises:
        NotDerivableError: the sets do not hold the layers.
        TaggerError: sets of different models, without tags or words, with one tag only; or a folder with another
            training, unless ``overwrite``.
        UsageError: options of extraction where nothing is extracted; corpora whose features would meet.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    folder, settings = Path(folder), settings or TrainingSettings()
    sources = {"train": open_source(train), "dev": open_source(dev)}
    options = DatasetOptions(layers, corpus_settings or CorpusSettings(), extractor, progress, on_dataset)
    refuse_unused_options(sources, options)
    with hold_result_folder(folder, ResultKind.TAGGER):  # extraction included: of two equal runs, one does it
        datasets = open_datasets(sources, options)
        loop = TaggerLoop(datasets["train"], datasets["dev"], folder, layers, settings, extractor.get("device"))
        report = loop.run(overwrite=overwrite, on_epoch=on_epoch)
        if not picture:
            return report
        warnings = draw_if_possible(lambda: draw_curves(report.settings, folder / PICTURE_NAME))
    return replace(report, warnings=(*report.warnings, *warnings))
