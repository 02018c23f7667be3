"""The encoder for models that the packed forward pass does not know: transformers runs them as they are.

Its batches have a form that does not change the model's vectors.
"""

from collections.abc import Callable, Collection, Iterator

import numpy as np
import torch

from bertfeat.core.encoder.forks import tell_of_fork
from bertfeat.core.encoder.forward import TransformersForward
from bertfeat.core.encoder.module import load_module
from bertfeat.core.encoder.path import BatchForm, EncoderPath, planned_form
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.selfcheck import self_check
from bertfeat.core.encoder.states import HiddenState
from bertfeat.core.encoder.unseen import UnseenTokens
from bertfeat.core.models import Model
from bertfeat.core.recipe import Place
from bertfeat.core.tokens import TokenBatch
from bertfeat.io import stage


class TransformersEncoder:
    """A frozen encoder of any architecture that transformers knows.

    Raises:
        ModelError: its weights do not fit its configuration, or what it computes is not the same each time.
    """

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self._forward = TransformersForward(model, load_module(model, precision), precision, device)
        planned = planned_form(model)
        report = self_check(self._forward, model, precision, planned)
        self._forward.stops_early = report.stops_early
        self._forward.settle()
        self.path = EncoderPath(report.form, report.sentence, (*model.notes, *report.notes), report.difference)
        self._with_unseen = UnseenTokens(model, precision, device)

    @property
    def padded(self) -> bool:
        """Whether a batch costs, in tokens, the number of its sequences times the length of the longest."""
        return self.path.form is BatchForm.PADDED

    @torch.inference_mode()
    def hidden_states(
        self, batch: TokenBatch, places: Collection[Place], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the values of a batch at the chosen places, layer by layer; ``first_token_only`` saves nothing here.

        Shape: ``[T, H]`` each, padding left out.
        """
        tell_of_fork()
        if batch.unseen is not None and self.path.form is BatchForm.PACKED:
            yield from self._with_unseen(batch, places)
            return
        parts = _SPLITS[self.path.form](batch)
        if self._forward.alone is not None and self.path.form is BatchForm.PACKED:
            parts = _with_alone(batch, self._forward.alone)
        runs = [self._forward(part, places) for part in parts if len(part.ids)]
        for place in sorted(places):
            with stage("forward"):
                rows = [run.pop(place) for run in runs] or [self._forward.none_at(place)]
                yield HiddenState(place, rows[0] if len(rows) == 1 else torch.cat(rows), first_token_only=False)


# ── one batch as several ────────────────────────────────────────────────────────────────────────────────────


def _equal_lengths(batch: TokenBatch) -> list[TokenBatch]:
    """Cut a batch into one batch for each length; sequences of one length are neighbors."""
    return batch.cut(np.flatnonzero(np.diff(batch.lengths)) + 1)


def _with_alone(batch: TokenBatch, token: int) -> list[TokenBatch]:
    """Cut a batch so that each sequence that holds ``token`` is a batch of its own, and those between them are one."""
    holds = np.add.reduceat(np.append(batch.ids == token, False), batch.starts, dtype=np.int64) * (batch.lengths > 0)
    at = np.flatnonzero(holds)
    bounds = np.unique(np.concatenate([at, at + 1]))
    return batch.cut(bounds[(bounds > 0) & (bounds < len(batch.lengths))])


_SPLITS: dict[BatchForm, Callable[[TokenBatch], list[TokenBatch]]] = {
    BatchForm.PACKED: lambda batch: [batch],
    BatchForm.PADDED: lambda batch: [batch],
    BatchForm.EQUAL: _equal_lengths,
    BatchForm.SINGLE: lambda batch: batch.cut(np.arange(1, len(batch.lengths))),
}
