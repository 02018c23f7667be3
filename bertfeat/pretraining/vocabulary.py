"""A WordPiece vocabulary learnt from the texts of a corpus, by the tokenizers library."""

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

    Raises:
        CorpusError: the texts give fewer pieces that occur at least twice.
    """
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = _untrained(cased)
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=_LEAST_SEEN,
        special_tokens=list(SPECIAL),
        limit_alphabet=size // 2,  # thousands of characters where the language has them
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    got = tokenizer.get_vocab_size()
    if got < size and not at_most:
        problem = f"its words give a vocabulary of {got:,} pieces, and {size:,} are asked for"
        remedy = f"give {parameter('vocabulary', got)} or fewer, or more text"
        raise CorpusError(problem, where="the corpus", remedy=remedy)
    return tokenizer


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
