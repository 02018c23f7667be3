"""A saved tagger: it tags features, and texts, which the model of its features embeds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from bertfeat.corpus import BlankLine, Corpus, CorpusItem, Failure, memory_corpus
from bertfeat.derivation import derive
from bertfeat.encoder import resolve_device
from bertfeat.errors import UsageError
from bertfeat.extraction import Embedder
from bertfeat.features import DocumentFeatures, FeatureSet, content_documents
from bertfeat.io import prefetched
from bertfeat.recipe import FeatureColumn, Pooling
from bertfeat.tagging.inference import predict_chunk, predict_store
from bertfeat.tagging.network import TaggerNetwork
from bertfeat.tagging.schemes import read_spans
from bertfeat.tagging.scores import Scores, score_tagger
from bertfeat.tagging.sentences import SentenceStore
from bertfeat.tagging.tagger_files import read_tagger_settings, read_tagger_weights
from bertfeat.training import MEMORY, ExampleChunk, check_same_features, derive_input

_BLOCK = 512  # documents at a time


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A labelled span of a text."""

    label: str
    start: int  # characters
    end: int
    text: str | None  # None where the features were made without texts


@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text with a tag for each of its words."""

    row: int
    id: str
    text: str | None
    words: tuple[str, ...] | None  # None where the features were made without texts
    start: tuple[int, ...]  # character offsets of the words
    end: tuple[int, ...]
    tags: tuple[str, ...]  # BIO, or plain ones
    gold: tuple[str, ...] | None  # tags that the input brought

    @property
    def spans(self) -> tuple[TextSpan, ...]:
        """The spans that BIO tags stand for.

        Raises:
            CorpusError: the tags are plain ones.
        """
        bounds = [(span.label, self.start[span.start], self.end[span.stop - 1]) for span in read_spans(self.tags)]
        text = self.text
        return tuple(
            TextSpan(name, begin, end, None if text is None else text[begin:end]) for name, begin, end in bounds
        )


class Tagger:
    """A tagger that ``bertfeat tag train`` saved.

    ``model`` says where the recorded encoder is now, if not where it was; it is looked up when texts are tagged.

    Raises:
        TaggerError: the folder holds no sound tagger.
    """

    def __init__(self, folder: str | Path, *, model: str | Path | None = None, device: str | None = None) -> None:
        self.folder = Path(folder)
        self.settings = read_tagger_settings(self.folder)
        self.labels = self.settings.labels
        self._device, self._model = device, model
        self.device = resolve_device(device)
        weights = read_tagger_weights(self.folder, self.settings)
        self._network = TaggerNetwork(self.settings.network, self.labels.names, spans=self.labels.has_spans)
        self._network.load_state_dict(weights)
        self._network.to(self.device).eval()

    def __repr__(self) -> str:
        return f"Tagger({str(self.folder)!r}: {len(self.labels)} labels, {self.settings.input.name})"

    @property
    def mix_weights(self) -> dict[int, float] | None:
        """The share of each layer in the learned weighted sum; None where none is learnt."""
        if self._network.mix is None:
            return None
        shares = torch.softmax(self._network.mix.weights.detach(), 0).tolist()
        return dict(zip(self.settings.input.recipe.layers, shares, strict=True))

    def tag(self, texts: Iterable[CorpusItem]) -> list[TaggedText]:
        """Tag texts, as strings or as :class:`bertfeat.Document` with words of their own.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        tagged: list[TaggedText] = []
        for row in self.tag_corpus(memory_corpus(texts)):
            if isinstance(row, Failure):
                raise UsageError(f"a text cannot be tagged: {row.reason}")
            tagged.append(row)
        return tagged

    def tag_corpus(self, corpus: Corpus) -> Iterator[TaggedText | Failure]:
        """Run the recorded model over a corpus and tag it, row by row; a row that fails becomes a failure.

        Raises:
            FeatureSetError: the model is not the recorded one.
            UsageError: a corpus of pairs.
        """
        if corpus.has_pairs:
            problem = "a tagger reads single texts, and these are pairs"
            raise UsageError(problem, where=", ".join(corpus.sources[:1]), remedy="read one text of each")
        embedder = self.embedder
        rows = (row for row in corpus.rows() if not isinstance(row, BlankLine))
        blocks = iter(lambda: list(islice(rows, _BLOCK)), [])
        for tokenized in prefetched(embedder.tokenize_rows(block) for block in blocks):
            extracted = embedder.compute_rows(tokenized, tags=corpus.has_tags, pairs=corpus.has_pairs)
            documents = list(content_documents(extracted.content, embedder.columns, embedder.model.num_layers))
            tagged: list[TaggedText | Failure] = [*self.tag_documents(documents), *extracted.failures]
            yield from sorted(tagged, key=lambda row: row.row)

    def tag_features(self, features: FeatureSet) -> Iterator[TaggedText]:
        """Tag the documents of a feature set.

        Raises:
            TaggerError: the set was made by another model or in another way than the tagger's.
            NotDerivableError: it does not hold the layers that the tagger reads.
        """
        check_same_features(features, self.settings.model, self.settings.extraction, f"the tagger {self.folder}")
        derivation = derive_input(self.settings.input, features)
        documents = features.documents(derivation.columns)
        for block in iter(lambda: list(islice(documents, _BLOCK)), []):
            yield from self.tag_documents(block)

    def score(self, features: FeatureSet, *, memory: int = MEMORY) -> Scores:
        """Compare with the tags of a feature set, of which at most ``memory`` bytes of features are held.

        Raises:
            TaggerError: the set was made by another model or in another way, or has no tags.
            NotDerivableError: it does not hold the layers that the tagger reads.
        """
        check_same_features(features, self.settings.model, self.settings.extraction, f"the tagger {self.folder}")
        store = SentenceStore(features, derive_input(self.settings.input, features), memory)
        return score_tagger(list(store.tags()), list(predict_store(self._network, self.labels, store, self.device)))

    def tag_documents(self, documents: Sequence[DocumentFeatures]) -> Iterator[TaggedText]:
        """Tag documents with the features that the tagger reads."""
        with_words = [document for document in documents if document.words is not None and len(document.words)]
        tags = iter(self._predicted(with_words) if with_words else ())
        for document in documents:
            yield _tagged_text(document, next(tags) if document.words is not None and len(document.words) else [])

    @cached_property
    def embedder(self) -> Embedder:
        """The recorded model, ready to make the features that the tagger reads.

        Raises:
            ModelError: it cannot be found.
            FeatureSetError: the model there is not the recorded one.
        """
        settings = self.settings
        recipe = settings.input.recipe
        width = recipe.width(settings.model.hidden_size)
        column = FeatureColumn(recipe, Pooling.WORD, width, settings.extraction.dtype)
        recorded = settings.extraction.settings
        return Embedder.from_record(settings.model, recorded, [column], name=self._model, device=self._device)

    def _predicted(self, documents: Sequence[DocumentFeatures]) -> Iterator[list[str]]:
        derivation = derive(self.settings.input.recipe, Pooling.WORD, documents[0].columns)
        matrices = [derivation.apply(document.stored) for document in documents]
        offsets = np.cumsum([0, *map(len, matrices)], dtype=np.int64)
        sentences = ExampleChunk(offsets, np.concatenate(matrices), np.arange(len(matrices)))
        return predict_chunk(self._network, self.labels, sentences, self.device)


def _tagged_text(document: DocumentFeatures, tags: Sequence[str]) -> TaggedText:
    words = document.words
    return TaggedText(
        document.row,
        document.id,
        document.text,
        tuple(words.strings) if words is not None and words.strings is not None else None,
        tuple(words.start.tolist()) if words is not None else (),
        tuple(words.end.tolist()) if words is not None else (),
        tuple(tags),
        tuple(document.tags) if document.tags is not None else None,
    )
