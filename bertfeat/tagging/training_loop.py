"""Training a tagger: epochs over stored features, the best one by the development set kept, resumed where it was."""

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from bertfeat.encoder import resolve_device
from bertfeat.errors import TaggerError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import keep_freed_memory
from bertfeat.tagging.batches import gather_batch, shuffled_batches
from bertfeat.tagging.capacity import refuse_too_large
from bertfeat.tagging.checkpoint import (
    Checkpoint,
    TrainingIdentity,
    read_checkpoint,
    remove_checkpoint,
    restore,
    training_tensors,
    write_checkpoint,
)
from bertfeat.tagging.data import TrainingData
from bertfeat.tagging.epochs import Epoch, OnEpoch, TrainingReport
from bertfeat.tagging.feature_places import record_place
from bertfeat.tagging.inference import predict_store
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.scaling import feature_scale
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.sentences import SentenceChunk
from bertfeat.tagging.settings import (
    EpochRecord,
    TaggerSettings,
    TrainingSettings,
    best_epoch,
    is_over,
    next_rate,
)
from bertfeat.tagging.tagger_files import (
    FORMAT_VERSION,
    has_tagger,
    network_forms,
    read_tagger_settings,
    read_tagger_weights,
    remove_tagger,
    write_tagger,
)

_NORM = 5.0  # gradients are scaled down to it
_SCALED_BY = 65_536  # words that the features' mean and spread are taken from


