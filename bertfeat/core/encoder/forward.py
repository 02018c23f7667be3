"""One forward pass of a transformers module over a batch, padded or packed: the chosen places, without the padding."""

import inspect
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertfeat.core.encoder.linear import PrepackedLinears
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.text_attention import (
    REGISTERED,
    NotPackable,
    make_biases_by_distance,
    register,
    texts_side_by_side,
)
from bertfeat.core.encoder.transfer import move_to_device, usual_size
from bertfeat.core.encoder.watching import DeepestReached, ModuleWatcher
from bertfeat.core.models import Model, one_line_message, silence_transformers, wrap_library_errors
from bertfeat.core.recipe import BlockSite, Place
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import ModelError, parameter
from bertfeat.io import stage
from bertfeat.ragged import ranges

_READS_TYPES = frozenset({"xlnet"})  # model types that read segments without an embedding table for them


class TransformersForward:
    """A module and the form in which it is called. Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width."""

    def __init__(self, model: Model, module: nn.Module, precision: Precision, device: torch.device) -> None:
        self._precision = precision
        self.device, self.num_layers = device, model.num_layers
        self._width_at = model.width_at
        self.stops_early = False  # whether layers are taken between the blocks, and computing stops at the deepest
        self._name = model.name
        self._pad = max(0, model.sizes.pad_token_id or 0)
        self._has_types = (model.sizes.type_vocab_size or 0) > 1 or model.config.model_type in _READS_TYPES
        rotary = getattr(model.library_config, "position_embedding_type", None) == "rotary"
        self._first_position = 0 if rotary else model.first_position  # ESM's count places, whatever token is there
        self._module = module.to(device).eval()
        self._watcher = ModuleWatcher(model, self._module)
        self._takes_positions = "position_ids" in inspect.signature(self._module.forward).parameters
        self._usual_attention = getattr(module.config, "_attn_implementation", None)
        self.alone = token_that_changes_others(model)
        """The token whose sequences must run by themselves."""
        self._prepacked: PrepackedLinears | None = None
        self.packed = False  # whether texts stand side by side in one sequence
        if self.could_pack:
            register()
            make_biases_by_distance(self._module)

    @property
    def could_stop_early(self) -> bool:
        """Whether the transformer blocks were found, so that layers can be caught between them."""
        return self._watcher.has_blocks

    @property
    def could_pack(self) -> bool:
        """Whether the attention function can be replaced, and positions can be made to begin again with each text."""
        relative = any(hasattr(part, "relative_attention_bias") for part in self._module.modules())
        return self._takes_attention and (self._takes_positions or relative)

    @property
    def _takes_attention(self) -> bool:
        """Whether the attention function can be replaced."""
        return bool(getattr(self._module, "_can_set_attn_implementation", lambda: False)())

    def use_packed(self) -> None:
        """Put texts side by side in one sequence, without padding; oneDNN computes the products that it supports."""
        self._use_attention(REGISTERED)
        self._prepacked = PrepackedLinears(self._module)

    def settle(self) -> None:
        """Keep the form as it is, and free what would be needed to undo it."""
        self._prepacked = None

    def use_eager(self) -> None:
        """Pad texts, and use the family's own attention, in plain products: the reference for all other forms."""
        self._use_attention("eager")

    def use_padded(self) -> None:
        """Pad texts, and use the attention that the library chooses for this family."""
        if self._prepacked is not None:
            self._prepacked.undo()
            self._prepacked = None
        if self._usual_attention != self._module.config._attn_implementation:  # type: ignore[union-attr]
            self._use_attention(self._usual_attention)
        self.packed = False

    def attention(self, batch: TokenBatch, layers: Collection[int]) -> dict[int, Tensor]:
        """The weights of attention in the chosen layers, for the one sequence of a batch. Shape: ``[A, T, T]`` each.

        Raises:
            ModelError: the library does not give the weights of every token for every other.
        """
        if self._takes_attention:
            self.use_eager()
        inputs, _ = self._padded_inputs(batch)
        with wrap_library_errors("transformers does not give its attention", where=self._name):
            given = self._module(**inputs, output_attentions=True, return_dict=True).attentions or ()
        shapes = [() if each is None else (each.shape[0], *each.shape[2:]) for each in given]
        if shapes != [(1, len(batch.ids), len(batch.ids))] * self.num_layers:
            raise ModelError(
                "transformers does not give its attention as weights of all pairs of tokens", where=self._name
            )
        return {layer: given[layer - 1][0] for layer in sorted(layers)}

    def _use_attention(self, name: str | None) -> None:
        with silence_transformers():
            self._module.set_attn_implementation(name)  # type: ignore[operator]
        self.packed = name == REGISTERED

    def none_at(self, place: Place) -> Tensor:
        """The values of a batch without tokens. Shape: ``[0, H]``."""
        return torch.empty((0, self._width_at(place.site)), dtype=self._precision.dtype, device=self.device)

    def __call__(self, batch: TokenBatch, places: Collection[Place]) -> dict[Place, Tensor]:
        """Compute a batch, padded to its longest sequence or packed, at the chosen places. Shape: ``[T, H]`` each."""
        inputs, rows = self._packed_inputs(batch) if self.packed else self._padded_inputs(batch)
        longest = inputs["input_ids"].shape[1]
        run = self._caught if self.stops_early else self._listed
        found = {place: self._watcher.as_layer(place) for place in places}
        side_by_side: AbstractContextManager[None] = nullcontext()
        if self.packed:
            side_by_side = texts_side_by_side(batch.lengths, longest, self.device)
        try:
            with stage("forward"), side_by_side:
                values = run(inputs, set(found.values()))
                return {place: self._rows(values[at], longest, rows, place) for place, at in found.items()}
        except (ModelError, torch.OutOfMemoryError):
            raise
        except NotPackable as error:
            raise ModelError(str(error), where=self._name) from error
        except Exception as error:
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise
            raise ModelError(
                f"transformers cannot run this model in {self._precision}: {one_line_message(error)}",
                where=self._name,
                remedy="" if self._precision is Precision.FP32 else f"{parameter('precision', 'fp32')} may help",
            ) from error

    def _listed(self, inputs: dict[str, Tensor], places: Collection[Place]) -> dict[Place, Tensor]:
        """The chosen places, layers as the library lists them."""
        with self._watcher.catching([place for place in places if place.site is not BlockSite.OUTPUT]) as values:
            output = self._module(**inputs, output_hidden_states=True, return_dict=True)
        states = getattr(output, "hidden_states", None)
        if states is None or len(states) != self.num_layers + 1:
            number = "none" if states is None else str(len(states))
            problem = f"transformers gives {number} of its {self.num_layers + 1} layers, so it cannot be read"
            raise ModelError(problem, where=self._name)
        return values | {Place(layer): state for layer, state in enumerate(states)}

    def _caught(self, inputs: dict[str, Tensor], places: Collection[Place]) -> dict[Place, Tensor]:
        """The chosen places, layers as they go into the blocks; the last is the module's result."""
        with self._watcher.catching(places, deepest=max(places).layer) as values:
            try:
                output = self._module(**inputs, return_dict=True)
                values[Place(self.num_layers)] = output.last_hidden_state
            except DeepestReached:
                pass
        if not set(places) <= set(values):
            raise ModelError("its blocks do not run one after the other", where=self._name)
        return values

    def _rows(self, values: Tensor, longest: int, rows: Tensor, place: Place) -> Tensor:
        if values.dim() == 2 and len(values) % max(1, longest) == 0:  # OPT's feed-forward part flattens
            values = values.view(-1, longest, values.shape[1])
        # between its blocks a model may pad further, as Longformer does
        if values.dim() != 3 or values.shape[1] < longest or values.shape[2] != self._width_at(place.site):
            what = "a layer of it" if place.site is BlockSite.OUTPUT else f"{place.site} of layer {place.layer}"
            raise ModelError(
                f"{what} has the shape {list(values.shape)} for {longest} tokens, not a vector of "
                f"{self._width_at(place.site)} values for each, so it cannot be read",
                where=self._name,
            )
        return values[:, :longest].flatten(0, 1).index_select(0, rows)

    def _packed_inputs(self, batch: TokenBatch) -> tuple[dict[str, Tensor], Tensor]:
        """The module's inputs, ``[1, rows]`` each, and the place of each token among their rows, ``[T]``.

        On CPUs, rows are added after the tokens up to a usual size, unless a token changes others (``alone``).
        """
        tokens = len(batch.ids)
        rows = usual_size(tokens) if self.device.type == "cpu" and self.alone is None else tokens

        def in_one(values: NDArray[np.integer]) -> Tensor:
            filled = np.full(rows, values[0], np.int64)
            filled[:tokens] = values
            return move_to_device(filled[None], self.device)

        inputs = {"input_ids": in_one(batch.ids)}
        if self._takes_positions:
            inputs["position_ids"] = in_one(batch.positions(self._first_position))
        if self._has_types:
            inputs["token_type_ids"] = in_one(batch.types)
        return inputs, move_to_device(np.arange(tokens), self.device)

    def _padded_inputs(self, batch: TokenBatch) -> tuple[dict[str, Tensor], Tensor]:
        """The module's inputs, ``[S, longest]`` each, and the place of each token among their rows, ``[T]``."""
        shape = len(batch.lengths), int(batch.lengths.max())
        rows = ranges(np.arange(shape[0]) * shape[1], batch.lengths)

        def padded(values: NDArray[np.integer] | NDArray[np.bool_], padding: int) -> Tensor:
            filled = np.full(shape[0] * shape[1], padding, np.int64)
            filled[rows] = values
            return move_to_device(filled.reshape(shape), self.device)

        inputs = {"input_ids": padded(batch.ids, self._pad), "attention_mask": padded(batch.seen(), 0)}
        if self._has_types:
            inputs["token_type_ids"] = padded(batch.types, 0)
        return inputs, move_to_device(rows, self.device)


def token_that_changes_others(model: Model) -> int | None:
    """The token by whose number a module scales all embeddings of a sequence: ESM's mask, with ``token_dropout``."""
    config = model.library_config
    return config.mask_token_id if getattr(config, "token_dropout", False) else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of torch says that memory ran out."""
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in message or "can't allocate" in message
