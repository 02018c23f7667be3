"""TagScores of tags for people: by label, over all, and what was taken for what."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bertfeat.errors import pluralize

from ..terminal import single_line

if TYPE_CHECKING:
    from bertfeat.learning import LabelScores, TagScores

MOST_COLUMNS = 12  # labels that a confusion table is printed of
MOST_MISTAKES = 20  # printed where there are more


def tag_score_lines(scores: "TagScores") -> Iterator[str]:
    """TagScores for people: by label, over all, and what was taken for what."""
    yield from _label_lines(scores)
    yield ""
    words = f"{pluralize(scores.words, 'word')} in {pluralize(scores.sentences, 'sentence')}"
    yield f"accuracy  {scores.accuracy:.4f} of {words}"
    yield ""
    yield from _confusion_lines(scores.confusion)


def _label_lines(scores: "TagScores") -> Iterator[str]:
    total = "all spans" if scores.is_spans else "all words"
    labels = ((single_line(label), counts) for label, counts in scores.by_label.items())
    rows: list[tuple[str, LabelScores | TagScores]] = [*labels, (total, scores)]
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
