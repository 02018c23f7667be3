"""Any other Hugging Face encoder, run by transformers as it is, on padded batches."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import HiddenState
from bertfeat.encoder.transfer import to_device
from bertfeat.errors import ModelError
from bertfeat.models import Model
from bertfeat.stages import stage
from bertfeat.tokens import Batch
from bertfeat.tokens.layout import ranges


class PaddedEncoder:
    """A frozen encoder of any architecture that transformers knows."""

    padded = True

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self.num_layers, self.hidden_size = model.num_layers, model.hidden_size
        self.precision, self.device = precision, device
        self._pad = int(getattr(model.config, "pad_token_id", None) or 0)
        self._has_types = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1
        self._module = _load(model, precision).to(device).eval()
        self._blocks = _block_list(self._module, self.num_layers)

    @torch.inference_mode()
    def hidden_states(
        self, batch: Batch, layers: Collection[int], *, first_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the wanted layers of a batch, ascending, and stop at the deepest; ``first_only`` saves nothing here.

        Shape: ``[T, H]`` each, padding left out; of the encoder's precision.
        """
        inputs, places = self._padded_inputs(batch)
        with stage("forward"):
            states = self._run(inputs, layers)
        longest = inputs["input_ids"].shape[1]  # between its blocks a model may pad further, as Longformer does
        for layer, values in sorted(states.items()):
            rows = values[:, :longest].flatten(0, 1)  # [S * longest, H]
            yield HiddenState(layer, rows.index_select(0, places), firsts=False)

    def _run(self, inputs: dict[str, Tensor], layers: Collection[int]) -> dict[int, Tensor]:
        if self._blocks is None:  # ALBERT runs one block over and over, so it cannot be stopped between two
            states = self._module(**inputs, output_hidden_states=True).hidden_states
            return {layer: states[layer] for layer in layers}
        with _caught_inputs(self._blocks, layers) as caught:
            try:
                output = self._module(**inputs)
            except _DeepestReached:
                return caught
        caught[self.num_layers] = output.last_hidden_state
        return caught

    def _padded_inputs(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """The model's inputs, ``[S, longest]`` each, and the place of each token among their rows, ``[T]``."""
        shape = len(batch.lengths), int(batch.lengths.max())
        places = ranges(np.arange(shape[0]) * shape[1], batch.lengths)

        def padded(values: NDArray[np.integer] | int, padding: int) -> Tensor:
            filled = np.full(shape[0] * shape[1], padding, np.int64)
            filled[places] = values
            return to_device(filled.reshape(shape), self.device)

        inputs = {"input_ids": padded(batch.ids, self._pad), "attention_mask": padded(1, 0)}
        if self._has_types:
            inputs["token_type_ids"] = padded(batch.types, 0)
        return inputs, to_device(places, self.device)


class _DeepestReached(Exception):
    """The deepest wanted layer has been caught; nothing after it need be computed."""


@contextmanager
def _caught_inputs(blocks: nn.ModuleList, layers: Collection[int]) -> Iterator[dict[int, Tensor]]:
    """Catch the inputs of blocks: what goes into block k (from 0) is layer k."""
    caught: dict[int, Tensor] = {}
    deepest = max(layers)

    def catch(layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if layer in layers:
            caught[layer] = args[0] if args else kwargs["hidden_states"]
        if layer == deepest:
            raise _DeepestReached

    hooks = [
        block.register_forward_pre_hook(
            lambda _m, args, kwargs, layer=layer: catch(layer, args, kwargs), with_kwargs=True
        )
        for layer, block in enumerate(blocks)
    ]
    try:
        yield caught
    finally:
        for hook in hooks:
            hook.remove()


def _block_list(module: nn.Module, number: int) -> nn.ModuleList | None:
    """The list of transformer blocks, where there is exactly one list of that length."""
    found = [each for each in module.modules() if isinstance(each, nn.ModuleList) and len(each) == number]
    blocks = [each for each in found if all(type(block) is type(each[0]) for block in each)]
    return blocks[0] if len(blocks) == 1 and number > 1 else None


def _load(model: Model, precision: Precision) -> nn.Module:
    from transformers import AutoModel
    from transformers.utils import logging

    _ = model.weight_files  # the remedy, where there are none
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # the missing weights that matter are told below
    logging.disable_progress_bar()
    try:
        loaded, info = AutoModel.from_pretrained(
            model.folder,
            dtype=precision.dtype,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (ValueError, OSError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(f"{model.name}: transformers cannot load this model: {error}") from error
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    if missing:
        raise ModelError(
            f"{model.name}: its weights lack {missing[0]} and {len(missing) - 1} more, so it cannot be used"
        )
    module: nn.Module = loaded
    return module
