"""Tags of words: schemes, the spans that they stand for, and their scores. It needs no torch."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, pairwise

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, HeadError, UsageError, parameter

# ── schemes ───────────────────────────────────────────────────────────────────────────────────────────────


OUTSIDE = "O"
NO_LABEL = "_"
"""Label of a span whose tags are plain ``B`` and ``I``."""

_SPAN_TAG = re.compile(r"[BIESLU](-.*)?", re.DOTALL)
_OTHER_SPELLING = re.compile(r"[BIESLUbieslu]?[-_:./|].+|.+[-_:./|][BIESLU]", re.DOTALL)  # B_PER, b-per, -PER, PER-B
_OUTSIDE_WORDS = frozenset({"o", "0", "_", "-", "none", "other", "out", "outside"})  # in small letters
_SAME = {"L": "E", "U": "S"}  # BILOU's names for what IOBES calls E and S


class Scheme(StrEnum):
    """The way in which tags stand for spans of words."""

    BIO = "BIO"  # B- begins a span, I- continues it; also called IOB2
    IOB1 = "IOB1"  # I- throughout; B- only where a span follows one of its own label
    IOBES = "IOBES"  # E- ends a span, S- is a span of one word; as BILOU with L- and U-
    PLAIN = "PLAIN"  # every tag stands for itself, as parts of speech do

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans."""
        return self is not Scheme.PLAIN


@dataclass(frozen=True, slots=True)
class TagSpan:
    """A labeled stretch of words, ``start <= word < stop``."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _ParsedTag:
    prefix: str  # B, I, E, S or O
    label: str


@checked
def read_spans(tags: Sequence[str]) -> list[TagSpan]:
    """The spans of a sentence's tags in BIO, IOB1, IOBES or BILOU, as conlleval and seqeval read them.

    Any sequence can be read: a tag that continues nothing (I- after O, or after another label) begins a span.

    Raises:
        CorpusError: a tag of no such scheme.
    """
    spans: list[TagSpan] = []
    start = 0
    before = _ParsedTag(OUTSIDE, "")
    for at, tag in enumerate([*map(_parse_tag, tags), _ParsedTag(OUTSIDE, "")]):
        if before.prefix != OUTSIDE and (tag.prefix == OUTSIDE or _begins_span(before, tag)):
            spans.append(TagSpan(before.label, start, at))
        if _begins_span(before, tag):
            start = at
        before = tag
    return spans


@checked
def to_bio(tags: Sequence[str]) -> list[str]:
    """The same spans as BIO tags.

    Raises:
        CorpusError: a tag of no scheme with spans.
    """
    written = [OUTSIDE] * len(tags)
    for span in read_spans(tags):
        written[span.start : span.stop] = _bio(span)
    return written


@checked
def to_iobes(tags: Sequence[str]) -> list[str]:
    """The same spans as IOBES tags.

    Raises:
        CorpusError: a tag of no scheme with spans.
    """
    written = [OUTSIDE] * len(tags)
    for span in read_spans(tags):
        written[span.start : span.stop] = _bio(span)
        written[span.stop - 1] = f"{'S' if span.stop - span.start == 1 else 'E'}-{span.label}"
    return written


@checked
def detect_scheme(sentences: Sequence[Sequence[str]]) -> Scheme:
    """Find the scheme of sentences of tags; where all are ``O``, BIO.

    Raises:
        CorpusError: tags of spans among which some lack a prefix or are spelled in another way.
    """
    seen = dict.fromkeys(tag for tags in sentences for tag in tags)
    others = [tag for tag in seen if not is_span_tag(tag)]
    if others:
        _refuse_mixture(seen, others, sentences)
        return Scheme.PLAIN
    if any(tag[0] in "ESLU" for tag in seen):
        return Scheme.IOBES
    kinds = {_scheme_of_beginning(before, tag) for tags in sentences for before, tag in _neighbors(tags)}
    return Scheme.IOB1 if Scheme.IOB1 in kinds and Scheme.BIO not in kinds else Scheme.BIO


def _follows_rules(scheme: Scheme, tags: Sequence[str], span: TagSpan, before: TagSpan | None) -> bool:
    """Whether the tags of a span, which ``before`` comes before, are written as its scheme asks."""
    written = "".join(_parse_tag(tag).prefix for tag in tags[span.start : span.stop])
    inner = "I" * (len(written) - 1)
    if scheme is Scheme.IOBES:
        return written == ("S" if len(written) == 1 else f"B{inner[1:]}E")
    touches = before is not None and before.stop == span.start and before.label == span.label
    return written == ("I" if scheme is Scheme.IOB1 and not touches else "B") + inner


def label_of(tag: str) -> str:
    """The label in a tag of a span: ``PER`` of ``B-PER``; ``O`` is its own."""
    parsed = _parse_tag(tag)
    return OUTSIDE if parsed.prefix == OUTSIDE else parsed.label


def is_tag_of(scheme: Scheme, tag: str) -> bool:
    """Whether a tag may occur in a scheme; in PLAIN any tag may."""
    if not scheme.has_spans:
        return True
    prefixes = "BIES" if scheme is Scheme.IOBES else "BI"
    return tag == OUTSIDE or (tag[:1] in prefixes and tag[1:2] == "-")


def is_span_tag(tag: str) -> bool:
    """Whether a tag has the form that schemes with spans use: ``O``, or a prefix, with a label or alone."""
    return tag == OUTSIDE or _SPAN_TAG.fullmatch(tag) is not None


def _bio(span: TagSpan) -> list[str]:
    return [f"B-{span.label}", *[f"I-{span.label}"] * (span.stop - span.start - 1)]


def _parse_tag(tag: str) -> _ParsedTag:
    if not is_span_tag(tag):
        raise CorpusError(f"{tag!r} is no tag of a span: those are O, and labels after B-, I-, E-, S-, L- or U-")
    return _ParsedTag(_SAME.get(tag[0], tag[0]), tag[2:] or NO_LABEL)


def _begins_span(before: _ParsedTag, tag: _ParsedTag) -> bool:
    """Whether a span begins at a tag: conlleval's startOfChunk."""
    if tag.prefix == OUTSIDE:
        return False
    return tag.prefix in "BS" or before.prefix in (OUTSIDE, "E", "S") or before.label != tag.label


