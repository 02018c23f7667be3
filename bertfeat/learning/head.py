"""Saved heads, opened to predict from stored features or from texts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from bertfeat.arguments import checked
from bertfeat.core import (
    Corpus,
    CorpusItem,
    CorpusSettings,
    DocumentFeatures,
    Extractor,
    Failure,
    FeatureColumn,
    MemoryFeatures,
    Pooling,
    derive,
    format_of,
    memory_corpus,
    resolve_device,
)
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, HeadError, UsageError, errors_within, parameter
from bertfeat.io import pickle_by_folder
from bertfeat.learning.example_store import ExampleChunk
from bertfeat.learning.examples import open_examples
from bertfeat.learning.fine_tuning import TunedHead, load_tuned_head, open_table
from bertfeat.learning.head_files import MODEL_NAME, check_tuned_model, read_head_record, read_head_weights
from bertfeat.learning.inputs import check_same_features
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.loop import store_guesses
from bertfeat.learning.settings import MEMORY, LearningSettings
from bertfeat.learning.sources import GoldUse, HeadSource, OpenSource, SourceReading, file_source, open_head_source
from bertfeat.learning.spans import LabelSet
from bertfeat.learning.tables import CorpusTable, ExampleTable, FeatureRows, Gold, check_pairs
from bertfeat.learning.tag_files import TaggedText
from bertfeat.learning.task import Guess, HeadScores, Prediction, network_scores
from bertfeat.learning.tasks import task_of
from bertfeat.learning.tasks.tags import Tags
from bertfeat.learning.work import Work, refuse_unread_settings
from bertfeat.ragged import lengths_of, offsets_of

# ── heads ─────────────────────────────────────────────────────────────────────────────────────────────────


_BLOCK = 512  # rows of a corpus that are embedded and predicted at a time


@displayed
@dataclass(frozen=True, slots=True)
class HeadPredictions:
    """The predictions of a head for the examples of a source."""

    rows: tuple[Prediction, ...]
    failures: tuple[Failure, ...]  # rows that could not be read or embedded
    scores: HeadScores | None  # None where the source has no gold values


@dataclass(frozen=True, slots=True)
class _GuessedRows:
    """The guesses of a head for some rows of a source."""

    table: ExampleTable
    guesses: Sequence[Guess]
    gold: Sequence[Gold]  # one for each guess, or empty
    passages: Sequence[str]  # one for each guess, or empty


@checked
class Head:
    """A head that ``bertfeat tag``, ``classify``, ``answer`` or ``choose`` trained.

    ``model`` says where the recorded encoder is now, if it was moved; it is looked up when texts are read.

    Raises:
        HeadError: the folder holds no sound head.
    """

    def __init__(self, folder: str | Path, *, model: str | Path | None = None, device: str | None = None) -> None:
        self.folder = Path(folder)
        self.record = read_head_record(self.folder)
        self.device = resolve_device(device)
        self._model, self._device = model, device
        self.task = task_of(self.record.kind, self.record.training.task).with_outputs(self.record.outputs)
        self._tuned: TunedHead | None = None
        if self.record.network is None:
            if model is not None:
                problem = f"{parameter('model')} applies to heads on stored features; {folder} is a model of its own"
                raise UsageError(problem, remedy="leave it out")
            check_tuned_model(self.folder, self.record)
            longest = self.record.training.max_answer
            self._tuned = load_tuned_head(self.folder / MODEL_NAME, self.task, device=device, max_answer=longest)
        else:
            weights = read_head_weights(self.folder, self.record)
            self._network = self.task.make_network(self.record.network)
            self._network.load_state_dict(weights)
            self._network.to(self.device).eval()

    def __reduce__(self) -> tuple[object, ...]:
        return pickle_by_folder(self, {"model": self._model, "device": self._device}, self.record, HeadError)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}: {self.record.kind}, {self.record.approach})"

    @property
    def mix_weights(self) -> dict[int, float] | None:
        """The share of each layer in the learned weighted sum; None where none is learned."""
        shares = None if self.record.network is None else self._network.mix_shares
        return None if shares is None else dict(zip(self.record.input.recipe.layers, shares, strict=True))

    @cached_property
    def extractor(self) -> Extractor:
        """The recorded model, ready to make the features that the head reads.

        Raises:
            ModelError: it cannot be found.
            FeatureSetError: the model there is not the recorded one.
        """
        reads = self.record.reads()
        recipe = reads.layers.recipe
        width, dtype = recipe.width(reads.model.hidden_size), reads.extraction.dtype
        column = FeatureColumn(recipe, reads.pooling, width, "float32" if reads.pooling.per_document else dtype)
        settings, columns = reads.extraction.settings, reads.extraction.stored or (column,)
        return Extractor.from_record(
            reads.model, settings, columns, name=self._model, device=self._device, where=self.folder
        )

    def predict(
        self,
        source: HeadSource,
        *,
        corpus_settings: CorpusSettings | None = None,
        label: str | None = None,
        choices: tuple[str, ...] = (),
        with_gold: bool = True,
        needs_gold: bool = False,
    ) -> HeadPredictions:
        """Predict for a corpus file (``"-"``: standard input) or feature sets, and score where they hold gold values.

        ``label`` and ``choices`` are columns; by default those of the training corpus. Without ``with_gold``, gold
        values are not looked for; with ``needs_gold`` or a named ``label``, a source without them is refused.

        Raises:
            HeadError: the sets were made by another model or in another way than the head's; gold values are needed,
                and the source has none.
            NotDerivableError: the sets do not hold the layers that the head reads.
            CorpusError: the corpus cannot be read.
        """
        use = GoldUse.READ if with_gold else GoldUse.IGNORED
        if with_gold and (needs_gold or label is not None):
            use = GoldUse.NEEDED
        opened, how = self._opened(source, corpus_settings, label, choices, use)
        rows: list[Prediction] = []
        failures: list[Failure] = []
        gold: list[Gold] = []
        guesses: list[Guess] = []
        passages: list[str] = []
        where = ""
        for block in self._guessed(opened, how):
            where = block.table.where
            rows += self._predictions(block)
            failures += block.table.failures
            gold += block.gold
            guesses += block.guesses
            passages += block.passages
        with errors_within(where):
            scores = self.task.score(gold, guesses, passages, self.record.threshold) if gold else None
        return HeadPredictions(tuple(rows), tuple(failures), scores)

    def stream(
        self,
        source: HeadSource,
        *,
        corpus_settings: CorpusSettings | None = None,
        choices: tuple[str, ...] = (),
        with_gold: bool = False,
    ) -> Iterator[Prediction | Failure]:
        """Predict row by row; rows that fail are yielded as :class:`Failure`.

        A head on stored features predicts for a corpus in blocks, so that the corpus may be of any length.

        Raises:
            HeadError, NotDerivableError, CorpusError: see :meth:`predict`.
        """
        use = GoldUse.READ if with_gold else GoldUse.IGNORED
        opened, how = self._opened(source, corpus_settings, None, choices, use)
        return self._streamed(self._guessed(opened, how))

    def predict_texts(self, texts: Iterable[CorpusItem]) -> list[Prediction]:
        """Predict for texts in memory: strings, or :class:`bertfeat.Document` with words of their own.

        Raises:
            HeadError: the head reads pairs or choices, or the items are pairs.
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        if self.record.pairs is not None:
            problem = f"{self.record.kind.noun} of pairs reads no single texts"
            raise HeadError(problem, where=self.folder, remedy="give a file to predict()")
        corpus = memory_corpus(texts)
        self._check_pairs(corpus.has_pairs, "the list")
        how = SourceReading(gold=GoldUse.READ if corpus.has_tags else GoldUse.IGNORED)
        if self._tuned is None:
            blocks: Iterable[_GuessedRows] = (self._guess_features(block, how) for block in self._computed([corpus], 1))
        else:
            blocks = [self._guess_table(self._tuned, CorpusTable(corpus), how)]
        found: list[Prediction] = []
        for row in self._streamed(blocks):
            if isinstance(row, Failure):
                raise UsageError(f"a text cannot be read: {row.reason}")
            found.append(row)
        return found

    def _streamed(self, blocks: Iterable[_GuessedRows]) -> Iterator[Prediction | Failure]:
        for block in blocks:
            yield from self._predictions(block)
            yield from block.table.failures

    def _predictions(self, block: _GuessedRows) -> Iterator[Prediction]:
        return self.task.predictions(block.table, block.guesses, self.record.threshold, block.passages, block.gold)

    def _opened(
        self,
        source: HeadSource,
        corpus_settings: CorpusSettings | None,
        label: str | None,
        choices: tuple[str, ...],
        gold: GoldUse,
    ) -> tuple[OpenSource, SourceReading]:
        """The source, and how it is read; settings that nothing would read are refused."""
        record, reading = self.record, corpus_settings or CorpusSettings()
        how = SourceReading(
            reading,
            None if gold is GoldUse.IGNORED else label or record.columns.label,
            choices or record.columns.choices,
            record.pairs,
            gold,
            head=None if label else self.folder,
            document_context=None if record.extraction is None else record.extraction.document_context,
        )
        opened = open_head_source(source)
        asked = LearningSettings(label=label, choices=choices, corpus_settings=reading)
        refuse_unread_settings(Work([opened], record.kind), asked)
        if not isinstance(opened, Path):
            self.task.check_source(opened, how)
        return opened, how

    def _check_pairs(self, has_pairs: bool | None, where: object) -> None:
        check_pairs(has_pairs, where, needed=self.record.pairs is not None, other=f"the head {self.folder}")

    # ── guesses ─────────────────────────────────────────────────────────────────────────────────────────────

    def _guessed(self, source: OpenSource, how: SourceReading) -> Iterator[_GuessedRows]:
        """The guesses for a source: block by block for a corpus read by a head on stored features, else all at once."""
        if not isinstance(source, Path):
            if self._tuned is None:
                yield self._guess_features(source, how)
            else:
                yield self._guess_table(self._tuned, open_table(self.task, source, how), how)
            return
        with self._readable(source, how) as (file, readable):
            if self._tuned is not None:
                yield self._guess_table(self._tuned, open_table(self.task, file, readable), readable)
                return
            self.task.check_source(file, readable)  # reports wrong columns before anything is computed
            corpora = [corpus for _, corpus in self.task.open_corpora(file, readable)]
            self._check_pairs(len(corpora) == 2 or corpora[0].has_pairs, readable.name or file)
            for block in self._computed(corpora, max(1, len(readable.choices))):
                yield self._guess_features(block, readable)

    @contextmanager
    def _readable(self, corpus: Path, how: SourceReading) -> Iterator[tuple[Path, SourceReading]]:
        """The corpus as a file, and how it is read: by the training corpus's columns where none are named."""
        given, columns = how.corpus, self.record.columns
        if format_of(str(corpus), given.format).records:
            texts, pair = given.text_columns or columns.texts, given.pair_column or columns.pair
            how = replace(how, corpus=replace(given, text_columns=texts, pair_column=pair))
        try:
            with file_source(corpus) as file:
                yield file, how if file == corpus else replace(how, name="standard input")
        except CorpusError as error:
            if how.document_context and not given.document_context:  # it comes from the head, not from the caller
                error.remedy = f"{self.folder} was trained with document context, and tags nothing else"
            raise

    def _computed(self, corpora: Sequence[Corpus], together: int) -> Iterator[tuple[MemoryFeatures, ...]]:
        """Compute the features of corpora read side by side, block by block; groups of ``together`` rows stay whole."""
        size = max(together, _BLOCK - _BLOCK % together)
        for block in zip(*(self.extractor.blocks(corpus, size) for corpus in corpora), strict=True):
            failed = {failure.row for features in block for failure in features.failures()}
            yield block if len(block) == 1 else tuple(features.without(failed) for features in block)

    def _guess_features(self, sets: Sequence[FeatureRows], how: SourceReading) -> _GuessedRows:
        record, reads = self.record, self.record.reads()
        for features in sets:
            if not isinstance(features, MemoryFeatures):
                check_same_features(features, reads.model, reads.extraction, f"the head {self.folder}", reads.pooling)
        assert record.network is not None
        if len(sets) != record.network.texts:
            raise HeadError(
                f"the head reads {'two sets, of first and of second texts' if record.network.texts == 2 else 'one set'}"
                f", and this is {len(sets)}",
                where=sets[0].folder,
                remedy="give the corpus, or both folders joined by a comma",
            )
        examples = open_examples(
            self.task,
            sets,
            reads,
            label=how.label,
            budget=MEMORY,
            reader=f"the head {self.folder}",
            with_gold=how.gold is not GoldUse.IGNORED,
            may_be_empty=True,
        )
        guesses = store_guesses(self.task, self._network, examples, record.training, self.device)
        return _GuessedRows(examples.table, guesses, examples.gold, examples.passages)

    def _guess_table(self, tuned: TunedHead, table: ExampleTable, how: SourceReading) -> _GuessedRows:
        """The guesses of a fine-tuned model for the texts of a table."""
        self._check_pairs(table.has_pairs, table.where)
        gold = () if how.gold is GoldUse.IGNORED else self.task.gold_of(table, how.label)
        texts = self.task.read_texts(table, gold)
        return _GuessedRows(table, tuned.guesses(texts), texts.gold, texts.passages)


