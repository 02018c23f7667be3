"""Training a tagger: epochs over stored features, the best one by the development set kept, resumed where it was."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from bertfeat.encoder import resolve_device
from bertfeat.errors import TaggerError
from bertfeat.features import FeatureSet, ModelIdentity, locked
from bertfeat.features.files import atomic, remove
from bertfeat.memory import keep_freed_memory
from bertfeat.tagging.batches import batch_of, by_length, shuffled
from bertfeat.tagging.checkpoint import (
    Checkpoint,
    read_checkpoint,
    remove_checkpoint,
    restore,
    training_tensors,
    write_checkpoint,
)
from bertfeat.tagging.inputs import choose_input, derived_input
from bertfeat.tagging.labels import Labels
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.schemes import Scheme
from bertfeat.tagging.scores import Scores, score
from bertfeat.tagging.sentences import Sentences, SentenceStore
from bertfeat.tagging.settings import (
    FORMAT_VERSION,
    SETTINGS_NAME,
    WEIGHTS_NAME,
    TaggerSettings,
    TrainingSettings,
    check_same_features,
    extraction_of,
    read_settings,
    write_settings,
)

_NORM = 5.0  # gradients are scaled down to it
_EVALUATED = 128  # sentences of a batch where nothing is learnt
_SCALED_BY = 65_536  # words that the features' mean and spread are taken from
_BLOCK = 512  # rows at a time in float64
_WAIT = 2  # epochs without a better score, after which the learning rate is halved


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch came to."""

    number: int  # from 1
    loss: float
    score: float  # on the development set: span F1, or accuracy of plain tags
    learning_rate: float
    words: int
    seconds: float  # of learning, without the evaluation
    best: int  # number of the best epoch so far


@dataclass(frozen=True, slots=True)
class Trained:
    """A training that is done."""

    folder: Path
    settings: TaggerSettings
    scores: Scores | None  # on the development set; None where nothing was left to do
    seconds: float
    warnings: tuple[str, ...]
    resumed: int  # epochs that an earlier run had done
    cached: bool  # whether all features fitted the memory


OnEpoch = Callable[[Epoch], None]


def train(
    train_set: FeatureSet,
    dev_set: FeatureSet,
    folder: str | Path,
    *,
    layers: str | None = None,
    settings: TrainingSettings | None = None,
    device: str | None = None,
    overwrite: bool = False,
    on_epoch: OnEpoch | None = None,
) -> Trained:
    """Train a tagger on features with tags, and save it in ``folder``; a training that was killed goes on.

    Raises:
        NotDerivable: the sets do not hold the layers.
        TaggerError: sets of different models, without tags or words, with one tag only; or a folder with another
            training, unless ``overwrite``.
    """
    training = Training(train_set, dev_set, Path(folder), layers, settings or TrainingSettings(), device)
    with locked(Path(folder)):
        return training.run(overwrite=overwrite, on_epoch=on_epoch)


