"""Training on stored features: epochs, the best one by the development set kept, resumed where it was."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from bertfeat.encoder import resolve_device
from bertfeat.errors import TrainingError, parameter
from bertfeat.training.batches import ExampleBatch, ExampleChunk, PackedExamples, gather_batch, shuffled_batches
from bertfeat.training.capacity import COPIES, refuse_large_network
from bertfeat.training.checkpoint import (
    Checkpoint,
    read_checkpoint,
    restore,
    training_tensors,
    write_checkpoint,
)
from bertfeat.training.epochs import Epoch, OnEpoch, OnPace, Pace
from bertfeat.training.example_store import ExampleStore
from bertfeat.training.network import FeatureNetwork
from bertfeat.training.scaling import feature_scale
from bertfeat.training.schedule import EpochRecord, best_epoch, is_over, next_rate
from bertfeat.training.settings import LoopSettings

_NORM = 5.0  # gradients are scaled down to it
_SCALED_BY = 65_536  # vectors that the features' mean and spread are taken from
_PACE_AFTER = 2.0  # seconds of learning, after which the time of an epoch is told,
_PACE_BATCHES = 4  # and batches, whose examples differ in length
_LONG_EPOCH = 20.0  # seconds of an epoch, from which on its time is told


class EpochLoop(ABC):
    """One training of a network on stored features, in a folder that :func:`hold_result_folder` holds.

    A kind of training says which network learns (:meth:`make_network`) what (:meth:`loss`), how good it is
    (:meth:`judge`) and all that decides its result (:attr:`identity`).
    """

    network: FeatureNetwork
    weight_decay: float = 0.0  # times the weights is added to the gradient

    def __init__(self, folder: Path, settings: LoopSettings, device: str | None, train: ExampleStore) -> None:
        self.folder, self.settings, self.train = folder, settings, train
        self.device = resolve_device(device)
        self.history: list[EpochRecord] = []

    # ── what a kind of training says ────────────────────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, object]:
        """All that decides the result, as JSON has it: trainings of one identity give one result."""

    @abstractmethod
    def make_network(self) -> FeatureNetwork:
        """A network that has learnt nothing yet."""

    @abstractmethod
    def loss(self, batch: ExampleBatch, chunk: ExampleChunk, packed: PackedExamples) -> tuple[Tensor, int]:
        """The mean loss of a batch of a chunk, and over how many words or examples it is the mean."""

    @abstractmethod
    def judge(self) -> float:
        """The score of the network on the development set."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Check that what is learnt from did not change since it was opened.

        Raises:
            TrainingError: it was changed.
        """

    # ── the run ─────────────────────────────────────────────────────────────────────────────────────────────

    def learn(self, on_epoch: OnEpoch | None, on_pace: OnPace | None = None) -> int:
        """Train the remaining epochs and put the best weights into the network; returns the epochs done before.

        ``on_pace`` is told once, soon after the beginning, where an epoch will take long.

        Raises:
            TrainingError: another training was begun in the folder, or its state is damaged; a loss that is no number.
            UsageError: a network that the memory cannot hold.
        """
        self._prepare(read_checkpoint(self.folder))
        resumed = len(self.history)
        while not is_over(self.history, self.settings):
            epoch = self._epoch(len(self.history) + 1, on_pace if len(self.history) == resumed else None)
            if on_epoch is not None:
                on_epoch(epoch)
        self.network.load_state_dict(self.best)
        return resumed

    @property
    def best_score(self) -> float:
        """The score of the best epoch on the development set."""
        return self.history[best_epoch(self.history, self.settings) - 1]["score"]

    def refuse_large(self, make_network: Callable[[], nn.Module], copies: int = COPIES) -> None:
        """Refuse a network whose training, with so many copies of its weights, the memory cannot hold.

        Raises:
            UsageError: says what it takes.
        """
        refuse_large_network(make_network, self.device, copies)

    def check_same(self, theirs: Mapping[str, object], what: str) -> None:
        """Refuse a folder that holds something (``what``) of another identity.

        Raises:
            TrainingError: names what differs.
        """
        if differ := _differences(self.identity, theirs):
            raise TrainingError(
                f"{self.folder} holds {what} in another way (they differ in: {', '.join(differ)})",
                remedy=f"name another folder with {parameter('folder')}, or start anew with "
                f"{parameter('overwrite', True)}",
            )

    def _prepare(self, checkpoint: Checkpoint | None) -> None:
        self.refuse_large(self.make_network)
        with _seeded(self.settings.seed, 0):
            self.network = self.make_network()
        if checkpoint is None:
            self.standardise(self.network)
        self.network.to(self.device)
        rate, decay = self.settings.learning_rate, self.weight_decay
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate, weight_decay=decay, fused=True)
        self.best: dict[str, Tensor] = {}
        if checkpoint is not None:
            self.check_same(checkpoint.identity, "a training that was begun")
            self.best = restore(self.folder, checkpoint, self.settings, self.network, self.optimizer)
            self.history = list(checkpoint.history)

    def _epoch(self, number: int, on_pace: OnPace | None) -> Epoch:
        begun = time.perf_counter()
        rate = next_rate(self.history, self.settings)
        loss, count = self._learn_epoch(number, rate, on_pace)
        seconds = time.perf_counter() - begun
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss of epoch {number} is no finite number at a learning rate of {rate:g}",
                remedy=f"give a lower one with {parameter('learning_rate')}",
            )
        self.network.eval()
        value = self.judge()
        self.check_unchanged()
        self.history.append({"loss": loss, "score": value, "rate": rate, "words": count, "seconds": seconds})
        best = best_epoch(self.history, self.settings)
        if best == number:
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        tensors = training_tensors(self.network, self.best, self.optimizer)
        write_checkpoint(self.folder, self.identity, tuple(self.history), tensors)
        return Epoch(number, loss, value, rate, count, seconds, best)

    def _learn_epoch(self, number: int, rate: float, on_pace: OnPace | None) -> tuple[float, int]:
        """One pass over the training examples; returns the mean loss, and over how many it is the mean."""
        begun = time.perf_counter()
        ends: list[tuple[int, float]] = []  # of the first batches: vectors that were learnt so far, and the time
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total, count = 0.0, 0
        with _seeded(self.settings.seed, number):
            seed = (self.settings.seed, number)
            for part, chunk in enumerate(self.train.chunks(seed)):
                for packed in shuffled_batches(chunk.offsets, self.settings.batch_size, (*seed, part)):
                    loss, size = self.loss(gather_batch(chunk.features, packed, self.device), chunk, packed)
                    self.optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    clip_grad_norm_(self.network.parameters(), _NORM)
                    self.optimizer.step()
                    total += loss.item() * size
                    count += size
                    if on_pace is not None:
                        ends.append((len(packed.vectors) + (ends[-1][0] if ends else 0), time.perf_counter()))
                        (warm, since), (learnt, now) = ends[0], ends[-1]  # the first batch warms up
                        if len(ends) > _PACE_BATCHES and now - since >= _PACE_AFTER:
                            seconds = now - begun + (self.train.vectors - learnt) * (now - since) / (learnt - warm)
                            if seconds >= _LONG_EPOCH:
                                on_pace(Pace(seconds, self.settings.epochs - number + 1))
                            on_pace = None
        return total / count, count

    def standardise(self, network: FeatureNetwork) -> None:
        """Tell a network mean and standard deviation of each of its values, over some of the training vectors.

        They are the same for every seed.
        """
        with closing(self.train.chunks((0, 0))) as chunks:
            features = next(chunks).features
        sample = features[:: max(1, len(features) // _SCALED_BY)][:_SCALED_BY]
        network.standardise(*feature_scale(sample, network.combine))


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """The names of what differs; of the settings of the training, each one that does."""
    differ = [name for name in ours if ours[name] != theirs.get(name)]
    mine, others = ours.get("training"), theirs.get("training")
    if "training" in differ and isinstance(mine, dict) and isinstance(others, dict):
        differ.remove("training")
        differ += [name for name, value in mine.items() if others.get(name) != value]
    return differ


@contextmanager
def _seeded(*seed: int) -> Iterator[None]:
    """Seed torch's generator with these numbers inside the block, and restore its state afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield
