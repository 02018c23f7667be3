"""Tiny tokenizers of every kind, trained on a few sentences: offline, and the same every time."""

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer as FastTokenizer, models, normalizers, pre_tokenizers, processors, trainers

VOCABULARY = 400

SENTENCES = (
    "The bank of the river was steep, and the water ran fast below the old mill.",
    "He went to the bank to ask for money; they didn't lend him any.",
    "Don't stop: naïve café owners re-open at 7.30 p.m. (every day!).",
    "은행에서 돈을 찾았다. 강둑에 앉아 쉬었다.",
    "銀行でお金をおろした。川の土手に座った。",
    "Die Straße führt über den Fluß, nach Norden.",
    "Emoji 🙂🙃 and families 👩‍👩‍👧 and hearts ❤️ and flags 🇰🇷.",
    "שלום עולם، مرحبا بالعالم.",
    "unbelievable unhappiness reopening redoing walked walking walks",
)


def word_piece(
    names: Sequence[str],
    *,
    lowercase: bool = True,
    types: bool = True,
    sentences: Sequence[str] = SENTENCES,
    vocabulary: int = VOCABULARY,
) -> FastTokenizer:
    pad, unknown, cls, sep, mask = names
    tokenizer = FastTokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # without them, the trainer numbers the ## characters in the random order of a hash map, and ties differ
    inner = sorted({f"##{character}" for word in _words(tokenizer, sentences) for character in word[1:]})
    special = [pad, unknown, cls, sep, mask]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=[*special, *inner], show_progress=False)
    trained = FastTokenizer(models.WordPiece(unk_token=unknown))
    trained.normalizer, trained.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    trained.train_from_iterator(sentences, trainer)
    tokenizer.model = models.WordPiece(vocab=trained.get_vocab(), unk_token=unknown)
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = _template(tokenizer, cls, sep, between=f"{sep}", types=types)
    return tokenizer


def byte_level(names: Sequence[str], *, double: bool) -> FastTokenizer:
    cls, pad, sep, unknown, mask = names
    tokenizer = FastTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[cls, pad, sep, unknown, mask],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    number = tokenizer.get_vocab()
    if double:
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, number[sep]), (cls, number[cls]), trim_offsets=True, add_prefix_space=False
        )
    else:
        tokenizer.post_processor = _template(tokenizer, cls, sep, between=sep, types=False)
    return tokenizer


def unigram(names: Sequence[str], *, unknown: str, between: str, types: bool) -> FastTokenizer:
    cls, pad, sep, mask = names
    tokenizer = FastTokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=[cls, pad, sep, unknown, mask], unk_token=unknown, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.model = _in_order(tokenizer, special=5, unknown=unknown)
    tokenizer.post_processor = _template(tokenizer, cls, sep, between=between, types=types)
    return tokenizer


def _words(tokenizer: FastTokenizer, sentences: Sequence[str]) -> list[str]:
    """The words of the sentences, as the tokenizer splits them before its model."""
    normalized = [tokenizer.normalizer.normalize_str(sentence) for sentence in sentences]
    return [word for sentence in normalized for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(sentence)]


def _in_order(tokenizer: FastTokenizer, *, special: int, unknown: str) -> models.Unigram:
    """The trained model with its pieces in a fixed order; the trainer ranks those of nearly equal score at random."""
    pieces = [(piece, round(score, 2)) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
    ordered = pieces[:special] + sorted(pieces[special:], key=lambda piece: (-piece[1], piece[0]))
    return models.Unigram(ordered, [piece for piece, _ in ordered].index(unknown))


def _template(tokenizer: FastTokenizer, cls: str, sep: str, *, between: str, types: bool) -> Any:
    second = ":1" if types else ":0"
    return processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {between} $B{second} {sep}{second}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (cls, sep)],
    )


BERT_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_NAMES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
XLMR_NAMES = ("<s>", "<pad>", "</s>", "<mask>")