def _neighbors(tags: Sequence[str]) -> Iterable[tuple[_ParsedTag, _ParsedTag]]:
    return pairwise([_ParsedTag(OUTSIDE, ""), *map(_parse_tag, tags)])


def _scheme_of_beginning(before: _ParsedTag, tag: _ParsedTag) -> Scheme | None:
    """The scheme that a tag after another proves, as only that one begins a span so; None if it proves none."""
    if tag.prefix == "I" and _begins_span(before, tag):
        return Scheme.IOB1
    if tag.prefix == "B" and (before.prefix == OUTSIDE or before.label != tag.label):
        return Scheme.BIO
    return None


def _refuse_mixture(seen: Iterable[str], others: Sequence[str], sentences: Sequence[Sequence[str]]) -> None:
    """Refuse span tags that are mistyped or in another spelling: they must not turn a file of spans into plain tags."""
    spans = [tag for tag in seen if tag[:2] in ("B-", "I-")]
    outside = [tag for tag in seen if tag.lower() in _OUTSIDE_WORDS]
    misspelled = [tag for tag in others if _OTHER_SPELLING.fullmatch(tag)]
    only_misspelled = {*others} <= {*misspelled, *outside}
    is_scheme = OUTSIDE in outside or any(f"B-{tag[2:]}" in spans for tag in spans if tag[0] == "I")
    if not (is_scheme or only_misspelled if spans else only_misspelled and misspelled and outside):
        return
    wrong = others[0]
    if wrong in misspelled or wrong in outside:
        problem = f"{wrong!r} is a tag of spans in another spelling"
        remedy = "write a scheme with O, and with B- and I- before labels"
    else:
        problem = f"{wrong!r} stands among tags of spans such as {spans[0]!r}"
        remedy = "write it with B- or I- before its label, or O"
    number = next(number for number, tags in enumerate(sentences, 1) if wrong in tags)
    raise CorpusError(problem, where=f"sentence {number:,}", remedy=remedy)


# ── labels ────────────────────────────────────────────────────────────────────────────────────────────────


_SHOWN = 12  # labels that a message lists

