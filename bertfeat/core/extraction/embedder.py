"""The embedder: a model with the layers and poolings to compute, which turns rows of a corpus into features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar, get_args

import numpy as np
import torch

from bertfeat.arguments import checked
from bertfeat.core.corpus import Failure, KeptColumn, Row
from bertfeat.core.encoder import Encoder, load_encoder, resolve_device, resolve_precision
from bertfeat.core.extraction.canary import compute_canary
from bertfeat.core.extraction.compute import compute_features, windows_of_columns
from bertfeat.core.extraction.cores import held_to_threads, merging_threads
from bertfeat.core.extraction.encode_arguments import check_prompt
from bertfeat.core.extraction.language_check import query_warning
from bertfeat.core.extraction.part_content import (
    PartRows,
    assemble_part,
    find_overflows,
    find_oversized,
    list_failures,
    partition_rows,
)
from bertfeat.core.extraction.plan import PLAN_VERSION
from bertfeat.core.features import (
    Canary,
    FeatureSettings,
    ModelIdentity,
    PartContent,
    describe_column,
    find_canary_problem,
)
from bertfeat.core.io import keep_freed_memory, stage
from bertfeat.core.models import Model, find_model
from bertfeat.core.recipe import (
    FeatureColumn,
    LayerSpec,
    Pooling,
    Unit,
    VectorDtype,
    feature_columns,
    parse_poolings,
    split_specs,
)
from bertfeat.core.tokens import LongTextPolicy, Subword, TokenizedDocuments, Tokenizer, TokenSettings, tokenize
from bertfeat.core.words import WordList, WordRule
from bertfeat.errors import FeatureSetError, ModelError, UsageError, parameter

NUMERICS_VERSION = 6
"""Raised whenever the same settings would give other numbers than before."""

INT8_VERSION = 1
"""Raised whenever int8 would give other integers: by another method, or another text for its calibration."""

Choice = TypeVar("Choice", bound=StrEnum)
CPU_BATCH_TOKENS = 8192
_LEAST_LENGTH = 8  # tokens of a window
_CUDA_BATCH_TOKENS = 131_072
_CUDA_BYTES_PER_TOKEN = 64  # times hidden size: activations of one block, in 16 bit


@dataclass(frozen=True, slots=True)
class TokenizedRows:
    """Rows of a corpus whose documents have been tokenized, each text once, and wait for the encoder."""

    rows: PartRows
    tokens: TokenizedDocuments  # of rows.unique
    rejected: dict[int, str]  # number among the unique documents → reason
    token_count: int  # tokens that go through the encoder, overlaps of windows included


@dataclass(frozen=True, slots=True)
class PartResult:
    """The content of computed rows, and the rows that failed."""

    content: PartContent
    failures: tuple[Failure, ...]  # including those of the corpus, in row order
    computed_tokens: int  # that went through the encoder, overlaps of windows included
    padded_tokens: int  # padding that went through it too
    split_batches: int  # batches that were split because memory ran out


@checked
class Embedder:
    """A frozen encoder, its tokenizer and the feature columns to compute: rows go in, feature matrices come out.

    The arguments are those of :class:`bertfeat.Extractor`.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        layers: LayerSpec | Sequence[LayerSpec] = "last",
        pooling: str | Sequence[str] | None = None,
        precision: str = "auto",
        long: str = "window",
        max_length: int | None = None,
        device: str | None = None,
        dtype: str = "float16",
        subword: str = "first",
        special_tokens: bool = True,
        batch_tokens: int | None = None,
        prompt: str | None = None,
        only: str | Sequence[str] | None = None,
        words: str = "spaces",
        context: str | None = None,
        revision: str | None = None,
    ) -> None:
        self.model: Model = find_model(model, revision=revision)
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        if dtype not in get_args(VectorDtype):
            raise UsageError(f"unknown dtype {dtype!r}", remedy=f"there are: {', '.join(get_args(VectorDtype))}")
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"a batch of {batch_tokens} tokens holds no text", remedy="give at least 1")
        self.layers: tuple[str, ...] = split_specs(layers)
        """The specifications of layers, as they were given."""
        self.poolings: tuple[Pooling, ...] = parse_poolings(pooling, lambda: self.model.pooling)
        """The poolings, as they were given."""
        self.columns: tuple[FeatureColumn, ...] = feature_columns(
            self.layers,
            self.poolings,
            num_layers=self.model.num_layers,
            hidden_size=self.model.hidden_size,
            dtype=dtype,
        )
        units = {column.pooling.unit for column in self.columns}
        self.token_settings = TokenSettings(
            max_length=_max_length(max_length, self.model),
            long=_choice(LongTextPolicy, "long", long),
            prompt=check_prompt(self.model.default_prompt if prompt is None else prompt),
            special_tokens=special_tokens,
            subword=_choice(Subword, "subword", subword),
            with_tokens=Unit.TOKEN in units,
            with_words=Unit.WORD in units,
            only=_word_list(only),
            left_words=_left_words(context),
            words=_word_rule(words),
            causal=self.model.causal,
        )
        self._check_first_tokens()
        self._check_context()
        self._check_only()
        self.own_prompt = prompt is not None
        """Whether it was made with a prompt, which is used instead of the model's."""
        self.given_batch_tokens = batch_tokens
        is_folder = model is not None and Path(model).is_dir()
        self.location: str = str(Path(str(model)).absolute() if is_folder else model or self.model.name)
        """The location by which another process finds the model: a folder's absolute path, or its name."""
        self._record: tuple[ModelIdentity, object] | None = None  # that it was made from, with its folder

    def _check_first_tokens(self) -> None:
        if self.model.causal and any(column.pooling is Pooling.CLS for column in self.columns):
            raise UsageError(
                f"in {self.model.name} each token sees only those before it, so that the first token's vector is the "
                f"same for all texts, and pooling cls says nothing",
                remedy=f"give {parameter('pooling', 'last-token')} or {parameter('pooling', 'mean')}",
            )

    def _check_context(self) -> None:
        if self.token_settings.left_words is None:
            return
        if self.token_settings.prompt:
            problem = f"a prompt and {parameter('context')} both stand before a word"
            raise UsageError(problem, remedy=f"give one of them; an empty {parameter('prompt')} is none")
        if any(column.pooling is Pooling.CLS for column in self.columns):
            raise UsageError(f"with {parameter('context')} the first token of a text reads its first word only")

    def _check_only(self) -> None:
        if self.token_settings.only is not None and not self.token_settings.with_words:
            raise UsageError(
                f"{parameter('only')} chooses the words that get vectors, and words get none",
                remedy=f"add {parameter('pooling', str(Pooling.WORD))}",
            )

    @classmethod
    def from_record(
        cls,
        identity: ModelIdentity,
        settings: FeatureSettings,
        columns: Sequence[FeatureColumn],
        *,
        name: str | Path | None = None,
        precision: str | None = None,
        device: str | None = None,
        prompt: str | None = None,
        only: Sequence[str] = (),
        where: object = "",
    ) -> Self:
        """Make the embedder that a feature set, an index or a tagger records, to compute ``columns`` in the same way.

        ``name`` is where the model is now, if it has moved; ``precision`` and ``prompt`` replace the recorded ones;
        ``only`` are the words that get vectors, which are all by default, whatever is recorded: a query may have any
        words. ``where`` is the folder of the record, for errors.

        Raises:
            FeatureSetError: the model there is not the recorded one, or does not take the recorded settings.
        """
        location, revision = name or identity.name, None if name else identity.revision
        model = find_model(location, revision=revision)
        if model.fingerprint != identity.fingerprint:
            raise FeatureSetError(
                f"the features were made by {identity.name} with the fingerprint {identity.fingerprint[:12]}…, but "
                f"{model.name} has {model.fingerprint[:12]}…, and vectors of two models cannot be compared",
                where=where,
                remedy=f"name the right model with {parameter('model')}",
            )
        sizes, recorded = (model.num_layers, model.hidden_size), (identity.num_layers, identity.hidden_size)
        if sizes != recorded:
            raise FeatureSetError(
                f"it says that {identity.name} has {recorded[0]} layers of width {recorded[1]}, and the model has "
                f"{sizes[0]} of width {sizes[1]}",
                where=where,
                remedy="make it again",
            )
        precision = resolve_precision(precision or settings.precision, resolve_device(device))
        try:
            embedder = cls(
                location,
                revision=revision,
                layers=list(dict.fromkeys(column.recipe.spelling for column in columns)),
                pooling=[str(column.pooling) for column in columns],
                precision=precision,
                long=settings.long,
                max_length=settings.max_length,
                device=device,
                dtype=settings.dtype,
                subword=settings.subword or "first",
                special_tokens=settings.special_tokens,
                prompt=settings.prompt if prompt is None else prompt,
                only=only or None,
                words=str(settings.word_rule if settings.needs_words else WordRule.SPACES),
                context=settings.context,
            )
        except UsageError as error:
            problem = f"its settings do not fit {model.name}: {error}"
            raise FeatureSetError(problem, where=where, remedy="make it again") from error
        embedder.columns = tuple(columns)
        embedder.model = model  # the one whose files have been hashed
        embedder._record = identity, where
        return embedder

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name, revision, size and fingerprint of the model, as feature sets record them."""
        return ModelIdentity.of(self.model)

    @property
    def feature_settings(self) -> FeatureSettings:
        """The settings that a feature set of its vectors records, but for those of a corpus and a run."""
        tokens, precision = self.token_settings, self.precision.value
        return FeatureSettings(
            model=self.model.fingerprint,
            layers=tuple(map(describe_column, self.columns)),
            precision=precision,
            dtype=next((column.dtype for column in self.columns if not column.pooling.per_document), "float32"),
            long=str(tokens.long),
            max_length=tokens.max_length,
            prompt=tokens.prompt,
            subword=str(tokens.subword) if tokens.with_words else None,
            special_tokens=tokens.special_tokens,
            numerics=NUMERICS_VERSION,
            quantization=INT8_VERSION if precision == "int8" else None,
            only=() if tokens.only is None or not tokens.with_words else tokens.only.entries,
            words=tokens.words.record,
            context=None if tokens.left_words is None else f"left:{tokens.left_words}",
            plan=PLAN_VERSION,
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.model)

    def language_warning(self, text: str) -> str | None:
        """The warning about a query in a language that the model does not know; None if it knows it."""
        return query_warning(text, self.tokenizer)

    @cached_property
    def encoder(self) -> Encoder:
        """The model's weights, ready to compute; of an embedder that was made from a record, they give its vectors."""
        if self._record is not None:
            self.check_against(*self._record)
        return self._loaded

    @cached_property
    def _loaded(self) -> Encoder:
        if self.device.type == "cpu":
            keep_freed_memory()
        return load_encoder(self.model, self.precision, self.device)

    @cached_property
    def canary(self) -> Canary:
        """The vectors that the encoder gives a few fixed strings."""
        return compute_canary(self._loaded, self.tokenizer, max_tokens=self.model.max_tokens)

    def check_against(self, recorded: ModelIdentity, where: object) -> None:
        """Check that the model gives the same vectors here as it gave where something was recorded.

        Where there is a canary to compare with, the weights are loaded. ``where`` is the record's folder, for errors.

        Raises:
            ModelError: the recorded canary and the same strings' vectors here differ by more than rounding explains.
        """
        if recorded.canary is not None and (problem := find_canary_problem(recorded.canary, self.canary)):
            raise ModelError(
                f"{self.model.name} gives other vectors here than those that are recorded: {problem}",
                where=where,
                remedy="use the versions and the device of the record, or make it again here",
            )

    @cached_property
    def batch_tokens(self) -> int:
        """Most tokens in one batch: as requested, else by the device."""
        if self.given_batch_tokens is not None:
            return self.given_batch_tokens
        if self.device.type != "cuda":
            return CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(self.device)
        fitting = int(free) // (2 * _CUDA_BYTES_PER_TOKEN * self.model.hidden_size)
        return max(self.token_settings.max_length, min(_CUDA_BATCH_TOKENS, fitting))

    def variant(self, columns: Sequence[FeatureColumn], token_settings: TokenSettings) -> Self:
        """An embedder of the same weights, for other columns or another reading of the texts."""
        self.tokenizer, self.encoder  # noqa: B018  # loaded here, once for all variants
        other = self.with_bases(columns)
        other.token_settings = token_settings
        return other

    def with_bases(self, columns: Sequence[FeatureColumn]) -> Self:
        """The embedder of the same columns with the bases by which they are stored."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.columns = tuple(columns)
        return other

    def of_columns(self, columns: Sequence[FeatureColumn]) -> Self:
        """An embedder of the same weights, for other columns."""
        units = {column.pooling.unit for column in columns}
        with_units = replace(self.token_settings, with_tokens=Unit.TOKEN in units, with_words=Unit.WORD in units)
        return self.variant(columns, with_units)

    # ── the two steps, which a run overlaps ─────────────────────────────────────────────────────────────────

    def tokenize_rows(self, rows: Sequence[Row]) -> TokenizedRows:
        """Tokenize the documents among rows, each text once."""
        with stage("tokenize"):
            parted = partition_rows(rows)
            documents = list(parted.unique)
            tokens = tokenize(documents, self.tokenizer, self.token_settings)
            oversized = find_oversized(tokens, self.columns)
            if oversized:  # they keep their places, without their tokens
                for number in oversized:
                    documents[number] = replace(documents[number], text="", pair=None, words=None, before="", after="")
                tokens = tokenize(documents, self.tokenizer, self.token_settings)
            windows = windows_of_columns(tokens.layout, self.columns)
            token_count = int(np.diff(tokens.layout.window_offsets)[windows].sum())
        return TokenizedRows(parted, tokens, {**tokens.rejected, **oversized}, token_count)

    def compute_rows(
        self,
        tokenized: TokenizedRows,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        kept: Sequence[KeptColumn] = (),
        keep_text: bool = True,
        tags: bool = False,
        pairs: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> PartResult:
        """Compute tokenized rows and assemble their content.

        ``tags`` and ``pairs`` say whether the corpus has any, and so whether the content has columns for them;
        ``on_batch`` gets the number of tokens of each batch.
        """
        encoder = self.encoder
        with held_to_threads(merging_threads(self.device, self.columns)):
            matrices = compute_features(
                encoder,
                tokenized.tokens,
                self.columns,
                batch_tokens=batch_tokens or self.batch_tokens,
                batch_size=batch_size,
                on_batch=on_batch,
            )
            rejected = {**find_overflows(matrices, tokenized.tokens, self.columns), **tokenized.rejected}
            content = assemble_part(
                tokenized.rows,
                rejected,
                tokenized.tokens,
                matrices,
                self.columns,
                kept=kept,
                keep_text=keep_text,
                tags=tags,
                pairs=pairs,
            )
        failures = list_failures(tokenized.rows, rejected)
        return PartResult(content, failures, matrices.computed_tokens, matrices.padded_tokens, matrices.split_batches)


def _max_length(length: int | None, model: Model) -> int:
    limit = model.max_tokens
    if length is None:
        return limit
    if not _LEAST_LENGTH <= length <= limit:
        raise UsageError(
            f"{model.name} reads {_LEAST_LENGTH} to {limit} tokens at once", where=parameter("max_length", length)
        )
    return length


def _word_list(words: str | Sequence[str] | None) -> WordList | None:
    """The words of a list, or of a string in which commas separate them: ``bank,train*``."""
    if words is None:
        return None
    try:
        return WordList.parse(words.split(",") if isinstance(words, str) else words)
    except UsageError as error:
        raise error.within(parameter("only")) from None


def _word_rule(words: str) -> WordRule:
    """The rule of that name, if the program that it asks is installed."""
    rule = _choice(WordRule, "words", words)
    rule.check_installed()
    return rule


def _left_words(context: str | None) -> int | None:
    """The number of words in ``left:8``."""
    if context is None:
        return None
    kind, _, number = context.partition(":")
    if kind != "left" or not number.isascii() or not number.isdigit() or len(number) > 6:
        raise UsageError(
            "not a number of words before each word", where=parameter("context", context), remedy="write left:8"
        )
    return int(number)


def _choice(kind: type[Choice], name: str, value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"known are {', '.join(kind)}", where=parameter(name, value)) from None