# ── taggers ───────────────────────────────────────────────────────────────────────────────────────────────


@checked
class Tagger(Head):
    """A tagger that ``bertfeat tag train`` saved.

    ``model`` says where the recorded encoder is now, if it was moved; it is looked up when texts are tagged.

    Raises:
        HeadError: the folder holds no sound tagger.
    """

    def __init__(self, folder: str | Path, *, model: str | Path | None = None, device: str | None = None) -> None:
        super().__init__(folder, model=model, device=device)
        if self.record.kind is not HeadKind.TAG:
            remedy = f"bertfeat {self.record.kind} uses it"
            raise HeadError(f"this is {self.record.kind.noun}, not a tagger", where=self.folder, remedy=remedy)

    @property
    def labels(self) -> LabelSet:
        """The labels that it predicts, in the scheme that it learned them in."""
        return cast("Tags", self.task).labels

    def tag(self, texts: Iterable[CorpusItem]) -> list[TaggedText]:
        """Tag texts, as strings or as :class:`bertfeat.Document` with words of their own.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        return cast("list[TaggedText]", self.predict_texts(texts))

    def tag_documents(self, documents: Sequence[DocumentFeatures]) -> Iterator[TaggedText]:
        """Tag documents with the features that the tagger reads."""
        with_words = [document for document in documents if document.words is not None and len(document.words)]
        tags = iter(self._tags_of(with_words) if with_words else ())
        for document in documents:
            words = document.words
            found = next(tags) if words is not None and len(words) else ()
            yield TaggedText(
                document.row,
                document.id,
                document.text,
                tuple(words.strings) if words is not None and words.strings is not None else None,
                tuple(words.start.tolist()) if words is not None else (),
                tuple(words.end.tolist()) if words is not None else (),
                found,
                tuple(document.tags) if document.tags is not None else None,
            )

    def _tags_of(self, documents: Sequence[DocumentFeatures]) -> Iterator[tuple[str, ...]]:
        derivation = derive(self.record.input.recipe, Pooling.WORD, documents[0].columns)
        matrices = [derivation.apply(document.stored) for document in documents]
        offsets = offsets_of(lengths_of(matrices))
        chunk = ExampleChunk(offsets, np.concatenate(matrices), np.arange(len(matrices)))
        scores = network_scores(self._network, chunk, self.device)
        for guess in self.task.guesses(scores, offsets, None):
            yield cast("tuple[str, ...]", guess.value)
