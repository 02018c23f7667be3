"""The kinds of heads, and one table of the options that each step of their work reads; other options are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum, StrEnum
from pathlib import Path

from bertfeat.core import CorpusSettings, FeatureSet
from bertfeat.errors import UsageError, parameter
from bertfeat.learning.settings import HeadSettings

# ── options that nothing reads ────────────────────────────────────────────────────────────────────────────


class Use(Enum):
    """A step of the work, or something that it deals with, to which options apply."""

    READING = "the reading of corpora"
    PAIRS = "pairs of texts in corpora"
    TAGS = "tags of words"
    LABELS = "labels or numbers"
    ANSWERS = "answers in passages"
    CHOICES = "choices in corpora"
    EXTRACTION = "the extraction of corpora"
    STORED = "heads on stored features"
    EPOCHS = "networks that are trained in epochs"
    TUNING = "fine-tuning"


_STEPS: Mapping[str, tuple[Use, ...]] = {
    **{setting.name: (Use.READING,) for setting in fields(CorpusSettings)},
    "choices": (Use.CHOICES,),  # not for feature sets, which record the choices and the right one
    "label": (Use.CHOICES, Use.LABELS),
    "max_answer": (Use.ANSWERS,),
    "crf": (Use.TAGS,),
    "scheme": (Use.TAGS,),
    "embed_pairs": (Use.PAIRS,),
    "model": (Use.EXTRACTION, Use.TUNING),
    "revision": (Use.EXTRACTION, Use.TUNING),
    "precision": (Use.EXTRACTION, Use.TUNING),
    "batch_tokens": (Use.EXTRACTION,),
    "layers": (Use.STORED,),
    "pooling": (Use.STORED,),
    "grid": (Use.TUNING,),
}
"""The steps that read an option; those that are not listed (a device, a seed) are always read."""

_EPOCH_SETTINGS = ("dropout", "batch_size", "learning_rate", "epochs", "schedule", "patience")
"""Settings of training in epochs, which a linear head that is fitted by a solver does not read."""

_TUNED_SETTINGS = ("seed", "task", "max_answer", "scheme")
"""Settings of training that fine-tuning reads, too; the others belong to heads on stored features."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one command, which decides the options that are read."""

    corpora: bool  # some source is a corpus
    features: str | None  # a source that is a feature set, for messages
    stored: bool = True  # a head on stored features learns or predicts
    tuning: bool = False  # a whole model is fine-tuned
    pairs: bool = False  # the corpora are of pairs
    epochs: bool = True  # on stored features, a network is trained in epochs
    predicted: Use | None = None  # what a head predicts

    @classmethod
    def on(
        cls,
        sources: Iterable[FeatureSet | tuple[FeatureSet, ...] | Path],
        *,
        stored: bool = True,
        tuning: bool = False,
        pairs: bool = False,
        epochs: bool = True,
        predicted: Use | None = None,
    ) -> "Work":
        """The work on some sources, of which paths are corpora."""
        listed = list(sources)
        opened = [source[0] if isinstance(source, tuple) else source for source in listed]
        features = next((str(source.folder) for source in opened if isinstance(source, FeatureSet)), None)
        return cls(
            any(isinstance(source, Path) for source in opened), features, stored, tuning, pairs, epochs, predicted
        )

    def absent(self) -> dict[Use, str]:
        """The steps that are not done, each with the reason."""
        trained_whole = f"with {parameter('fine_tune')} the whole model is trained, by the settings of "
        trained_whole += parameter("grid")
        recorded = f"{self.features} is a feature set and records its own"
        no_corpus = f"{self.features} is a feature set, and no corpus is given"
        other = "" if self.predicted is None else f"what is predicted here are {self.predicted.value}"
        choosing = self.predicted is Use.CHOICES
        steps = {
            Use.READING: (self.corpora, no_corpus),
            Use.PAIRS: (
                self.corpora and self.pairs,
                f"no {parameter('pair_column')} is named" if self.corpora else recorded,
            ),
            Use.TAGS: (self.predicted is Use.TAGS, other),
            Use.LABELS: (self.predicted is Use.LABELS, other),
            Use.ANSWERS: (self.predicted is Use.ANSWERS, other),
            Use.CHOICES: (self.corpora and choosing, no_corpus if choosing else other),
            Use.EXTRACTION: (self.stored and self.features is None, recorded if self.stored else trained_whole),
            Use.STORED: (self.stored, trained_whole),
            Use.EPOCHS: (self.epochs, "without a hidden layer a head is solved"),
            Use.TUNING: (self.tuning, f"there is no {parameter('fine_tune')}"),
        }
        return {use: reason for use, (done, reason) in steps.items() if not done}


