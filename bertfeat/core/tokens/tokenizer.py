"""A model's fast tokenizer, without its stored length limits, and the special tokens that it sets around texts."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer as FastTokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from bertfeat.core.models import Model, TokenReading, silence_transformers, wrap_library_errors
from bertfeat.core.tokens.pieces import TextPieces
from bertfeat.core.tokens.tokenizer_file import LoadedTokenizer, read_tokenizer_file
from bertfeat.core.tokens.wordpiece import WordPiece
from bertfeat.core.words import CharSpans
from bertfeat.errors import ModelError, parameter
from bertfeat.io import storage_errors
from bertfeat.ragged import lengths_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNREADABLE = "transformers cannot load its tokenizer, so its files are damaged or others"
_MOST_SPECIAL = 7  # special tokens around texts; fewer than the tokens of the shortest window


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
    def ids(self) -> tuple[int, ...]:
        """Its special tokens."""
        return self.before + self.between + self.after

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.ids)

    def with_marker(self, token: int) -> "Template":
        """The template with a token after the first one, as ColBERT marks queries and documents."""
        at = min(1, len(self.before))
        before, types = self.before, self.before_types
        kinds = (*types[:at], self.text_types[0], *types[at:])
        return replace(self, before=(*before[:at], token, *before[at:]), before_types=kinds)


@dataclass(frozen=True, slots=True)
class TextRole:
    """The role of a text in a model that compares tokens: a query or a document."""

    marker: int | None = None  # the token that texts of this role begin with
    skipped: tuple[int, ...] = ()  # the tokens that get no vector
    filler: int = 0  # the token that fills texts up
    length: int = 0  # of filled up texts, special tokens included; 0: texts stay as they are
    filler_is_seen: bool = True  # by other tokens


_NO_ROLE = TextRole()


class Tokenizer:
    """A fast tokenizer as the model's files define it.

    Raises:
        ModelError: the model has no fast tokenizer, one that sets special tokens inside a text, or one that gives ids
            for which the model has no embedding.
    """

    def __init__(self, model: Model) -> None:
        self._model_name = model.name
        loaded = _load(model)
        self._fast, self.unknown_id, self._mask_or_end = loaded.tokenizer, loaded.unknown_id, loaded.mask_id
        self._kernel = WordPiece.of(self._fast)
        with wrap_library_errors(self._failure):
            self.single = self._template(model, pair=False)
            self.pair = self._template(model, pair=True)
            special = (*self.single.ids, *self.pair.ids)
            _check_ids(model, chain(self._fast.get_vocab(with_added_tokens=True).values(), special))
        self.role = _NO_ROLE
        """The role of the texts that it reads, in a model that compares tokens."""
        self._of_roles: Mapping[str, Tokenizer] = {}  # by the prompts that give texts a role
        self._unmarked = ""  # why there are none, in a model that compares tokens
        with suppress(ModelError):  # what cannot be computed reads texts as any model does
            if model.sentence_modules is not None and (reading := model.sentence_modules.reading) is not None:
                roles, self._unmarked = self._find_roles(reading, loaded.mask_id)
                self._of_roles = {prompt: self._playing(role) for prompt, role in roles.items()}

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
        """Split texts into pieces: WordPiece by our kernel on this thread, all else by tokenizers on all cores.

        Raises:
            ModelError: the tokenizer fails on a text.
        """
        if self._kernel is None or not texts:
            return self._library_pieces(texts, offsets=offsets)
        split, left = self._kernel.split(texts, offsets=offsets)
        if not len(left):
            return split
        return split.with_texts(left, self._library_pieces([texts[at] for at in left.tolist()], offsets=offsets))

    def _library_pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
        """Split texts into pieces by tokenizers; without ``offsets`` in half the time."""
        encode = self._fast.encode_batch if offsets else self._fast.encode_batch_fast
        with wrap_library_errors(self._failure):
            encodings = encode(list(texts), add_special_tokens=False)
        counts = lengths_of(encodings)
        ids = np.fromiter(chain.from_iterable(each.ids for each in encodings), np.int32, int(counts.sum()))
        if not offsets:
            return TextPieces(ids, None, counts)
        ends = chain.from_iterable(chain.from_iterable(each.offsets for each in encodings))
        start, end = np.fromiter(ends, np.int32, 2 * len(ids)).reshape(-1, 2).T
        return TextPieces(ids, CharSpans(start, end), counts)

    def in_role(self, prompt: str) -> "Tokenizer | None":
        """The tokenizer of texts in the role that a prompt gives them; None for a prompt that gives none."""
        return self._of_roles.get(prompt)

    def _playing(self, role: TextRole) -> "Tokenizer":
        other = copy(self)
        other.role = role
        if role.marker is not None:
            other.single, other.pair = self.single.with_marker(role.marker), self.pair.with_marker(role.marker)
        return other

    def check_markers(self) -> None:
        """Check that a model that compares tokens can mark texts as queries and documents.

        Raises:
            ModelError: a marker, or what fills queries up, is no token.
        """
        if self._unmarked:
            remedy = f"take {parameter('layers', 'last')}"
            raise ModelError(f"its tokenizer has no token {self._unmarked}", where=self._model_name, remedy=remedy)

    def _find_roles(self, reading: TokenReading, mask: int | None) -> tuple[Mapping[str, TextRole], str]:
        """The roles of texts, by the prompts that give them; or none, and the token that is missing."""
        found = [self._fast.token_to_id(word) for word in reading.skipped]
        skipped = tuple(each for each in found if each is not None and each != self.unknown_id)
        roles: dict[str, TextRole] = {}
        for name, prompt in reading.prompts.items():
            marker = self._marker(prompt, named=reading.named)
            if prompt and marker is None:
                return {}, f"{prompt!r}, which marks a {name}"
            role = TextRole(marker, skipped if name in reading.skipped_in else ())
            if name == "query" and (fill := reading.expansion) is not None:
                filler = mask if fill.token is None else self._fast.token_to_id(fill.token)
                if filler is None:
                    return {}, f"{fill.token or '[MASK]'!r}, which fills a query up"
                role = replace(role, filler=filler, length=fill.length, filler_is_seen=fill.attend)
            roles[prompt] = role
        return roles, ""

    def _marker(self, prompt: str, *, named: bool) -> int | None:
        """The one token that a prompt is; ``named``: or whose name it is, with or without what follows a space."""
        ids = self._ids(prompt)
        if len(ids) == 1 and self._ids(f"{prompt}a") == ids + self._ids("a"):
            return ids[0]
        for name in (prompt, *prompt.split(None, 1)[:1]) if named else ():
            token = self._fast.token_to_id(name)
            # what stands between a marker and the text must not change the text's pieces
            if token is not None and self._ids(f"{prompt.removeprefix(name)}a") == self._ids("a"):
                return token
        return None

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        return ids

    def strings(self, ids: NDArray[np.int32]) -> list[str]:
        """Return the pieces as strings, special tokens included."""
        strings: list[str] = self._strings[ids].tolist()
        return strings

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text that ids stand for, as far as the tokenizer can restore it."""
        with wrap_library_errors(self._failure):
            text: str = self._fast.decode(list(ids), skip_special_tokens=skip_special)
        return text

    @property
    def size(self) -> int:
        """The number after the highest id of a token."""
        return len(self._strings)

    @property
    def marks_texts(self) -> bool:
        """Whether it reads texts in a role that a prompt gave them."""
        return self.role is not _NO_ROLE

    @cached_property
    def special_ids(self) -> NDArray[np.int32]:
        """The ids of tokens that stand for no characters; that of unknown pieces is one where it ends texts too."""
        added = self._fast.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special} | {*self.single.ids, *self.pair.ids}
        ends = self.unknown_id == self._mask_or_end  # as GPT-2's one special token does
        return np.array(sorted(special if ends else special - {self.unknown_id}), np.int32)

    @property
    def vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids."""
        return [piece for _, piece in sorted(self._vocabulary.items())]

    @property
    def _failure(self) -> str:
        return f"{self._model_name}: its tokenizer fails"

    @cached_property
    def _strings(self) -> NDArray[np.object_]:
        """The piece of each id; the empty string for ids without one."""
        strings = np.full(max(self._vocabulary) + 1, "", np.object_)
        strings[[*self._vocabulary]] = [*self._vocabulary.values()]
        return strings

    @cached_property
    def _vocabulary(self) -> dict[int, str]:
        return {number: token for token, number in self._fast.get_vocab(with_added_tokens=True).items()}

    def _template(self, model: Model, *, pair: bool) -> Template:
        """Find the template from an example: special tokens are those that belong to no text."""
        encoding = self._fast.encode("a", "a" if pair else None)
        origins = zip(encoding.special_tokens_mask, encoding.sequence_ids, strict=True)
        sequence = [None if special else own for special, own in origins]
        firsts = [at for at, own in enumerate(sequence) if own == 0]
        seconds = [at for at, own in enumerate(sequence) if own == 1]
        gaps = [at for at, own in enumerate(sequence) if own is None]
        texts = [*firsts, *seconds]
        if not firsts or (pair and not seconds) or texts != sorted(texts):
            raise ModelError("its tokenizer sets texts and special tokens in an unknown order", where=model.name)
        if len(gaps) > _MOST_SPECIAL:
            problem = (
                f"its tokenizer sets {len(gaps)} special tokens around texts, and at most {_MOST_SPECIAL} are possible"
            )
            raise ModelError(problem, where=model.name)
        end = seconds[-1] if pair else firsts[-1]
        groups = (
            [at for at in gaps if at < firsts[0]],
            [at for at in gaps if firsts[-1] < at < end],
            [at for at in gaps if at > end],
        )
        ids, types = encoding.ids, encoding.type_ids
        if max(types) > 127:  # more than a byte holds
            problem = f"its tokenizer marks tokens as of segment {max(types)}, and there are two segments"
            raise ModelError(problem, where=model.name)
        before, between, after = (tuple(ids[at] for at in group) for group in groups)
        before_types, between_types, after_types = (tuple(types[at] for at in group) for group in groups)
        text_types = (types[firsts[0]], types[seconds[0]] if pair else 0)
        return Template(before, between, after, before_types, between_types, after_types, text_types)


def save_tokenizer(model: Model, folder: Path) -> None:
    """Write a model's tokenizer into a folder, for a new model that is made from it: its own files, as they are.

    Where sentence-transformers has texts lowercased first, the tokenizer is written anew, so that transformers and all
    that read the new model lowercase them too.

    Raises:
        ModelError: it cannot be loaded.
        StorageError: the folder cannot be written.
    """
    fast = _load(model).tokenizer
    if not model.lower_cases:
        with storage_errors(folder):
            for file in model.tokenizer_files:
                shutil.copyfile(file, folder / file.name)
        return
    from transformers import PreTrainedTokenizerFast

    own = open_library_tokenizer(model.folder, model.name, model.library_config)
    with silence_transformers(), storage_errors(folder), wrap_library_errors("its tokenizer fails", where=model.name):
        whole = PreTrainedTokenizerFast(
            tokenizer_object=fast, model_max_length=own.model_max_length, **own.special_tokens_map
        )
        whole.save_pretrained(folder)


def _load(model: Model) -> LoadedTokenizer:
    """Load a model's tokenizer, which neither cuts texts nor pads them."""
    model.check_tokenizer_files()
    loaded = read_tokenizer_file(model) or _load_by_transformers(model)
    loaded.tokenizer.no_truncation()
    loaded.tokenizer.no_padding()
    if model.lower_cases:
        _lower_case(loaded.tokenizer)
    return loaded


