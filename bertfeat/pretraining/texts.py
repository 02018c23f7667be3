"""The texts of a corpus in their order, and where its documents begin."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertfeat.corpus import BlankLine, CorpusSettings, Failure, FileCorpus, Row, check_readable, open_corpus
from bertfeat.errors import UsageError, parameter
from bertfeat.io import Location, quote_names

_NEVER = ("pair_column", "pairs", "keep")  # of how a corpus is read: a text is one text, and only its document is kept


@dataclass(frozen=True, slots=True)
class CorpusText:
    """A row of a corpus: a sentence or a paragraph."""

    text: str
    begins: bool  # whether a document begins with it


class CorpusTexts:
    """The texts of a corpus, from its start any number of times.

    A document is: consecutive rows with one value in ``document_column``; else, in text files, what blank lines
    separate; else a file. After a reading, ``failed``, ``first_failure`` and ``digest`` are those of its rows.
    """

    def __init__(
        self, corpus: str | Path | Sequence[str | Location], settings: CorpusSettings, document_column: str | None
    ) -> None:
        for name in _NEVER:
            if getattr(settings, name):
                raise UsageError(f"{parameter(name)} means nothing for pre-training", remedy="leave it out")
        paths = [corpus] if isinstance(corpus, str | Path) else list(corpus)
        if any(str(path) == "-" for path in paths):
            problem = "standard input can be read once, and pre-training reads a corpus several times"
            raise UsageError(problem, remedy="write it to a file")
        self._corpus = open_corpus(paths, settings)
        if document_column is not None:
            _check_column(self._corpus, document_column)
            self._corpus = open_corpus(paths, replace(settings, keep=(f"{document_column}:string",)))
        self._by_column = document_column is not None
        self.failed, self.first_failure, self.digest = 0, "", ""

    @property
    def fraction(self) -> float:
        """Share of the corpus that the newest reading has read, 0 to 1."""
        return self._corpus.fraction

    @property
    def stamps(self) -> tuple[str, ...]:
        """Name, size and time of each file: while they are equal, so is the corpus."""
        return tuple(f"{file.source.name} {file.source.stamp}" for file in self._corpus.files)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the files."""
        return self._corpus.sources

    def __iter__(self) -> Iterator[CorpusText]:
        """Read the texts."""
        self.failed, self.first_failure = 0, ""
        begins, before, digest = True, None, hashlib.sha256()
        for file, row in self._rows():
            if isinstance(row, Failure):
                self.failed, self.first_failure = self.failed + 1, self.first_failure or row.reason
                continue
            if isinstance(row, BlankLine):
                begins = begins or not self._by_column
                continue
            key = (row.kept if self._by_column else (), None if self._by_column else file)
            begins = begins or key != before
            digest.update(f"{begins:d}{len(row.text)} {row.text}".encode("utf-8", "surrogatepass"))
            yield CorpusText(row.text, begins)
            begins, before = False, key
        self.digest = digest.hexdigest()

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """The rows with the number of their file."""
        at = [0]

        def rows() -> Iterator[Row]:
            row = 0
            for number, read in enumerate(self._corpus.readings()):
                at[0], reading = number, read(row)
                yield from reading
                row += reading.position.record

        for row in check_readable(rows(), self._corpus):
            yield at[0], row


def _check_column(corpus: FileCorpus, column: str) -> None:
    for file in corpus.files:
        if not file.source.format.records:
            problem = f"{file.name} has no columns; blank lines separate its documents"
            raise UsageError(problem, where=parameter("document_column", column), remedy="leave it out")
    if column not in corpus.columns:
        remedy = f"the columns that there are: {quote_names(corpus.columns)}"
        raise UsageError("there is no such column", where=parameter("document_column", column), remedy=remedy)
