"""The training of a head: a network in epochs, linear heads by a solver, and the choice of the best of them.

Shapes: E examples; V inputs of a linear head, the first of which are read; K outputs.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Linear
from torch.nn.utils import clip_grad_norm_

from bertfeat.core import resolve_device
from bertfeat.errors import TrainingError, parameter
from bertfeat.learning.example_store import ExampleBatch, ExampleChunk, PackedExamples, gather_batch, shuffled_batches
from bertfeat.learning.examples import HeadExamples, OpenSources
from bertfeat.learning.head_files import Checkpoint, read_checkpoint, restore, training_tensors, write_checkpoint
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.networks import (
    COPIES,
    HeadNetwork,
    HeadShape,
    feature_scale,
    refuse_large_crf,
    refuse_large_network,
)
from bertfeat.learning.record import Candidate, best_candidate, head_identity
from bertfeat.learning.schedule import Epoch, EpochRecord, OnTraining, Pace, best_epoch, is_over, next_rate
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.task import Guess, HeadScores, PassageSpans, Task, Threshold, network_scores
from bertfeat.progress import ignore_progress

# ── linear heads ────────────────────────────────────────────────────────────────────────────────────────────


_REMEMBERED = 20  # past steps from which L-BFGS estimates the curvature
_SOLVER_COPIES = 2 * _REMEMBERED + 8
"""Arrays of the weights' size that the solver takes: two for each remembered step, and its working memory."""