def _lower_case(tokenizer: FastTokenizer) -> None:
    """Lowercase texts before all that a tokenizer does, as sentence-transformers has it, unless it does so itself."""
    own = tokenizer.normalizer
    steps = [] if own is None else [own]
    if isinstance(own, normalizers.Sequence):
        steps = [*cast(Iterable[normalizers.Normalizer], own)]  # the stubs do not say so
    if not any(isinstance(step, normalizers.Lowercase) for step in steps):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])


def open_library_tokenizer(folder: Path, where: str, config: object = None) -> "PreTrainedTokenizerBase":
    """Open the tokenizer of a folder by transformers, without any code from there; ``config`` is the model's, if known.

    Raises:
        ModelError: it cannot be loaded; ``where`` is what the message names.
    """
    from transformers import AutoTokenizer

    loaded: PreTrainedTokenizerBase
    with silence_transformers(), wrap_library_errors(_UNREADABLE, where=where):
        loaded = AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=False, local_files_only=True)
    return loaded


def _load_by_transformers(model: Model) -> LoadedTokenizer:
    loaded = open_library_tokenizer(model.folder, model.name, model.library_config)
    fast = getattr(loaded, "backend_tokenizer", None)
    if type(loaded).__name__ == "EsmTokenizer":
        with wrap_library_errors(_UNREADABLE, where=model.name):
            fast = _make_residue_tokenizer(loaded)
    if not isinstance(fast, FastTokenizer):
        raise ModelError(
            "it has no fast tokenizer (tokenizer.json), and words and tokens need its offsets", where=model.name
        )
    mask = loaded.mask_token_id if loaded.mask_token_id is not None else loaded.eos_token_id
    return LoadedTokenizer(fast, loaded.unk_token_id, mask)


