"""Files with gold and predicted tags side by side, as conlleval reads them and most taggers write them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings, Document, Failure, open_corpus
from bertfeat.errors import CorpusError
from bertfeat.tagging.schemes import OUTSIDE, detect_scheme


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
    first, second = _labels_in(gold), _labels_in(predicted)
    if first and second and not set(first) & set(second):
        raise CorpusError(
            f"the last two columns ought to be gold and predicted tags, but they have nothing in common, such as "
            f"{first[0]!r} and {second[0]!r}",
            where=where,
        )
    return TagPredictions(gold, predicted)


def _labels_in(sentences: Iterable[Sequence[str]]) -> list[str]:
    """The labels of tags, without their prefixes, sorted."""
    return sorted({tag.partition("-")[2] or tag for tags in sentences for tag in tags} - {OUTSIDE})


def _read_column(path: str | Path, column: str, encoding: str | None, name: str) -> Iterator[tuple[str, ...]]:
    settings = CorpusSettings(format="conll", encoding=encoding, tag_column=column)
    for row in open_corpus([path], settings, name=name).rows():
        if isinstance(row, Failure):
            problem = row.reason.partition(";")[0].replace("words but no tags", "there must be three columns at least")
            remedy = "a line is a word and, in its last two columns, gold and predicted tag"
            raise CorpusError(problem, remedy=remedy)
        if isinstance(row, Document):
            yield row.tags or ()
