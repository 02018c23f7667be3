"""What a training is made of, prepared once in the folder of its state: a tokenizer, and the pieces of the corpus."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer as FastTokenizer

from bertfeat.errors import ModelError, PretrainingError
from bertfeat.io import storage_errors
from bertfeat.models import Model, silence_transformers, wrap_library_errors
from bertfeat.pretraining.examples import SpecialTokens
from bertfeat.pretraining.ranges import CorpusSplit
from bertfeat.pretraining.report import CorpusFigures, OnPretraining, PretrainingProgress
from bertfeat.pretraining.settings import PretrainingSettings
from bertfeat.pretraining.texts import CorpusText, CorpusTexts
from bertfeat.pretraining.token_store import TokenStore, write_tokens
from bertfeat.pretraining.vocabulary import learn_vocabulary, write_vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"),
    *("vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model"),
)
_UNKNOWN = 0.05  # share of unknown pieces above which the user is warned


@dataclass(frozen=True, slots=True)
class PretrainingTokenizer:
    """A tokenizer without its length limits, and its special tokens."""

    fast: FastTokenizer
    special: SpecialTokens
    unknown: int | None


def make_tokenizer(folder: Path, texts: CorpusTexts, settings: PretrainingSettings, told: OnPretraining | None) -> None:
    """Learn a vocabulary, and write the files of its tokenizer.

    Raises:
        CorpusError: the corpus cannot be read, or gives too few pieces.
        StorageError: the folder cannot be written.
    """
    tokenizer = learn_vocabulary(_PlainTexts(texts, told), settings.vocabulary or 0, cased=settings.cased)
    positions = settings.positions or settings.max_length
    write_vocabulary(folder, tokenizer, cased=settings.cased, positions=positions)


@dataclass(frozen=True, slots=True)
class _PlainTexts:
    """The texts of a corpus alone, any number of times."""

    texts: CorpusTexts
    told: OnPretraining | None

    def __iter__(self) -> Iterator[str]:
        return (row.text for row in _telling(self.texts, self.texts, "learning a vocabulary", self.told))


def copy_tokenizer(model: Model, folder: Path) -> None:
    """Copy the files of a model's tokenizer, as they are.

    Raises:
        ModelError: it has none.
        StorageError: the folder cannot be written.
    """
    model.check_tokenizer_files()
    with storage_errors(folder):
        for name in TOKENIZER_FILES:
            if (model.folder / name).is_file():
                shutil.copyfile(model.folder / name, folder / name)
    if not any(folder.iterdir()):
        raise ModelError(f"{model.folder} has no tokenizer files", where=model.name, remedy="put tokenizer.json there")


def open_tokenizer(folder: Path, name: str, rows: int | None = None) -> PretrainingTokenizer:
    """Open a tokenizer's folder; ``rows`` is for how many ids the model has embeddings.

    Raises:
        ModelError: it is no fast tokenizer, lacks a special token, sets others than BERT's, or gives unknown ids.
    """
    from transformers import AutoTokenizer

    loaded: PreTrainedTokenizerBase
    with silence_transformers(), wrap_library_errors("transformers cannot load its tokenizer", where=name):
        loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    fast = getattr(loaded, "backend_tokenizer", None)
    if not isinstance(fast, FastTokenizer):
        raise ModelError("it has no fast tokenizer (tokenizer.json)", where=name)
    fast.no_truncation()
    fast.no_padding()
    ids = [getattr(loaded, f"{token}_token_id", None) for token in ("cls", "sep", "pad", "mask")]
    if any(number is None for number in ids):
        raise ModelError("its tokenizer lacks one of [CLS], [SEP], [PAD] and [MASK]", where=name)
    cls, sep, pad, mask = (int(number) for number in ids if number is not None)
    inner = fast.encode("a", add_special_tokens=False).ids
    if fast.encode("a").ids != [cls, *inner, sep]:
        raise ModelError("its tokenizer sets other special tokens around a text than BERT's", where=name)
    size = max(rows or 0, fast.get_vocab_size(with_added_tokens=True))
    if rows is not None and size > rows:
        raise ModelError(f"its tokenizer gives more ids than its {rows:,} embeddings", where=name)
    special = SpecialTokens(cls, sep, pad, mask, _ordinary(loaded, fast, size))
    return PretrainingTokenizer(fast, special, loaded.unk_token_id)


def _ordinary(loaded: "PreTrainedTokenizerBase", fast: FastTokenizer, size: int) -> "np.typing.NDArray[np.bool_]":
    """Which ids stand for pieces of texts: those of the vocabulary that are no special tokens."""
    table = np.zeros(size, bool)
    table[list(fast.get_vocab(with_added_tokens=True).values())] = True
    table[[number for number in loaded.all_special_ids if 0 <= number < size]] = False
    return table


def tokenize_corpus(
    texts: CorpusTexts, tokenizer: PretrainingTokenizer, folder: Path, max_length: int, told: OnPretraining | None
) -> TokenStore:
    """Write the pieces of a corpus into a folder.

    Raises:
        CorpusError: the corpus cannot be read.
        StorageError: the folder cannot be written.
    """
    rows = _telling(texts, texts, "tokenizing", told)
    write_tokens(rows, tokenizer.fast, folder, max(2, max_length // 2))
    return TokenStore.open(folder)


def corpus_figures(
    texts: CorpusTexts, store: TokenStore, split: CorpusSplit, sequences: int, unknown: int | None
) -> CorpusFigures:
    """The counts of a corpus that was tokenized."""
    return CorpusFigures(
        documents=len(store.documents),
        sentences=len(store.sentences),
        pieces=len(store.pieces),
        held_out_pieces=split.held_out.pieces,
        held_out=split.described,
        sequences=sequences,
        failed=texts.failed,
        first_failure=texts.first_failure,
        unknown=0 if unknown is None else _occurrences(store, unknown),
    )


def warn_of_corpus(figures: CorpusFigures) -> tuple[str, ...]:
    """What the user should know of a corpus."""
    warnings = []
    if figures.failed:
        warnings.append(
            f"{figures.failed:,} rows cannot be read and were left out, the first because: {figures.first_failure}"
        )
    if figures.unknown > _UNKNOWN * figures.pieces:
        share = figures.unknown / figures.pieces
        warnings.append(f"{share:.0%} of the pieces are unknown to the vocabulary; it is not one of this language")
    return tuple(warnings)


def _occurrences(store: TokenStore, piece: int) -> int:
    block = 1 << 22
    return sum(
        int((store.ids(at, min(at + block, len(store.pieces))) == piece).sum())
        for at in range(0, len(store.pieces), block)
    )


def _telling(
    rows: Iterable[CorpusText], texts: CorpusTexts, stage: str, told: OnPretraining | None
) -> Iterator[CorpusText]:
    """Pass rows on, and tell how far they are."""
    for number, row in enumerate(rows):
        if told is not None and number % 1000 == 0:
            told(PretrainingProgress(stage, texts.fraction))
        yield row


def refuse_changed_corpus(before: str, texts: CorpusTexts) -> None:
    """Refuse a corpus that changed between two readings.

    Raises:
        PretrainingError: it did.
    """
    if before and texts.digest != before:
        raise PretrainingError("the corpus changed while it was read", remedy="run it again when nobody writes to it")
