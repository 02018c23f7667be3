"""Rows with kept columns and texts, of feature sets or of a corpus: what is to be predicted is read from them."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from bertfeat.corpus import Corpus, Document, Failure
from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.training import describe_source

TextRow = tuple[str, str, str | None]
"""Id, text, and second text of a row."""


class ExampleTable(Protocol):
    """Rows, in order, as labels and texts are read of them."""

    @property
    def where(self) -> str:
        """What they are from, for messages."""

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the kept columns."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Rows that are not among them, since they could not be read or embedded."""

    def column(self, name: str) -> Iterator[tuple[int, object]]:
        """The values of a kept column, each after its row."""

    def texts(self) -> Iterator[TextRow]:
        """The texts of each row."""


class FeatureTable:
    """The rows of a feature set; a second set of the same rows brings second texts."""

    def __init__(self, sets: Sequence[FeatureSet]) -> None:
        self._sets = sets
        self.where = describe_source(sets[0])
        self.kept = tuple(column.name for column in sets[0].kept)
        self.failures = tuple(failure for features in sets for failure in features.failures())

    def column(self, name: str) -> Iterator[tuple[int, object]]:
        """The values of a kept column, each after its row; nothing else is read."""
        for batch in self._sets[0].stream(["row", name], batch_rows=8192):
            yield from zip(batch.column("row").to_pylist(), batch.column(name).to_pylist(), strict=True)

    def texts(self) -> Iterator[TextRow]:
        """The texts of each row.

        Raises:
            HeadError: texts are not stored.
        """
        for features in self._sets:
            if "text" not in features.names:
                raise HeadError("it holds no texts", where=describe_source(features), remedy="give the corpus")
        first = self._sets[0]
        names = [name for name in ("id", "text", "pair") if name in first.names]
        seconds = (text for batch in self._sets[-1].stream(["text"]) for text in batch.column("text").to_pylist())
        for batch in first.stream(names):
            for row in batch.to_pylist():
                yield row["id"], row["text"], next(seconds) if len(self._sets) == 2 else row.get("pair")


class CorpusTable:
    """The documents of a corpus, in memory; rows that cannot be read are ``failures``."""

    def __init__(self, corpus: Corpus) -> None:
        self.where = ", ".join(corpus.sources[:3]) or "the list"
        self.kept = tuple(column.name for column in corpus.kept)
        rows = list(corpus.rows())
        self.failures = tuple(row for row in rows if isinstance(row, Failure))
        self._documents = [row for row in rows if isinstance(row, Document)]
        if not self._documents:
            reason = f": {self.failures[0].reason}" if self.failures else ""
            raise HeadError(f"there is no row in it that can be read{reason}", where=self.where)

    def column(self, name: str) -> Iterator[tuple[int, object]]:
        """The values of a kept column, each after its row."""
        at = self.kept.index(name)
        for document in self._documents:
            yield document.row, document.kept[at]

    def texts(self) -> Iterator[TextRow]:
        """The texts of each row."""
        for document in self._documents:
            yield document.id, document.text, document.pair
