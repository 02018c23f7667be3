"""Documents → windows of token ids, word alignment, offsets; token-budget batches."""

from bertfeat.tokens.batches import Batch, BatchPicks, batch_picks, batches
from bertfeat.tokens.layout import Layout, Listing, Picks, Tokenized, tokenize
from bertfeat.tokens.sequences import Subword, TokenSettings
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.tokens.windows import Long

__all__ = [
    "Batch",
    "BatchPicks",
    "Layout",
    "Listing",
    "Long",
    "Picks",
    "Subword",
    "TokenSettings",
    "Tokenized",
    "Tokenizer",
    "batch_picks",
    "batches",
    "tokenize",
]
