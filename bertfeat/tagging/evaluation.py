"""Predicted tags against gold ones, in a file that any tool wrote."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, errors_within
from bertfeat.tagging.prediction_files import TagPredictions, read_predictions
from bertfeat.tagging.schemes import OUTSIDE, detect_scheme
from bertfeat.tagging.scores import Scores, score_tags

STDIN = "-"


@displayed
@dataclass(frozen=True, slots=True)
class TagEvaluation:
    """The agreement of the predicted tags in a file with the gold ones beside them."""

    scores: Scores
    warnings: tuple[str, ...] = ()


@checked
def evaluate_predictions(path: str | Path, *, encoding: str | None = None) -> TagEvaluation:
    """Score a file of any tagger: a word a line, gold and predicted tag in the last two columns; ``"-"`` is stdin.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags of one kind.
    """
    if str(path) == STDIN:
        with stdin_copy() as copy:
            predictions = read_predictions(copy, name="standard input", encoding=encoding)
    else:
        predictions = read_predictions(path, encoding=encoding)
    with errors_within(path):
        scores = score_tags(predictions.gold, predictions.predicted)
    return TagEvaluation(scores, (*_warn_of_labels(predictions), *_warn_of_schemes(predictions)))


def _warn_of_labels(predictions: TagPredictions) -> tuple[str, ...]:
    """Say that no label is in both columns, which may be two others than are meant."""
    gold, predicted = _labels_in(predictions.gold), _labels_in(predictions.predicted)
    if not gold or not predicted or set(gold) & set(predicted):
        return ()
    return (
        f"the gold and the predicted tags, which are the last two columns, have no label in common, such as "
        f"{gold[0]!r} and {predicted[0]!r}",
    )


def _labels_in(sentences: Iterable[Sequence[str]]) -> list[str]:
    """The labels of tags, without their prefixes, sorted."""
    return sorted({tag.partition("-")[2] or tag for tags in sentences for tag in tags} - {OUTSIDE})


def _warn_of_schemes(predictions: TagPredictions) -> tuple[str, ...]:
    """Say that accuracy is of tags as written, where that makes a difference."""
    gold, predicted = detect_scheme(predictions.gold), detect_scheme(predictions.predicted)
    if not (gold.has_spans and predicted.has_spans and gold is not predicted):
        return ()
    return (
        f"the gold tags are {gold} and the predicted ones {predicted}: spans are compared all the same, but accuracy, "
        f"as conlleval has it, counts a tag as right only where both are written alike",
    )


@contextmanager
def stdin_copy(name: str = "stdin") -> Iterator[Path]:
    """Standard input as a file of that name, for as long as it is read.

    Raises:
        CorpusError: it is closed.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise CorpusError("standard input is closed, or no stream of bytes", remedy="give a file, or pipe something in")
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        with path.open("xb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path
