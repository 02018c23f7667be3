"""The formats of corpus files: one table, which everything that depends on a format asks.

To add a format, write a file with its reader and add a line to :data:`FORMATS`. A reader is a class that gives the rows
of a file from a position on: a :class:`~bertfeat.corpus.input_file.RowReader` (text, CoNLL). One of records with named
fields is a :class:`~bertfeat.corpus.tables.RecordReader`, which makes the rows of them (JSONL, CSV, Parquet, SQuAD).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_RECORD_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "tag_column", "keep", "pretokenized"})
_QUESTION_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "keep"})
_SENTENCE_OPTIONS = frozenset({"word_column", "tag_column", "document_context"})
_SQUAD_BEGINNING = re.compile(
    r"""\s*\{\s*("version"\s*:\s*("[^"\\]*"|[0-9.]+)\s*,\s*)?"data"\s*:\s*\[\s*"""
    r"""\{\s*("title"\s*:\s*("([^"\\]|\\.)*"|null)\s*,\s*)?"paragraphs"\s*:\s*\["""
)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of corpus files."""

    name: str
    endings: tuple[str, ...]  # of file names, below the ending of a compression
    reader: str  # "module:class" in bertfeat.corpus; imported when a file of the format is opened
    options: frozenset[str]  # the fields of CorpusSettings that the format takes
    records: bool = False  # its records have named fields: the reader is a RecordReader
    cells: bool = False  # whose fields are all strings, which may stand for numbers and truth values
    brings_words: bool = False  # documents bring their own words
    brings_tags: bool = False  # and a tag for each
    binary: bool = False  # the file has no text encoding, and is not compressed as a whole
    texts: tuple[str, ...] = ()  # the text columns where none are named, if not "text"
    pair: str | None = None  # the pair column, where neither that nor text columns are named
    beginning: re.Pattern[str] | None = None  # of files that are not what their ending, JSONL's, says


FORMATS: Mapping[str, Format] = {
    file_format.name: file_format
    for file_format in (
        Format("text", (".txt", ".text"), "text:TextReader", frozenset({"pairs", "pretokenized"})),
        Format("jsonl", (".jsonl", ".ndjson", ".json"), "jsonl:JsonlReader", _RECORD_OPTIONS, records=True),
        Format("csv", (".csv",), "delimited:CsvReader", _RECORD_OPTIONS, records=True, cells=True),
        Format("tsv", (".tsv", ".tab"), "delimited:TsvReader", _RECORD_OPTIONS, records=True, cells=True),
        Format("parquet", (".parquet", ".pq"), "parquet:ParquetReader", _RECORD_OPTIONS, records=True, binary=True),
        Format(
            "conll",
            (".conll", ".iob", ".iob2", ".bio"),
            "conll:ConllReader",
            _SENTENCE_OPTIONS,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "conllu",
            (".conllu", ".conllup"),
            "conll:ConlluReader",
            _SENTENCE_OPTIONS,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "fasta",
            (".fasta", ".fa", ".faa", ".fas"),
            "fasta:FastaReader",
            frozenset({"keep"}),
            records=True,
            brings_words=True,
            texts=("sequence",),
        ),
        Format(
            "squad",
            (),  # its files end in .json
            "squad:SquadReader",
            _QUESTION_OPTIONS,
            records=True,
            texts=("question",),
            pair="context",
            beginning=_SQUAD_BEGINNING,
        ),
    )
}
"""The formats by name; ``CorpusSettings.format`` may be any of these names."""

ENDINGS: Mapping[str, Format] = {
    ending: file_format for file_format in FORMATS.values() for ending in file_format.endings
}
"""The format of a file by the ending of its name."""


def recognise_format(by_ending: Format, beginning: str) -> Format:
    """The format of a file with an ending that several have, by how its text begins."""
    if by_ending.name != "jsonl":
        return by_ending
    others = (other for other in FORMATS.values() if other.beginning and other.beginning.match(beginning))
    return next(others, by_ending)
