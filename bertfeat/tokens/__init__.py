"""Documents → windows of token ids, word alignment, offsets; token-budget batches."""

from bertfeat.tokens.batches import Batch, BatchPicks, batch_picks, batches
from bertfeat.tokens.layout import Layout, Picks, Tokenized, TokenSpans, tokenize
from bertfeat.tokens.sequences import Subword, TokenSettings
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.tokens.windows import LongTextPolicy

__all__ = [
    "Batch",
    "BatchPicks",
    "Layout",
    "LongTextPolicy",
    "Picks",
    "Subword",
    "TokenSettings",
    "TokenSpans",
    "Tokenized",
    "Tokenizer",
    "batch_picks",
    "batches",
    "tokenize",
]
