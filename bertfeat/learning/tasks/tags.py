"""The task of tagging: one tag per word of a sentence, for the word itself or as part of a span (the paper's
section 5.3).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertfeat.core import FeatureSet, FileCorpus, Pooling, find_sources, list_offsets, open_corpus
from bertfeat.errors import CorpusError, HeadError, UsageError, parameter
from bertfeat.learning.crf import allowed_transitions
from bertfeat.learning.example_store import ExampleBatch, ExampleRows, describe_source
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.record import Outputs
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.sources import GoldUse, SourceReading, check_file
from bertfeat.learning.spans import LabelSet, Scheme, TagScores, list_labels, score_tagger
from bertfeat.learning.tables import ExampleTable, FeatureRows, Gold
from bertfeat.learning.tag_files import MarkSpan, PredictionForm, TaggedText, bracket_span, choose_writer
from bertfeat.learning.task import (
    ExampleLayout,
    GoldExamples,
    Guess,
    HeadTexts,
    Offsets,
    PassageSpans,
    Prediction,
    Scores,
    Task,
    Threshold,
)
from bertfeat.learning.trainer import Example

if TYPE_CHECKING:
    from bertfeat.learning.sequences import HeadSequences, Sequencer


_TagLists = Sequence[tuple[str, ...]]


class Tags(Task):
    """The task of predicting one tag per word, by a two-layer BiLSTM over the words; for spans with a CRF on top."""

    name = "tags"
    kind = HeadKind.TAG
    architecture = "AutoModelForTokenClassification"
    hidden = 256
    least_hidden = 1
    longest = 1 << 30  # as many tokens as the model reads
    reads = Pooling.WORD
    recurrent = 2
    per_vector = True
    row_noun = "sentence"
    noun = "words"

    @cached_property
    def labels(self) -> LabelSet:
        """The labels that were learned, in their scheme."""
        return LabelSet(self.outputs.labels, Scheme(self.outputs.scheme or ""))

    @property
    def measure(self) -> str:
        """F1 of spans, accuracy of plain tags."""
        return "span F1" if self.labels.has_spans else "accuracy"

    # ── sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def pair_form(self, how: SourceReading) -> PairForm | None:
        """None: a tagger reads single texts."""
        return None

    def open_corpus(self, corpus: Path, how: SourceReading) -> FileCorpus:
        """Open a corpus of single texts whose words have tags, if these are needed; else CoNLL files may lack them."""
        reading = how.corpus
        check_file(corpus)
        (source,) = find_sources([corpus], reading.format)
        if how.gold is GoldUse.NEEDED and not reading.has_tags(source.format):
            raise _untagged_error(f"a {source.format.name} file has no tags", str(corpus))
        if how.document_context is False and reading.document_context:
            raise UsageError(f"the tagger was trained without {parameter('document_context')}", remedy="leave it out")
        if how.document_context and not source.format.brings_tags:
            problem = "the tagger was trained with document context, so its input has to be CoNLL with -DOCSTART- lines"
            raise UsageError(problem, where=how.head)
        if source.format.brings_tags and how.gold is GoldUse.IGNORED and reading.tag_column is None:
            reading = replace(reading, tag_column="1")  # a first column always exists; its content is not used
        if how.document_context is not None:
            reading = replace(reading, document_context=how.document_context)
        opened = open_corpus([corpus], reading, name=how.name)
        if opened.has_pairs:
            problem = "a tagger reads single texts, and these are pairs"
            raise UsageError(problem, where=corpus, remedy="read one text of each")
        return opened

    def check_gold(self, features: FeatureSet, how: SourceReading) -> None:
        """Refuse a feature set whose words have no tags."""
        if "tags" not in features.names:
            raise _untagged_error("its words have no tags", describe_source(features))

    # ── gold values ─────────────────────────────────────────────────────────────────────────────────────────

    def has_gold(self, table: ExampleTable, label: str | None) -> bool:
        """Whether the words of a table have tags."""
        return table.has_tags

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The tags of each sentence that has words."""
        return tuple(tags for tags in table.tags() if tags)

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """The labels of the tags; tags of spans are rewritten in the scheme that the settings name."""
        tags = cast("_TagLists", gold)
        try:
            labels = LabelSet.of(tags, inside=Scheme(settings.scheme))
        except (CorpusError, HeadError) as error:
            raise error.within(origin) from error
        counts = Counter(number for numbers in labels.numbers(tags) for number in numbers)
        return Outputs(labels.names, scheme=str(labels.scheme), usual=counts.most_common(1)[0][0])

    def unknown(self, gold: Sequence[Gold]) -> tuple[str, ...]:
        """The tags, rewritten in the scheme of the labels, that the head never learned."""
        return tuple(self.labels.unknown(cast("_TagLists", gold)))

    def check_dev(self, gold: Sequence[Gold], origin: str) -> None:
        """Refuse a development set on which every score would be 0."""
        labels, tags = self.labels, cast("_TagLists", gold)
        try:
            unknown, useful = labels.unknown(tags), labels.can_learn_from(tags)
        except CorpusError as error:
            raise error.within(origin) from error
        if not useful:
            what = f"only tags that the training set lacks ({list_labels(unknown)})" if unknown else "no span"
            raise HeadError(
                f"the development set has {what}, so no epoch is better than another",
                where=origin,
                remedy="give one with tags that can be learned",
            )

    # ── features, network ───────────────────────────────────────────────────────────────────────────────────

    def settle(self, settings: HeadSettings, examples: int) -> HeadSettings:
        """Complete the settings: by default there is a CRF where tags stand for spans."""
        crf = self.labels.has_spans if settings.crf is None else settings.crf
        return super().settle(replace(settings, crf=crf), examples)

    def lay_out(self, sets: Sequence[FeatureRows], table: ExampleTable, rows: NDArray[np.int64]) -> ExampleLayout:
        """The words of each sentence that has any."""
        first, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for batch in sets[0].stream(["row", "word_start"], batch_rows=8192):
            counts = np.diff(list_offsets(batch, "word_start"))
            first.append(batch.column("row").to_numpy()[counts > 0])
            lengths.append(counts[counts > 0].astype(np.int32))
        begins = np.concatenate(first)
        return ExampleLayout(ExampleRows(begins, begins + 1, np.concatenate(lengths)))

    def vectors_per_example(self, texts: HeadTexts) -> int:
        """The words of a sentence."""
        return max(1, round(float(np.mean([len(words) for words in texts.others]))))

    def make_network(self, shape: HeadShape) -> HeadNetwork:
        """An untrained network, whose CRF allows only the transitions that the scheme of spans allows."""
        allowed = allowed_transitions(self.labels.names) if self.labels.has_spans else None
        return HeadNetwork(shape, allowed)

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """The number of each word's label: ``[N]`` int64."""
        numbers = self.labels.numbers(cast("_TagLists", gold.values))
        return np.fromiter((number for listed in numbers for number in listed), np.int64)

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean over words of the negative log probability of their labels: ``[N, K]``, numbers ``[N]``."""
        return cross_entropy(scores, targets)

    def batch_loss(self, network: HeadNetwork, batch: ExampleBatch, targets: Tensor, allowed: Tensor | None) -> Tensor:
        """The same, or with a CRF the negative log probability of the tags of whole sentences, divided by the words."""
        scores = network(batch)
        if network.crf is None:
            return self.mean_loss(scores, targets)
        return -network.crf.log_likelihood(scores, targets, batch.sizes).sum() / len(targets)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The tags of each sentence, BIO for spans: scores of all words ``[N, K]``."""
        best = scores.argmax(1).tolist()
        return [Guess(tuple(self.labels.tags(best[first:last]))) for first, last in pairwise(offsets.tolist())]

    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> TagScores:
        """Precision, recall and F1 of spans, or the accuracy of plain tags."""
        return score_tagger(cast("_TagLists", gold), [cast("tuple[str, ...]", guess.value) for guess in guesses])

    def predictions(
        self,
        table: ExampleTable,
        guesses: Sequence[Guess],
        threshold: Threshold,
        passages: Sequence[str],
        gold: Sequence[Gold],
    ) -> Iterator[Prediction]:
        """The sentences with their words and tags; one without words has none."""
        made = iter(guesses)
        for sentence in table.sentences():
            tags = cast("tuple[str, ...]", next(made).value) if sentence.start else ()
            yield replace(sentence, tags=tags, gold=sentence.gold if gold else None)

    def writer(
        self, to: PredictionForm | None, choices: tuple[str, ...], mark: MarkSpan | None
    ) -> Callable[[Prediction], str]:
        """CoNLL (the default), JSON, or the text with its spans marked."""
        write = choose_writer(to or "conll", has_spans=self.labels.has_spans, mark=mark or bracket_span)
        return lambda row: write(cast("TaggedText", row))

    # ── texts, fine-tuning ──────────────────────────────────────────────────────────────────────────────────

    def read_texts(self, table: ExampleTable, gold: Sequence[Gold]) -> HeadTexts:
        """The sentences that have words."""
        sentences = [sentence for sentence in table.sentences() if sentence.start]
        if any(sentence.words is None for sentence in sentences):
            raise HeadError("it holds no texts", where=table.where, remedy="give the corpus")
        words = tuple(sentence.words or () for sentence in sentences)
        texts = tuple(" ".join(listed) for listed in words)
        return HeadTexts(tuple(sentence.id for sentence in sentences), texts, words, tuple(gold))

    def example_ids(self, table: ExampleTable) -> tuple[str, ...]:
        """The id of each sentence that has words."""
        return tuple(sentence.id for sentence in table.sentences() if sentence.start)

    def sequences(self, sequencer: "Sequencer", texts: HeadTexts) -> "HeadSequences":
        """Windows of each sentence, cut between words."""
        return sequencer.read_words(texts)

    def with_targets(self, train: HeadTexts, read: "HeadSequences") -> list[Example]:
        """The windows with the number of each word's label at the word's first piece."""
        numbers = list(self.labels.numbers(cast("_TagLists", train.gold)))
        return [
            {**example, "labels": window.labels(numbers[window.sentence])}
            for example, window in zip(read.examples, read.words, strict=True)
        ]

    def tuned_guesses(
        self,
        texts: HeadTexts,
        read: "HeadSequences",
        scores: Sequence[NDArray[np.float32]],
        max_answer: int,
    ) -> list[Guess]:
        """The tags by the best label at each word's first piece, from scores ``[T, K]`` for each window.

        A word without pieces gets the most frequent label of the training set.
        """
        numbers = [[self.outputs.usual] * len(words) for words in texts.others]
        for window, row in zip(read.words, scores, strict=True):
            for word, place in zip(window.words.tolist(), window.places.tolist(), strict=True):
                numbers[window.sentence][word] = int(row[place].argmax())
        return [Guess(tuple(self.labels.tags(listed))) for listed in numbers]


def _untagged_error(problem: str, where: str) -> HeadError:
    settings = f"{parameter('pretokenized', True)} with {parameter('tag_column')}"
    return HeadError(problem, where=where, remedy=f"CoNLL files bring them, and JSON, CSV or Parquet by {settings}")
