"""``bertfeat tag evaluate``: predicted tags against gold ones."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from ..app import Command, option
from ..bundles import leave_out
from ..console import Console, pluralize
from ..errors import errors_within
from ..options import output_options, reading_options
from ..paths import STDIN
from ..terminal import one_line
from .predict import tagged_source
from .sets import PAIRS, refuse_unused, tagger_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import LabelScores, Scores, TagPredictions

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
    if predictions is not None:
        from bertfeat.tagging import score_tags

        read = _predictions(predictions, folder, model, device, reading)
        with errors_within(predictions):
            scores, failed = score_tags(read.gold, read.predicted), 0
        _tell_schemes(read, console)
    else:
        assert folder is not None
        assert source is not None
        refuse_unused(source, model, reading)
        scores, failed = _scored(folder, source, model, device, reading, console)
    console.result(scores, score_lines(scores))
    if failed:
        raise click.exceptions.Exit(ROWS_FAILED)


leave_out(command, "keep", *PAIRS)


def _predictions(
    given: Path, folder: Path | None, model: str | None, device: str | None, reading: "CorpusSettings"
) -> "TagPredictions":
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import read_predictions

    if (folder, model, device) != (None, None, None) or reading != CorpusSettings(encoding=reading.encoding):
        raise click.UsageError("with --predictions no tagger is run: of the options, only --encoding goes with it")
    with _stdin_file() if str(given) == STDIN else nullcontext(given) as path:
        return read_predictions(path, encoding=reading.encoding)


@contextmanager
def _stdin_file() -> Iterator[Path]:
    """What comes from standard input as a file, which errors do not name."""
    from bertfeat.errors import CorpusError

    with TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        with path.open("xb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        try:
            yield path
        except CorpusError as error:
            raise type(error)(str(error).replace(str(path), "standard input")) from error


def _tell_schemes(read: "TagPredictions", console: Console) -> None:
    """Say that accuracy is of tags as written, where that makes a difference."""
    from bertfeat.tagging import detect_scheme

    gold, predicted = detect_scheme(read.gold), detect_scheme(read.predicted)
    if gold.has_spans and predicted.has_spans and gold is not predicted:
        console.warn(
            f"the gold tags are {gold} and the predicted ones {predicted}: spans are compared all the same, but "
            f"accuracy, as conlleval has it, counts a tag as right only where both are written alike"
        )


def _scored(
    folder: Path, source: str, model: str | None, device: str | None, reading: "CorpusSettings", console: Console
) -> tuple["Scores", int]:
    """How a tagger's tags agree with the gold ones, and how many rows failed."""
    from bertfeat.corpus import Failure
    from bertfeat.tagging import Tagger, score_tagger

    tagger = Tagger(folder, model=model, device=device)
    gold, predicted, failures = [], [], []
    with tagged_source(tagger, source, reading, gold=True) as found:
        for each in found:
            if isinstance(each, Failure):
                failures.append(each)
            elif each.given is None:
                raise click.UsageError(f"{source} has no tags to compare with; bertfeat tag predict needs none")
            else:
                gold.append(each.given)
                predicted.append(each.tags)
    with errors_within(source):
        scores = score_tagger(gold, predicted)
    if unknown := tagger.labels.unknown(gold):
        listed = ", ".join(map(one_line, unknown[:MOST_COLUMNS]))
        console.warn(f"{source} has tags that the tagger never learnt: {listed}")
    if failures:
        told = f"{pluralize(len(failures), 'row')} failed and could not be scored; the first: {failures[0].reason}"
        console.warn(told)
    return scores, len(failures)


def score_lines(scores: "Scores") -> Iterator[str]:
    """Scores for people: by label, over all, and what was taken for what."""
    yield from _by_label(scores)
    yield ""
    words = f"{pluralize(scores.words, 'word')} in {pluralize(scores.sentences, 'sentence')}"
    yield f"accuracy  {scores.accuracy:.4f} of {words}"
    yield ""
    yield from _confusion(scores.confusion)


def _by_label(scores: "Scores") -> Iterator[str]:
    total = "all spans" if scores.is_spans else "all words"
    labels = ((one_line(label), found) for label, found in scores.by_label.items())
    rows: list[tuple[str, LabelScores | Scores]] = [*labels, (total, scores)]
    wide = _width([name for name, _ in rows])
    yield f"{'label' if scores.is_spans else 'tag':<{wide}}  precision  recall      F1     gold  predicted  correct"
    for name, found in rows:
        shares = f"{found.precision:9.4f}  {found.recall:6.4f}  {found.f1:6.4f}"
        yield f"{name:<{wide}}  {shares}  {found.gold:7,}  {found.predicted:9,}  {found.correct:7,}"


def _confusion(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    names = sorted({*confusion, *(name for row in confusion.values() for name in row)})
    yield from _table(confusion, names) if len(names) <= MOST_COLUMNS else _mistakes(confusion)


def _table(confusion: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> Iterator[str]:
    corner = r"words: gold \ predicted"
    wide = _width([corner, *names])
    widths = {name: max(len(name), *(len(f"{row.get(name, 0):,}") for row in confusion.values())) for name in names}
    yield "  ".join([f"{corner:<{wide}}", *(f"{one_line(name):>{widths[name]}}" for name in names)])
    for gold in names:
        cells = (f"{confusion.get(gold, {}).get(name, 0):>{widths[name]},}" for name in names)
        yield "  ".join([f"{one_line(gold):<{wide}}", *cells])


def _mistakes(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    found = [(count, gold, name) for gold, row in confusion.items() for name, count in row.items() if name != gold]
    found.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    yield f"the most frequent of {len(found):,} confusions, in words; --json has all"
    wide = _width([gold for _, gold, _ in found[:MOST_MISTAKES]])
    for count, gold, name in found[:MOST_MISTAKES]:
        yield f"{count:9,}  {one_line(gold):<{wide}}  taken for  {one_line(name)}"


def _width(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)
