"""The calls that write the predictions of a saved head, and that score a head against gold values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.core import CorpusSettings, Failure, FeatureSet
from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.io import output_file, real_path
from bertfeat.learning.head import Head
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.settings import LearningSettings
from bertfeat.learning.sources import HeadSource, OpenSource, open_head_source
from bertfeat.learning.tag_files import MarkSpan, PredictionForm
from bertfeat.learning.task import HeadScores
from bertfeat.learning.work import Work, refuse_unread_settings


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
    empty: int  # those of the rows without words: a CoNLL file has no lines for them
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
    """Score a head on a corpus file or feature sets that have gold values.

    ``label`` and ``choices`` name columns; the default is those of the training corpus.

    Raises:
        HeadError: the source has no gold values; or see :meth:`Head.predict`.
    """
    _refuse_unread(open_head_source(source), corpus_settings, model)
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
    """Write predictions for a source, row by row, to ``out``: a file, or a function that is called with each text.

    ``to`` is the form: ``jsonl`` (one object per row) or, for taggers only, ``conll`` (their default: one word with its
    tag per line, and an empty line after each text) or ``text`` (one text per line, its spans marked by ``mark``, by
    default in brackets). Gold values are not read, so rows without a label are predicted too. A file appears whole or
    not at all.

    Raises:
        UsageError: ``out`` is the source; the head has no such form, or the form cannot hold one of the texts.
        StorageError: the file cannot be written.
        HeadError, CorpusError: see :meth:`Head.predict`.
    """
    if not callable(out) and isinstance(source, str | Path) and real_path(out) == real_path(source):
        raise UsageError(
            f"{out} is what is read, and would be lost", remedy=f"name another file with {parameter('out')}"
        )
    sets = open_head_source(source)
    _refuse_unread(sets, corpus_settings, model)
    opened = open_head(head, kind, model=model, device=device)
    columns_to_read = choices
    if opened.record.kind is HeadKind.CHOOSE and not isinstance(sets, Path):
        columns_to_read = ()  # feature sets record their columns: the names are for the output only
    write = opened.task.writer(to, choices or opened.record.columns.choices, mark)
    written = empty = 0
    failures: list[Failure] = []
    with _open_output(out) as put:
        for row in opened.stream(source, corpus_settings=corpus_settings, choices=columns_to_read):
            if isinstance(row, Failure):
                failures.append(row)
                continue
            text = write(row)
            written, empty = written + 1, empty + (not text)
            if text:
                put(text)
    return PredictionReport(written, empty, tuple(failures))


def _refuse_unread(source: OpenSource, corpus_settings: CorpusSettings | None, model: str | Path | None) -> None:
    """Refuse what feature sets do not need, before a head is loaded."""
    asked = LearningSettings(corpus_settings=corpus_settings, model=model)
    refuse_unread_settings(Work([source]), asked)


@contextmanager
def _open_output(out: str | Path | Callable[[str], object]) -> Iterator[Callable[[str], object]]:
    """Open the output; gives a function that takes a text and, for a file, adds a line end."""
    if callable(out):
        yield out
        return
    # half of a surrogate pair cannot be encoded as UTF-8; its backslash escape is valid JSON
    with output_file(out) as path, path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        yield lambda text: file.write(f"{text}\n")


def open_head(
    head: str | Path | Head, kind: HeadKind | str | None, *, model: str | Path | None, device: str | None
) -> Head:
    """Load a head from its folder, unless it is loaded already; refuse one that is not of the ``kind``."""
    opened = head if isinstance(head, Head) else Head(head, model=model, device=device)
    if kind is not None and opened.record.kind != kind:
        remedy = f"bertfeat {opened.record.kind} uses it"
        raise HeadError(
            f"this is {opened.record.kind.noun}, not {HeadKind(kind).noun}", where=opened.folder, remedy=remedy
        )
    return opened
