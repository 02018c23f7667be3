"""Estimate of a pre-training, measured on the beginning of a corpus."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from bertfeat.models import Model
from bertfeat.pretraining.material import prepare_material
from bertfeat.pretraining.networks import start_network
from bertfeat.pretraining.report import PretrainingEstimate
from bertfeat.pretraining.run import steps_of_epochs
from bertfeat.pretraining.settings import PretrainingSettings
from bertfeat.pretraining.texts import CorpusText, CorpusTexts
from bertfeat.pretraining.training import make_task, seconds_a_step

_ROWS = 20_000  # that are looked at
_CHARACTERS = 4_000_000
SECONDS_MEASURED = 10.0  # of measuring


def estimate_run(
    texts: CorpusTexts, settings: PretrainingSettings, model: Model | None, device: torch.device
) -> PretrainingEstimate:
    """Tokenize the first rows, time some steps, and extrapolate.

    Where they are not the whole corpus, a new model has embeddings for all pieces that were asked for.
    """
    rows = list(_first_rows(texts))
    fraction = max(texts.fraction, 1e-9)
    room = None if fraction >= 1 else settings.vocabulary
    with tempfile.TemporaryDirectory() as scratch_dir:
        material = prepare_material(Path(scratch_dir), lambda _: rows, replace(settings, held_out=0.0), model, room)
        module = start_network(settings, model, material.tokenizer.size, device).module
        task = make_task(material, module, model)
        seconds, tokens = seconds_a_step(task, SECONDS_MEASURED)
        sequences = max(1, round(len(task.examples) / fraction * (1 - settings.held_out)))
        steps = settings.steps or steps_of_epochs(settings, sequences)
        if settings.minutes is not None:
            steps = max(1, int(settings.minutes * 60 / seconds))
        return PretrainingEstimate(
            parameters=sum(weight.numel() for weight in module.parameters()),
            pieces=round(len(material.store.pieces) / fraction),
            sequences=sequences,
            steps=steps,
            tokens_per_second=tokens / seconds,
            seconds=steps * seconds,
            warnings=(),
        )


def _first_rows(texts: CorpusTexts) -> Iterator[CorpusText]:
    characters = 0
    for row in islice(texts, _ROWS):
        yield row
        characters += len(row.text)
        if characters > _CHARACTERS:
            return
