"""The data of a training: two comparable feature sets, what is read from them, and their labels."""

from dataclasses import dataclass

from bertfeat.derivation import Derivation
from bertfeat.errors import CorpusError, TaggerError
from bertfeat.features import FeatureSet, ModelIdentity
from bertfeat.io import Location
from bertfeat.tagging.labels import LabelSet, list_labels
from bertfeat.tagging.schemes import Scheme
from bertfeat.tagging.sentences import SentenceStore
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.training import Extraction, LayerInput, check_same_features, choose_input, derive_input, extraction_of


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences to learn from, and those of the development set, of which the best epoch is chosen."""

    model: ModelIdentity
    extraction: Extraction
    input: LayerInput
    train: SentenceStore
    dev: SentenceStore
    labels: LabelSet
    gold: tuple[tuple[str, ...], ...]  # tags of the development set
    warnings: tuple[str, ...]

    @classmethod
    def of(
        cls, train_set: FeatureSet, dev_set: FeatureSet, layers: str | None, settings: TrainingSettings
    ) -> "TrainingData":
        """Look through both sets; features are read later.

        Raises:
            NotDerivableError: they do not hold the layers.
            TaggerError: they are of different models, or have no tags, no words, or nothing to learn.
        """
        model = train_set.header.model
        layer_input = choose_input(layers, train_set.columns, model.num_layers)
        derivation = derive_input(layer_input, train_set)  # an error of it comes before one of the other set
        extraction = extraction_of(train_set)
        check_same_features(dev_set, model, extraction, str(train_set.folder))
        train, dev = _open_stores(train_set, derivation, dev_set, derive_input(layer_input, dev_set), settings.memory)
        labels = _collect_labels(train, Scheme(settings.scheme))
        gold = tuple(dev.tags())
        return cls(model, extraction, layer_input, train, dev, labels, gold, _check_dev(dev.folder, labels, gold))

    @property
    def digests(self) -> dict[str, str]:
        """The digests that identify both sets."""
        return {"train": self.train.digest, "dev": self.dev.digest}

    def check_unchanged(self) -> None:
        """Check that the sets did not change since they were opened.

        Raises:
            TaggerError: one was changed since, or is being changed.
        """
        self.train.check_unchanged()
        self.dev.check_unchanged()


def _open_stores(
    train_set: FeatureSet,
    train_input: Derivation,
    dev_set: FeatureSet,
    dev_input: Derivation,
    memory: int,
) -> tuple[SentenceStore, SentenceStore]:
    """Both sets within the memory: the development set is kept where it takes no more than a quarter of it."""
    dev = SentenceStore(dev_set, dev_input, max(1, memory // 4))
    left = memory - (dev.bytes if dev.fits else memory // 4)
    return SentenceStore(train_set, train_input, left), dev


def _collect_labels(store: SentenceStore, inside: Scheme) -> LabelSet:
    try:
        return LabelSet.of(store.tags(), inside=inside)
    except (CorpusError, TaggerError) as error:
        raise error.within(store.origin) from error


def _check_dev(place: Location, labels: LabelSet, gold: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Refuse a development set on which every score would be 0; return the warnings about it."""
    try:
        unknown, useful = labels.unknown(gold), labels.can_learn_from(gold)
    except CorpusError as error:
        raise error.within(place) from error
    if not useful:
        what = f"only tags that the training set lacks ({list_labels(unknown)})" if unknown else "no span"
        raise TaggerError(
            f"the development set has {what}, so no epoch is better than another",
            where=place,
            remedy="give one with tags that can be learnt",
        )
    if unknown:
        return (f"{place} has tags that the training set lacks, and never can be right: {list_labels(unknown)}",)
    return ()