class Training:
    """One training, from the features to the saved tagger."""

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
        self.model, self.extraction = train_set.header.model, extraction_of(train_set)
        self.input = choose_input(layers, train_set.columns, self.model.num_layers)
        derived_input(self.input, train_set)  # that it holds no words is told before that it is unlike the other
        check_same_features(dev_set, self.model, self.extraction, str(train_set.folder))
        self._data = {"train": digest(train_set), "dev": digest(dev_set)}
        self._identity = _identity(self.model, self.input.spec, self.extraction, settings, self._data)
        self.train_store, self.dev_store = _stores(train_set, dev_set, self.input, settings.memory)
        self.labels = Labels.of(self.train_store.tags(), inside=Scheme(settings.scheme))
        self._gold = [list(tags) for tags in self.dev_store.tags()]
        self.warnings = self._check_dev()
        self._targets: Tensor | None = None

    # ── the run ─────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, *, overwrite: bool, on_epoch: OnEpoch | None) -> Trained:
        """Do what is not done yet, with the folder locked."""
        keep_freed_memory()
        begun = time.perf_counter()
        if overwrite:
            self._clear()
        if (self.folder / SETTINGS_NAME).exists():
            return self._finished(read_settings(self.folder))
        self._prepare(read_checkpoint(self.folder))
        resumed = len(self.history)
        while not self._done():
            epoch = self._epoch(len(self.history) + 1)
            if on_epoch is not None:
                on_epoch(epoch)
        settings, scores = self._finish()
        seconds = time.perf_counter() - begun
        return Trained(self.folder, settings, scores, seconds, self.warnings, resumed, self.train_store.fits)

    def _prepare(self, checkpoint: Checkpoint | None) -> None:
        shape = NetworkSettings(
            self.train_store.width,
            self.input.mixed_layers,
            self.settings.hidden,
            self.settings.crf,
            self.settings.dropout,
        )
        with _seeded(self.settings.seed, 0):
            self.network = TaggerNetwork(shape, self.labels.names, spans=self.labels.has_spans)
        self.history: list[dict[str, float]] = []
        self.rate = self.settings.learning_rate
        if checkpoint is None:
            self.network.standardise(*self._spread())
        self.network.to(self.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.rate, fused=True)
        self.best: dict[str, Tensor] = {}
        if checkpoint is not None:
            self._check_same(checkpoint.identity, "a training that was begun")
            self.best = restore(checkpoint, self.network, self.optimizer)
            self.history = [dict(epoch) for epoch in checkpoint.progress["history"]]
            self.rate = float(checkpoint.progress["rate"])

    def _epoch(self, number: int) -> Epoch:
        begun = time.perf_counter()
        loss, words = self._learn(number)
        seconds = time.perf_counter() - begun
        value = self.evaluate().value
        rate = self.rate
        self.history.append({"loss": loss, "score": value, "rate": rate, "words": words, "seconds": seconds})
        if self.best_epoch == number:
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        elif (number - self.best_epoch) % _WAIT == 0:
            self.rate /= 2
        self._save(number)
        return Epoch(number, loss, value, rate, words, seconds, self.best_epoch)

    def _learn(self, number: int) -> tuple[float, int]:
        """One pass over the training sentences; returns the mean loss of a word, and the words."""
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        total, words = 0.0, 0
        with _seeded(self.settings.seed, number):
            seed = (self.settings.seed, number)
            for part, sentences in enumerate(self.train_store.chunks(seed)):
                targets = self._numbers(sentences)
                for packed in shuffled(sentences, self.settings.batch_size, (*seed, part)):
                    batch = batch_of(sentences.features, packed, self.device)
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
        return score(self._gold, list(predictions(self.network, self.labels, self.dev_store, self.device)))

    @property
    def best_epoch(self) -> int:
        """Number of the epoch with the best score, the earlier of equal ones; while nothing is found, the last one."""
        scores = [epoch["score"] for epoch in self.history]
        return 1 + scores.index(max(scores)) if any(scores) else len(scores)

    def _done(self) -> bool:
        count = len(self.history)
        return count >= self.settings.epochs or count - self.best_epoch >= self.settings.patience

    # ── before and after ────────────────────────────────────────────────────────────────────────────────────

    def _check_dev(self) -> tuple[str, ...]:
        if self.labels.has_spans and not any(tag != "O" for tags in self._gold for tag in tags):
            raise TaggerError(
                f"{self.dev_store.folder}: the development set has no span, so no epoch can be told from another; "
                f"give one with spans"
            )
        if unknown := self.labels.unknown(self._gold):
            listed = ", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else "")
            return (f"{self.dev_store.folder} has tags that the training set lacks, and never can be right: {listed}",)
        return ()

    def _spread(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Mean and standard deviation of each value of the features, ``[W]``, over some of the training words."""
        with closing(self.train_store.chunks((self.settings.seed, 0))) as chunks:
            features = next(chunks).features
        return mean_and_spread(features[:: max(1, len(features) // _SCALED_BY)][:_SCALED_BY])

    def _numbers(self, sentences: Sentences) -> Tensor:
        """The labels of sentences as numbers ``[N]``; those of sentences that stay in memory are kept."""
        if self._targets is not None:
            return self._targets
        numbers = torch.tensor([n for at in range(len(sentences)) for n in self.labels.numbers(sentences.tags_of(at))])
        if self.train_store.fits:
            self._targets = numbers
        return numbers

    def _check_same(self, theirs: Mapping[str, Any], what: str) -> None:
        ours = self._identity
        differ = [name for name in ours if ours[name] != theirs.get(name)]
        if "training" in differ:
            differ.remove("training")
            before = theirs.get("training") or {}
            differ += [name for name, value in ours["training"].items() if before.get(name) != value]
        if differ:
            raise TaggerError(
                f"{self.folder} holds {what} in another way (they differ in: {', '.join(differ)}); "
                f"name another folder with -o, or start anew with --overwrite"
            )

    def _save(self, number: int) -> None:
        progress = {"history": self.history, "rate": self.rate}
        tensors = training_tensors(self.network, self.best, self.optimizer)
        write_checkpoint(self.folder, Checkpoint(self._identity, progress, tensors), number)

    def _finished(self, settings: TaggerSettings) -> Trained:
        theirs = _identity(settings.model, settings.input.spec, settings.extraction, settings.training, settings.data)
        self._check_same(theirs, "a tagger that was trained")
        remove_checkpoint(self.folder)
        count = len(settings.history)
        return Trained(self.folder, settings, None, 0.0, self.warnings, count, self.train_store.fits)

    def _finish(self) -> tuple[TaggerSettings, Scores]:
        self.network.load_state_dict(self.best)
        scores = self.evaluate()
        settings = TaggerSettings(
            format_version=FORMAT_VERSION,
            model=self.model,
            extraction=self.extraction,
            input=self.input,
            network=self.network.settings,
            labels=self.labels,
            training=self.settings,
            data=self._data,
            best_epoch=self.best_epoch,
            score=scores.value,
            history=tuple(self.history),
            versions={name: version(name) for name in ("bertfeat", "torch", "numpy")}
            | {"threads": str(torch.get_num_threads())},
        )
        weights = {name: tensor.cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        with atomic(self.folder / WEIGHTS_NAME) as temporary:
            save_file(weights, temporary)
        with atomic(self.folder / SETTINGS_NAME) as temporary:
            write_settings(settings, temporary)
        remove_checkpoint(self.folder)
        return settings, scores

    def _clear(self) -> None:
        remove(self.folder / SETTINGS_NAME)
        remove(self.folder / WEIGHTS_NAME)
        remove_checkpoint(self.folder)


def predictions(
    network: TaggerNetwork, labels: Labels, store: SentenceStore, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence of a store, in order: BIO for spans."""
    for sentences in store.chunks():
        yield from predicted(network, labels, sentences, device)


def predicted(
    network: TaggerNetwork, labels: Labels, sentences: Sentences, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence, in order: BIO for spans."""
    network.eval()
    found = np.empty(len(sentences.features), np.int64)
    for packed in by_length(sentences, _EVALUATED):
        found[packed.words] = network.decode(batch_of(sentences.features, packed, device)).cpu().numpy()
    for first, last in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True):
        yield labels.tags(found[first:last].tolist())


def _stores(train_set: FeatureSet, dev_set: FeatureSet, wanted: Any, memory: int) -> Sequence[SentenceStore]:
    """Both sets within the memory: the development set is kept where it takes no more than a quarter of it."""
    dev = SentenceStore(dev_set, wanted, max(1, memory // 4))
    left = memory - (dev.bytes if dev.fits else memory // 4)
    return SentenceStore(train_set, wanted, left), dev


def digest(features: FeatureSet) -> str:
    """What tells features from others: the digest of their parts."""
    return sha256("".join(entry.sha256 for entry in features.entries).encode()).hexdigest()


def mean_and_spread(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean and standard deviation over rows, in little memory: ``[N, W]`` → two of ``[W]`` float32."""
    blocks = [values[at : at + _BLOCK] for at in range(0, len(values), _BLOCK)]
    mean = sum(block.sum(0, dtype=np.float64) for block in blocks) / len(values)
    squares = sum(np.square(block - mean).sum(0) for block in blocks)
    return mean.astype(np.float32), np.sqrt(squares / len(values)).astype(np.float32)


@contextmanager
def _seeded(*seed: int) -> Iterator[None]:
    """Let torch draw what these numbers decide in the block, and go on after it as if nothing had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


def _identity(
    model: ModelIdentity,
    layers: str,
    extraction: Mapping[str, Any],
    settings: TrainingSettings,
    data: Mapping[str, str],
) -> dict[str, Any]:
    """What decides the result of a training."""
    return {
        "model": model.fingerprint,
        "layers": layers,
        "extraction": dict(extraction),
        "training": asdict(settings),
        "data": dict(data),
    }
