"""On which path a model is computed: packed, or by transformers in one of three forms. Needs no torch."""

from dataclasses import dataclass
from enum import StrEnum

from bertfeat.encoder.architectures import is_packable
from bertfeat.models import DECODERS, ENCODER_HALVES, Model

PACKED_SENTENCE = "packed: bertfeat's own forward pass, without padding; batch mates change nothing"
SIDE_BY_SIDE_SENTENCE = (
    "packed: transformers' own module over texts side by side, without padding; attention text by text"
)
SIDE_BY_SIDE = (
    DECODERS
    | ENCODER_HALVES
    | frozenset(
        {
            "albert",
            "bert",
            "bert-generation",
            "camembert",
            "data2vec-text",
            "distilbert",
            "electra",
            "ernie",
            "esm",
            "esmc",
            "eurobert",
            "gte",
            "jina_embeddings_v3",
            "modernbert",
            "neomme",
            "nomic_bert",
            "openai_privacy_filter",
            "roberta",
            "roberta-prelayernorm",
            "ultrabert",
            "xlm-roberta",
            "xlm-roberta-xl",
            "xmod",
        }
    )
)
"""Families whose modules take texts side by side, by benchmarks/architectures.py; the check at load tries each."""
PADDING_HOLDS = frozenset(
    {
        "albert",
        "bert",
        "bert-generation",
        "big_bird",
        "camembert",
        "clip_text_model",
        "data2vec-text",
        "deberta",
        "deberta-v2",
        "distilbert",
        "dpr",
        "electra",
        "ernie",
        "esm",
        "esmc",
        "eurobert",
        "flaubert",
        "gemma3_text",
        "gte",
        "ibert",
        "jina_embeddings_v3",
        "layoutlm",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "megatron-bert",
        "modernbert",
        "mpnet",
        "neomme",
        "nomic_bert",
        "openai_privacy_filter",
        "rembert",
        "roberta",
        "roberta-prelayernorm",
        "roformer",
        "splinter",
        "squeezebert",
        "tapas",
        "tipsv2_text_model",
        "ultrabert",
        "visual_bert",
        "xlm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xlnet",
        "xmod",
    }
)
"""Families whose vectors padding does not change, by benchmarks/architectures.py; all others are never padded."""


class BatchForm(StrEnum):
    """The form in which the sequences of a batch go through a model."""

    PACKED = "packed"
    """Side by side without padding, by bertfeat's own forward pass or by transformers."""
    PADDED = "padded"
    """Padded to the longest one, by transformers."""
    EQUAL = "equal lengths"
    """Grouped by equal length, by transformers: padding would change their vectors, or is not known not to."""
    SINGLE = "one at a time"
    """Each by itself, by transformers: its company would change its vectors."""


@dataclass(frozen=True, slots=True)
class EncoderPath:
    """The path on which a model is computed, and the results of the check at load."""

    form: BatchForm
    sentence: str
    notes: tuple[str, ...] = ()  # what a user should know of this model
    difference: float | None = None  # largest relative one between a text alone and in company; None: not measured


_PLANNED = {
    BatchForm.PACKED: SIDE_BY_SIDE_SENTENCE,
    BatchForm.PADDED: "padded: run by transformers, texts of like length padded to the longest of a batch",
    BatchForm.EQUAL: "equal lengths: run by transformers, texts of one length at a time, without padding",
}


def planned_form(model: Model) -> BatchForm:
    """The form of batches that is planned for a model that transformers runs, from its configuration alone."""
    if model.config.depends_on_longest:
        return BatchForm.EQUAL
    return BatchForm.PACKED if model.config.model_type in SIDE_BY_SIDE else form_without_packing(model)


def form_without_packing(model: Model) -> BatchForm:
    """The form of batches of a model that does not take texts side by side."""
    kind = model.config.model_type
    return BatchForm.PADDED if kind in PADDING_HOLDS or model.causal else BatchForm.EQUAL


def planned_path(model: Model) -> EncoderPath:
    """Determine the path of a model from its configuration alone; loading the model checks it.

    Raises:
        ModelError: it cannot be computed at all.
    """
    if is_packable(model):
        return EncoderPath(BatchForm.PACKED, PACKED_SENTENCE, model.notes)
    form = planned_form(model)
    return EncoderPath(form, _PLANNED[form], model.notes)
