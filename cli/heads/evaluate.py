"""``bertfeat classify evaluate``, and the same of other heads: predictions against what is right."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from ..console import Console, pluralize, two_columns
from ..options import output_options, reading_options
from ..tag.options import tagger_options
from .options import column_options, head_command

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.heads import HeadScores


_OPTIONS = (
    click.argument("folder", metavar="HEAD", type=click.Path(path_type=Path)),
    click.argument("source", metavar="INPUT"),
    column_options,
    tagger_options,
    reading_options,
    output_options,
)

_HELP = """\
Score a head on examples of which is known what is right: a corpus, or a feature set.

\b
bertfeat {kind} evaluate train.head {test} --json
"""


def evaluate_command(kind: str) -> click.Command:
    """The command of a kind of head."""
    return head_command(kind, "evaluate", _run_evaluation, _OPTIONS, _HELP)


def _run_evaluation(
    kind: str,
    folder: Path,
    source: str,
    label: str | None,
    choices: tuple[str, ...],
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    from bertfeat.heads import evaluate_head

    report = evaluate_head(
        folder, source, kind=kind, label=label, choices=choices, corpus_settings=reading, model=model, device=device
    )
    console.result(report.scores, head_score_lines(report.scores))
    if report.unknown:
        console.warn(f"{source} has labels that the head never learnt: {', '.join(report.unknown[:12])}")
    if report.failures:
        rows, first = pluralize(len(report.failures), "row"), report.failures[0].reason
        console.warn(f"{rows} failed and could not be scored; the first: {first}")
        raise click.exceptions.Exit(ROWS_FAILED)


def head_score_lines(scores: "HeadScores") -> Iterator[str]:
    """Scores for people: single numbers, then one line a label."""
    values = asdict(scores)
    single = [(name.replace("_", " "), _score_text(value)) for name, value in values.items() if not _is_mapping(value)]
    yield from two_columns([(name, shown) for name, shown in single if shown])
    by_label = getattr(scores, "by_label", {})
    if by_label:
        wide = max(map(len, by_label))
        yield ""
        yield f"{'label':<{wide}}  precision  recall      F1     gold  predicted"
        for name, counts in by_label.items():
            shares = f"{counts.precision:9.4f}  {counts.recall:6.4f}  {counts.f1:6.4f}"
            yield f"{name:<{wide}}  {shares}  {counts.gold:7,}  {counts.predicted:9,}"


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict) and set(value) != {"score", "threshold"}


def _score_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return f"{value['score']:.4f} at {value['threshold']:.4f}"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
