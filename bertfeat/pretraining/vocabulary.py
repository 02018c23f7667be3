"""A WordPiece vocabulary learnt from the texts of a corpus, by the tokenizers library."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.errors import CorpusError, parameter
from bertfeat.io import atomic, encode_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The special tokens of a new vocabulary, in the order of their ids from 0 on."""

_LEAST_SEEN = 2  # times that a piece occurs


def learn_vocabulary(texts: Iterable[str], size: int, *, cased: bool, at_most: bool = False) -> "FastTokenizer":
    """Learn a vocabulary of so many pieces (or ``at_most`` so many), single characters and special tokens included.

    The texts are read twice; equal texts give equal vocabularies.

    Raises:
        CorpusError: the texts give fewer pieces that occur at least twice.
    """
    from tokenizers import models

    tokenizer = _untrained(cased)
    _train(tokenizer, texts, size)
    pieces = tokenizer.get_vocab()
    if len(pieces) < size and not at_most:
        problem = f"its words give a vocabulary of {len(pieces):,} pieces, and {size:,} are asked for"
        remedy = f"give {parameter('vocabulary', len(pieces))} or fewer, or more text"
        raise CorpusError(problem, where="the corpus", remedy=remedy)
    learnt = _untrained(cased)  # without what the trainer took for special tokens
    learnt.model = models.WordPiece(vocab=pieces, unk_token=SPECIAL[1])
    learnt.add_special_tokens(list(SPECIAL))
    return learnt


def _train(tokenizer: "FastTokenizer", texts: Iterable[str], size: int) -> None:
    """Train a tokenizer whose trainer is told all characters.

    Left to itself it would number those inside of words in the order of a hash map, another one each time.
    """
    from tokenizers.trainers import WordPieceTrainer

    alphabet, inner = _letters(tokenizer, texts, size // 3)
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=_LEAST_SEEN,
        special_tokens=[*SPECIAL, *(f"##{letter}" for letter in inner)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)


def _letters(tokenizer: "FastTokenizer", texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """The most frequent characters of the texts, and those of them that stand inside of words."""
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


def _untrained(cased: bool) -> "FastTokenizer":
    """BERT's tokenizer: its normalizer, its words, WordPiece, and its special tokens around texts."""
    from tokenizers import Tokenizer as FastTokenizer, decoders, models, normalizers, pre_tokenizers, processors

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


def write_vocabulary(folder: Path, tokenizer: "FastTokenizer", *, cased: bool, positions: int) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``vocab.txt``, as a BERT of Hugging Face has them.

    Raises:
        StorageError: the folder cannot be written.
    """
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
