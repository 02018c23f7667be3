"""The settings for reading a corpus, checked when they are created."""

import codecs
from dataclasses import dataclass, replace
from typing import Annotated

from bertfeat.arguments import checked
from bertfeat.core.corpus.formats import FORMATS, Format, format_named
from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option

_NOT_FOR_FILES = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")


@checked
@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """The settings by which the files of a corpus, or the items of a list, become documents.

    Raises:
        UsageError: an unknown format or encoding, or options that exclude each other.
    """

    text_columns: Annotated[
        tuple[str, ...],
        Option(
            "Column of the text, in files with columns; several are joined by a space.",
            default="text; of SQuAD question",
            metavar="COL[,COL]",
            basic=True,
        ),
    ] = ()
    keep: Annotated[
        tuple[str, ...],
        Option(
            "Columns to keep beside the features, NAME or NAME:type, or all; file is the name of the file.",
            metavar="COL[,COL]",
            basic=True,
        ),
    ] = ()
    metadata: Annotated[
        str | None,
        Option(
            "A table whose first column names the files; its columns are kept, or those of them that --keep names.",
            metavar="TABLE",
        ),
    ] = None
    split: Annotated[
        str | None,
        Option(
            "sentences, paragraphs, words:200[:50] or column:NAME: each a document of its own, embedded alone.",
            default="whole texts",
            metavar="RULE",
            basic=True,
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(f"{', '.join(FORMATS)}; otherwise by the file's ending and beginning.", metavar="NAME"),
    ] = None
    encoding: Annotated[
        str | None,
        Option(
            "Encoding of the files.", default="UTF-8, or UTF-16 and UTF-32 by their byte order mark", metavar="NAME"
        ),
    ] = None
    id_column: Annotated[
        str | None,
        Option("Column of the documents' ids.", default="id or _id, else the record's number", metavar="COL"),
    ] = None
    pair_column: Annotated[
        str | None, Option("Column of the second text of a pair.", default="none; of SQuAD context", metavar="COL")
    ] = None
    pairs: Annotated[bool, Option("Lines of text are pairs, written: first ||| second.")] = False
    pretokenized: Annotated[
        bool, Option("Texts are split into words already, by white space or as lists; lists of numbers are token ids.")
    ] = False
    word_column: Annotated[
        str | None,
        Option(
            "In CoNLL the number of the words' column, -1 for the last.",
            default="1; in CoNLL-U 2, or FORM",
            metavar="COL",
        ),
    ] = None
    tag_column: Annotated[
        str | None,
        Option("Column of the words' tags: lists; in CoNLL the column's number, -1 for the last.", metavar="COL"),
    ] = None
    document_context: Annotated[
        bool, Option("Compute each CoNLL sentence with its neighbors in the -DOCSTART- document.")
    ] = False

    def __post_init__(self) -> None:
        if self.format is not None:
            format_named(self.format)
        if self.encoding is not None:
            _check_encoding(self.encoding)
        pairs, pair_column = parameter("pairs"), parameter("pair_column")
        if (self.pairs or self.pair_column is not None) and self.pretokenized:
            raise UsageError(
                f"{parameter('pretokenized')} cannot be used with {pairs} or {pair_column}: words are for one text"
            )
        if self.pairs and self.pair_column is not None:
            raise UsageError(
                f"{pairs} is for lines of text written 'a ||| b', {pair_column} for records", remedy="give one of them"
            )
        if self.split is not None:
            self._check_split(self.split)
        if "all" in self.keep and len(self.keep) > 1:
            others = ", ".join(name for name in self.keep if name != "all")
            raise UsageError("it keeps every column", where=parameter("keep", ("all",)), remedy=f"leave out {others}")

    def _check_split(self, split: str) -> None:
        """Refuse an unknown rule, and what is not one running text."""
        from bertfeat.core.spans import SpanRule  # NumPy, which help does without

        try:
            SpanRule.parse(split)
        except UsageError as error:
            raise UsageError(error.problem, where=parameter("split", split), remedy=error.remedy) from error
        if self.has_pairs or self.pretokenized:
            what = "pairs are two texts" if self.has_pairs else f"{parameter('pretokenized')} brings words"
            remedy = f"leave one of the two out, or name the column of the texts with {parameter('text_columns')}"
            raise UsageError(f"it splits running text, and {what}", where=parameter("split", split), remedy=remedy)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that make up the text."""
        return self.text_columns or ("text",)

    @property
    def has_pairs(self) -> bool:
        """Whether documents are pairs of texts."""
        return self.pairs or self.pair_column is not None

    def with_defaults(self, file_format: Format) -> "CorpusSettings":
        """The same settings; if no text columns are named, with the format's, and its pair column if none is named."""
        if self.text_columns or not file_format.texts:
            return self
        return replace(self, text_columns=file_format.texts, pair_column=self.pair_column or file_format.pair)

    def has_words(self, file_format: Format) -> bool:
        """Whether a file of the format brings its own words."""
        return self.pretokenized or file_format.brings_words

    def has_tags(self, file_format: Format) -> bool:
        """Whether a file of the format brings tags."""
        return self.tag_column is not None or file_format.brings_tags

    def check_for(self, file_format: Format, name: str) -> None:
        """Refuse options that mean nothing for the file ``name`` of the format."""
        unused = [option for option in self._set_options() if option not in file_format.options]
        if unused:
            options = ", ".join(parameter(option) for option in unused)
            remedy = f"leave {'it' if len(unused) == 1 else 'them'} out, or choose another {parameter('format')}"
            raise UsageError(f"{options} cannot be used with {file_format.name} files", where=name, remedy=remedy)
        if self.split is not None and file_format.brings_words:
            problem = f"it splits running text, and {file_format.name} files bring words"
            raise UsageError(problem, where=f"{name}: {parameter('split', self.split)}", remedy="leave it out")
        if (self.split or "").startswith("column:") and not file_format.records:
            problem = f"{file_format.name} files have no columns"
            raise UsageError(problem, where=f"{name}: {parameter('split', self.split)}", remedy="split by another rule")
        if self.tag_column is not None and file_format.records and not self.pretokenized:
            needed = parameter("pretokenized", True)
            raise UsageError(f"{parameter('tag_column')} needs {needed}: tags belong to given words", where=name)
        for option, column in (("word_column", self.word_column), ("tag_column", self.tag_column)):
            if column is not None and file_format.brings_tags and not _is_column_number(column):
                raise UsageError(
                    "for CoNLL a column number, 1 for the first or -1 for the last",
                    where=f"{name}: {parameter(option, column)}",
                )

    def _set_options(self) -> list[str]:
        options = {
            "text_columns": bool(self.text_columns),
            "pair_column": self.pair_column is not None,
            "id_column": self.id_column is not None,
            "word_column": self.word_column is not None,
            "tag_column": self.tag_column is not None,
            "pairs": self.pairs,
            "pretokenized": self.pretokenized,
            "document_context": self.document_context,
            "split": self.split is not None,
        }
        return [option for option, is_set in options.items() if is_set]


def _is_column_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) > 0


def _check_encoding(name: str) -> None:
    try:
        known = (
            name.isprintable()
            and codecs.lookup(name).name.replace("_", "-") not in _NOT_FOR_FILES
            and len("\n".encode(name)) > 0
        )
    except (LookupError, UnicodeError, ValueError):  # unknown, a codec from bytes to bytes, or with a NUL in its name
        known = False
    if not known:
        raise UsageError(
            "not an encoding of text files that Python knows",
            where=parameter("encoding", name),
            remedy="try utf-8 or cp1252",
        )