_WRITERS: dict[Scheme, Callable[[Sequence[str]], Sequence[str]]] = {
    Scheme.BIO: to_bio,
    Scheme.IOBES: to_iobes,
    Scheme.PLAIN: lambda tags: tags,
}


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels by number, in the scheme that the network learns.

    Raises:
        HeadError: fewer than two labels, or equal ones; a label that is not of the scheme, or a scheme that is not
            learned.
    """

    names: tuple[str, ...]
    scheme: Scheme  # BIO or IOBES for spans, PLAIN for other tags

    def __post_init__(self) -> None:
        if self.scheme not in _WRITERS:
            raise HeadError(f"labels are learned as {', '.join(_WRITERS)}, not as {self.scheme}")
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise HeadError(f"a tagger needs labels, at least two and all different, and has {list_labels(self.names)}")
        if strange := [name for name in self.names if not is_tag_of(self.scheme, name)]:
            raise HeadError(f"{strange[0]!r} is no label of the scheme {self.scheme}")

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, inside: Scheme = Scheme.BIO) -> "LabelSet":
        """The labels of some sentences' tags; spans become those of the scheme ``inside``.

        Raises:
            HeadError: one label only, so that there is nothing to learn.
            CorpusError: tags of spans mixed with others.
        """
        read = [tuple(map(sys.intern, tags)) for tags in sentences]
        scheme = inside if detect_scheme(read).has_spans else Scheme.PLAIN
        names = {label for tags in dict.fromkeys(read) for label in _WRITERS[scheme](tags)}
        if len(names) < 2:
            raise HeadError(
                f"every word of the training sentences has the tag {min(names, default='')!r}, so there is nothing to "
                f"learn",
                remedy=f"see that the right column is read: {parameter('tag_column')} names another",
            )
        return cls(tuple(sorted(names, key=lambda name: (name != "O", name[2:], name))), scheme)

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans of words."""
        return self.scheme.has_spans

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[int]]:
        """The number of each tag of each sentence, whichever scheme they are in.

        Raises:
            UsageError: a tag that is not among the labels.
        """
        known = {name: number for number, name in enumerate(self.names)}
        for tags in sentences:
            try:
                yield [known[tag] for tag in _WRITERS[self.scheme](tags)]
            except KeyError as error:
                raise UsageError(
                    f"the tag {error.args[0]!r} is not among those that the tagger learned: {list_labels(self.names)}"
                ) from None

    def tags(self, numbers: Iterable[int]) -> list[str]:
        """The tags of a sentence: BIO for spans, whatever scheme is learned."""
        names = [self.names[number] for number in numbers]
        return to_bio(names) if self.has_spans else names

    def unknown(self, sentences: Iterable[Sequence[str]]) -> list[str]:
        """The tags, rewritten in the scheme of the labels, that are not among the labels."""
        return sorted(self._used(sentences) - set(self.names))

    def can_learn_from(self, sentences: Iterable[Sequence[str]]) -> bool:
        """Whether some tag (for spans: other than ``O``) is among the labels, so that a prediction can be right."""
        known = self._used(sentences) & set(self.names)
        return bool(known - {"O"} if self.has_spans else known)

    def _used(self, sentences: Iterable[Sequence[str]]) -> set[str]:
        write = _WRITERS[self.scheme]
        return {label for tags in dict.fromkeys(map(tuple, sentences)) for label in write(tags)}


def list_labels(names: Sequence[str]) -> str:
    """List names in a message: the first ones, escaped so that they stay on one line."""
    listed = ", ".join(name if name.isprintable() else repr(name) for name in names[:_SHOWN])
    return f"{listed} … ({len(names):,})" if len(names) > _SHOWN else listed or "none"


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────


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
class TagScores:
    """Agreement of predicted tags with gold ones; all scores are 0 to 1, and 0 if there is nothing to count.

    Precision, recall and F1 are micro-averaged over the labels. A span counts when both its bounds and its label are
    right. Of plain tags every word counts, so all three equal the accuracy.
    """

    is_spans: bool
    f1: float
    macro_f1: float  # the mean of the labels' F1
    strict_f1: float  # without spans whose tags break the rules of their scheme, as seqeval's strict mode; else f1
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
        """The main score: F1 of spans, accuracy of plain tags."""
        return self.f1 if self.is_spans else self.accuracy


