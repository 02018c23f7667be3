"""One table of the settings that each step of a head's work reads; settings that no step reads are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path

from bertfeat.core import CorpusSettings
from bertfeat.errors import UsageError, parameter
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.settings import HeadSettings, LearningSettings
from bertfeat.learning.sources import OpenSource


class Use(Enum):
    """A step of the work, or something that it deals with, to which settings apply."""

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


_PREDICTED = {
    HeadKind.TAG: Use.TAGS,
    HeadKind.CLASSIFY: Use.LABELS,
    HeadKind.ANSWER: Use.ANSWERS,
    HeadKind.CHOOSE: Use.CHOICES,
}

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
}
"""The steps that read a setting; those that are not listed (a device, a seed) are always read."""

_EPOCH_SETTINGS = ("dropout", "batch_size", "learning_rate", "epochs", "schedule", "patience")
"""Settings of training in epochs, which a linear head that is fitted by a solver does not read."""

_TUNED_SETTINGS = ("seed", "task", "max_answer", "scheme")
"""Settings of training that fine-tuning reads, too; the others belong to heads on stored features."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work on some sources, which decides the settings that are read."""

    sources: Sequence[OpenSource]
    kind: HeadKind | None = None  # of the head; None: not known yet
    pairs: bool = False  # the corpora are of pairs
    stored: bool = True  # a head on stored features learns or predicts
    tuning: bool = False  # a whole model is fine-tuned
    epochs: bool = True  # on stored features, a network is trained in epochs

    @property
    def corpora(self) -> bool:
        """Whether some source is a corpus."""
        return any(isinstance(source, Path) for source in self.sources)

    @property
    def features(self) -> str | None:
        """The folder of the first feature set, for messages."""
        return next((str(source[0].folder) for source in self.sources if not isinstance(source, Path)), None)

    def absent(self) -> dict[Use, str]:
        """The steps that are not done, each with the reason."""
        predicted = None if self.kind is None else _PREDICTED[self.kind]
        tuned = f"with {parameter('fine_tune')} the whole model is trained, by the settings that it names"
        recorded = f"{self.features} is a feature set and records its own"
        no_corpus = f"{self.features} is a feature set, and no corpus is given"
        other = "" if predicted is None else f"what is predicted here are {predicted.value}"
        choosing = predicted is Use.CHOICES
        no_pairs = f"no {parameter('pair_column')} is named" if self.corpora else recorded
        steps = {
            Use.READING: (self.corpora, no_corpus),
            Use.PAIRS: (self.corpora and self.pairs, no_pairs),
            Use.TAGS: (predicted is Use.TAGS, other),
            Use.LABELS: (predicted is Use.LABELS, other),
            Use.ANSWERS: (predicted is Use.ANSWERS, other),
            Use.CHOICES: (self.corpora and choosing, no_corpus if choosing else other),
            Use.EXTRACTION: (self.stored and self.features is None, recorded if self.stored else tuned),
            Use.STORED: (self.stored, tuned),
            Use.EPOCHS: (self.epochs, "without a hidden layer a head is solved"),
            Use.TUNING: (self.tuning, f"there is no {parameter('fine_tune')}"),
        }
        return {use: reason for use, (done, reason) in steps.items() if not done}


def refuse_unread_settings(work: Work, asked: LearningSettings, *, layers: str | None = None) -> None:
    """Refuse settings that were changed from their defaults and that no step of the work reads."""
    absent = work.absent()
    training = _changed(asked.training, HeadSettings())
    given = [*_changed(asked, LearningSettings()), *(["layers"] * bool(layers))]
    given += [*_changed(asked.reading, CorpusSettings()), *training]
    steps = {name: _STEPS[name] for name in given if name in _STEPS}
    steps |= {name: (Use.STORED,) for name in training if name not in _TUNED_SETTINGS}
    if work.stored:
        steps |= {name: (Use.EPOCHS,) for name in training if name in _EPOCH_SETTINGS}
    unread = {name: uses for name, uses in steps.items() if all(use in absent for use in uses)}
    if not unread:
        return
    reason = absent[next(iter(unread.values()))[0]]
    names = [name for name, uses in unread.items() if absent[uses[0]] == reason]
    uses = dict.fromkeys(use.value for name in names for use in unread[name])
    verb, pronoun = ("applies", "it") if len(names) == 1 else ("apply", "them")
    problem = f"{', '.join(map(parameter, names))} {verb} to {' and '.join(uses)}; {reason}"
    raise UsageError(problem, remedy=f"leave {pronoun} out")


def _changed(
    settings: HeadSettings | LearningSettings | CorpusSettings,
    usual: HeadSettings | LearningSettings | CorpusSettings,
) -> list[str]:
    """The names of the settings that differ from the defaults ``usual``."""
    return [each.name for each in fields(usual) if getattr(settings, each.name) != getattr(usual, each.name)]
