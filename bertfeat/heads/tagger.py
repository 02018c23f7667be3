"""A saved tagger: a head that gives texts in memory a tag for each word."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusItem
from bertfeat.derivation import derive
from bertfeat.errors import HeadError
from bertfeat.features import DocumentFeatures
from bertfeat.heads.guesses import network_scores
from bertfeat.heads.head import Head
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.tasks.tags import labels_of_tags
from bertfeat.recipe import Pooling
from bertfeat.tagging import LabelSet, TaggedText
from bertfeat.training import ExampleChunk


@checked
class Tagger(Head):
    """A tagger that ``bertfeat tag train`` saved.

    ``model`` says where the recorded encoder is now, if not where it was; it is looked up when texts are tagged.

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
        """The labels that it predicts, in the scheme that it learnt them in."""
        return labels_of_tags(self.record.outputs)

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
        offsets = np.cumsum([0, *map(len, matrices)], dtype=np.int64)
        chunk = ExampleChunk(offsets, np.concatenate(matrices), np.arange(len(matrices)))
        scores = network_scores(self._network, chunk, self.device)
        for guess in self._task.guesses(scores, offsets, self.record.outputs, None):
            yield cast("tuple[str, ...]", guess.value)
