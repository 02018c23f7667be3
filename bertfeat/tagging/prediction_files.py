"""Files with gold and predicted tags side by side, as conlleval reads them and most taggers write them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.corpus import CorpusSettings, Document, Failure, open_corpus
from bertfeat.errors import CorpusError
from bertfeat.tagging.schemes import OUTSIDE, detect_scheme


@dataclass(frozen=True, slots=True)
class TagPredictions:
    """The tags of each sentence: what they ought to be, and what a tagger made of them."""

    gold: tuple[tuple[str, ...], ...]
    predicted: tuple[tuple[str, ...], ...]


def read_predictions(path: str | Path, *, encoding: str | None = None) -> TagPredictions:
    """Read a file with a word a line, its gold tag in the last column but one, its predicted tag in the last.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags of one kind.
    """
    words, gold, predicted = (tuple(_read_tag_column(path, column, encoding)) for column in ("-3", "-2", "-1"))
    if not words:
        raise CorpusError(f"{path}: there are no sentences in it")
    for name, sentences in (("gold", gold), ("predicted", predicted)):
        try:
            detect_scheme(sentences)
        except CorpusError as error:
            raise CorpusError(f"{path}, {name} tags, {error}") from error
    seen = [
        sorted({_label_of_column(tag) for tags in sentences for tag in tags} - {OUTSIDE})
        for sentences in (gold, predicted)
    ]
    if all(seen) and not set(seen[0]) & set(seen[1]):
        raise CorpusError(
            f"{path}: the last two columns ought to be gold and predicted tags, but they have nothing in common, such "
            f"as {seen[0][0]!r} and {seen[1][0]!r}"
        )
    return TagPredictions(gold, predicted)


def _label_of_column(tag: str) -> str:
    return tag.partition("-")[2] or tag


def _read_tag_column(path: str | Path, column: str, encoding: str | None) -> Iterator[tuple[str, ...]]:
    for row in open_corpus([path], CorpusSettings("conll", encoding, tag_column=column)).rows():
        if isinstance(row, Failure):
            problem = row.reason.partition(";")[0].replace("words but no tags", "there must be three columns at least")
            raise CorpusError(f"{problem}; a line is a word and, in its last two columns, gold and predicted tag")
        if isinstance(row, Document):
            yield row.tags or ()
