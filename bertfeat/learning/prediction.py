"""One call each to write the predictions of a saved head and to score them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings, Failure
from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import output_file, real_path
from bertfeat.learning.datasets import HeadSource, open_sets
from bertfeat.learning.head import Head
from bertfeat.learning.kinds import HeadKind, Work, refuse_unread_options
from bertfeat.learning.tag_files import MarkSpan, PredictionForm
from bertfeat.learning.task import HeadScores


@displayed
@dataclass(frozen=True, slots=True)
class HeadEvaluation:
    """The agreement of a head's predictions with gold values."""

    scores: HeadScores
    failures: tuple[Failure, ...]  # rows that could not be scored
    unknown: tuple[str, ...]  # gold labels that the head never learned


@displayed
@dataclass(frozen=True, slots=True)
class PredictionReport:
    """The counts of written predictions, and the failures."""

    rows: int
    empty: int  # of them without words, of which CoNLL has nothing
    failures: tuple[Failure, ...]  # rows that could not be read or embedded


@checked
def evaluate_head(
    head: str | Path | Head,
    source: HeadSource,
    *,
    kind: HeadKind | str | None = None,
    label: str | None = None,
    choices: tuple[str, ...] = (),
    corpus_settings: CorpusSettings | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> HeadEvaluation:
    """Score a head on a corpus file or feature sets that say what is right.

    ``label`` and ``choices`` are columns; by default those of the training corpus.

    Raises:
        HeadError: the source does not say what is right; or see :meth:`Head.predict`.
    """
    refuse_unread_options(Work.on([open_sets(source)]), reading=corpus_settings, model=model)
    opened = open_head(head, kind, model=model, device=device)
    predictions = opened.predict(source, corpus_settings=corpus_settings, label=label, choices=choices, needs_gold=True)
    if predictions.scores is None:
        raise HeadError("there is no example in it", where=source.folder if isinstance(source, FeatureSet) else source)
    gold = [row.gold for row in predictions.rows if row.gold is not None]
    return HeadEvaluation(predictions.scores, predictions.failures, opened.task.unknown(gold))


@checked
def write_predictions(
    head: str | Path | Head,
    source: HeadSource,
    out: str | Path | Callable[[str], object],
    *,
    kind: HeadKind | str | None = None,
    to: PredictionForm | None = None,
    mark: MarkSpan | None = None,
    choices: tuple[str, ...] = (),
    corpus_settings: CorpusSettings | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> PredictionReport:
    """Predict for a source and write it row after row to ``out``: a file, or a function called with each text.

    ``to`` is ``jsonl`` (an object a row); of taggers ``conll`` (default: a word and its tag a line, and an empty line
    after each text) or ``text`` (each text on a line, its spans marked by ``mark``, by default in brackets), too. What
    is right is not read, so that rows without a label are predicted, too. A file appears whole or not at all.

    Raises:
        UsageError: ``out`` is the source; there is no such form, or it cannot hold a text.
        StorageError: the file cannot be written.
        HeadError, CorpusError: see :meth:`Head.predict`.
    """
    if not callable(out) and isinstance(source, str | Path) and real_path(out) == real_path(source):
        raise UsageError(
            f"{out} is what is read, and would be lost", remedy=f"name another file with {parameter('out')}"
        )
    sets = open_sets(source)
    refuse_unread_options(Work.on([sets]), reading=corpus_settings, model=model)
    opened = open_head(head, kind, model=model, device=device)
    read = choices
    if opened.record.kind is HeadKind.CHOOSE and not isinstance(sets, Path):
        read = ()  # the columns of sets are read already, and only named
    write = opened.task.writer(to, choices or opened.record.columns.choices, mark)
    written = empty = 0
    failures: list[Failure] = []
    with _open_output(out) as put:
        for row in opened.stream(source, corpus_settings=corpus_settings, choices=read):
            if isinstance(row, Failure):
                failures.append(row)
                continue
            text = write(row)
            written, empty = written + 1, empty + (not text)
            if text:
                put(text)
    return PredictionReport(written, empty, tuple(failures))


@contextmanager
def _open_output(out: str | Path | Callable[[str], object]) -> Iterator[Callable[[str], object]]:
    """A function that writes a text and a line end."""
    if callable(out):
        yield out
        return
    # a lone surrogate has no UTF-8 form; its backslash form is JSON's
    with output_file(out) as path, path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        yield lambda text: file.write(f"{text}\n")


def open_head(
    head: str | Path | Head, kind: HeadKind | str | None, *, model: str | Path | None, device: str | None
) -> Head:
    """Load a head from its folder, unless it is loaded already."""
    opened = head if isinstance(head, Head) else Head(head, model=model, device=device)
    if kind is not None and opened.record.kind != kind:
        remedy = f"bertfeat {opened.record.kind} uses it"
        raise HeadError(
            f"this is {opened.record.kind.noun}, not {HeadKind(kind).noun}", where=opened.folder, remedy=remedy
        )
    return opened
