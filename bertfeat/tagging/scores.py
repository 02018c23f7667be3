"""How well tags agree with gold ones: spans as conlleval and seqeval count them, plain tags one by one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, UsageError
from bertfeat.tagging.schemes import OUTSIDE, Scheme, detect_scheme, is_span_tag, label_of, read_spans, to_bio

TagSequences = Sequence[Sequence[str]]
"""The tags of each sentence."""


@dataclass(frozen=True, slots=True)
class LabelScores:
    """The counts and scores of one label: of spans, words or examples. Scores are 0 to 1."""

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int

    @classmethod
    def of_counts(cls, gold: int, predicted: int, correct: int) -> "LabelScores":
        """The scores that the counts give."""
        precision, recall = _ratio(correct, predicted), _ratio(correct, gold)
        return cls(precision, recall, _ratio(2 * correct, gold + predicted), gold, predicted, correct)


@displayed
@dataclass(frozen=True, slots=True)
class Scores:
    """Agreement of predicted tags with gold ones; all scores are 0 to 1, and 0 if there is nothing to count.

    Precision, recall and F1 are micro-averaged over the labels. A span counts when both its bounds and its label are
    right. Of plain tags every word counts, so all three equal the accuracy.
    """

    is_spans: bool
    f1: float
    precision: float
    recall: float
    accuracy: float  # share of words with the right tag as it is written, O included: I-PER is not B-PER
    sentences: int
    words: int
    gold: int  # spans; words where tags are plain
    predicted: int
    correct: int
    by_label: Mapping[str, LabelScores]  # sorted by label
    confusion: Mapping[str, Mapping[str, int]]  # gold label → predicted label → words; spans without their prefixes

    @property
    def value(self) -> float:
        """The one number: F1 of spans, accuracy of plain tags."""
        return self.f1 if self.is_spans else self.accuracy


@checked
def score_tags(gold: TagSequences, predicted: TagSequences) -> Scores:
    """Compare predicted tags with gold ones, in any scheme each.

    Spans are compared whatever scheme each side is in; accuracy, as conlleval has it, is of the tags as written.

    Raises:
        UsageError: no sentences, or not equally many sentences and words.
        CorpusError: tags of spans on one side and plain ones on the other, or mixed.
    """
    _check_lengths(gold, predicted)
    schemes = detect_scheme(gold), detect_scheme(predicted)
    if not _have_spans(gold, predicted, schemes):
        return _count_scores(False, gold, predicted, _word_units(gold), _word_units(predicted))
    return _count_scores(True, gold, predicted, _span_units(gold), _span_units(predicted))


@checked
def score_tagger(gold: TagSequences, predicted: TagSequences) -> Scores:
    """Compare a tagger's tags, whose spans are in BIO, with gold ones; gold spans in another scheme become BIO.

    So accuracy, too, does not depend on the scheme of the file.

    Raises:
        UsageError, CorpusError: see :func:`score`.
    """
    if detect_scheme(gold).has_spans:
        gold = [to_bio(tags) for tags in gold]
    return score_tags(gold, predicted)


def _have_spans(gold: TagSequences, predicted: TagSequences, schemes: tuple[Scheme, Scheme]) -> bool:
    """Whether both sides' tags stand for spans; all ``O`` may be either."""
    plain, spans = (gold, predicted) if schemes[1].has_spans else (predicted, gold)
    if schemes[0].has_spans is schemes[1].has_spans:
        return schemes[0].has_spans
    span = next((tag for tags in spans for tag in tags if tag != OUTSIDE), None)
    if span is not None:
        other = next(tag for tags in plain for tag in tags if not is_span_tag(tag))
        which = "predicted" if spans is predicted else "gold"
        raise CorpusError(f"the {which} tags stand for spans, such as {span!r}, but not the others, such as {other!r}")
    return False


LabelledUnits = Mapping[tuple[int, int, int], str]
"""Sentence, start and stop of what counts → its label."""


def _span_units(sentences: TagSequences) -> LabelledUnits:
    return {
        (number, span.start, span.stop): span.label
        for number, tags in enumerate(sentences)
        for span in read_spans(tags)
    }


def _word_units(sentences: TagSequences) -> LabelledUnits:
    return {(number, at, at + 1): tag for number, tags in enumerate(sentences) for at, tag in enumerate(tags)}


def _count_scores(
    is_spans: bool,
    gold: TagSequences,
    predicted: TagSequences,
    gold_units: LabelledUnits,
    predicted_units: LabelledUnits,
) -> Scores:
    pairs = Counter(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
    words = pairs.total()
    counts = (
        Counter(gold_units.values()),
        Counter(predicted_units.values()),
        Counter(label for place, label in gold_units.items() if predicted_units.get(place) == label),
    )
    labels = sorted(counts[0] | counts[1])
    total = LabelScores.of_counts(*(count.total() for count in counts))
    return Scores(
        is_spans=is_spans,
        f1=total.f1,
        precision=total.precision,
        recall=total.recall,
        accuracy=_ratio(sum(count for (right, tag), count in pairs.items() if right == tag), words),
        sentences=len(gold),
        words=words,
        gold=total.gold,
        predicted=total.predicted,
        correct=total.correct,
        by_label={label: LabelScores.of_counts(*(count[label] for count in counts)) for label in labels},
        confusion=_count_confusion(pairs, is_spans),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _count_confusion(pairs: Mapping[tuple[str, str], int], is_spans: bool) -> dict[str, dict[str, int]]:
    counts: Counter[tuple[str, str]] = Counter()
    for (right, tag), count in pairs.items():
        counts[(label_of(right), label_of(tag)) if is_spans else (right, tag)] += count
    table: dict[str, dict[str, int]] = {}
    for right, tag in sorted(counts):
        table.setdefault(right, {})[tag] = counts[right, tag]
    return table


def _check_lengths(gold: TagSequences, predicted: TagSequences) -> None:
    if len(gold) != len(predicted):
        raise UsageError(f"{len(gold):,} sentences have gold tags, but {len(predicted):,} predicted ones")
    if not any(_sentence_lengths(gold)):
        raise UsageError("there are no tags to score")
    for number, (right, tags) in enumerate(zip(_sentence_lengths(gold), _sentence_lengths(predicted), strict=True), 1):
        if right != tags:
            raise UsageError(f"sentence {number:,} has {right} gold tags, but {tags} predicted ones")


def _sentence_lengths(sentences: TagSequences) -> Iterable[int]:
    return map(len, sentences)
