"""The tokenizer of a training: a WordPiece vocabulary learned from the corpus, or that of the starting model."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as FastTokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer

from bertfeat.core import open_library_tokenizer
from bertfeat.errors import CorpusError, ModelError
from bertfeat.io import atomic, encode_json
from bertfeat.pretraining.examples import SpecialTokens

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The special tokens of a new vocabulary, in the order of their ids from 0 on."""

_LEAST_SEEN = 2  # times that a piece has to occur
_MOST_GROWTH = 4  # the most characters that the normalizer makes of one


@dataclass(frozen=True, slots=True)
class PretrainingTokenizer:
    """A tokenizer without its length limits, and its special tokens."""

    fast: FastTokenizer
    special: SpecialTokens
    unknown: int | None

    @property
    def size(self) -> int:
        """The number of ids that a model needs embeddings for."""
        return len(self.special.ordinary)


def learn_vocabulary(read: Callable[[], Iterable[str]], size: int, *, cased: bool) -> FastTokenizer:
    """Learn a vocabulary of at most ``size`` pieces, single characters and special tokens included.

    It is smaller where the texts have fewer pieces that occur at least twice. ``read`` gives the texts, and is called
    twice; equal texts give equal vocabularies. The trainer gets all characters beforehand: by itself it would number
    those inside words in the order of a hash map, which differs each time.
    """
    plain, trained, learned = (_untrained(cased) for _ in range(3))  # training locks a tokenizer
    alphabet, inner = _letters(plain, _without_endless_words(plain, read()), size // 3)
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=_LEAST_SEEN,
        special_tokens=[*SPECIAL, *(f"##{letter}" for letter in inner)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    trained.train_from_iterator(_without_endless_words(plain, read()), trainer)
    pieces = trained.get_vocab()
    if len(pieces) <= len(SPECIAL):
        raise CorpusError("the corpus is empty: none of its rows has a word", remedy="check the files and their column")
    # a new one, in which the characters inside words are not special tokens
    learned.model = models.WordPiece(vocab=pieces, unk_token=SPECIAL[1])
    learned.add_special_tokens(list(SPECIAL))
    return learned


def _without_endless_words(tokenizer: FastTokenizer, texts: Iterable[str]) -> Iterator[str]:
    """Leave out the words that are too long for WordPiece.

    Each of them is one unknown piece, whatever the vocabulary, and learning from it takes time that grows with the
    square of its length.
    """
    most = tokenizer.model.max_input_chars_per_word
    for text in texts:
        if max(map(len, text.split()), default=0) <= most // _MOST_GROWTH:
            yield text
            continue
        words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
        yield " ".join(word for word, _ in words if len(word) <= most)


def _letters(tokenizer: FastTokenizer, texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The ``most`` most frequent characters of the texts, and those of them that occur inside words."""
    runs = Counter(run for text in texts for run in tokenizer.normalizer.normalize_str(text).split())
    counts: Counter[str] = Counter()
    inner: set[str] = set()
    for run, count in runs.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(run):
            inner.update(word[1:])
            for letter in word:
                counts[letter] += count
    alphabet = sorted(counts, key=lambda letter: (-counts[letter], letter))[:most]
    return alphabet, sorted(inner.intersection(alphabet))


def _untrained(cased: bool) -> FastTokenizer:
    """BERT's tokenizer: its normalizer, its words, WordPiece, and its special tokens around texts."""
    tokenizer = FastTokenizer(models.WordPiece(unk_token=SPECIAL[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased, strip_accents=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, SPECIAL.index(token)) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def write_vocabulary(folder: Path, tokenizer: FastTokenizer, *, cased: bool, positions: int) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``vocab.txt``, as a BERT of Hugging Face has them."""
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": not cased,
        "strip_accents": not cased,
        "tokenize_chinese_chars": True,
        "model_max_length": positions,
        **dict(zip(names, SPECIAL, strict=True)),
    }
    files = {
        "tokenizer.json": tokenizer.to_str(pretty=True),
        "tokenizer_config.json": encode_json(settings),
        "vocab.txt": "".join(f"{piece}\n" for piece in pieces),
    }
    for name, text in files.items():
        with atomic(folder / name) as temporary:
            temporary.write_text(text, "utf-8")


def open_tokenizer(folder: Path, name: str, rows: int | None = None) -> PretrainingTokenizer:
    """Open a tokenizer's folder; ``rows`` is the number of ids that the model has embeddings for."""
    loaded = open_library_tokenizer(folder, name)
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
    ordinary = np.zeros(size, bool)  # ids that stand for pieces of texts
    ordinary[list(fast.get_vocab(with_added_tokens=True).values())] = True
    ordinary[[number for number in loaded.all_special_ids if 0 <= number < size]] = False
    special = SpecialTokens(cls, sep, pad, mask, ordinary)
    return PretrainingTokenizer(fast, special, loaded.unk_token_id)