Blocks = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""All examples once, in blocks: standardized inputs (``[n, V]``; of C choices ``[n·C, V]``) and targets ``[n]``."""


@dataclass(frozen=True, slots=True)
class _LinearWeights:
    """The weights of a linear head."""

    weight: Tensor  # [K, V]
    bias: Tensor  # [K]


def _solve_linear(
    blocks: Blocks, loss: Callable[[Tensor, Tensor], Tensor], examples: int, decay: float, start: _LinearWeights
) -> _LinearWeights:
    """The weights that minimize the mean ``loss`` plus half the ``decay`` times their squares, by L-BFGS.

    ``loss`` gives the mean loss of a block from its scores and targets. The minimum is unique: ``start``, the solution
    for another decay, only saves steps. In scikit-learn's parameters the decay is 1/(C·E) with cross entropy (2/(C·E)
    with two labels), and 2·alpha/E with squared errors.
    """
    # the bias is not penalized; scaled so that its slope is like that of the weights, it needs far fewer steps
    unit = sqrt(1.0 + decay * len(start.bias))
    weight, bias = start.weight.clone().requires_grad_(), (start.bias / unit).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=500,
        history_size=_REMEMBERED,
        tolerance_grad=1e-4,  # as scikit-learn's
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def objective() -> float:
        optimizer.zero_grad()
        penalty = weight.square().sum() * (decay / 2)
        torch.autograd.backward(penalty)
        total = penalty.item()
        for inputs, targets in blocks():
            share = loss(torch.addmm(bias * unit, inputs, weight.T), targets) * (len(targets) / examples)
            torch.autograd.backward(share)
            total += share.item()
        return total

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return _LinearWeights(weight.detach(), bias.detach() * unit)


# ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────


_NORM = 5.0  # the norm that gradients are clipped to
_SCALED_BY = 65_536  # most vectors from which mean and standard deviation of the features are computed
_PACE_AFTER = 2.0  # seconds of learning before the time of an epoch is estimated,
_PACE_BATCHES = 4  # and batches, since one alone may have unusually short or long examples
_LONG_EPOCH = 20.0  # seconds; the estimate is reported if an epoch takes at least as long
_BLOCK = 4096  # examples whose inputs are computed at a time


@dataclass(frozen=True, slots=True)
class SolvedHeads:
    """The linear heads that were solved on some training data; they do not depend on a seed."""

    candidates: tuple[Candidate, ...]
    weights: _LinearWeights  # of the best one
    seconds: float


class HeadLoop:
    """One training of a head, in a folder that :func:`hold_result_folder` holds.

    Candidates are a network that is trained in epochs; linear heads that are solved, one for each weight decay and, for
    pairs, for each group of inputs; and the mean of the network and the best linear head. The settings may leave out
    some of them. ``solved`` are the linear heads of a training with another seed, which are used again.
    """

    network: HeadNetwork

    def __init__(
        self,
        folder: Path,
        settings: HeadSettings,
        device: str | None,
        opened: OpenSources,
        solved: SolvedHeads | None = None,
    ) -> None:
        self.task, self.reads = opened.task, opened.reads
        self.examples, self.dev = opened.examples["train"], opened.examples["dev"]
        self.store = self.examples.store
        self.folder, self.device = folder, resolve_device(device)
        self.settings = self.task.settle(settings, len(self.store))
        apart = self.reads.pairs is PairForm.APART
        self.shape = self.task.shape(self.reads.layers, self.reads.layer_width, self.settings, apart=apart)
        self.history: list[EpochRecord] = []
        self.candidates: list[Candidate] = []
        self.solved = solved
        self.seconds = 0.0  # of learning
        self._targets = torch.from_numpy(self.task.make_targets(self.examples.known))

    @property
    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        return head_identity(self.task.kind, self.reads, self.settings, self.digests)

    @property
    def digests(self) -> dict[str, str]:
        """The digests that identify both sources."""
        return {"train": self.examples.digest, "dev": self.dev.digest}

    def check_memory(self) -> None:
        """Refuse a training that the memory cannot hold, before anything is made or removed."""
        if self.task.has_epochs(self.settings, mixed=self.shape.mixed):
            self.refuse_large(self.make_network)
        if self.shape.crf:
            words = int(np.sort(self.store.lengths)[-self.settings.batch_size :].sum())
            refuse_large_crf(self.shape.outputs, words, self.device)

    def make_network(self) -> HeadNetwork:
        """A network that has learned nothing yet."""
        return self.task.make_network(self.shape)

    def learn(self, tell: OnTraining = ignore_progress) -> int:
        """Learn all candidates; the best one becomes the network. Returns the number of epochs of an earlier run.

        ``tell`` is called after each epoch, and once with the pace, early in its first epoch, if an epoch takes long.
        """
        settings, mixed, resumed = self.settings, self.shape.mixed, 0
        networks: dict[Candidate, HeadNetwork] = {}
        if self.task.has_epochs(settings, mixed=mixed):
            resumed = self._learn_epochs(tell)
            self.seconds += sum(epoch["seconds"] for epoch in self.history)
            widest = max(self.shape.input_groups, key=self.shape.input_groups.__getitem__)
            network = self._scored(
                self.network, Candidate(self.shape.hidden, widest, settings.weight_decay or 0.0, 0.0)
            )
            networks[replace(network, score=self.best_score)] = self.network
        self.candidates += networks
        if self.task.solves(settings, mixed=mixed):
            self.solved = self.solved or self._solve()
            self.seconds += self.solved.seconds
            linear = best_candidate(self.solved.candidates)
            networks[linear] = self._with_linear(replace(self.shape, hidden=0), self.solved.weights)
            self.candidates += self.solved.candidates
            if self.history:
                both = self._with_linear(replace(self.shape, averaged=True), self.solved.weights)
                both.load_state_dict(self.network.state_dict(), strict=False)
                averaged = self._scored(both, replace(linear, hidden=self.shape.hidden, averaged=True))
                networks[averaged] = both
                self.candidates.append(averaged)
        self.network = networks[best_candidate(networks)]
        return resumed

    # ── scores ──────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self) -> tuple[HeadScores, Threshold]:
        """Score the head on the development set with the threshold that is best there."""
        return self._scores(self._guesses(self.network))

    def dev_score(self) -> float:
        """The score on the development set that chooses the best epoch."""
        return self.evaluate()[0].value

    def _scores(self, guesses: Sequence[Guess]) -> tuple[HeadScores, Threshold]:
        scores, threshold = self.task.best_scores(self.dev.gold, guesses, self.dev.passages)
        self._refuse_no_number(self.task.measure, scores.value)
        return scores, threshold

    def _refuse_no_number(self, what: str, number: float) -> None:
        """Refuse a score or a loss on the development set by which nothing can be compared."""
        if not math.isfinite(number):
            problem = f"the {what} on the development set is {number}, by which nothing can be compared"
            raise TrainingError(problem, where=self.dev.origin, remedy=f"correct the task {self.task.name}")

    def _guesses(self, network: HeadNetwork) -> list[Guess]:
        return store_guesses(self.task, network, self.dev, self.settings, self.device)

    def check_unchanged(self) -> None:
        """Check that both sources did not change since they were opened."""
        self.store.check_unchanged()
        self.dev.store.check_unchanged()

    def _scored(self, network: HeadNetwork, candidate: Candidate) -> Candidate:
        """The candidate with score and loss of its network on the development set."""
        guesses = self._guesses(network)
        loss = self.task.guess_loss(self.dev.gold, guesses)
        if loss is not None:
            self._refuse_no_number("loss", loss)
        return replace(candidate, score=self._scores(guesses)[0].value, loss=loss)

    # ── epochs ──────────────────────────────────────────────────────────────────────────────────────────────

    def _learn_epochs(self, tell: OnTraining) -> int:
        """Train the remaining epochs and put the best weights into the network; returns the epochs done before."""
        self._prepare(read_checkpoint(self.folder))
        resumed = len(self.history)
        while not is_over(self.history, self.settings):
            tell(self._epoch(len(self.history) + 1, tell if len(self.history) == resumed else None))
        self.network.load_state_dict(self.best)
        return resumed

    @property
    def best_score(self) -> float:
        """The score of the best epoch on the development set."""
        return self.history[best_epoch(self.history, self.settings) - 1]["score"]

    def refuse_large(self, make_network: Callable[[], nn.Module], copies: int = COPIES) -> None:
        """Refuse a network if the memory cannot hold its training, which takes ``copies`` of its weights."""
        refuse_large_network(make_network, self.device, copies)

    def check_same(self, theirs: Mapping[str, object], what: str) -> None:
        """Refuse a folder that holds a result or a checkpoint, called ``what``, with another identity."""
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
        rate, decay = self.settings.learning_rate, self.settings.weight_decay or 0.0
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate, weight_decay=decay, fused=True)
        self.best: dict[str, Tensor] = {}
        if checkpoint is not None:
            self.check_same(checkpoint.identity, "a training that was begun")
            self.best = restore(self.folder, checkpoint, self.network, self.optimizer)
            self.history = list(checkpoint.history)

    def _epoch(self, number: int, tell_pace: OnTraining | None) -> Epoch:
        begun = time.perf_counter()
        rate = next_rate(self.history, self.settings)
        loss, count = self._learn_epoch(number, rate, tell_pace)
        seconds = time.perf_counter() - begun
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss of epoch {number} is no finite number at a learning rate of {rate:g}",
                remedy=f"give a lower one with {parameter('learning_rate')}",
            )
        self.network.eval()
        value = self.dev_score()
        self.check_unchanged()
        self.history.append({"loss": loss, "score": value, "rate": rate, "words": count, "seconds": seconds})
        best = best_epoch(self.history, self.settings)
        if best == number:
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        tensors = training_tensors(self.network, self.best, self.optimizer)
        write_checkpoint(self.folder, self.identity, tuple(self.history), tensors)
        return Epoch(number, self.settings.epochs, loss, value, rate, count, self.task.noun, seconds, best)

    def _learn_epoch(self, number: int, rate: float, tell_pace: OnTraining | None) -> tuple[float, int]:
        """Pass over the training examples once; returns the mean loss, and the number of targets it is the mean of."""
        begun = time.perf_counter()
        ends: list[tuple[int, float]] = []  # vectors learned and time at the end of each of the first batches
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total, count = 0.0, 0
        with _seeded(self.settings.seed, number):
            seed = (self.settings.seed, number)
            for part, chunk in enumerate(self.store.chunks(seed)):
                for packed in shuffled_batches(chunk.offsets, self.settings.batch_size, (*seed, part)):
                    loss, size = self._loss(gather_batch(chunk.features, packed, self.device), chunk, packed)
                    self.optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    clip_grad_norm_(self.network.parameters(), _NORM)
                    self.optimizer.step()
                    total += loss.item() * size
                    count += size
                    if tell_pace is not None:
                        ends.append((len(packed.vectors) + (ends[-1][0] if ends else 0), time.perf_counter()))
                        (warm, since), (learned, now) = ends[0], ends[-1]  # the first batch warms up
                        if len(ends) > _PACE_BATCHES and now - since >= _PACE_AFTER:
                            seconds = now - begun + (self.store.vectors - learned) * (now - since) / (learned - warm)
                            if seconds >= _LONG_EPOCH:
                                tell_pace(Pace(seconds, self.settings.epochs - number + 1))
                            tell_pace = None
        return total / count, count

    def standardise(self, network: HeadNetwork) -> None:
        """Give a network the mean and standard deviation of each of its values over some of the training vectors.

        The vectors are the same for every seed.
        """
        with closing(self.store.chunks((0, 0))) as chunks:
            features = next(chunks).features
        sample = features[:: max(1, len(features) // _SCALED_BY)][:_SCALED_BY]
        network.standardise(*feature_scale(sample, network.combine))

    def _loss(self, batch: ExampleBatch, chunk: ExampleChunk, packed: PackedExamples) -> tuple[Tensor, int]:
        """The mean loss over the examples of a batch, or over its vectors where each has a target; and their number."""
        learned = self.store.vectors_of(chunk, packed) if self.task.per_vector else chunk.examples[packed.examples]
        targets = self._targets[torch.from_numpy(learned)].to(self.device)
        tokens, allowed = self.examples.layout.tokens, None
        if tokens is not None:  # an answer may contain only some of them
            allowed = torch.from_numpy(tokens.allowed[self.store.vectors_of(chunk, packed)]).to(self.device)
        return self.task.batch_loss(self.network, batch, targets, allowed), len(learned)

    # ── linear heads ────────────────────────────────────────────────────────────────────────────────────────

    def _solve(self) -> SolvedHeads:
        """Solve linear heads on each group of inputs, from the strongest weight decay down, until the loss on the
        development set rises.
        """
        begun, shape = time.perf_counter(), replace(self.shape, hidden=0)
        self.refuse_large(lambda: HeadNetwork(shape), _SOLVER_COPIES)
        zeros = _LinearWeights(torch.zeros(shape.outputs, shape.inputs), torch.zeros(shape.outputs))
        network = self._with_linear(shape, zeros)
        inputs, found = self._inputs(network), dict[Candidate, _LinearWeights]()
        for group, width in shape.input_groups.items():
            weights = _LinearWeights(*(part.to(self.device) for part in (zeros.weight[:, :width], zeros.bias)))
            least = float("inf")
            for decay in self.settings.decays:
                weights = _solve_linear(
                    self._first(inputs, width), self.task.mean_loss, len(self.store), decay, weights
                )
                self._put_linear(network.out, weights)
                candidate = self._scored(network, Candidate(0, group, decay, 0.0))
                found[candidate] = weights
                assert candidate.loss is not None
                if candidate.loss > least:
                    break
                least = candidate.loss
        self.check_unchanged()
        return SolvedHeads(tuple(found), found[best_candidate(found)], time.perf_counter() - begun)

    def _with_linear(self, shape: HeadShape, weights: _LinearWeights) -> HeadNetwork:
        """A network of a shape whose linear head has those weights."""
        network = HeadNetwork(shape).eval()
        self.standardise(network)
        self._put_linear(network.linear or network.out, weights)
        return network.to(self.device)

    @staticmethod
    def _put_linear(layer: Linear, weights: _LinearWeights) -> None:
        """Put weights of the first inputs into a layer; the weights of the other inputs become 0."""
        with torch.no_grad():
            layer.weight.zero_()[:, : weights.weight.shape[1]] = weights.weight
            layer.bias.copy_(weights.bias)

    def _inputs(self, network: HeadNetwork) -> Blocks:
        """The inputs of a linear head and their targets, kept in memory if they fit."""

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for chunk in self.store.chunks():
                for at in range(0, len(chunk), _BLOCK):
                    examples = torch.from_numpy(chunk.examples[at : at + _BLOCK])
                    first, stop = chunk.offsets[at], chunk.offsets[min(at + _BLOCK, len(chunk))]
                    features = torch.from_numpy(chunk.features[first:stop]).to(self.device, copy=True)
                    yield network.inputs(features), self._targets[examples].to(self.device)

        held = self.store.bytes + self.store.vectors * self.shape.inputs * 4
        if held > self.settings.memory:
            return blocks
        kept = list(blocks())
        return lambda: kept

    @staticmethod
    def _first(inputs: Blocks, width: int) -> Blocks:
        """Only the first inputs of each block."""
        return lambda: ((values[:, :width], targets) for values, targets in inputs())


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """The names of the entries that differ; for the training settings, the name of each setting that does."""
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


def store_guesses(
    task: Task, network: HeadNetwork, examples: HeadExamples, settings: HeadSettings, device: torch.device
) -> list[Guess]:
    """The guess of a network for each example, in order."""
    tokens, guesses = examples.layout.tokens, list[Guess]()
    for chunk in examples.store.chunks() if len(examples.store) else ():
        scores = network_scores(network, chunk, device)
        spans = None if tokens is None else PassageSpans(tokens.part(chunk.examples), settings.max_answer)
        guesses += task.guesses(scores, chunk.offsets, spans)
    return guesses
