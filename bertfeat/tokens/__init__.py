"""Documents → windows of token ids → batches; which tokens and words give which vectors."""

from bertfeat.tokens.batches import BatchGroups, TokenBatch, cut_batches, groups_in_batch
from bertfeat.tokens.layout import Layout, TokenGroups, TokenizedDocuments, TokenSpans, ranges, tokenize
from bertfeat.tokens.sequences import Subword, TokenSettings
from bertfeat.tokens.tokenizer import Tokenizer
from bertfeat.tokens.windows import LongTextPolicy

__all__ = [
    "BatchGroups",
    "Layout",
    "LongTextPolicy",
    "Subword",
    "TokenBatch",
    "TokenGroups",
    "TokenSettings",
    "TokenSpans",
    "TokenizedDocuments",
    "Tokenizer",
    "cut_batches",
    "groups_in_batch",
    "ranges",
    "tokenize",
]
