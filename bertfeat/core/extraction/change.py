"""The difference between a corpus and the parts that were made from it earlier, text by text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.core.corpus import Corpus, Document, text_digest
from bertfeat.core.extraction.sample import Reservoir
from bertfeat.core.features import StoredTexts
from bertfeat.errors import pluralize
from bertfeat.io import Location

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

_SAMPLE = 2000  # new documents that are tokenized, to tell how many tokens there are
_AT_ONCE = 4096  # documents that are looked up together


@dataclass(frozen=True, slots=True)
class CorpusChange:
    """The difference between a corpus and the texts that parts hold."""

    new: int  # documents whose text is not stored: edited, or new
    gone: int  # stored documents whose text the corpus no longer has
    moved: int  # documents whose text is stored, in other rows
    tokens: int  # of the new documents, estimated from 2,000 where there are more

    def __str__(self) -> str:
        if not (self.new or self.gone or self.moved):
            return "no text has changed, but ids or kept columns have"
        new = f"{pluralize(self.new, 'text')} edited or new (about {pluralize(self.tokens, 'token')} to compute)"
        return f"{new}, {self.gone:,} gone, {self.moved:,} moved"


def find_change(parts: Sequence[Location], corpus: Corpus, extractor: "Extractor") -> CorpusChange:
    """Read a corpus, and compare its texts with those that parts hold.

    Raises:
        FeatureSetError: a part holds no digests of its texts, or cannot be read.
        DamagedError: a part is damaged.
    """
    stored = StoredTexts.of_parts(parts)
    met = np.zeros(len(stored), np.bool_)
    new, moved, drawn = 0, 0, Reservoir[Document](_SAMPLE)
    documents = (row for row in corpus.rows() if isinstance(row, Document))
    while chunk := list(islice(documents, _AT_ONCE)):
        numbers = stored.find([text_digest(document) for document in chunk])
        met[numbers[numbers >= 0]] = True
        for document, number in zip(chunk, numbers.tolist(), strict=True):
            if number < 0:
                new += 1
                drawn.add(document)
            elif document.row not in stored.rows[stored.equals(number)]:
                moved += 1
    return CorpusChange(new, stored.count_unmet(met), moved, _estimate_tokens(drawn.items, new, extractor))


def _estimate_tokens(drawn: Sequence[Document], documents: int, extractor: "Extractor") -> int:
    """The tokens of so many documents, from a sample of them."""
    return round(extractor.tokenize_rows(drawn).token_count / len(drawn) * documents) if drawn else 0
