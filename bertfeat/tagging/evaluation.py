"""Predicted tags against gold ones: those of a tagger of ours, or any tool's file of both."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bertfeat.corpus import CorpusSettings, Failure
from bertfeat.errors import CorpusError, UsageError, errors_within
from bertfeat.features import FeatureSet
from bertfeat.tagging.datasets import SentenceSource
from bertfeat.tagging.prediction import STDIN, open_tagger, predict_tags
from bertfeat.tagging.prediction_files import TagPredictions, read_predictions
from bertfeat.tagging.schemes import detect_scheme
from bertfeat.tagging.scores import Scores, score_tagger, score_tags
from bertfeat.tagging.tagger import Tagger


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """How predicted tags agree with gold ones."""

    scores: Scores
    failures: tuple[Failure, ...] = ()  # rows that could not be scored
    unknown: tuple[str, ...] = ()  # gold tags that the tagger never learnt
    warnings: tuple[str, ...] = ()


def evaluate_tagger(
    tagger: str | Path | Tagger,
    source: SentenceSource,
    *,
    corpus_settings: CorpusSettings | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> EvaluationReport:
    """Score a tagger on a corpus file with tags, a tagged feature set, or standard input (``"-"``).

    Raises:
        UsageError: the source has no tags, or no sentences.
        TaggerError, CorpusError: see :func:`bertfeat.tagging.predict_tags`.
    """
    tagger = open_tagger(tagger, model=model, device=device)
    name = source.folder if isinstance(source, FeatureSet) else source
    gold: list[tuple[str, ...]] = []
    predicted: list[tuple[str, ...]] = []
    failures: list[Failure] = []
    for row in predict_tags(tagger, source, corpus_settings=corpus_settings, with_gold=True, model=model):
        if isinstance(row, Failure):
            failures.append(row)
        elif row.gold is None:
            raise UsageError(f"{name} has no tags to compare with", remedy="tags are predicted without them, too")
        else:
            gold.append(row.gold)
            predicted.append(row.tags)
    with errors_within(name):
        scores = score_tagger(gold, predicted)
    return EvaluationReport(scores, tuple(failures), tuple(tagger.labels.unknown(gold)))


def evaluate_predictions(path: str | Path, *, encoding: str | None = None) -> EvaluationReport:
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
    return EvaluationReport(scores, warnings=_warn_of_schemes(predictions))


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
