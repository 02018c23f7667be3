"""Corpora: text, JSONL, CSV, TSV, Parquet and CoNLL files, compressed or not, and Python lists, as documents.

A corpus streams: one larger than memory is normal. Rows that cannot be read are failures among the others; only a
file that cannot be read at all is an error.
"""

from bertfeat.corpus.document import MAX_TEXT, Blank, Corpus, Document, Failure, KeptColumn, Row, Value
from bertfeat.corpus.files import FileCorpus, open_corpus
from bertfeat.corpus.hopeless import refuse_hopeless
from bertfeat.corpus.memory import Item, MemoryCorpus, memory_corpus
from bertfeat.corpus.settings import FORMATS, CorpusSettings
from bertfeat.corpus.sources import ENDINGS

__all__ = [
    "ENDINGS",
    "FORMATS",
    "MAX_TEXT",
    "Blank",
    "Corpus",
    "CorpusSettings",
    "Document",
    "Failure",
    "FileCorpus",
    "Item",
    "KeptColumn",
    "MemoryCorpus",
    "Row",
    "Value",
    "memory_corpus",
    "open_corpus",
    "refuse_hopeless",
]
