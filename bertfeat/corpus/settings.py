"""How a corpus is read: the options, checked when they are put together."""

import codecs
from dataclasses import dataclass

from bertfeat.errors import UsageError

FORMATS = ("text", "jsonl", "csv", "tsv", "parquet", "conll", "conllu")
"""The formats that ``CorpusSettings.format`` may name."""

_RECORDS = ("jsonl", "csv", "tsv", "parquet")  # formats whose records have named fields
_SENTENCES = ("conll", "conllu")
_NOT_FOR_FILES = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")


@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """How the files of a corpus, or the items of a list, become documents.

    Raises:
        UsageError: an unknown format or encoding, or options that exclude each other.
    """

    format: str | None = None  # one of FORMATS; None: by the file's ending, else text
    encoding: str | None = None  # None: UTF-8, or UTF-16 and UTF-32 by their byte order mark
    text_columns: tuple[str, ...] = ()  # default "text"; several are joined by one space
    pair_column: str | None = None
    id_column: str | None = None  # default "id" or "_id" where there is one, else the number of the record
    tag_column: str | None = None  # a column of lists; CoNLL: 1-based column number, negative from the end
    keep: tuple[str, ...] = ()  # NAME or NAME:type, or just "all"
    pairs: bool = False  # text lines are written "a ||| b"
    pretokenized: bool = False  # text and CSV: words between white space; JSONL and Parquet: lists of strings
    document_context: bool = False  # CoNLL: give each sentence its neighbours in the -DOCSTART- document

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise UsageError(f"--format {self.format}: not a format; there are {', '.join(FORMATS)}")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if (self.pairs or self.pair_column is not None) and self.pretokenized:
            raise UsageError("--pretokenized does not go with --pairs or --pair-column: words are given for one text")
        if self.pairs and self.pair_column is not None:
            raise UsageError("--pairs is for lines of text written 'a ||| b', --pair-column for records: give one")
        if "all" in self.keep and len(self.keep) > 1:
            raise UsageError(f"--keep all keeps every column: leave out {', '.join(self.keep)} or 'all'")

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that make up the text."""
        return self.text_columns or ("text",)

    @property
    def has_pairs(self) -> bool:
        """Whether documents are pairs of texts."""
        return self.pairs or self.pair_column is not None

    def has_words(self, kind: str) -> bool:
        """Whether a file of the format ``kind`` brings its own words."""
        return self.pretokenized or kind in _SENTENCES

    def has_tags(self, kind: str) -> bool:
        """Whether a file of the format ``kind`` brings tags."""
        return kind in _SENTENCES or self.tag_column is not None

    def check_for(self, kind: str, name: str) -> None:
        """Refuse options that mean nothing for the file ``name`` of the format ``kind``.

        Raises:
            UsageError: names the file and the option.
        """
        misfits = ", ".join(self._misfits(kind))
        if misfits:
            raise UsageError(f"{name}: {misfits} cannot be used with {kind} files; --format names another format")
        if kind in _RECORDS and self.tag_column is not None and not self.pretokenized:
            raise UsageError(f"{name}: --tag-column needs --pretokenized: tags belong to given words")
        if kind in _SENTENCES and self.tag_column is not None and not _is_column_number(self.tag_column):
            raise UsageError(
                f"{name}: --tag-column {self.tag_column}: for CoNLL a column number, 1 for the first or -1 for the last"
            )

    def _misfits(self, kind: str) -> list[str]:
        records, sentences = kind in _RECORDS, kind in _SENTENCES
        given = {
            "--text-column": bool(self.text_columns) and not records,
            "--pair-column": self.pair_column is not None and not records,
            "--id-column": self.id_column is not None and not records,
            "--keep": bool(self.keep) and not records,
            "--tag-column": self.tag_column is not None and kind == "text",
            "--pairs": self.pairs and kind != "text",
            "--document-context": self.document_context and not sentences,
        }
        return [option for option, wrong in given.items() if wrong]


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
    except (LookupError, UnicodeError, ValueError):  # unknown, one from bytes to bytes, or with a NUL in its name
        known = False
    if not known:
        raise UsageError(f"--encoding {name}: not an encoding of text files that Python knows; try utf-8 or cp1252")
