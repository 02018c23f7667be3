"""Model name → files on disk: the packaged default, a folder, or the Hugging Face hub; and what the files say.

Only safetensors weights are read and no code of a model repository is ever run.
"""

from bertfeat.core.models.config import ModelConfig, ModelSizes
from bertfeat.core.models.families import DECODERS, ENCODER_HALVES, PACKED_FAMILIES
from bertfeat.core.models.files import open_weights
from bertfeat.core.models.find import DEFAULT_MODEL, DEFAULT_PACKAGE, DEFAULT_WEIGHTS_SHA256, find_model
from bertfeat.core.models.fingerprint import TOKENIZER_KEYS_WITHOUT_EFFECT
from bertfeat.core.models.foreign import LibraryConfig, one_line_message, silence_transformers, wrap_library_errors
from bertfeat.core.models.hook_points import BLOCK_MODULES, BlockModules, find_block_modules
from bertfeat.core.models.late_interaction import QueryExpansion, TokenReading
from bertfeat.core.models.model import Model
from bertfeat.core.models.sentence_modules import DenseStep, LayerMean, LayerNormStep, PoolingMode, SentenceStep

__all__ = [
    "BLOCK_MODULES",
    "DECODERS",
    "DEFAULT_MODEL",
    "DEFAULT_PACKAGE",
    "DEFAULT_WEIGHTS_SHA256",
    "ENCODER_HALVES",
    "PACKED_FAMILIES",
    "TOKENIZER_KEYS_WITHOUT_EFFECT",
    "BlockModules",
    "DenseStep",
    "LayerMean",
    "LayerNormStep",
    "LibraryConfig",
    "Model",
    "ModelConfig",
    "ModelSizes",
    "PoolingMode",
    "QueryExpansion",
    "SentenceStep",
    "TokenReading",
    "find_block_modules",
    "find_model",
    "one_line_message",
    "open_weights",
    "silence_transformers",
    "wrap_library_errors",
]