@checked
def score_tags(gold: TagSequences, predicted: TagSequences) -> TagScores:
    """Compare predicted tags with gold ones; each side may be in any scheme.

    Spans are compared whatever scheme each side is in; accuracy, as in conlleval, compares the tags as written.

    Raises:
        UsageError: no sentences, or not equally many sentences and words.
        CorpusError: tags of spans on one side and plain ones on the other, or mixed.
    """
    _check_lengths(gold, predicted)
    schemes = detect_scheme(gold), detect_scheme(predicted)
    if not _have_spans(gold, predicted, schemes):
        return _count_scores(False, gold, predicted, _word_units(gold), _word_units(predicted))
    scores = _count_scores(True, gold, predicted, _span_units(gold), _span_units(predicted))
    # predicted tags without a B- are BIO that breaks the rules, unless the gold ones are IOB1
    own = Scheme.BIO if schemes[1] is Scheme.IOB1 is not schemes[0] else schemes[1]
    ours, theirs = _span_units(gold, strict=schemes[0]), _span_units(predicted, strict=own)
    right = sum(theirs.get(place) == label for place, label in ours.items())
    return replace(scores, strict_f1=LabelScores.of_counts(len(ours), len(theirs), right).f1)


@checked
def score_tagger(gold: TagSequences, predicted: TagSequences) -> TagScores:
    """Compare a tagger's tags, whose spans are in BIO, with gold ones; gold spans in another scheme become BIO.

    Thus the accuracy does not depend on the scheme of the file either.

    Raises:
        UsageError, CorpusError: see :func:`score_tags`.
    """
    if detect_scheme(gold).has_spans:
        gold = [to_bio(tags) for tags in gold]
    return score_tags(gold, predicted)


def _have_spans(gold: TagSequences, predicted: TagSequences, schemes: tuple[Scheme, Scheme]) -> bool:
    """Whether the tags of both sides stand for spans; a side with only ``O`` is taken as the other side is."""
    plain, spans = (gold, predicted) if schemes[1].has_spans else (predicted, gold)
    if schemes[0].has_spans is schemes[1].has_spans:
        return schemes[0].has_spans
    span = next((tag for tags in spans for tag in tags if tag != OUTSIDE), None)
    if span is not None:
        other = next(tag for tags in plain for tag in tags if not is_span_tag(tag))
        which = "predicted" if spans is predicted else "gold"
        raise CorpusError(f"the {which} tags stand for spans, such as {span!r}, but not the others, such as {other!r}")
    return False


LabeledUnits = Mapping[tuple[int, int, int], str]
"""Sentence, start and stop of a span or word that is scored → its label."""


def _span_units(sentences: TagSequences, strict: Scheme | None = None) -> LabeledUnits:
    """The spans of all sentences; with a scheme, those whose tags follow its rules."""
    return {
        (number, span.start, span.stop): span.label
        for number, tags in enumerate(sentences)
        for before, span in pairwise([None, *read_spans(tags)])
        if span is not None and (strict is None or _follows_rules(strict, tags, span, before))
    }


def _word_units(sentences: TagSequences) -> LabeledUnits:
    return {(number, at, at + 1): tag for number, tags in enumerate(sentences) for at, tag in enumerate(tags)}


def _count_scores(
    is_spans: bool,
    gold: TagSequences,
    predicted: TagSequences,
    gold_units: LabeledUnits,
    predicted_units: LabeledUnits,
) -> TagScores:
    """The scores by the units (spans, or words with plain tags) that both sides have; as yet none is strict."""
    pairs = Counter(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
    words = pairs.total()
    gold_counts, predicted_counts = Counter(gold_units.values()), Counter(predicted_units.values())
    correct = Counter(label for place, label in gold_units.items() if predicted_units.get(place) == label)
    counts, labels = (gold_counts, predicted_counts, correct), sorted(gold_counts | predicted_counts)
    total = LabelScores.of_counts(*(count.total() for count in counts))
    by_label = {label: LabelScores.of_counts(*(count[label] for count in counts)) for label in labels}
    return TagScores(
        is_spans=is_spans,
        f1=total.f1,
        macro_f1=_ratio(sum(scores.f1 for scores in by_label.values()), len(by_label)),
        strict_f1=total.f1,  # for spans the caller puts in that of those which follow their scheme's rules
        precision=total.precision,
        recall=total.recall,
        accuracy=_ratio(sum(count for (right, tag), count in pairs.items() if right == tag), words),
        sentences=len(gold),
        words=words,
        gold=total.gold,
        predicted=total.predicted,
        correct=total.correct,
        by_label=by_label,
        confusion=_count_confusion(pairs, is_spans),
    )


def _ratio(part: float, whole: int) -> float:
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
