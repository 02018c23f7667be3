"""``bertfeat tag evaluate``: predicted tags against gold ones."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from ..app import Command, option
from ..bundles import leave_out
from ..console import Console, pluralize
from ..options import output_options, reading_options
from ..terminal import single_line
from .options import PAIRS, tagger_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import EvaluationReport, LabelScores, Scores

MOST_COLUMNS = 12  # labels that a confusion table is printed of
MOST_MISTAKES = 20  # printed where there are more


@click.command(cls=Command, name="evaluate")
@click.argument("folder", metavar="[TAGGER", required=False, type=click.Path(path_type=Path))
@click.argument("source", metavar="INPUT]", required=False)
@option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Any tagger's: a word a line, gold and predicted tag in the last two columns; or -.",
)
@tagger_options
@reading_options
@output_options
def command(
    folder: Path | None,
    source: str | None,
    predictions: Path | None,
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Score a tagger on a tagged file or feature set, or any tool's file of gold and predicted tags.

    Precision, recall and F1 of spans as conlleval and seqeval count them, accuracy of plain tags, and what was taken
    for what. Tags are read in BIO, IOB1, IOBES or BILOU, on either side, or as they are (parts of speech).

    \b
    bertfeat tag evaluate ner.tagger test.conll
    bertfeat tag evaluate --predictions flair-test.tsv
    """
    if (predictions is None) is (source is None):
        raise click.UsageError("give a tagger and its input, or --predictions FILE")
    from bertfeat.tagging import evaluate_predictions, evaluate_tagger

    if predictions is not None:
        _refuse_tagger_options(folder, model, device, reading)
        report = evaluate_predictions(predictions, encoding=reading.encoding)
    else:
        assert folder is not None
        assert source is not None
        report = evaluate_tagger(folder, source, corpus_settings=reading, model=model, device=device)
    _print_warnings(report, str(source), console)
    console.result(report.scores, score_lines(report.scores))
    if report.failures:
        raise click.exceptions.Exit(ROWS_FAILED)


leave_out(command, "keep", *PAIRS)


def _refuse_tagger_options(
    folder: Path | None, model: str | None, device: str | None, reading: "CorpusSettings"
) -> None:
    from bertfeat.corpus import CorpusSettings

    if (folder, model, device) != (None, None, None) or reading != CorpusSettings(encoding=reading.encoding):
        raise click.UsageError("with --predictions no tagger is run: of the options, only --encoding goes with it")


def _print_warnings(report: "EvaluationReport", source: str, console: Console) -> None:
    for warning in report.warnings:
        console.warn(warning)
    if report.unknown:
        tags = ", ".join(map(single_line, report.unknown[:MOST_COLUMNS]))
        console.warn(f"{source} has tags that the tagger never learnt: {tags}")
    if report.failures:
        rows, first = pluralize(len(report.failures), "row"), report.failures[0].reason
        console.warn(f"{rows} failed and could not be scored; the first: {first}")


def score_lines(scores: "Scores") -> Iterator[str]:
    """Scores for people: by label, over all, and what was taken for what."""
    yield from _label_lines(scores)
    yield ""
    words = f"{pluralize(scores.words, 'word')} in {pluralize(scores.sentences, 'sentence')}"
    yield f"accuracy  {scores.accuracy:.4f} of {words}"
    yield ""
    yield from _confusion_lines(scores.confusion)


def _label_lines(scores: "Scores") -> Iterator[str]:
    total = "all spans" if scores.is_spans else "all words"
    labels = ((single_line(label), counts) for label, counts in scores.by_label.items())
    rows: list[tuple[str, LabelScores | Scores]] = [*labels, (total, scores)]
    wide = _longest([name for name, _ in rows])
    yield f"{'label' if scores.is_spans else 'tag':<{wide}}  precision  recall      F1     gold  predicted  correct"
    for name, counts in rows:
        shares = f"{counts.precision:9.4f}  {counts.recall:6.4f}  {counts.f1:6.4f}"
        yield f"{name:<{wide}}  {shares}  {counts.gold:7,}  {counts.predicted:9,}  {counts.correct:7,}"


def _confusion_lines(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    names = sorted({*confusion, *(name for row in confusion.values() for name in row)})
    yield from _confusion_table(confusion, names) if len(names) <= MOST_COLUMNS else _mistake_lines(confusion)


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
