"""The table of corpus file formats: the name, file endings, reader and options of each.

To add a format, write a module with its reader and add a line to :data:`FORMATS`. A separate package registers its
:class:`Format` as an entry point of the group ``bertfeat.formats``.

A reader is a class that yields the rows of a file from a given position on. Text and CoNLL have a
:class:`~bertfeat.core.corpus.input_file.RowReader`. Formats whose records have named fields have a
:class:`~bertfeat.core.corpus.records.RecordReader`, which turns records into rows (CSV, Parquet, JSON arrays, SQuAD),
or, with one record per line, a :class:`~bertfeat.core.corpus.records.LineRecordReader` (JSONL).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from bertfeat.errors import UsageError, parameter

_RECORD_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "tag_column", "keep", "pretokenized", "split"})
_SQUAD_OPTIONS = frozenset({"text_columns", "pair_column", "id_column", "keep", "split"})
_TEXT_OPTIONS = frozenset({"pairs", "pretokenized", "split"})
_CONLL_OPTIONS = frozenset({"word_column", "tag_column", "document_context"})
# {"version": …, "data": [{"title": …, "paragraphs": [
_SQUAD_BEGINNING = re.compile(
    r"""\s*\{\s*("version"\s*:\s*("[^"\\]*"|[0-9.]+)\s*,\s*)?"data"\s*:\s*\[\s*"""
    r"""\{\s*("title"\s*:\s*("([^"\\]|\\.)*"|null)\s*,\s*)?"paragraphs"\s*:\s*\["""
)
_GROUP = "bertfeat.formats"  # of entry points


@dataclass(frozen=True, slots=True)
class Format:
    """A format of corpus files."""

    name: str
    endings: tuple[str, ...]  # of file names, without that of a compression such as .gz
    reader: str  # "package.module:class"; imported when a file of the format is opened
    options: frozenset[str] = _RECORD_OPTIONS  # the fields of CorpusSettings that the format takes
    records: bool = True  # its records have named fields: the reader is a RecordReader
    cells: bool = False  # all fields are strings, which may stand for numbers and truth values
    brings_words: bool = False  # documents bring their own words
    brings_tags: bool = False  # documents bring a tag for each word
    binary: bool = False  # the file has no text encoding, and is not compressed as a whole
    texts: tuple[str, ...] = ()  # default text columns, if not "text"
    pair: str | None = None  # default pair column, used where no text columns are named either
    beginning: re.Pattern[str] | None = None  # how files of this format begin that have JSONL's ending


FORMATS: Mapping[str, Format] = {
    file_format.name: file_format
    for file_format in (
        Format("text", (".txt", ".text"), "bertfeat.core.corpus.text:TextReader", _TEXT_OPTIONS, records=False),
        Format(
            "paragraphs",
            (),  # its files end in .txt
            "bertfeat.core.corpus.paragraphs:ParagraphReader",
            frozenset({"pretokenized", "split"}),
            records=False,
        ),
        Format("jsonl", (".jsonl", ".ndjson", ".json"), "bertfeat.core.corpus.jsonl:JsonlReader"),
        Format(
            "json",
            (),  # its files end in .json
            "bertfeat.core.corpus.json_array:JsonArrayReader",
            beginning=re.compile(r"\s*\["),
        ),
        Format("csv", (".csv",), "bertfeat.core.corpus.delimited:CsvReader", cells=True),
        Format("tsv", (".tsv", ".tab"), "bertfeat.core.corpus.delimited:TsvReader", cells=True),
        Format("parquet", (".parquet", ".pq"), "bertfeat.core.corpus.parquet:ParquetReader", binary=True),
        Format(
            "conll",
            (".conll", ".iob", ".iob2", ".bio"),
            "bertfeat.core.corpus.conll:ConllReader",
            _CONLL_OPTIONS,
            records=False,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "conllu",
            (".conllu", ".conllup"),
            "bertfeat.core.corpus.conll:ConlluReader",
            _CONLL_OPTIONS,
            records=False,
            brings_words=True,
            brings_tags=True,
        ),
        Format(
            "fasta",
            (".fasta", ".fa", ".faa", ".fas"),
            "bertfeat.core.corpus.fasta:FastaReader",
            frozenset({"keep"}),
            brings_words=True,
            texts=("sequence",),
        ),
        Format(
            "squad",
            (),  # its files end in .json
            "bertfeat.core.corpus.squad:SquadReader",
            _SQUAD_OPTIONS,
            texts=("question",),
            pair="context",
            beginning=_SQUAD_BEGINNING,
        ),
    )
}
"""The built-in formats by name."""


@cache
def all_formats() -> Mapping[str, Format]:
    """The built-in formats, and those that packages register as entry points of the group ``bertfeat.formats``.

    Each entry point names a :class:`Format`.

    Raises:
        UsageError: an entry point cannot be loaded, is no :class:`Format`, or has another format's name or ending.
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
    """Find a format by its name; an unknown name is refused."""
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
    """Choose between JSONL and the formats that share its endings, by how the text of a file begins."""
    if by_ending.name != "jsonl":
        return by_ending
    others = (other for other in FORMATS.values() if other.beginning and other.beginning.match(beginning))
    return next(others, by_ending)
