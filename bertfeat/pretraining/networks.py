"""The networks that are pre-trained: transformers' models with heads, new ones or with the weights of a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.core import Model, silence_transformers, wrap_library_errors
from bertfeat.errors import ModelError, UsageError, parameter
from bertfeat.pretraining.settings import Objective, PretrainingSettings
from bertfeat.pretraining.vocabulary import SPECIAL

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DROPOUT = 0.1
_HEADS = {
    Objective.MLM_NSP: "BertForPreTraining",
    Objective.MLM: "BertForMaskedLM",
    Objective.LTR: "BertLMHeadModel",
}
"""transformers' classes of a BERT with the heads of an objective."""


@dataclass(frozen=True, slots=True)
class StartedNetwork:
    """A model with heads, as its training begins."""

    module: "PreTrainedModel"
    notes: tuple[str, ...] = ()  # for the user, a sentence each
    new_head: bool = False  # whether a starting model got a new head for words


def start_network(
    settings: PretrainingSettings, model: Model | None, pieces: int, device: torch.device
) -> StartedNetwork:
    """The network that a training begins with: that of ``model``, else a new one for a vocabulary of ``pieces``."""
    torch.manual_seed(settings.seed % (1 << 63))
    network = new_network(settings, pieces) if model is None else continued_network(model, settings)
    network.module.to(device)
    return network


def new_network(settings: PretrainingSettings, pieces: int) -> StartedNetwork:
    """A new BERT of the settings' shape, for a vocabulary of ``pieces``; torch's generator draws its weights."""
    import transformers

    shape = settings.model_shape
    config = transformers.BertConfig(
        vocab_size=pieces,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=settings.positions or settings.max_length,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        pad_token_id=SPECIAL.index("[PAD]"),
        is_decoder=settings.goal is Objective.LTR,
    )
    return StartedNetwork(getattr(transformers, _HEADS[settings.goal])(config))


def continued_network(model: Model, settings: PretrainingSettings) -> StartedNetwork:
    """A model's weights with the heads of the objective; heads that the weights lack are new."""
    import transformers

    _check_fits(model, settings)
    goal = settings.goal
    kind = "AutoModelForMaskedLM" if goal is Objective.MLM else _HEADS[goal]
    decoder = {"is_decoder": True} if goal is Objective.LTR else {}
    with silence_transformers(), wrap_library_errors(f"transformers cannot train it for {goal}", where=model.name):
        module, info = getattr(transformers, kind).from_pretrained(
            model.folder,
            dtype=torch.float32,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            **decoder,
        )
    missing = sorted(info["missing_keys"])
    encoder = f"{module.base_model_prefix}."
    if lacking := [name for name in missing if name.startswith(encoder) and "pooler" not in name]:
        raise ModelError(f"its weights lack {lacking[0]} and {len(lacking) - 1} more", where=model.name)
    new_head = any("seq_relationship" not in name and "pooler" not in name for name in missing)
    notes = []
    if new_head:
        tied = "tied to its embeddings" if module.config.tie_word_embeddings else "of its own"
        notes.append(f"the model has no head for masked words: it gets a new one, {tied}")
    if any("seq_relationship" in name for name in missing):
        notes.append("the model has no head for next sentences: it gets a new one")
    return StartedNetwork(module, tuple(notes), new_head)


@torch.no_grad()
def start_from_frequencies(module: "PreTrainedModel", logs: NDArray[np.float64]) -> None:
    """Let a new head begin with the pieces' frequencies in place of equal chances, so that it misleads the model less.

    ``logs`` are the logarithms of the frequencies, ``[V]``: the head's bias, if it has one. Pieces that cannot be
    predicted get the least of them.
    """
    bias = getattr(module.get_output_embeddings(), "bias", None)
    if bias is not None:
        least = logs[np.isfinite(logs)].min()
        known = torch.from_numpy(np.where(np.isfinite(logs), logs, least))
        bias.fill_(float(least))
        bias[: len(known)] = known.to(bias.dtype)


def _check_fits(model: Model, settings: PretrainingSettings) -> None:
    _ = model.weight_files  # raises the error with the remedy where there are none
    kind, goal = model.config.model_type, settings.goal
    if goal is not Objective.MLM and kind != "bert":
        problem = f"{parameter('objective', str(goal))} is for models of the bert family, and this is {kind}"
        raise UsageError(problem, where=model.name, remedy=f"give {parameter('objective', str(Objective.MLM))}")
    if goal.has_pairs and (model.sizes.type_vocab_size or 0) < 2:
        problem = "it does not tell two segments apart (type_vocab_size), which next sentences need"
        raise UsageError(problem, where=model.name, remedy=f"give {parameter('objective', str(Objective.MLM))}")
    if settings.max_length > model.max_tokens:
        problem = f"it reads {model.max_tokens} tokens at once, not {settings.max_length}"
        remedy = f"give {parameter('max_length')} {model.max_tokens} or less"
        raise UsageError(problem, where=model.name, remedy=remedy)
