"""Corpora: text, JSONL, CSV, TSV, Parquet and CoNLL files, compressed or not, and Python lists, as documents.

A corpus streams: one larger than memory is normal. Rows that cannot be read are failures among the others; only a
file that cannot be read at all is an error.
"""

from bertfeat.corpus.document import MAX_TEXT, BlankLine, Corpus, Document, Failure, KeptColumn, Row, Value, shorten
from bertfeat.corpus.files import FileCorpus, open_corpus
from bertfeat.corpus.hopeless import check_readable
from bertfeat.corpus.lines import BadLine, TextEncoding, read_lines
from bertfeat.corpus.memory import CorpusItem, MemoryCorpus, memory_corpus
from bertfeat.corpus.settings import FORMATS, CorpusSettings
from bertfeat.corpus.sources import ENDINGS

__all__ = [
    "ENDINGS",
    "FORMATS",
    "MAX_TEXT",
    "BadLine",
    "BlankLine",
    "Corpus",
    "CorpusItem",
    "CorpusSettings",
    "Document",
    "Failure",
    "FileCorpus",
    "KeptColumn",
    "MemoryCorpus",
    "Row",
    "TextEncoding",
    "Value",
    "check_readable",
    "memory_corpus",
    "open_corpus",
    "read_lines",
    "shorten",
]
