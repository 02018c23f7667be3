"""``bertfeat tag evaluate``: predicted tags against gold ones."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .frame import Command, option
from .options import talk_options
from .talk import Talk, counted

if TYPE_CHECKING:
    from bertfeat.tagging import LabelScores, Scores

MOST_COLUMNS = 12  # labels that a confusion table is printed of
MOST_MISTAKES = 20  # printed where there are more


@click.command(cls=Command, name="evaluate")
@option(
    "--predictions",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="A word a line; gold and predicted tag in the last two columns.",
)
@option("--encoding", metavar="NAME", further=True, help="Default: UTF-8, or UTF-16 by its byte order mark.")
@talk_options
def command(predictions: Path, encoding: str | None, talk: Talk) -> None:
    """Score tags: precision, recall and F1 of spans as conlleval and seqeval count them, or accuracy of plain tags.

    Tags are read in BIO, IOB1, IOBES or BILOU, on either side, or as they are (parts of speech).

    \b
    bertfeat tag evaluate --predictions flair-test.tsv
    """
    from bertfeat.tagging import read_predictions, score

    read = read_predictions(predictions, encoding=encoding)
    scores = score(read.gold, read.predicted)
    talk.result(scores, score_lines(scores))


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
