"""One call each to predict with a saved head and to score it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bertfeat.corpus import CorpusSettings, Failure
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.heads.datasets import HeadSource
from bertfeat.heads.guesses import HeadScores
from bertfeat.heads.head import Head, HeadPrediction, HeadPredictions
from bertfeat.heads.kinds import HeadKind
from bertfeat.io import atomic, real_path


@dataclass(frozen=True, slots=True)
class HeadEvaluation:
    """How the predictions of a head agree with what is right."""

    scores: HeadScores
    failures: tuple[Failure, ...]  # rows that could not be scored
    unknown: tuple[str, ...]  # gold labels that the head never learnt


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
    opened = open_head(head, kind, model=model, device=device)
    predictions = opened.predict(source, corpus_settings=corpus_settings, label=label, choices=choices)
    if predictions.scores is None:
        named = label or opened.record.columns.label
        raise HeadError(
            f"it does not say what is right{'' if named is None else f': there is no column {named!r}'}",
            where=source.folder if isinstance(source, FeatureSet) else source,
            remedy=f"name the column with {parameter('label')}",
        )
    known = set(opened.record.outputs.labels)
    gold = {str(row.gold) for row in predictions.rows} if known else set()
    return HeadEvaluation(predictions.scores, predictions.failures, tuple(sorted(gold - known)))


def write_predictions(
    head: str | Path | Head,
    source: HeadSource,
    out: str | Path | Callable[[str], object],
    *,
    kind: HeadKind | str | None = None,
    label: str | None = None,
    choices: tuple[str, ...] = (),
    corpus_settings: CorpusSettings | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> HeadPredictions:
    """Predict for a source and write an object of JSON a line to ``out``: a file, or a function called with each line.

    Raises:
        UsageError: ``out`` is the source.
        StorageError: the file cannot be written.
        HeadError, CorpusError: see :meth:`Head.predict`.
    """
    if not callable(out) and isinstance(source, str | Path) and real_path(out) == real_path(source):
        raise UsageError(f"{out} is what is read, and would be lost", remedy="name another file")
    opened = open_head(head, kind, model=model, device=device)
    predictions = opened.predict(source, corpus_settings=corpus_settings, label=label, choices=choices)
    names = choices or opened.record.columns.choices
    plain = (_as_line(row, opened.record.kind, names) for row in predictions.rows)
    lines = [json.dumps(values, ensure_ascii=False, allow_nan=False) for values in plain]
    if callable(out):
        for line in lines:
            out(line)
        return predictions
    with atomic(Path(out)) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace")
    return predictions


def open_head(
    head: str | Path | Head, kind: HeadKind | str | None, *, model: str | Path | None, device: str | None
) -> Head:
    """Load a head from its folder, unless it is loaded already.

    Raises:
        HeadError: it is of another kind.
    """
    opened = head if isinstance(head, Head) else Head(head, model=model, device=device)
    if kind is not None and opened.record.kind != kind:
        remedy = f"bertfeat {opened.record.kind} uses it"
        raise HeadError(
            f"this is {opened.record.kind.noun}, not {HeadKind(kind).noun}", where=opened.folder, remedy=remedy
        )
    return opened


def _as_line(row: HeadPrediction, kind: HeadKind, choices: tuple[str, ...]) -> dict[str, object]:
    """A prediction as its line has it."""
    if kind is HeadKind.ANSWER:
        return {"id": row.id, "answer": row.value, "start": row.start, "end": row.end, "no_answer": row.no_answer}
    if kind is HeadKind.CHOOSE:
        number = int(row.value)
        name = choices[number] if number < len(choices) else None
        return {"id": row.id, "choice": row.value, "column": name, "probability": row.probability}
    if row.probability is None:
        return {"id": row.id, "value": row.value}
    return {"id": row.id, "label": row.value, "probability": row.probability}
