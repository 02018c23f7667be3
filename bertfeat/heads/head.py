"""A saved head: it predicts from feature sets, and from texts, which the model of its features embeds."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bertfeat.corpus import CorpusSettings, Failure, format_of
from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError
from bertfeat.extraction import Extractor, OnProgress
from bertfeat.features import FeatureSet
from bertfeat.heads.datasets import HeadOptions, HeadSource, OpenSets, extract_sets, file_source, open_sets
from bertfeat.heads.examples import open_examples
from bertfeat.heads.gold import Gold, read_gold
from bertfeat.heads.guesses import Guess, HeadScores, score_guesses
from bertfeat.heads.head_files import MODEL_NAME, check_tuned_weights, read_head_record, read_head_weights
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.loop import store_guesses
from bertfeat.heads.networks import HeadNetwork
from bertfeat.heads.settings import ExampleColumns
from bertfeat.heads.tables import FeatureTable
from bertfeat.heads.texts import HeadTexts, name_examples, read_texts
from bertfeat.heads.tuned_heads import SavedTunedHead, load_tuned_head
from bertfeat.heads.tuned_training import open_table
from bertfeat.recipe import FeatureColumn
from bertfeat.tagging import refuse_corpus_settings
from bertfeat.training import MEMORY, check_same_features


@dataclass(frozen=True, slots=True)
class HeadPrediction:
    """What a head says of one example."""

    id: str
    value: str | float | int  # a label, a number, the number of a choice, or an answer ("": none)
    probability: float | None = None  # of that label or choice
    start: int | None = None  # of an answer, in characters of the passage
    end: int | None = None
    no_answer: float | None = None  # higher where an answer is less likely
    gold: Gold | None = None


@dataclass(frozen=True, slots=True)
class HeadPredictions:
    """What a head says of the examples of a source."""

    rows: tuple[HeadPrediction, ...]
    failures: tuple[Failure, ...]  # rows that could not be read or embedded
    scores: HeadScores | None  # where the source says what is right


class Head:
    """A head that ``bertfeat classify``, ``answer`` or ``choose`` trained.

    ``model`` says where the recorded encoder is now, if not where it was; it is looked up when texts are read.

    Raises:
        HeadError: the folder holds no sound head.
    """

    def __init__(self, folder: str | Path, *, model: str | Path | None = None, device: str | None = None) -> None:
        self.folder = Path(folder)
        self.record = read_head_record(self.folder)
        self.device = resolve_device(device)
        self._model, self._device = model, device
        self._tuned: SavedTunedHead | None = None
        if self.record.network is None:
            check_tuned_weights(self.folder, self.record)
            self._tuned = load_tuned_head(
                self.folder / MODEL_NAME,
                self.record.kind,
                self.record.outputs,
                device=device,
                max_answer=self.record.training.max_answer,
            )
        else:
            self._network = HeadNetwork(self.record.network)
            self._network.load_state_dict(read_head_weights(self.folder, self.record))
            self._network.to(self.device).eval()

    def __repr__(self) -> str:
        return f"Head({str(self.folder)!r}: {self.record.kind}, {self.record.approach})"

    @property
    def mix_weights(self) -> dict[int, float] | None:
        """The share of each layer in the learned weighted sum; None where none is learnt."""
        shares = None if self.record.network is None else self._network.mix_shares
        return None if shares is None else dict(zip(self.record.input.recipe.layers, shares, strict=True))

    def predict(
        self,
        source: HeadSource,
        *,
        corpus_settings: CorpusSettings | None = None,
        label: str | None = None,
        choices: tuple[str, ...] = (),
        progress: OnProgress | None = None,
    ) -> HeadPredictions:
        """Predict for a corpus file (``"-"``: standard input) or feature sets; scored where they say what is right.

        ``label`` and ``choices`` are columns; by default those of the training corpus.

        Raises:
            HeadError: the sets were made by another model or in another way than the head's.
            NotDerivableError: they do not hold the layers that it reads.
            CorpusError: the corpus cannot be read.
        """
        record = self.record
        columns = record.columns
        reading = corpus_settings or CorpusSettings()
        options = HeadOptions(
            record.kind,
            pairs=record.pairs,
            label=label or columns.label,
            choices=choices or columns.choices,
            reading=reading,
            progress=progress,
        )
        opened = open_sets(source)
        if not isinstance(opened, Path):
            refuse_corpus_settings(reading, f"{opened[0].folder} is a feature set")
        if self._tuned is not None:
            return self._predict_texts(self._tuned, opened, options)
        if not isinstance(opened, Path):
            return self._predict_sets(opened, options)
        options = replace(options, reading=_with_columns(reading, opened, columns))
        with self._extracted(opened, options) as sets:
            return self._predict_sets(sets, options)

    def _predict_texts(self, tuned: SavedTunedHead, source: OpenSets, options: HeadOptions) -> HeadPredictions:
        """What a fine-tuned model says of the texts of a source."""
        record = self.record
        with ExitStack() as stack:
            if isinstance(source, Path):
                options = replace(options, reading=_with_columns(options.reading, source, record.columns))
                source = stack.enter_context(file_source(source, options.reading))
            table = open_table(source, options)
            gold = read_gold(record.kind, table, options.label, regression=record.training.regression)
            texts = read_texts(record.kind, table, gold)
        return self._predictions(texts, tuned.guesses(texts), table.failures)

    @contextmanager
    def _extracted(self, corpus: Path, options: HeadOptions) -> Iterator[tuple[FeatureSet, ...]]:
        """The feature sets of a corpus, for as long as they are read."""
        with TemporaryDirectory() as scratch_dir, file_source(corpus, options.reading) as file:
            extractor = self._extractor()
            yield extract_sets(file, options, extractor, Path(scratch_dir), "corpus")

    def _extractor(self) -> Extractor:
        """The extractor that makes the features that the head reads.

        Raises:
            FeatureSetError: the model there is not the recorded one.
        """
        reads = self.record.reads()
        recipe = reads.layers.recipe
        width, dtype = recipe.width(reads.model.hidden_size), reads.extraction.dtype
        column = FeatureColumn(recipe, reads.pooling, width, "float32" if reads.pooling.per_document else dtype)
        settings = reads.extraction.settings
        return Extractor.from_record(reads.model, settings, [column], name=self._model, device=self._device)

    def _predict_sets(self, sets: Sequence[FeatureSet], options: HeadOptions) -> HeadPredictions:
        record, reads = self.record, self.record.reads()
        for features in sets:
            check_same_features(features, reads.model, reads.extraction, f"the head {self.folder}", reads.pooling)
        assert record.network is not None
        if len(sets) != record.network.texts:
            raise HeadError(
                f"the head reads {'two sets, of first and of second texts' if record.network.texts == 2 else 'one set'}"
                f", and this is {len(sets)}",
                where=sets[0].folder,
                remedy="give the corpus, or both folders joined by a comma",
            )
        regression = record.training.regression
        examples = open_examples(
            record.kind, sets, reads.layers, reads.pooling, label=options.label, regression=regression, budget=MEMORY
        )
        guesses = store_guesses(self._network, examples, record.outputs, record.training, self.device)
        table = FeatureTable(sets)
        texts = name_examples(record.kind, table, examples.passages, examples.gold)
        return self._predictions(texts, guesses, table.failures)

    def _predictions(
        self, texts: HeadTexts, guesses: Sequence[Guess], failures: tuple[Failure, ...]
    ) -> HeadPredictions:
        record = self.record
        passages = texts.passages
        golds: Sequence[Gold | None] = texts.gold or (None,) * len(guesses)
        rows = tuple(
            self._prediction(owner, guess, passage, gold)
            for owner, guess, passage, gold in zip(texts.ids, guesses, passages, golds, strict=True)
        )
        scores = None
        if texts.gold:
            regression = record.training.regression
            scores = score_guesses(
                record.kind,
                texts.gold,
                guesses,
                regression=regression,
                passages=passages,
                threshold=record.threshold,
            )
        return HeadPredictions(rows, failures, scores)

    def _prediction(self, owner: str, guess: Guess, passage: str, gold: Gold | None) -> HeadPrediction:
        if self.record.kind is not HeadKind.ANSWER:
            return HeadPrediction(owner, guess.value, max(guess.scores, default=None), gold=gold)
        threshold = self.record.threshold
        if threshold is not None and guess.no_answer > threshold:
            return HeadPrediction(owner, "", no_answer=guess.no_answer, gold=gold)
        text = passage[guess.start : guess.end]
        return HeadPrediction(owner, text, None, guess.start, guess.end, guess.no_answer, gold)


def _with_columns(reading: CorpusSettings, corpus: Path, columns: ExampleColumns) -> CorpusSettings:
    """How a corpus is read: by the columns of the training corpus, where it has columns and none are named."""
    if not format_of(str(corpus), reading.format).records:
        return reading
    texts, pair = reading.text_columns or columns.texts, reading.pair_column or columns.pair
    return replace(reading, text_columns=texts, pair_column=pair)
