"""A check of a module on a few tokens when it is loaded: does a text get the same vectors alone and in a batch?

On every layer, a text alone is compared with the same text padded beside a longer one, or beside others of its length.
Where texts go side by side in one sequence, they are compared with the text alone under the family's own attention.
The check is needed because transformers has many models, and in some of them padding changes a text's vectors, the
texts of a batch mix, random numbers are drawn, or something is kept from one call to the next; no list names them all.

Shapes: ``n`` tokens of a text, ``H`` hidden width.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder.forward import TransformersForward
from bertfeat.core.encoder.path import PADDING_HOLDS, BatchForm, form_without_packing
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.models import Model
from bertfeat.core.recipe import outputs_of
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import ModelError, parameter

TOLERANCE: Mapping[Precision, float] = {Precision.FP32: 1e-3, Precision.FP16: 1e-2, Precision.BF16: 8e-2}
"""Largest relative difference of a token's vector that rounding explains."""
_SAME = {Precision.FP32: 1e-5, Precision.FP16: 1e-3, Precision.BF16: 8e-3}  # the same, for two runs over one text
_SEES = 1e-4  # least relative difference that shows that a token sees another
_SHORT, _LONGER, _LONG = 8, 24, 130  # tokens of the texts; 130 is beyond the blocks into which some models cut texts

Layers = Mapping[int, Tensor]
Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SelfCheckReport:
    """The result of the check."""

    form: BatchForm
    stops_early: bool  # whether layers caught between the blocks equal those that the library lists
    difference: float  # the largest relative one between a text alone and in company
    sentence: str
    notes: tuple[str, ...]


@torch.inference_mode()
def self_check(forward: TransformersForward, model: Model, precision: Precision, planned: BatchForm) -> SelfCheckReport:
    """Find the form of batches under which the other texts of a batch change no vector, beginning with the planned one.

    A model that is to run on batches of equal lengths, and whose family is not in ``PADDING_HOLDS``, is also run twice
    over a longer text.

    Raises:
        ModelError: the module fails; a layer is not finite; the same text has other vectors the second time; or no
            token sees another.
    """
    return _Check(forward, model, precision).findings(planned)


@dataclass(frozen=True, slots=True)
class _Company:
    """The change that company, the other texts of a batch, makes to a text's vectors, as relative differences.

    ``before`` and ``after`` are the changes that the tokens before and after a token make to its vector.
    """

    changes: float
    before: float
    after: float