def _check_ids(model: Model, vocabulary: Iterable[int]) -> None:
    """Refuse a tokenizer that gives ids for which the model has no embedding."""
    rows, most = model.sizes.vocab_size, max(vocabulary, default=-1)
    if most >= rows:
        raise ModelError(
            f"its tokenizer gives ids up to {most:,}, and the model has embeddings for {rows:,} tokens "
            f"(vocab_size, counted from 0): the two do not belong together",
            where=model.name,
        )


def _make_residue_tokenizer(loaded: "PreTrainedTokenizerBase") -> FastTokenizer:
    """Make the fast form of an ``EsmTokenizer``: a piece for each character but white space, between <cls> and <eos>.

    transformers has this tokenizer of ESM's protein models in Python only, without offsets. It makes one unknown token
    of neighboring characters that it does not know; here each of them has its own.
    """
    vocabulary = loaded.get_vocab()
    fast = FastTokenizer(models.WordLevel(vocabulary, unk_token=loaded.unk_token))
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    # as in transformers, every entry of more than a character is one piece wherever it stands
    fast.add_tokens([AddedToken(token, normalized=False) for token in vocabulary if len(token) > 1])
    special = ("cls_token", "pad_token", "eos_token", "unk_token", "mask_token")
    fast.add_special_tokens([AddedToken(getattr(loaded, name), normalized=False) for name in special])
    begin, end = loaded.cls_token, loaded.eos_token
    fast.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(begin, vocabulary[begin]), (end, vocabulary[end])],
    )
    return fast
