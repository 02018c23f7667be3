"""Random models of a wanted shape: speed, memory and exactness do not ask what the weights were trained for."""

from pathlib import Path
from shutil import copy

BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def random_model(folder: Path, shape: dict[str, int]) -> Path:
    """Save a random BERT of a shape with the default model's tokenizer."""
    import torch
    from transformers import AutoModel
    from transformers.models.bert import BertConfig

    from bertfeat.core.models import find_model

    torch.manual_seed(0)
    AutoModel.from_config(BertConfig(**shape)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        copy(find_model().folder / name, folder)
    return folder
