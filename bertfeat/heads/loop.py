"""Training a head on stored features."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.heads.examples import HeadExamples, make_targets
from bertfeat.heads.guesses import (
    Guess,
    HeadScores,
    choice_guesses,
    class_guesses,
    network_scores,
    score_by_own_threshold,
    span_guesses,
)
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.losses import choice_loss, class_loss, number_loss, span_loss
from bertfeat.heads.networks import HeadNetwork
from bertfeat.heads.settings import HeadInput, HeadSettings, Outputs, head_identity
from bertfeat.heads.tokens import PassageTokens
from bertfeat.training import EpochLoop, ExampleBatch, ExampleChunk, PackedExamples


class HeadLoop(EpochLoop):
    """One training of a head, in a folder that :func:`hold_result_folder` holds."""

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
    ) -> None:
        super().__init__(folder, settings, device, train.store)
        self.head_settings, self.examples, self.dev, self.reads, self.outputs = settings, train, dev, reads, outputs
        self.kind = train.kind
        self.shape = reads.shape(self.kind, settings, outputs)
        self._targets = torch.from_numpy(make_targets(train, outputs, regression=settings.regression))

    @property
    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        return head_identity(self.kind, self.reads, self.head_settings, self.digests)

    @property
    def digests(self) -> dict[str, str]:
        """The digests that identify both sources."""
        return {"train": self.examples.digest, "dev": self.dev.digest}

    def make_network(self) -> HeadNetwork:
        """A network that has learnt nothing yet."""
        return HeadNetwork(self.shape)

    def loss(self, batch: ExampleBatch, chunk: ExampleChunk, packed: PackedExamples) -> tuple[Tensor, int]:
        """The mean loss of the examples of a batch."""
        examples = chunk.examples[packed.examples]
        targets = self._targets[torch.from_numpy(examples)].to(self.device)
        scores = self.network(batch)
        if self.kind is HeadKind.ANSWER:
            return span_loss(scores, targets, self._allowed(chunk, packed), batch), len(examples)
        if self.kind is HeadKind.CHOOSE:
            return choice_loss(scores, targets, batch), len(examples)
        learn = number_loss if self.head_settings.regression else class_loss
        return learn(scores, targets), len(examples)

    def judge(self) -> float:
        """The score that chooses the best epoch, on the development set."""
        return self.evaluate().value

    def evaluate(self) -> HeadScores:
        """Score the head on the development set."""
        guesses = store_guesses(self.network, self.dev, self.outputs, self.head_settings, self.device)
        regression = self.head_settings.regression
        return score_by_own_threshold(
            self.kind, self.dev.gold, guesses, regression=regression, passages=self.dev.passages
        )

    def check_unchanged(self) -> None:
        """Check that both sources did not change since they were opened."""
        self.examples.store.check_unchanged()
        self.dev.store.check_unchanged()

    def _allowed(self, chunk: ExampleChunk, packed: PackedExamples) -> Tensor:
        tokens = self.examples.tokens
        assert tokens is not None
        return torch.from_numpy(tokens.allowed[self.train.vectors_of(chunk, packed)]).to(self.device)


def store_guesses(
    network: HeadNetwork,
    examples: HeadExamples,
    outputs: Outputs,
    settings: HeadSettings,
    device: torch.device,
) -> list[Guess]:
    """What a network predicts of each example, in order."""
    guesses: list[Guess] = []
    for chunk in examples.store.chunks():
        scores = network_scores(network, chunk, device)
        tokens = None if examples.tokens is None else examples.tokens.part(chunk.examples)
        guesses += chunk_guesses(examples.kind, scores, chunk, tokens, outputs, settings)
    return guesses


def chunk_guesses(
    kind: HeadKind,
    scores: NDArray[np.float32],
    chunk: ExampleChunk,
    tokens: PassageTokens | None,
    outputs: Outputs,
    settings: HeadSettings,
) -> list[Guess]:
    """What the scores of a chunk's vectors say of each of its examples."""
    if kind is HeadKind.ANSWER:
        assert tokens is not None
        return span_guesses(scores, tokens, settings.max_answer)
    return choice_guesses(scores, chunk.offsets) if kind is HeadKind.CHOOSE else class_guesses(scores, outputs)
