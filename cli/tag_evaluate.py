"""``bertfeat tag evaluate``: predicted tags against gold ones."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from .frame import Command, option
from .options import reading_options, talk_options
from .sources import STDIN
from .tag_predict import tagged_source
from .talk import Talk, counted

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import LabelScores, Predictions, Scores

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
@option("--model", metavar="DIR", further=True, help="Where the tagger's model is now, if not where it was.")
@option("--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1; default: a GPU if there is one.")
@reading_options
@talk_options
def command(
    folder: Path | None,
    source: str | None,
    predictions: Path | None,
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    talk: Talk,
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
    failed = 0
    if predictions is not None:
        read = _predictions(predictions, folder, model, device, reading)
    else:
        assert folder is not None
        assert source is not None
        read, failed = _predicted(folder, source, model, device, reading, talk)
    from bertfeat.tagging import score

    scores = score(read.gold, read.predicted)
    talk.result(scores, score_lines(scores))
    if failed:
        raise click.exceptions.Exit(ROWS_FAILED)


def _predictions(
    given: Path, folder: Path | None, model: str | None, device: str | None, reading: "CorpusSettings"
) -> "Predictions":
    from bertfeat.corpus import CorpusSettings
    from bertfeat.tagging import read_predictions

    if (folder, model, device) != (None, None, None) or reading != CorpusSettings(encoding=reading.encoding):
        raise click.UsageError("with --predictions no tagger is run: of the options, only --encoding goes with it")
    with _file(given) as path:
        return read_predictions(path, encoding=reading.encoding)


def _predicted(
    folder: Path, source: str, model: str | None, device: str | None, reading: "CorpusSettings", talk: Talk
) -> tuple["Predictions", int]:
    """Gold tags and those of the tagger, and how many rows failed."""
    from bertfeat.corpus import Failure
    from bertfeat.tagging import Predictions, Tagger

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
    if unknown := tagger.labels.unknown(gold):
        talk.warn(f"{source} has tags that the tagger never learnt: {', '.join(unknown[:MOST_COLUMNS])}")
    if failures:
        told = f"{counted(len(failures), 'row')} failed and could not be scored; the first: {failures[0].reason}"
        talk.warn(told)
    return Predictions(tuple(gold), tuple(predicted)), len(failures)


@contextmanager
def _file(given: Path) -> Iterator[Path]:
    """The file itself, or what comes from stdin as one."""
    if str(given) != STDIN:
        yield given
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        path.write_bytes(sys.stdin.buffer.read())
        yield path


def score_lines(scores: "Scores") -> Iterator[str]:
    """Scores for people: by label, over all, and what was taken for what."""
    yield from _by_label(scores)
    yield ""
    words = f"{counted(scores.words, 'word')} in {counted(scores.sentences, 'sentence')}"
    yield f"accuracy  {scores.accuracy:.4f} of {words}"
    yield ""
    yield from _confusion(scores.confusion)


def _by_label(scores: "Scores") -> Iterator[str]:
    total = "all spans" if scores.is_spans else "all words"
    rows: list[tuple[str, LabelScores | Scores]] = [*scores.by_label.items(), (total, scores)]
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
    yield "  ".join([f"{corner:<{wide}}", *(f"{name:>{widths[name]}}" for name in names)])
    for gold in names:
        cells = (f"{confusion.get(gold, {}).get(name, 0):>{widths[name]},}" for name in names)
        yield "  ".join([f"{gold:<{wide}}", *cells])


def _mistakes(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    found = [(count, gold, name) for gold, row in confusion.items() for name, count in row.items() if name != gold]
    found.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    yield f"the most frequent of {len(found):,} confusions, in words; --json has all"
    wide = _width([gold for _, gold, _ in found[:MOST_MISTAKES]])
    for count, gold, name in found[:MOST_MISTAKES]:
        yield f"{count:9,}  {gold:<{wide}}  taken for  {name}"


def _width(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)
