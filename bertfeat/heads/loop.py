"""Training a head on stored features: candidates are learnt, and the best one on the development set is kept."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import Linear

from bertfeat.heads.crf import refuse_large_crf
from bertfeat.heads.examples import HeadExamples
from bertfeat.heads.guesses import Guess, HeadScores, Threshold, network_scores
from bertfeat.heads.linear import SOLVER_COPIES, Blocks, LinearWeights, solve_linear
from bertfeat.heads.networks import HeadNetwork, HeadShape
from bertfeat.heads.settings import Candidate, HeadInput, HeadSettings, Outputs, best_candidate, head_identity
from bertfeat.heads.task import PassageSpans, own_scores
from bertfeat.training import EpochLoop, ExampleBatch, ExampleChunk, OnEpoch, OnPace, PackedExamples

_BLOCK = 4096  # examples whose inputs are made at a time


@dataclass(frozen=True, slots=True)
class SolvedHeads:
    """The linear heads of some training data: they have no seed."""

    candidates: tuple[Candidate, ...]
    weights: LinearWeights  # of the best one
    seconds: float


class HeadLoop(EpochLoop):
    """One training of a head, in a folder that :func:`hold_result_folder` holds.

    Candidates are a network that is trained in epochs; linear heads that are solved, one for each weight decay and, of
    pairs, for each group of inputs; and the mean of the network and the best linear head. The settings may leave only
    some of them. ``solved`` are linear heads that a training of another seed solved.
    """

    network: HeadNetwork

    def __init__(
        self,
        folder: Path,
        settings: HeadSettings,
        device: str | None,
        train: HeadExamples,
        dev: HeadExamples,
        reads: HeadInput,
        outputs: Outputs,
        solved: SolvedHeads | None = None,
    ) -> None:
        settings = train.task.settle(settings, outputs, len(train.store))
        super().__init__(folder, settings, device, train.store)
        self.head_settings, self.examples, self.dev, self.reads, self.outputs = settings, train, dev, reads, outputs
        self.task = train.task
        self.weight_decay = settings.weight_decay or 0.0
        self.shape = reads.shape(train.task, settings, outputs)
        self.candidates: list[Candidate] = []
        self.solved = solved
        self.seconds = 0.0  # of learning
        self._targets = torch.from_numpy(train.make_targets(outputs))

    @property
    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        return head_identity(self.task.kind, self.reads, self.head_settings, self.digests)

    @property
    def digests(self) -> dict[str, str]:
        """The digests that identify both sources."""
        return {"train": self.examples.digest, "dev": self.dev.digest}

    def check_memory(self) -> None:
        """Refuse a training that the memory cannot hold, before anything is made or removed.

        Raises:
            UsageError: says what it takes.
        """
        if self.task.has_epochs(self.head_settings, mixed=self.shape.mixed):
            self.refuse_large(self.make_network)
        if self.shape.crf:
            words = int(np.sort(self.train.lengths)[-self.settings.batch_size :].sum())
            refuse_large_crf(self.shape.outputs, words, self.device)

    def make_network(self) -> HeadNetwork:
        """A network that has learnt nothing yet."""
        return self.task.make_network(self.shape, self.outputs)

    def loss(self, batch: ExampleBatch, chunk: ExampleChunk, packed: PackedExamples) -> tuple[Tensor, int]:
        """The mean loss of the examples of a batch, or of its vectors."""
        learnt = self.train.vectors_of(chunk, packed) if self.task.per_vector else chunk.examples[packed.examples]
        targets = self._targets[torch.from_numpy(learnt)].to(self.device)
        allowed = self._allowed(chunk, packed)
        return self.task.batch_loss(self.network, batch, targets, allowed), len(learnt)

    def learn(self, on_epoch: OnEpoch | None, on_pace: OnPace | None = None) -> int:
        """Learn all candidates; the best one becomes the network. Returns the epochs that were done before.

        Raises:
            TrainingError, UsageError: see :meth:`EpochLoop.learn`.
        """
        settings, mixed, resumed = self.head_settings, self.shape.mixed, 0
        networks: dict[Candidate, HeadNetwork] = {}
        if self.task.has_epochs(settings, mixed=mixed):
            resumed = super().learn(on_epoch, on_pace)
            self.seconds += sum(epoch["seconds"] for epoch in self.history)
            widest = max(self.shape.input_groups, key=self.shape.input_groups.__getitem__)
            network = self._judged(self.network, Candidate(self.shape.hidden, widest, self.weight_decay, 0.0))
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
                averaged = self._judged(both, replace(linear, hidden=self.shape.hidden, averaged=True))
                networks[averaged] = both
                self.candidates.append(averaged)
        self.network = networks[best_candidate(networks)]
        return resumed

    def _solve(self) -> SolvedHeads:
        """Linear heads of each group of inputs, from the strongest weight decay on while the loss falls."""
        begun, shape = time.perf_counter(), replace(self.shape, hidden=0)
        self.refuse_large(lambda: HeadNetwork(shape), SOLVER_COPIES)
        zeros = LinearWeights(torch.zeros(shape.outputs, shape.inputs), torch.zeros(shape.outputs))
        network = self._with_linear(shape, zeros)
        inputs, found = self._inputs(network), dict[Candidate, LinearWeights]()
        for group, width in shape.input_groups.items():
            weights = LinearWeights(*(part.to(self.device) for part in (zeros.weight[:, :width], zeros.bias)))
            least = float("inf")
            for decay in self.head_settings.decays:
                weights = solve_linear(self._first(inputs, width), self.task.mean_loss, len(self.train), decay, weights)
                self._put_linear(network.out, weights)
                candidate = self._judged(network, Candidate(0, group, decay, 0.0))
                found[candidate] = weights
                assert candidate.loss is not None
                if candidate.loss > least:
                    break
                least = candidate.loss
        self.check_unchanged()
        return SolvedHeads(tuple(found), found[best_candidate(found)], time.perf_counter() - begun)

    def _with_linear(self, shape: HeadShape, weights: LinearWeights) -> HeadNetwork:
        """A network of a shape whose linear head has those weights."""
        network = HeadNetwork(shape).eval()
        self.standardise(network)
        self._put_linear(network.linear or network.out, weights)
        return network.to(self.device)

    @staticmethod
    def _put_linear(layer: Linear, weights: LinearWeights) -> None:
        """Put weights of the first inputs into a layer; it does not read the others."""
        with torch.no_grad():
            layer.weight.zero_()[:, : weights.weight.shape[1]] = weights.weight
            layer.bias.copy_(weights.bias)

    def _judged(self, network: HeadNetwork, candidate: Candidate) -> Candidate:
        """The candidate with score and loss of its network on the development set."""
        guesses = store_guesses(network, self.dev, self.outputs, self.head_settings, self.device)
        loss = self.task.guess_loss(self.dev.gold, guesses, self.outputs)
        return replace(candidate, score=self._scores(guesses)[0].value, loss=loss)

    def _inputs(self, network: HeadNetwork) -> Blocks:
        """The inputs of a linear head and what they are to give, kept in memory where they fit it."""

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for chunk in self.train.chunks():
                for at in range(0, len(chunk), _BLOCK):
                    examples = torch.from_numpy(chunk.examples[at : at + _BLOCK])
                    first, stop = chunk.offsets[at], chunk.offsets[min(at + _BLOCK, len(chunk))]
                    features = torch.from_numpy(chunk.features[first:stop]).to(self.device, copy=True)
                    yield network.inputs(features), self._targets[examples].to(self.device)

        held = self.train.bytes + self.train.vectors * self.shape.inputs * 4
        if held > self.settings.memory:
            return blocks
        kept = list(blocks())
        return lambda: kept

    @staticmethod
    def _first(inputs: Blocks, width: int) -> Blocks:
        """Only the first inputs of each block."""
        return lambda: ((values[:, :width], targets) for values, targets in inputs())

    def judge(self) -> float:
        """The score that chooses the best epoch, on the development set."""
        return self.evaluate()[0].value

    def evaluate(self) -> tuple[HeadScores, Threshold]:
        """Score the head on the development set, by the threshold that is best for it."""
        return self._scores(store_guesses(self.network, self.dev, self.outputs, self.head_settings, self.device))

    def _scores(self, guesses: Sequence[Guess]) -> tuple[HeadScores, Threshold]:
        return own_scores(self.task, self.dev.gold, guesses, self.outputs, self.dev.passages)

    def check_unchanged(self) -> None:
        """Check that both sources did not change since they were opened."""
        self.examples.store.check_unchanged()
        self.dev.store.check_unchanged()

    def _allowed(self, chunk: ExampleChunk, packed: PackedExamples) -> Tensor | None:
        """Whether each token of a batch can be an answer's; None where no tokens are read."""
        tokens = self.examples.layout.tokens
        if tokens is None:
            return None
        return torch.from_numpy(tokens.allowed[self.train.vectors_of(chunk, packed)]).to(self.device)


def store_guesses(
    network: HeadNetwork,
    examples: HeadExamples,
    outputs: Outputs,
    settings: HeadSettings,
    device: torch.device,
) -> list[Guess]:
    """The guess of a network for each example, in order."""
    task, tokens, guesses = examples.task, examples.layout.tokens, list[Guess]()
    for chunk in examples.store.chunks() if len(examples.store) else ():
        scores = network_scores(network, chunk, device)
        spans = None if tokens is None else PassageSpans(tokens.part(chunk.examples), settings.max_answer)
        guesses += task.guesses(scores, chunk.offsets, outputs, spans)
    return guesses
