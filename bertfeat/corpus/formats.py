"""The formats of corpus files: one table, which everything that depends on a format asks.

To add a format, write a file with its reader and add a line to :data:`FORMATS`; a package of its own names its
:class:`Format` in an entry point of the group ``bertfeat.formats``. A reader is a class that gives the rows of a file
from a position on: a :class:`~bertfeat.corpus.input_file.RowReader` (text, CoNLL). Records with named fields have a
:class:`~bertfeat.corpus.records.RecordReader`, which makes rows of them (CSV, Parquet, SQuAD); those of a line each a
:class:`~bertfeat.corpus.records.LineRecordReader` (JSONL).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from bertfeat.errors import UsageError, parameter

_RECORD_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "tag_column", "keep", "pretokenized"})
_QUESTION_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "keep"})
_TEXT_OPTIONS = frozenset({"pairs", "pretokenized"})
_SENTENCE_OPTIONS = frozenset({"word_column", "tag_column", "document_context"})
_SQUAD_BEGINNING = re.compile(
    r"""\s*\{\s*("version"\s*:\s*("[^"\\]*"|[0-9.]+)\s*,\s*)?"data"\s*:\s*\[\s*"""
    r"""\{\s*("title"\s*:\s*("([^"\\]|\\.)*"|null)\s*,\s*)?"paragraphs"\s*:\s*\["""
)
_GROUP = "bertfeat.formats"


@dataclass(frozen=True, slots=True)
class Format:
    """A format of corpus files."""

    name: str
    endings: tuple[str, ...]  # of file names, below the ending of a compression
    reader: str  # "package.module:class"; imported when a file of the format is opened
    options: frozenset[str] = _RECORD_OPTIONS  # the fields of CorpusSettings that the format takes
    records: bool = True  # its records have named fields: the reader is a RecordReader
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
        Format("text", (".txt", ".text"), "bertfeat.corpus.text:TextReader", _TEXT_OPTIONS, records=False),
        Format("jsonl", (".jsonl", ".ndjson", ".json"), "bertfeat.corpus.jsonl:JsonlReader"),
        Format("csv", (".csv",), "bertfeat.corpus.delimited:CsvReader", cells=True),
        Format("tsv", (".tsv", ".tab"), "bertfeat.corpus.delimited:TsvReader", cells=True),
        Format("parquet", (".parquet", ".pq"), "bertfeat.corpus.parquet:ParquetReader", binary=True),
        Format(
            "conll",
            (".conll", ".iob", ".iob2", ".bio"),
            "bertfeat.corpus.conll:ConllReader",
            _SENTENCE_OPTIONS,
            records=False,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "conllu",
            (".conllu", ".conllup"),
            "bertfeat.corpus.conll:ConlluReader",
            _SENTENCE_OPTIONS,
            records=False,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "fasta",
            (".fasta", ".fa", ".faa", ".fas"),
            "bertfeat.corpus.fasta:FastaReader",
            frozenset({"keep"}),
            brings_words=True,
            texts=("sequence",),
        ),
        Format(
            "squad",
            (),  # its files end in .json
            "bertfeat.corpus.squad:SquadReader",
            _QUESTION_OPTIONS,
            texts=("question",),
            pair="context",
            beginning=_SQUAD_BEGINNING,
        ),
    )
}
"""The formats of this room by name."""


@cache
def all_formats() -> Mapping[str, Format]:
    """The formats of this room and those that packages register as entry points of the group ``bertfeat.formats``.

    An entry point names a :class:`Format`.

    Raises:
        UsageError: it cannot be loaded, or names something else, or a format with the name or an ending of another one.
    """
    from bertfeat.io import CORRECT_EXTENSION, load_extensions  # here, so that the help stays light

    formats = dict(FORMATS)
    for place, made in load_extensions(_GROUP, UsageError):
        if not isinstance(made, Format):
            raise UsageError(f"this entry point of {_GROUP} is no Format", where=place, remedy=CORRECT_EXTENSION)
        for other in formats.values():
            if taken := {made.name, *made.endings} & {other.name, *other.endings}:
                problem = f"two formats have the name or ending {min(taken)}"
                raise UsageError(problem, where=place, remedy=CORRECT_EXTENSION)
        formats[made.name] = made
    return formats


def format_named(name: str) -> Format:
    """The format of that name; one that there is not is refused."""
    found = FORMATS.get(name) or all_formats().get(name)
    if found is None:
        problem = f"not a format; there are {', '.join(all_formats())}"
        raise UsageError(problem, where=parameter("format", name), remedy="name one of these, or install its package")
    return found


def format_with_ending(ending: str) -> Format | None:
    """The format of files whose names have that ending, such as ``.txt``; None where there is none."""
    own = next((found for found in FORMATS.values() if ending in found.endings), None)
    if own is not None or not ending:
        return own
    return next((found for found in all_formats().values() if ending in found.endings), None)


def recognize_format(by_ending: Format, beginning: str) -> Format:
    """The format of a file with an ending that several have, by how its text begins."""
    if by_ending.name != "jsonl":
        return by_ending
    others = (other for other in FORMATS.values() if other.beginning and other.beginning.match(beginning))
    return next(others, by_ending)
