"""Any other Hugging Face model of texts, run by transformers as it is, in batches that do not change its vectors."""

from collections.abc import Callable, Collection, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.encoder.forks import tell_of_fork
from bertfeat.encoder.forward import TransformersForward
from bertfeat.encoder.module import load_module
from bertfeat.encoder.path import BatchForm, EncoderPath, planned_form
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.selfcheck import self_check
from bertfeat.encoder.states import HiddenState
from bertfeat.io import stage
from bertfeat.models import Model
from bertfeat.tokens import TokenBatch


class TransformersEncoder:
    """A frozen encoder of any architecture that transformers knows.

    Raises:
        ModelError: its weights do not fit its configuration, or what it computes is not the same each time.
    """

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self._none = torch.empty(
            (0, self.hidden_size), dtype=precision.dtype, device=device
        )  # of a batch without tokens
        self._forward = TransformersForward(model, load_module(model, precision), precision, device)
        planned = planned_form(model)
        report = self_check(self._forward, model, precision, planned)
        self._forward.stops_early = report.stops_early
        self._forward.settle()
        self.path = EncoderPath(report.form, report.sentence, (*model.notes, *report.notes), report.difference)

    @property
    def padded(self) -> bool:
        """Whether a batch costs as many tokens as its longest sequence times their number."""
        return self.path.form is BatchForm.PADDED

    @torch.inference_mode()
    def hidden_states(
        self, batch: TokenBatch, layers: Collection[int], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the chosen layers of a batch, ascending; ``first_token_only`` saves nothing here.

        Shape: ``[T, H]`` each, padding left out.
        """
        tell_of_fork()
        parts = _SPLITS[self.path.form](batch)
        if self._forward.alone is not None and self.path.form is BatchForm.PACKED:
            parts = _with_alone(batch, self._forward.alone)
        runs = [self._forward(part, layers) for part in parts if len(part.ids)]
        for layer in sorted(layers):
            with stage("forward"):
                rows = [run.pop(layer) for run in runs] or [self._none]
                yield HiddenState(layer, rows[0] if len(rows) == 1 else torch.cat(rows), first_token_only=False)


# ── one batch as several ────────────────────────────────────────────────────────────────────────────────────


def _equal_lengths(batch: TokenBatch) -> list[TokenBatch]:
    """The sequences of each length, which stand side by side, as batches of their own."""
    return _cut_batch(batch, np.flatnonzero(np.diff(batch.lengths)) + 1)


def _with_alone(batch: TokenBatch, token: int) -> list[TokenBatch]:
    """The sequences that hold a token as batches of their own, and those between them together."""
    holds = np.add.reduceat(np.append(batch.ids == token, False), batch.starts, dtype=np.int64) * (batch.lengths > 0)
    at = np.flatnonzero(holds)
    bounds = np.unique(np.concatenate([at, at + 1]))
    return _cut_batch(batch, bounds[(bounds > 0) & (bounds < len(batch.lengths))])


def _each_alone(batch: TokenBatch) -> list[TokenBatch]:
    return _cut_batch(batch, np.arange(1, len(batch.lengths)))


def _cut_batch(batch: TokenBatch, bounds: NDArray[np.int64]) -> list[TokenBatch]:
    ends = [*bounds.tolist(), len(batch.lengths)]
    tokens = np.concatenate([[0], np.cumsum(batch.lengths)])
    return [
        TokenBatch(
            batch.windows[a:b],
            batch.ids[tokens[a] : tokens[b]],
            batch.types[tokens[a] : tokens[b]],
            batch.lengths[a:b],
        )
        for a, b in zip([0, *ends[:-1]], ends, strict=True)
    ]


_SPLITS: dict[BatchForm, Callable[[TokenBatch], list[TokenBatch]]] = {
    BatchForm.PACKED: lambda batch: [batch],
    BatchForm.PADDED: lambda batch: [batch],
    BatchForm.EQUAL: _equal_lengths,
    BatchForm.SINGLE: _each_alone,
}
