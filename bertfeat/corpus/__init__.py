"""Corpora: text, JSONL, CSV, TSV, Parquet and CoNLL files, compressed or not, and Python lists, as documents.

A corpus is read as a stream, so it may be larger than memory. Rows that cannot be read become failures; only a file
that cannot be read at all is an error. :mod:`bertfeat.corpus.formats` is the table of the file formats.
"""

from bertfeat.corpus.compression import COMPRESSIONS
from bertfeat.corpus.document import (
    MAX_TEXT,
    RESERVED_COLUMNS,
    BlankLine,
    Corpus,
    Document,
    Failure,
    KeptColumn,
    Row,
    Value,
)
from bertfeat.corpus.files import FileCorpus, check_readable, open_corpus
from bertfeat.corpus.formats import ENDINGS, FORMATS, Format
from bertfeat.corpus.lines import BadLine, TextEncoding, read_lines
from bertfeat.corpus.memory import CorpusItem, MemoryCorpus, memory_corpus
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.corpus.sources import Source, find_sources, format_of
from bertfeat.corpus.summary import CorpusSummary, summarize_corpus

__all__ = [
    "COMPRESSIONS",
    "ENDINGS",
    "FORMATS",
    "MAX_TEXT",
    "RESERVED_COLUMNS",
    "BadLine",
    "BlankLine",
    "Corpus",
    "CorpusItem",
    "CorpusSettings",
    "CorpusSummary",
    "Document",
    "Failure",
    "FileCorpus",
    "Format",
    "KeptColumn",
    "MemoryCorpus",
    "Row",
    "Source",
    "TextEncoding",
    "Value",
    "check_readable",
    "find_sources",
    "format_of",
    "memory_corpus",
    "open_corpus",
    "read_lines",
    "summarize_corpus",
]
