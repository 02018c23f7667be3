"""Training of heads: one call from labeled examples to a saved head."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import torch

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter
from bertfeat.io import ResultKind, hold_result_folder, installed_versions, keep_freed_memory
from bertfeat.learning.datasets import ALL_LAYERS, Training, extracted_sets
from bertfeat.learning.examples import open_sources
from bertfeat.learning.fine_tuning import tune_head
from bertfeat.learning.head_files import (
    FORMAT_VERSION,
    PICTURE_NAME,
    HeadReport,
    has_head,
    read_head_record,
    read_head_weights,
    remove_checkpoint,
    remove_head,
    write_head,
)
from bertfeat.learning.inputs import count_failed_rows, record_place
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.layer_trials import are_several, check_several, choose_among
from bertfeat.learning.loop import HeadLoop
from bertfeat.learning.record import ExampleColumns, HeadRecord, best_candidate
from bertfeat.learning.schedule import best_epoch, cut_short_warnings
from bertfeat.learning.settings import GridPoint, LearningSettings
from bertfeat.learning.sources import HeadSource
from bertfeat.learning.task import Threshold
from bertfeat.learning.tasks.labels import merged_labels_warnings
from bertfeat.learning.trainer import check_tuning
from bertfeat.options import takes
from bertfeat.plots import draw_curves, draw_if_possible
from bertfeat.progress import AnyProgress, ProgressOption, telling
from bertfeat.study import ChosenLayers


@dataclass(frozen=True, slots=True)
class TrainingRequest(LearningSettings):
    """A head to train, and where it is saved."""

    kind: HeadKind | str
    train: HeadSource
    dev: HeadSource
    folder: str | Path
    _: KW_ONLY
    layers: str | None = None
    fine_tune: GridPoint | None = None
    overwrite: bool = False
    picture: bool = True
    progress: ProgressOption[AnyProgress] = None


@checked
@takes(TrainingRequest)
def train_head(asked: TrainingRequest) -> HeadReport:
    """Train a head (``tag``, ``classify``, ``answer``, ``choose``) on frozen features, and save it in ``folder``.

    ``train`` and ``dev`` are feature sets, or corpus files, which are extracted into the folder: ``corpus_settings``
    say how they are read, ``model`` and the other extraction arguments how they are extracted. ``label`` is the column
    to predict, ``choices`` are the columns of a question's choices. ``layers`` are a recipe, or ``mix4``, ``mix-all``,
    ``mix=1+6`` for a learned weighted sum; of several (``"5,7,concat4"``) one is chosen for tags and labels, by solved
    linear heads on ``dev`` (:func:`bertfeat.study.choose_stored_layers`), and recorded. Pairs are embedded
    (``embed_pairs``) ``apart`` (default; the head gets u, v, |u-v|, u·v, and the cosines of their layers) or
    ``together``. For labels, numbers and choices, linear heads with several weight decays are solved besides the
    network that is trained in epochs; of these and the mean of both, the candidate with the least loss on ``dev`` is
    kept. An interrupted training resumes after its last complete epoch.

    With ``fine_tune`` the whole model is fine-tuned on the texts instead, by transformers' own head and Trainer.
    ``progress`` hears of extraction, epochs, and the steps of fine-tuning.

    Raises:
        NotDerivableError: the sets do not hold the layers.
        HeadError: examples that nothing can be learned from, or sets of different models; or a folder with another
            training, unless ``overwrite``.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    folder, layers, point, begun = Path(asked.folder), asked.layers, asked.fine_tune, time.perf_counter()
    training = Training.open(asked.kind, {"train": asked.train, "dev": asked.dev}, asked)
    task = training.task
    if layers == ALL_LAYERS:
        raise UsageError("a head reads one recipe, and 'all' means every layer", remedy="mix-all weighs all layers")
    epochs = task.has_epochs(training.settings, mixed=(layers or "").startswith("mix"))
    training.check(layers=layers, stored=point is None, tuning=point is not None, epochs=epochs)
    if point is not None:
        if asked.pair_form is PairForm.APART:
            problem = "a whole model reads both texts as one sequence"
            raise UsageError(problem, where=parameter("embed_pairs", asked.embed_pairs), remedy="leave it out")
        check_tuning([point], asked.device, asked.precision)
    if layers is not None and are_several(layers):
        check_several(training, layers)
    warnings = merged_labels_warnings(task, training.sources.values(), asked.label)
    with hold_result_folder(folder, ResultKind.HEAD), telling(asked.progress) as tell:
        if point is not None:
            report = tune_head(folder, training, point, tell, overwrite=asked.overwrite)
            return replace(report, warnings=warnings + report.warnings)
        sets = extracted_sets(training, layers, folder, tell, overwrite=asked.overwrite)
        choice = choose_among(training, sets["dev"], layers, tell) if layers and are_several(layers) else None
        opened = open_sources(sets, training, layers if choice is None else choice.layers)
        loop = HeadLoop(folder, training.settings, asked.device, opened)
        report = _run_loop(loop, training, choice, tell, overwrite=asked.overwrite, begun=begun)
        warnings += opened.task.unlearned_warnings(opened.examples["dev"].gold)
        warnings += cut_short_warnings([len(report.record.history)], training.settings)
        if asked.picture:
            warnings += _draw_epochs(report.record, folder)
    return replace(report, warnings=warnings, failed=count_failed_rows(training.sources, sets), choice=choice)


def _run_loop(
    loop: HeadLoop,
    training: Training,
    choice: ChosenLayers | None,
    tell: Callable[[AnyProgress], None],
    *,
    overwrite: bool,
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
            # always raises: the layers of a frozen head are never None
            loop.check_same({**loop.identity, "layers": None}, "a model that was fine-tuned")
        loop.check_same(record.identity(), "a head that was trained")
        read_head_weights(folder, record)  # raises if the finished head is damaged
        remove_checkpoint(folder)  # of a run that was killed before it could
        return HeadReport(folder, record, None, 0.0, len(record.history))
    resumed = loop.learn(tell)
    scores, threshold = loop.evaluate()
    record = replace(_record(loop, training, threshold), choice=None if choice is None else choice.to_json())
    record = write_head(folder, record, loop.network.state_dict())
    remove_checkpoint(folder)
    return HeadReport(folder, record, scores, time.perf_counter() - begun, resumed)


def _draw_epochs(record: HeadRecord, folder: Path) -> tuple[str, ...]:
    """Draw the curves of the candidate that was trained in epochs, if one was."""
    if not record.history:
        return ()
    shown = replace(record, score=record.history[record.best_epoch - 1]["score"])
    return draw_if_possible(lambda: draw_curves(shown, folder / PICTURE_NAME))


def _record(loop: HeadLoop, training: Training, threshold: Threshold) -> HeadRecord:
    data = {"train": loop.examples, "dev": loop.dev}
    return HeadRecord(
        format_version=FORMAT_VERSION,
        kind=loop.task.kind,
        approach="frozen",
        model=loop.reads.model,
        pairs=loop.reads.pairs,
        outputs=loop.task.outputs,
        training=loop.settings,
        columns=ExampleColumns.of(training.how),
        measure=loop.task.measure,
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
