"""A model's fast tokenizer, its stored limits switched off, and the special tokens it sets around texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers import Tokenizer as FastTokenizer

from bertfeat.errors import ModelError
from bertfeat.models import Model
from bertfeat.tokens.words import Spans

_FILES = ("tokenizer.json", "vocab.*", "merges.txt", "bpe.codes", "*.model", "tekken.json")


@dataclass(frozen=True, slots=True)
class Template:
    """The special tokens around one text, or around and between the two of a pair, with their segment ids."""

    before: tuple[int, ...]
    between: tuple[int, ...]  # empty for a single text
    after: tuple[int, ...]
    before_types: tuple[int, ...]
    between_types: tuple[int, ...]
    after_types: tuple[int, ...]
    text_types: tuple[int, int]  # segment id of the first and of the second text

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The subword pieces of one text, without special tokens."""

    ids: NDArray[np.int32]  # [P]
    spans: Spans | None  # [P] character offsets, where they were asked for


class Tokenizer:
    """A fast tokenizer as the model's files define it.

    Raises:
        ModelError: the model has no fast tokenizer, or one that sets special tokens inside a text.
    """

    def __init__(self, model: Model) -> None:
        self._fast, self.unknown_id = _load(model)
        self.single = self._template(model, pair=False)
        self.pair = self._template(model, pair=True)

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> list[TextPieces]:
        """Split texts into pieces, on all cores; without ``offsets`` in half the time."""
        if not offsets:
            fast = self._fast.encode_batch_fast(list(texts), add_special_tokens=False)
            return [TextPieces(np.array(each.ids, np.int32), None) for each in fast]
        return [self._with_offsets(each) for each in self._fast.encode_batch(list(texts), add_special_tokens=False)]

    def strings(self, ids: NDArray[np.int32]) -> list[str]:
        """Give the pieces as strings, special tokens included."""
        return [self._vocabulary.get(each, "") for each in ids.tolist()]

    @property
    def vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids."""
        return [piece for _, piece in sorted(self._vocabulary.items())]

    @cached_property
    def _vocabulary(self) -> dict[int, str]:
        return {number: token for token, number in self._fast.get_vocab(with_added_tokens=True).items()}

    @staticmethod
    def _with_offsets(encoding: Encoding) -> TextPieces:
        spans = np.array(encoding.offsets, np.int32).reshape(-1, 2)
        return TextPieces(np.array(encoding.ids, np.int32), Spans(spans[:, 0], spans[:, 1]))

    def _template(self, model: Model, *, pair: bool) -> Template:
        """Read the template off an example: special tokens are those that belong to no text."""
        encoding = self._fast.encode("a", "a" if pair else None)
        sequence = [None if special else own for special, own in _marked(encoding)]
        firsts = [at for at, own in enumerate(sequence) if own == 0]
        seconds = [at for at, own in enumerate(sequence) if own == 1]
        gaps = [at for at, own in enumerate(sequence) if own is None]
        texts = [*firsts, *seconds]
        if not firsts or (pair and not seconds) or texts != sorted(texts):
            raise ModelError(f"{model.name}: its tokenizer sets texts and special tokens in an order that is not known")
        end = seconds[-1] if pair else firsts[-1]
        groups = (
            [at for at in gaps if at < firsts[0]],
            [at for at in gaps if firsts[-1] < at < end],
            [at for at in gaps if at > end],
        )
        ids, types = encoding.ids, encoding.type_ids
        before, between, after = (tuple(ids[at] for at in group) for group in groups)
        before_types, between_types, after_types = (tuple(types[at] for at in group) for group in groups)
        text_types = (types[firsts[0]], types[seconds[0]] if pair else 0)
        return Template(before, between, after, before_types, between_types, after_types, text_types)


def _marked(encoding: Encoding) -> list[tuple[bool, int | None]]:
    return [(bool(s), own) for s, own in zip(encoding.special_tokens_mask, encoding.sequence_ids, strict=True)]


def _load(model: Model) -> tuple[FastTokenizer, int | None]:
    from transformers import AutoTokenizer

    # without its files transformers makes up a tokenizer that knows no word
    if not any(file for pattern in _FILES for file in model.folder.glob(pattern)):
        raise ModelError(f"{model.name}: {model.folder} has no tokenizer files; put its tokenizer.json there")
    try:
        loaded = AutoTokenizer.from_pretrained(model.folder, trust_remote_code=False, local_files_only=True)
    except (ValueError, OSError, KeyError, ImportError) as error:
        raise ModelError(f"{model.name}: transformers cannot load its tokenizer: {error}") from error
    fast = getattr(loaded, "backend_tokenizer", None)
    if not isinstance(fast, FastTokenizer):
        raise ModelError(
            f"{model.name}: it has no fast tokenizer (tokenizer.json), and words and tokens need its offsets"
        )
    fast.no_truncation()
    fast.no_padding()
    return fast, loaded.unk_token_id