class _Check:
    """The steps of the check, over a few texts."""

    def __init__(self, forward: TransformersForward, model: Model, precision: Precision) -> None:
        self._forward, self._model, self._precision = forward, model, precision
        self._kind = model.config.model_type
        self._all_layers = outputs_of(range(model.num_layers + 1))
        self._texts = _Texts(model)

    def findings(self, planned: BatchForm) -> SelfCheckReport:
        """Choose the form of batches, and refuse a model whose vectors cannot be trusted.

        Texts run first and, at the end, again: what a module keeps from one call to the next would show then.
        """
        form, why_not_packed = planned, ""
        company = long = None
        if planned is BatchForm.PACKED:
            company, why_not_packed = self._side_by_side()
            form = BatchForm.PACKED if company else form_without_packing(self._model)
        if form is BatchForm.EQUAL and self._kind not in PADDING_HOLDS:  # some cut long texts into blocks
            long = self._run(self._texts.long)
        alone = self._run(self._texts.short)
        self._refuse_infinite(alone)
        if company is None:
            form, company = self._form(form, alone)
        self._refuse_blind(company)
        stops_early = self._agrees_between_blocks(alone)
        if not stops_early:  # else that was the second time
            self._refuse_changing(self._texts.short, alone)
        if long is not None:
            self._refuse_changing(self._texts.long, long)
        notes = self._notes(planned, form, company, why_not_packed)
        return SelfCheckReport(form, stops_early, company.changes, self._sentence(form, company), notes)

    def _side_by_side(self) -> tuple[_Company | None, str]:
        """The change that company makes to texts side by side, or the reason why they cannot stand so."""
        forward = self._forward
        if not forward.could_pack:
            return None, "its module takes no attention from outside"
        forward.use_eager()
        longer, alone = self._run(self._texts.longer), self._run(self._texts.short)
        self._refuse_infinite(alone)
        forward.use_packed()
        try:
            company = self._in_company(alone, self._texts.longer, longer)
        except ModelError as error:
            forward.use_padded()
            return None, error.problem
        if company.changes > TOLERANCE[self._precision]:
            forward.use_padded()
            return None, f"texts side by side differ from texts alone by {company.changes:.1e}, relatively"
        return company, ""

    def _form(self, planned: BatchForm, alone: Layers) -> tuple[BatchForm, _Company]:
        """The first form, from the planned one on, under which company changes nothing."""
        tolerance = TOLERANCE[self._precision]
        if planned is BatchForm.PADDED:
            company = self._in_company(alone, self._texts.longer)
            if company.changes <= tolerance:
                return planned, company
        company = self._in_company(alone, self._texts.changed_last)
        return (BatchForm.EQUAL if company.changes <= tolerance else BatchForm.SINGLE), company

    def _in_company(self, alone: Layers, mate: Ids, mate_alone: Layers | None = None) -> _Company:
        short, begin = len(self._texts.short), len(mate)
        together = self._run(mate, self._texts.changed_first, self._texts.short)
        beside = _cut_rows(together, 0, short - 1)  # the same tokens as alone, but for those after them
        after_another = _cut_rows(together, begin + 1, begin + short)
        changes = _difference(alone, _cut_rows(together, begin + short, begin + 2 * short))
        if mate_alone is not None:
            changes = max(changes, _difference(mate_alone, _cut_rows(together, 0, begin)))
        return _Company(
            changes=changes,
            before=_difference(_cut_rows(alone, 1, short), after_another),
            after=_difference(_cut_rows(alone, 0, short - 1), beside),
        )

    def _refuse_infinite(self, alone: Layers) -> None:
        for layer, values in alone.items():
            if not bool(values.isfinite().all()):
                raise ModelError(
                    f"layer {layer} is not finite in {self._precision}",
                    where=self._model.name,
                    remedy=f"use another {parameter('precision')}, and if that does not help, get the weights anew",
                )

    def _refuse_blind(self, company: _Company) -> None:
        if max(company.before, company.after) <= _SEES:
            raise ModelError(
                f"no token's vectors depend on another token: the attention of model_type {self._kind!r} is not at "
                f"work here, so it cannot be used",
                where=self._model.name,
            )

    def _agrees_between_blocks(self, alone: Layers) -> bool:
        if not self._forward.could_stop_early:
            return False
        self._forward.stops_early = True
        try:
            return _difference(alone, self._run(self._texts.short)) <= _SAME[self._precision]
        except ModelError:  # its blocks are called in another way, or take something other than layers
            return False
        finally:
            self._forward.stops_early = False

    def _refuse_changing(self, text: Ids, before: Layers) -> None:
        difference = _difference(before, self._run(text))
        if difference > _SAME[self._precision]:
            raise ModelError(
                f"the same {len(text)} tokens have other vectors the second time (relative difference "
                f"{difference:.1e}): model_type {self._kind!r} draws random numbers or keeps something from one text "
                f"to the next, so it cannot be used",
                where=self._model.name,
            )

    def _notes(self, planned: BatchForm, form: BatchForm, company: _Company, problem: str) -> tuple[str, ...]:
        notes = []
        if problem:
            notes.append(f"its texts cannot stand side by side, so that they run {form}: {problem}")
            planned = form_without_packing(self._model)
        if form is not planned:
            what = "padding" if form is BatchForm.EQUAL else "the company of other texts"
            notes.append(f"{what} changes its vectors, which was not expected; its texts run {form}")
        if not self._model.causal and company.after <= max(_SEES, TOLERANCE[self._precision]):
            notes.append(
                "each token sees only those before it, so that the first one's vector is the same for all texts "
                "(pooling cls is of no use)"
            )
        return tuple(notes)

    def _sentence(self, form: BatchForm, company: _Company) -> str:
        what = {
            BatchForm.PACKED: "a text alone by the family's own attention and one beside others differ by",
            BatchForm.PADDED: "a text alone and padded beside a longer one differ by",
            BatchForm.EQUAL: "a text alone and beside others of its length differ by",
            BatchForm.SINGLE: "each text runs by itself, because beside others of its length it differs by",
        }[form]
        return (
            f"{form}, by transformers; tried in {self._precision} on all {len(self._all_layers)} layers: {what} "
            f"{company.changes:.1e} at most, relatively"
        )

    def _run(self, *texts: Ids) -> Layers:
        lengths = np.array([len(text) for text in texts])
        ids = np.concatenate(texts)
        states = self._forward(
            TokenBatch(np.arange(len(texts)), ids, np.zeros(len(ids), np.int8), lengths), self._all_layers
        )
        return {place.layer: rows.float() for place, rows in states.items()}


class _Texts:
    """A few tokens from all over the vocabulary, always the same ones for a model."""

    def __init__(self, model: Model) -> None:
        short = min(_SHORT, model.max_tokens // 2 + 1)
        drawn = _plain_ids(model, _LONG)
        self.short = drawn[:short]
        self.longer = drawn[: min(_LONGER, model.max_tokens)]
        self.long = drawn[: min(_LONG, model.max_tokens)]
        self.changed_first, self.changed_last = self.short.copy(), self.short.copy()
        self.changed_first[0] = next((number for number in drawn if number != drawn[0]), drawn[0])
        self.changed_last[-1] = next((number for number in drawn if number != drawn[short - 1]), drawn[0])


def _plain_ids(model: Model, number: int) -> Ids:
    """Return ``number`` ids spread over the vocabulary, without the special tokens that the configuration names."""
    size = model.sizes.vocab_size
    special = model.config.special_ids | {0, 1, 2}
    golden = 0.6180339887498949  # one over the golden ratio: fractions of its multiples spread evenly
    spread = (int(size * (at * golden % 1.0)) for at in range(1, 4 * number + 1))
    plain = [number for number in spread if number not in special] or [0]
    return np.resize(np.array(plain, np.int32), number)


def _cut_rows(layers: Layers, begin: int, end: int) -> Layers:
    return {layer: rows[begin:end] for layer, rows in layers.items()}


def _difference(one: Layers, other: Layers) -> float:
    """The largest relative difference of a token's vector on any layer.

    It is 0 for two zero vectors, and infinite for different shapes or a difference that is NaN.
    """
    worst = 0.0
    for layer, rows in one.items():
        if rows.shape != other[layer].shape:
            return float("inf")
        apart = torch.linalg.vector_norm(rows - other[layer], dim=1)
        size = torch.linalg.vector_norm(rows, dim=1).clamp_min(torch.finfo(torch.float32).tiny)
        worst = max(worst, float((apart / size).nan_to_num(nan=float("inf")).max()))
    return worst
