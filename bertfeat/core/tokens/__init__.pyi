from .batches import (
    BatchGroups as BatchGroups,
    TokenBatch as TokenBatch,
    cut_batches as cut_batches,
    groups_in_batch as groups_in_batch,
    split_groups as split_groups,
    windows_of_groups as windows_of_groups,
)
from .layout import (
    Layout as Layout,
    TokenGroups as TokenGroups,
    TokenizedDocuments as TokenizedDocuments,
    TokenSpans as TokenSpans,
    tokenize as tokenize,
)
from .long_texts import split_texts as split_texts
from .pieces import TextPieces as TextPieces
from .sequences import Subword as Subword, TokenSettings as TokenSettings
from .tokenizer import (
    Tokenizer as Tokenizer,
    open_library_tokenizer as open_library_tokenizer,
    save_tokenizer as save_tokenizer,
)
from .windows import LongTextPolicy as LongTextPolicy
