"""Tiny tokenizers of every kind, trained on a few sentences: offline, and the same every time."""

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


def word_piece(names: Sequence[str], *, lowercase: bool = True, types: bool = True) -> FastTokenizer:
    pad, unknown, cls, sep, mask = names
    tokenizer = FastTokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=[pad, unknown, cls, sep, mask])
    tokenizer.train_from_iterator(SENTENCES, trainer)
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
    tokenizer.post_processor = _template(tokenizer, cls, sep, between=between, types=types)
    return tokenizer


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