class TrainingLoop:
    """One training, from the features to the saved tagger, in a folder that :func:`hold_result_folder` holds."""

    def __init__(
        self,
        train_set: FeatureSet,
        dev_set: FeatureSet,
        folder: Path,
        layers: str | None,
        settings: TrainingSettings,
        device: str | None,
    ) -> None:
        self.folder, self.settings = folder, settings
        self.device = resolve_device(device)
        self.data = TrainingData.of(train_set, dev_set, layers, settings)
        self.shape = NetworkSettings(
            self.data.train.width, self.data.input.mixed_layers, settings.hidden, settings.crf, settings.dropout
        )
        self.history: list[EpochRecord] = []
        self._targets: Tensor | None = None

    # ── the run ─────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, *, overwrite: bool, on_epoch: OnEpoch | None) -> TrainingReport:
        """Train the remaining epochs."""
        keep_freed_memory()
        begun = time.perf_counter()
        forms, lengths = network_forms(self.shape, self.data.labels), self.data.train.lengths
        refuse_too_large(forms, self.shape, len(self.data.labels), lengths, self.settings.batch_size, self.device)
        if overwrite:
            remove_tagger(self.folder)
            remove_checkpoint(self.folder)
        if has_tagger(self.folder):
            return self._finished()
        self._prepare(read_checkpoint(self.folder))
        resumed = len(self.history)
        while not is_over(self.history, self.settings):
            epoch = self._epoch(len(self.history) + 1)
            if on_epoch is not None:
                on_epoch(epoch)
        settings, scores = self._finish()
        seconds = time.perf_counter() - begun
        return TrainingReport(self.folder, settings, scores, seconds, self.data.warnings, resumed, self.data.train.fits)

    def _prepare(self, checkpoint: Checkpoint | None) -> None:
        with _seeded(self.settings.seed, 0):
            self.network = TaggerNetwork(self.shape, self.data.labels.names, spans=self.data.labels.has_spans)
        if checkpoint is None:
            self.network.standardise(*self._scale())
        self.network.to(self.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.settings.learning_rate, fused=True)
        self.best: dict[str, Tensor] = {}
        if checkpoint is not None:
            self._check_same(checkpoint.identity, "a training that was begun")
            self.best = restore(self.folder, checkpoint, self.network, self.optimizer)
            self.history = list(checkpoint.history)

    def _epoch(self, number: int) -> Epoch:
        begun = time.perf_counter()
        rate = next_rate(self.history, self.settings)
        loss, words = self._learn(number, rate)
        seconds = time.perf_counter() - begun
        if not math.isfinite(loss):
            raise TaggerError(
                f"the loss of epoch {number} is no finite number at a learning rate of {rate:g}",
                remedy=f"give a lower one with {parameter('learning_rate')}",
            )
        value = self.evaluate().value
        self.data.check_unchanged()
        self.history.append({"loss": loss, "score": value, "rate": rate, "words": words, "seconds": seconds})
        best = best_epoch(self.history)
        if best == number:
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        tensors = training_tensors(self.network, self.best, self.optimizer)
        write_checkpoint(self.folder, self._identity, tuple(self.history), tensors)
        return Epoch(number, loss, value, rate, words, seconds, best)

    def _learn(self, number: int, rate: float) -> tuple[float, int]:
        """One pass over the training sentences; returns the mean loss of a word, and the words."""
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total, words = 0.0, 0
        with _seeded(self.settings.seed, number):
            seed = (self.settings.seed, number)
            for part, sentences in enumerate(self.data.train.chunks(seed)):
                targets = self._numbers(sentences)
                for packed in shuffled_batches(sentences, self.settings.batch_size, (*seed, part)):
                    batch = gather_batch(sentences.features, packed, self.device)
                    loss = self.network.loss(batch, targets[packed.words].to(self.device))
                    self.optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    clip_grad_norm_(self.network.parameters(), _NORM)
                    self.optimizer.step()
                    total += loss.item() * len(packed.words)
                    words += len(packed.words)
        return total / words, words

    def evaluate(self) -> Scores:
        """Score the network on the development set."""
        return score_tagger(
            self.data.gold, list(predict_store(self.network, self.data.labels, self.data.dev, self.device))
        )

    # ── before and after ────────────────────────────────────────────────────────────────────────────────────

    def _scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and standard deviation of each value of the features, ``[W]``, over some of the training words."""
        with closing(self.data.train.chunks((self.settings.seed, 0))) as chunks:
            features = next(chunks).features
        return feature_scale(features[:: max(1, len(features) // _SCALED_BY)][:_SCALED_BY])

    def _numbers(self, sentences: SentenceChunk) -> Tensor:
        """The labels of sentences as numbers ``[N]``; those of sentences that stay in memory are kept."""
        if self._targets is not None:
            return self._targets
        tags = (sentences.tags_of(at) for at in range(len(sentences)))
        numbers = torch.tensor([number for listed in self.data.labels.numbers(tags) for number in listed])
        if self.data.train.fits:
            self._targets = numbers
        return numbers

    @property
    def _identity(self) -> TrainingIdentity:
        data = self.data
        return TrainingIdentity(data.model.fingerprint, data.input.spec, data.extraction, self.settings, data.digests)

    def _check_same(self, theirs: TrainingIdentity, what: str) -> None:
        ours, others = asdict(self._identity), asdict(theirs)
        differ = [name for name in ours if ours[name] != others[name]]
        if "training" in differ:
            differ.remove("training")
            differ += [name for name, value in ours["training"].items() if others["training"][name] != value]
        if differ:
            raise TaggerError(
                f"{self.folder} holds {what} in another way (they differ in: {', '.join(differ)})",
                remedy=f"name another folder with {parameter('folder')}, or start anew with "
                f"{parameter('overwrite', True)}",
            )

    def _finished(self) -> TrainingReport:
        settings = read_tagger_settings(self.folder)
        theirs = TrainingIdentity(
            settings.model.fingerprint, settings.input.spec, settings.extraction, settings.training, settings.data
        )
        self._check_same(theirs, "a tagger that was trained")
        read_tagger_weights(self.folder, settings)  # a tagger that is reported as finished must be sound
        remove_checkpoint(self.folder)
        count = len(settings.history)
        return TrainingReport(self.folder, settings, None, 0.0, self.data.warnings, count, self.data.train.fits)

    def _finish(self) -> tuple[TaggerSettings, Scores]:
        self.network.load_state_dict(self.best)
        best = best_epoch(self.history)
        settings = TaggerSettings(
            format_version=FORMAT_VERSION,
            model=self.data.model,
            extraction=self.data.extraction,
            input=self.data.input,
            network=self.shape,
            labels=self.data.labels,
            training=self.settings,
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


@contextmanager
def _seeded(*seed: int) -> Iterator[None]:
    """Seed torch's generator with these numbers inside the block, and restore its state afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield
