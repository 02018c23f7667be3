"""Pre-training in one call, from a corpus to a model; and an estimate beforehand of the time that it would take."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from bertfeat.arguments import checked
from bertfeat.core import CorpusSettings, Model, Precision, find_model, resolve_precision, silence_transformers
from bertfeat.display import displayed
from bertfeat.errors import UsageError, parameter
from bertfeat.io import Location, ResultKind, hold_result_folder, real_path
from bertfeat.learning import keep_random_state, require_accelerate, single_device
from bertfeat.plots import draw_if_possible, draw_pretraining
from bertfeat.pretraining.corpus import CorpusText, CorpusTexts
from bertfeat.pretraining.material import prepare_material
from bertfeat.pretraining.networks import start_network
from bertfeat.pretraining.results import PICTURE_NAME, PretrainingReport
from bertfeat.pretraining.run import PretrainingRun, steps_of_epochs
from bertfeat.pretraining.settings import PretrainingSettings
from bertfeat.pretraining.training import PretrainingProgress, make_task, seconds_a_step
from bertfeat.progress import ProgressOption, telling

CHECKPOINT_MINUTES = 5.0

CorpusPaths = str | Path | Sequence[str | Location]
"""A file, a folder or a pattern, or several."""


@checked
def pretrain_model(
    corpus: CorpusPaths,
    folder: str | Path,
    *,
    model: str | Path | None = None,
    revision: str | None = None,
    settings: PretrainingSettings | None = None,
    corpus_settings: CorpusSettings | None = None,
    document_column: str | None = None,
    device: str | None = None,
    checkpoint_minutes: float = CHECKPOINT_MINUTES,
    overwrite: bool = False,
    picture: bool = True,
    progress: ProgressOption[PretrainingProgress] = None,
) -> PretrainingReport:
    """Pre-train a model on a corpus, from scratch or from ``model`` on; ``folder`` gets it in Hugging Face's format.

    A document of the corpus is: consecutive rows with one value in ``document_column``; else, in text files, the rows
    between blank lines; else a file. ``picture``: draw ``curves.png`` too. An interrupted training resumes from its
    last checkpoint, which is written every ``checkpoint_minutes`` and after the last step; the weights are then the
    same as without the interruption.

    Raises:
        CorpusError: an empty corpus, one that is too small, or of one document where there have to be several.
        ModelError: the model cannot be found, or cannot be trained.
        UsageError: settings that do not fit the model or the corpus.
        PretrainingError: a folder of another training, unless ``overwrite``; a loss that is no finite number.
        FolderLockedError: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    require_accelerate("pre-training")
    if not 0 <= checkpoint_minutes < 1e7:
        remedy = "give 0 or more"
        raise UsageError(
            "this cannot be right", where=parameter("checkpoint_minutes", checkpoint_minutes), remedy=remedy
        )
    folder, torch_device = Path(folder), single_device(device, "pre-training")
    start_model, resolved = _resolve_start(model, revision, settings, torch_device)
    if start_model is not None and real_path(start_model.folder) == real_path(folder):
        problem = "the starting model lies there, and would be overwritten"
        raise UsageError(problem, where=folder, remedy=f"name another folder with {parameter('folder')}")
    texts = CorpusTexts(corpus, corpus_settings or CorpusSettings(), document_column)
    with hold_result_folder(folder, ResultKind.MODEL), silence_transformers(), keep_random_state():
        with telling(progress) as tell:
            run = PretrainingRun(texts, folder, resolved, start_model, torch_device, checkpoint_minutes, tell)
            report = run.run(overwrite=overwrite)
        if not picture:
            return report
        unable = draw_if_possible(lambda: draw_pretraining(report.record, folder / PICTURE_NAME))
        return replace(report, warnings=(*report.warnings, *unable))


def _resolve_start(
    model: str | Path | None, revision: str | None, settings: PretrainingSettings | None, device: torch.device
) -> tuple[Model | None, PretrainingSettings]:
    """The starting model, if there is one, and the settings with all that was left open decided."""
    if model is None and revision is not None:
        raise UsageError(f"{parameter('revision')} is of a model, and none is given", remedy="leave it out")
    start_model = None if model is None else find_model(model, revision=revision)
    resolved = (settings or PretrainingSettings()).resolved(from_scratch=start_model is None)
    precision = resolve_precision(resolved.precision, device)
    return start_model, replace(resolved, precision="bf16" if precision is Precision.BF16 else "fp32")


# ── an estimate ─────────────────────────────────────────────────────────────────────────────────────────────


_ROWS = 20_000  # that are read at most
_CHARACTERS = 4_000_000  # after which reading stops
SECONDS_MEASURED = 10.0  # for which the speed is measured


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingEstimate:
    """Time and memory of a pre-training, measured on a part of the corpus."""

    parameters: int
    pieces: int  # of the corpus, extrapolated
    sequences: int  # of an epoch
    steps: int
    tokens_per_second: float
    seconds: float  # of all steps


@checked
def estimate_pretraining(
    corpus: CorpusPaths,
    *,
    model: str | Path | None = None,
    revision: str | None = None,
    settings: PretrainingSettings | None = None,
    corpus_settings: CorpusSettings | None = None,
    document_column: str | None = None,
    device: str | None = None,
) -> PretrainingEstimate:
    """Measure on the beginning of a corpus how long :func:`pretrain_model` would take; nothing is written.

    Raises:
        CorpusError, ModelError, UsageError: as :func:`pretrain_model`.
    """
    torch_device = single_device(device, "pre-training")
    start_model, resolved = _resolve_start(model, revision, settings, torch_device)
    texts = CorpusTexts(corpus, corpus_settings or CorpusSettings(), document_column)
    rows = list(_first_rows(texts))
    fraction = max(texts.fraction, 1e-9)
    # a part of the corpus may have fewer pieces; the new model then has embeddings for all that were asked for
    room = None if fraction >= 1 else resolved.vocabulary
    with silence_transformers(), keep_random_state(), tempfile.TemporaryDirectory() as scratch_dir:
        measured = replace(resolved, held_out=0.0)
        material = prepare_material(Path(scratch_dir), lambda _: rows, measured, start_model, room)
        module = start_network(resolved, start_model, material.tokenizer.size, torch_device).module
        task = make_task(material, module, start_model)
        seconds, tokens = seconds_a_step(task, SECONDS_MEASURED)
    sequences = max(1, round(len(task.examples) / fraction * (1 - resolved.held_out)))
    steps = resolved.steps or steps_of_epochs(resolved, sequences)
    if resolved.minutes is not None:
        steps = max(1, int(resolved.minutes * 60 / seconds))
    return PretrainingEstimate(
        parameters=sum(weight.numel() for weight in module.parameters()),
        pieces=round(len(material.store.pieces) / fraction),
        sequences=sequences,
        steps=steps,
        tokens_per_second=tokens / seconds,
        seconds=steps * seconds,
    )


def _first_rows(texts: CorpusTexts) -> Iterator[CorpusText]:
    characters = 0
    for row in islice(texts, _ROWS):
        yield row
        characters += len(row.text)
        if characters > _CHARACTERS:
            return
