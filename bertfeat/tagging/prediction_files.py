"""Files with gold and predicted tags side by side, as conlleval reads them and most taggers write them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings, Document, Failure, open_corpus
from bertfeat.errors import CorpusError
from bertfeat.tagging.schemes import detect_scheme


@dataclass(frozen=True, slots=True)
class TagPredictions:
    """The tags of each sentence: gold ones and those that a tagger predicted."""

    gold: tuple[tuple[str, ...], ...]
    predicted: tuple[tuple[str, ...], ...]


@checked
def read_predictions(path: str | Path, *, encoding: str | None = None, name: str | None = None) -> TagPredictions:
    """Read a file with a word a line, its gold tag in the last column but one, its predicted tag in the last.

    ``name`` is what messages call the file, where it is a copy.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags of one kind.
    """
    where = name or str(path)
    words, gold, predicted = (tuple(_read_column(path, column, encoding, where)) for column in ("-3", "-2", "-1"))
    if not words:
        raise CorpusError("there are no sentences in it", where=where)
    for side, sentences in (("gold", gold), ("predicted", predicted)):
        try:
            detect_scheme(sentences)
        except CorpusError as error:
            raise error.within(f"{where}, {side} tags") from error
    return TagPredictions(gold, predicted)


def _read_column(path: str | Path, column: str, encoding: str | None, name: str) -> Iterator[tuple[str, ...]]:
    settings = CorpusSettings(format="conll", encoding=encoding, word_column="-3", tag_column=column)
    for row in open_corpus([path], settings, name=name).rows():
        if isinstance(row, Failure):
            missing, needed = "no column -3 for its words", "there must be three columns at least"
            problem = row.reason.partition(";")[0].replace(missing, needed)
            remedy = "a line is a word and, in its last two columns, gold and predicted tag"
            raise CorpusError(problem, remedy=remedy)
        if isinstance(row, Document):
            yield row.tags or ()
