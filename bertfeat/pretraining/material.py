"""The material of a pre-training, prepared once in a folder: a tokenizer, and the pieces of the corpus."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import Model, save_tokenizer
from bertfeat.io import FileDigest, digest_file, storage_errors
from bertfeat.pretraining.corpus import (
    STORE_FILES,
    CorpusSplit,
    CorpusText,
    DocumentRanges,
    TokenStore,
    split_corpus,
    write_tokens,
)
from bertfeat.pretraining.examples import Collator, SequenceExamples
from bertfeat.pretraining.losses import unigram_logs
from bertfeat.pretraining.settings import VOCABULARY, PretrainingSettings
from bertfeat.pretraining.vocabulary import PretrainingTokenizer, learn_vocabulary, open_tokenizer, write_vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENIZER = "tokenizer"
"""The folder of the tokenizer's files."""

Reading = Callable[[str], Iterable[CorpusText]]
"""Reads the texts of a corpus from its start; its argument names the stage of the work, for the progress."""


@dataclass(frozen=True, slots=True)
class TrainingMaterial:
    """The tokenizer and the tokenized corpus, ready to be learned from."""

    settings: PretrainingSettings
    tokenizer: PretrainingTokenizer
    store: TokenStore
    split: CorpusSplit

    def examples(self, ranges: DocumentRanges, count: int | None = None) -> SequenceExamples:
        """The examples drawn from some ranges of the corpus: ``count`` of them, else those of one epoch."""
        return SequenceExamples(self.store, ranges, self.settings, self.tokenizer.special, count)

    def collator(self, module: "PreTrainedModel", *, keeps_unmasked: bool = False) -> Collator:
        """Make the collator that turns examples into batches for a model."""
        has_types = (getattr(module.config, "type_vocab_size", 0) or 0) > 1
        return Collator(self.tokenizer.special.pad, has_types, self.settings.goal.has_pairs, keeps_unmasked)

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """The logarithm of each piece's frequency in the training part. Shape: ``[V]``."""
        return unigram_logs(self.store, self.split, self.tokenizer.special)


def prepare_material(
    folder: Path, read: Reading, settings: PretrainingSettings, model: Model | None, room: int | None = None
) -> TrainingMaterial:
    """Learn a vocabulary, or take the tokenizer of the starting model, and tokenize the corpus.

    ``room``: the number of a new model's embeddings, where there are to be more of them than pieces in its vocabulary.
    """
    with storage_errors(folder):
        (folder / TOKENIZER).mkdir(parents=True)
    if model is None:
        size, positions = settings.vocabulary or VOCABULARY, settings.positions or settings.max_length
        learned = learn_vocabulary(
            lambda: (row.text for row in read("learning a vocabulary")), size, cased=settings.cased
        )
        write_vocabulary(folder / TOKENIZER, learned, cased=settings.cased, positions=positions)
    else:
        save_tokenizer(model, folder / TOKENIZER)
    tokenizer = _tokenizer_in(folder, model, room)
    write_tokens(read("tokenizing"), tokenizer.fast, folder, settings.max_length // 2)
    return _with_store(folder, settings, tokenizer)


def reopen_material(folder: Path, settings: PretrainingSettings, model: Model | None) -> TrainingMaterial:
    """Open what an earlier run prepared."""
    return _with_store(folder, settings, _tokenizer_in(folder, model, None))


def _tokenizer_in(folder: Path, model: Model | None, room: int | None) -> PretrainingTokenizer:
    if model is None:
        return open_tokenizer(folder / TOKENIZER, "the new vocabulary", room)
    return open_tokenizer(folder / TOKENIZER, model.name, model.sizes.vocab_size)


def _with_store(folder: Path, settings: PretrainingSettings, tokenizer: PretrainingTokenizer) -> TrainingMaterial:
    store = TokenStore.open(folder)
    return TrainingMaterial(settings, tokenizer, store, split_corpus(store, settings.held_out, settings.seed))


def digest_material(folder: Path) -> dict[str, FileDigest]:
    """The digests of a tokenizer and a tokenized corpus, by path below the folder."""
    with storage_errors(folder):
        files = [*sorted((folder / TOKENIZER).iterdir()), *(folder / name for name in STORE_FILES)]
        return {path.relative_to(folder).as_posix(): digest_file(path) for path in files}
