"""``bertfeat classify evaluate``, and the same command for other heads: score predictions against gold labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED, pluralize

from ..app import Decorator, option
from ..console import Console, two_columns
from ..options import output_options, recorded_device_option, recorded_model_option
from ..terminal import single_line
from .options import HeadCommands

if TYPE_CHECKING:
    from bertfeat.core import CorpusSettings
    from bertfeat.learning import HeadScores, LabelScores, LearningSettings, TagScores

MOST_COLUMNS = 12  # labels at most in a confusion table, and in the list of labels that a head never learned
MOST_MISTAKES = 20  # confusions that are listed where there are more labels than that

_ARGUMENTS: tuple[Decorator, ...] = (
    click.argument("folder", metavar="HEAD", type=click.Path(path_type=Path)),
    click.argument("source", metavar="INPUT"),
)
_TAG_ARGUMENTS: tuple[Decorator, ...] = (
    click.argument("folder", metavar="[HEAD", required=False, type=click.Path(path_type=Path)),
    click.argument("source", metavar="INPUT]", required=False),
    option(
        "--predictions",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Any tagger's: a word a line, gold and predicted tag in the last two columns; or -.",
    ),
)
_TAG_HELP = """\
Score a tagger on a tagged file or feature set, or any tool's file of gold and predicted tags.

Precision, recall and F1 of spans as conlleval and seqeval count them, accuracy of plain tags, and what was taken
for what. Tags are read in BIO, IOB1, IOBES or BILOU, on either side, or as they are (parts of speech).

\b
bertfeat tag evaluate ner.head test.conll
bertfeat tag evaluate --predictions flair-test.tsv
"""

_HELP = """\
Score a head on examples of which is known what is right: a corpus, or a feature set.

\b
bertfeat {kind} evaluate train.head {test} --json
"""


def evaluate_command(head: HeadCommands) -> click.Command:
    """The ``evaluate`` command for a kind of head."""
    options = (
        *(_TAG_ARGUMENTS if head.kind == "tag" else _ARGUMENTS),
        head.column_options("label", "choices"),
        recorded_model_option,
        recorded_device_option,
        head.reading_options(*head.tags),
        output_options,
    )
    return head.command("evaluate", _run_evaluation, _TAG_HELP if head.kind == "tag" else _HELP, options)


def _run_evaluation(
    kind: str,
    folder: Path | None,
    source: str | None,
    columns: "LearningSettings",
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
    predictions: Path | None = None,
) -> None:
    if (predictions is None) is (source is None):
        raise click.UsageError("give a tagger and its input, or --predictions FILE")
    if predictions is not None:
        _score_file(predictions, (folder, model, device), reading, console)
        return
    assert folder is not None
    assert source is not None
    from bertfeat.learning import evaluate_head

    report = evaluate_head(
        folder,
        source,
        kind=kind,
        label=columns.label,
        choices=tuple(columns.choices),
        corpus_settings=reading,
        model=model,
        device=device,
    )
    if report.unknown:
        labels, noun = ", ".join(map(single_line, report.unknown[:MOST_COLUMNS])), "tags" if kind == "tag" else "labels"
        console.warn(f"{source} has {noun} that the head never learned: {labels}")
    console.result(report.scores, _head_score_lines(report.scores))
    if report.failures:
        rows, first = pluralize(len(report.failures), "row"), report.failures[0].reason
        console.warn(f"{rows} failed and could not be scored; the first: {first}")
        raise click.exceptions.Exit(ROWS_FAILED)


def _score_file(predictions: Path, others: tuple[object, ...], reading: "CorpusSettings", console: Console) -> None:
    """Score a file of gold and predicted tags, for which no head is run."""
    from bertfeat.core import CorpusSettings
    from bertfeat.learning import evaluate_predictions

    if any(value is not None for value in others) or reading != CorpusSettings(encoding=reading.encoding):
        raise click.UsageError("with --predictions no tagger is run: of the options, only --encoding goes with it")
    report = evaluate_predictions(predictions, encoding=reading.encoding)
    for warning in report.warnings:
        console.warn(warning)
    console.result(report.scores, _tag_score_lines(report.scores))


def _head_score_lines(scores: "HeadScores") -> Iterator[str]:
    """Scores for people: single numbers, then one line per label; for tags also which tags were confused."""
    from bertfeat.learning import TagScores

    if isinstance(scores, TagScores):
        yield from _tag_score_lines(scores)
        return
    single = [(name.replace("_", " "), _score_text(value)) for name, value in asdict(scores).items()]
    yield from two_columns([(name, shown) for name, shown in single if shown])
    by_label = getattr(scores, "by_label", {})
    if by_label:
        wide = max(map(len, by_label))
        yield ""
        yield f"{'label':<{wide}}  precision  recall      F1     gold  predicted"
        for name, counts in by_label.items():
            shares = f"{counts.precision:9.4f}  {counts.recall:6.4f}  {counts.f1:6.4f}"
            yield f"{name:<{wide}}  {shares}  {counts.gold:7,}  {counts.predicted:9,}"


def _score_text(value: object) -> str:
    """Format a single number, or a score at its threshold; None and other dictionaries give an empty text."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return f"{value['score']:.4f} at {value['threshold']:.4f}" if set(value) == {"score", "threshold"} else ""
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


