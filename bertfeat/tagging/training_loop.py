"""Training a tagger: from the features to the saved tagger."""

import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.features import FeatureSet
from bertfeat.io import keep_freed_memory, to_plain
from bertfeat.tagging.capacity import refuse_too_large
from bertfeat.tagging.data import TrainingData
from bertfeat.tagging.inference import predict_store
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.report import TrainingReport
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.settings import TaggerSettings, TrainingSettings
from bertfeat.tagging.tagger_files import (
    FORMAT_VERSION,
    has_tagger,
    network_forms,
    read_tagger_settings,
    read_tagger_weights,
    remove_tagger,
    write_tagger,
)
from bertfeat.training import (
    EpochLoop,
    ExampleBatch,
    ExampleChunk,
    OnEpoch,
    PackedExamples,
    best_epoch,
    record_place,
    remove_checkpoint,
)


class TaggerLoop(EpochLoop):
    """One training of a tagger, in a folder that :func:`hold_result_folder` holds."""

    network: TaggerNetwork

    def __init__(
        self,
        train_set: FeatureSet,
        dev_set: FeatureSet,
        folder: Path,
        layers: str | None,
        settings: TrainingSettings,
        device: str | None,
    ) -> None:
        self.data = TrainingData.of(train_set, dev_set, layers, settings)
        self.labels = self.data.labels
        crf = self.labels.has_spans if settings.crf is None else settings.crf
        self.tagger_settings = replace(settings, crf=crf)
        super().__init__(folder, self.tagger_settings, device, self.data.train)
        self.shape = NetworkSettings(
            self.data.train.width, self.data.input.mixed_layers, settings.hidden, crf, settings.dropout
        )
        self._numbers = self._number_tags()

    def run(self, *, overwrite: bool, on_epoch: OnEpoch | None) -> TrainingReport:
        """Train the remaining epochs."""
        keep_freed_memory()
        begun = time.perf_counter()
        forms, lengths = network_forms(self.shape, self.labels), self.train.lengths
        refuse_too_large(forms, self.shape, len(self.labels), lengths, self.settings.batch_size, self.device)
        if overwrite:
            remove_tagger(self.folder)
            remove_checkpoint(self.folder)
        if has_tagger(self.folder):
            return self._finished()
        resumed = self.learn(on_epoch)
        settings, scores = self._finish()
        seconds = time.perf_counter() - begun
        return TrainingReport(self.folder, settings, scores, seconds, self.data.warnings, resumed, self.train.fits)

    # ── what is learnt ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        data = self.data
        return _identity(data.model.fingerprint, data.input.spec, data.extraction, self.settings, data.digests)

    def make_network(self) -> TaggerNetwork:
        """A network that has learnt nothing yet."""
        return TaggerNetwork(self.shape, self.labels.names, spans=self.labels.has_spans)

    def loss(self, batch: ExampleBatch, chunk: ExampleChunk, packed: PackedExamples) -> tuple[Tensor, int]:
        """The mean loss of the words of a batch."""
        numbers = self._numbers[self.train.vectors_of(chunk, packed)]
        return self.network.loss(batch, torch.from_numpy(numbers).long().to(self.device)), len(numbers)

    def judge(self) -> float:
        """Span F1, or accuracy of plain tags, on the development set."""
        return self.evaluate().value

    def evaluate(self) -> Scores:
        """Score the network on the development set."""
        return score_tagger(self.data.gold, list(predict_store(self.network, self.labels, self.data.dev, self.device)))

    def check_unchanged(self) -> None:
        """Check that both sets did not change since they were opened."""
        self.data.check_unchanged()

    def _number_tags(self) -> NDArray[np.int32]:
        """The label of each word of the training set, ``[N]``."""
        numbers = self.labels.numbers(self.data.train.tags())
        return np.fromiter((number for listed in numbers for number in listed), np.int32, self.train.vectors)

    # ── before and after ────────────────────────────────────────────────────────────────────────────────────

    def _finished(self) -> TrainingReport:
        settings = read_tagger_settings(self.folder)
        theirs = _identity(
            settings.model.fingerprint, settings.input.spec, settings.extraction, settings.training, settings.data
        )
        self.check_same(theirs, "a tagger that was trained")
        read_tagger_weights(self.folder, settings)  # a tagger that is reported as finished must be sound
        remove_checkpoint(self.folder)
        count = len(settings.history)
        return TrainingReport(self.folder, settings, None, 0.0, self.data.warnings, count, self.train.fits)

    def _finish(self) -> tuple[TaggerSettings, Scores]:
        best = best_epoch(self.history, self.settings)
        settings = TaggerSettings(
            format_version=FORMAT_VERSION,
            model=self.data.model,
            extraction=self.data.extraction,
            input=self.data.input,
            network=self.shape,
            labels=self.labels,
            training=self.tagger_settings,
            data=self.data.digests,
            places={
                "train": record_place(self.data.train.folder, self.folder),
                "dev": record_place(self.data.dev.folder, self.folder),
            },
            best_epoch=best,
            score=self.history[best - 1]["score"],
            history=tuple(self.history),
            versions={name: version(name) for name in ("bertfeat", "torch", "numpy")}
            | {"threads": str(torch.get_num_threads())},
            weights=None,
        )
        scores = self.evaluate()
        settings = write_tagger(self.folder, settings, self.network.state_dict())
        remove_checkpoint(self.folder)
        return settings, scores


def _identity(
    model: str, layers: str, extraction: object, training: object, data: Mapping[str, str]
) -> dict[str, object]:
    """All that decides the result of a training, as JSON has it."""
    plain = {"extraction": to_plain(extraction), "training": to_plain(training)}
    return {"model": model, "layers": layers, **plain, "data": dict(data)}