def refuse_unread_options(
    work: Work,
    *,
    reading: CorpusSettings | None = None,
    training: HeadSettings | None = None,
    extractor: Mapping[str, object] | None = None,
    **others: object,
) -> None:
    """Refuse options that were changed from their defaults and that no step of the work reads.

    ``reading``, ``training`` and ``extractor`` are groups of options as the functions that read them take them;
    ``others`` are single options.
    """
    given = [name for name, value in {**(extractor or {}), **others}.items() if value not in (None, "auto", (), False)]
    given += _changed(reading, CorpusSettings())
    absent = work.absent()
    steps = {name: _STEPS[name] for name in given if name in _STEPS}
    if training is not None:
        changed = _changed(training, type(training)())
        steps |= {name: _STEPS[name] for name in changed if name in _STEPS}
        steps |= {name: (Use.STORED,) for name in changed if name not in _TUNED_SETTINGS}
        if work.stored:
            steps |= {name: (Use.EPOCHS,) for name in changed if name in _EPOCH_SETTINGS}
    unread = {name: uses for name, uses in steps.items() if all(use in absent for use in uses)}
    if not unread:
        return
    reason = absent[next(iter(unread.values()))[0]]
    names = [name for name, uses in unread.items() if absent[uses[0]] == reason]
    uses = dict.fromkeys(use.value for name in names for use in unread[name])
    verb, pronoun = ("applies", "it") if len(names) == 1 else ("apply", "them")
    remedy = f"leave {pronoun} out"
    if [*uses] == [Use.TUNING.value]:
        remedy = f"add {parameter('fine_tune')}, or {remedy}"
    raise UsageError(f"{', '.join(map(parameter, names))} {verb} to {' and '.join(uses)}; {reason}", remedy=remedy)


def _changed(settings: object, usual: object) -> list[str]:
    """The names of the settings that differ from the defaults ``usual``."""
    if settings is None:
        return []
    return [each.name for each in fields(usual) if getattr(settings, each.name) != getattr(usual, each.name)]  # type: ignore[arg-type]


# ── kinds of heads ────────────────────────────────────────────────────────────────────────────────────────


class HeadKind(StrEnum):
    """The verb of the shell that trains a head: its tasks read words, texts, passages or choices."""

    TAG = "tag"  # a tag for each word of a sentence
    CLASSIFY = "classify"  # labels or a number for a text or a pair
    ANSWER = "answer"  # the span of a passage that answers a question
    CHOOSE = "choose"  # one of several continuations

    @property
    def noun(self) -> str:
        """The word for such a head in messages."""
        return {"tag": "a tagger", "classify": "a classifier", "answer": "a span reader", "choose": "a chooser"}[self]

    @property
    def predicted(self) -> Use:
        """The kind of its predictions, which decides the options that are read."""
        return {"tag": Use.TAGS, "classify": Use.LABELS, "answer": Use.ANSWERS, "choose": Use.CHOICES}[self]


class PairForm(StrEnum):
    """The form in which a pair of texts is embedded."""

    APART = "apart"  # each text by itself; the head gets u, v, |u-v| and u·v
    TOGETHER = "together"  # as one sequence with segment ids, as in the paper