# ── scores of tags ────────────────────────────────────────────────────────────────────────────────────────


def _tag_score_lines(scores: "TagScores") -> Iterator[str]:
    """Scores of tags for people: by label, over all, and which tags were confused."""
    yield from _label_lines(scores)
    yield ""
    words = f"{pluralize(scores.words, 'word')} in {pluralize(scores.sentences, 'sentence')}"
    yield f"accuracy  {scores.accuracy:.4f} of {words}"
    if scores.is_spans:
        yield f"macro F1  {scores.macro_f1:.4f}, the mean over labels"
    if scores.strict_f1 != scores.f1:
        yield f"strict F1 {scores.strict_f1:.4f}, without spans whose tags break the rules of their scheme"
    yield ""
    confusion = scores.confusion
    names = sorted({*confusion, *(name for row in confusion.values() for name in row)})
    yield from _confusion_table(confusion, names) if len(names) <= MOST_COLUMNS else _mistake_lines(confusion)


def _label_lines(scores: "TagScores") -> Iterator[str]:
    total = "all spans" if scores.is_spans else "all words"
    labels = ((single_line(label), counts) for label, counts in scores.by_label.items())
    rows: list[tuple[str, LabelScores | TagScores]] = [*labels, (total, scores)]
    wide = _longest([name for name, _ in rows])
    yield f"{'label' if scores.is_spans else 'tag':<{wide}}  precision  recall      F1     gold  predicted  correct"
    for name, counts in rows:
        shares = f"{counts.precision:9.4f}  {counts.recall:6.4f}  {counts.f1:6.4f}"
        yield f"{name:<{wide}}  {shares}  {counts.gold:7,}  {counts.predicted:9,}  {counts.correct:7,}"


def _confusion_table(confusion: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> Iterator[str]:
    corner = r"words: gold \ predicted"
    wide = _longest([corner, *names])
    widths = {name: max(len(name), *(len(f"{row.get(name, 0):,}") for row in confusion.values())) for name in names}
    yield "  ".join([f"{corner:<{wide}}", *(f"{single_line(name):>{widths[name]}}" for name in names)])
    for gold in names:
        cells = (f"{confusion.get(gold, {}).get(name, 0):>{widths[name]},}" for name in names)
        yield "  ".join([f"{single_line(gold):<{wide}}", *cells])


def _mistake_lines(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    mistakes = [(count, gold, name) for gold, row in confusion.items() for name, count in row.items() if name != gold]
    mistakes.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    yield f"the most frequent of {len(mistakes):,} confusions, in words; --json has all"
    wide = _longest([gold for _, gold, _ in mistakes[:MOST_MISTAKES]])
    for count, gold, name in mistakes[:MOST_MISTAKES]:
        yield f"{count:9,}  {single_line(gold):<{wide}}  taken for  {single_line(name)}"


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)
