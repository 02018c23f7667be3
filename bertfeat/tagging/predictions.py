"""Files with gold and predicted tags side by side, as conlleval reads them and most taggers write them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.corpus import CorpusSettings, Document, Failure, open_corpus
from bertfeat.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Predictions:
    """The tags of each sentence: what they ought to be, and what a tagger made of them."""

    gold: tuple[tuple[str, ...], ...]
    predicted: tuple[tuple[str, ...], ...]


def read_predictions(path: str | Path, *, encoding: str | None = None) -> Predictions:
    """Read a file with a word a line, its gold tag in the last column but one, its predicted tag in the last.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags.
    """
    gold, predicted = (tuple(_column(path, column, encoding)) for column in ("-2", "-1"))
    if not gold:
        raise CorpusError(f"{path}: there are no sentences in it")
    seen = [sorted({tag for tags in sentences for tag in tags}) for sentences in (gold, predicted)]
    if not set(seen[0]) & set(seen[1]):
        raise CorpusError(
            f"{path}: the last two columns ought to be gold and predicted tags, but they have nothing in common, such "
            f"as {seen[0][0]!r} and {seen[1][0]!r}; a file of words and gold tags is given with a tagger, without "
            f"--predictions"
        )
    return Predictions(gold, predicted)


def _column(path: str | Path, column: str, encoding: str | None) -> Iterator[tuple[str, ...]]:
    for row in open_corpus([path], CorpusSettings("conll", encoding, tag_column=column)).rows():
        if isinstance(row, Failure):
            problem = row.reason.partition(";")[0]
            raise CorpusError(f"{problem}; a line is a word and, in its last two columns, gold and predicted tag")
        if isinstance(row, Document):
            yield row.tags or ()
