"""A model and what is wanted of its layers, ready for rows of a corpus."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from bertfeat.corpus import Corpus, Failure, KeptColumn, Row
from bertfeat.encoder import Encoder, load_encoder, resolve_device, resolve_precision
from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.extraction.compute import FeatureMatrices, compute_features
from bertfeat.extraction.part_content import PartRows, assemble_part, find_overflows, find_oversized, partition_rows
from bertfeat.extraction.settings import parse_poolings
from bertfeat.features import FeatureSettings, ModelIdentity, PartContent
from bertfeat.io import keep_freed_memory, stage
from bertfeat.models import Model, find_model
from bertfeat.recipe import FeatureColumn, Pooling, feature_columns
from bertfeat.tokens import LongTextPolicy, Subword, TokenizedDocuments, Tokenizer, TokenSettings, tokenize

CPU_BATCH_TOKENS = 8192
_CUDA_BATCH_TOKENS = 131_072
_CUDA_BYTES_A_TOKEN = 64  # times hidden size: activations of one block, in 16 bit
_CACHED_SHAPES = 128  # the layers of a batch share theirs; those of one batch hardly come again in the next


@dataclass(frozen=True, slots=True)
class TokenizedRows:
    """Rows that are tokenized and wait for the encoder."""

    rows: PartRows
    tokenized: TokenizedDocuments
    rejected: dict[int, str]  # number among the unique documents → reason


@dataclass(frozen=True, slots=True)
class PartResult:
    """The content of computed rows, and the rows that failed on the way."""

    content: PartContent
    failures: tuple[Failure, ...]  # those of the corpus too, in row order
    computed: FeatureMatrices


class Embedder:
    """A frozen encoder with its tokenizer and what is wanted of its layers: rows go in, feature matrices come out.

    The arguments are those of :class:`bertfeat.Extractor`.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        layers: str | Sequence[str] = "last",
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
        revision: str | None = None,
    ) -> None:
        self.model: Model = find_model(model, revision=revision)
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        if dtype not in ("float16", "float32"):
            raise UsageError(f"unknown dtype {dtype!r}; token and word matrices are float16 or float32")
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"a batch of {batch_tokens} tokens holds no text; give at least 1")
        self.columns: tuple[FeatureColumn, ...] = feature_columns(
            layers,
            parse_poolings(pooling, lambda: self.model.pooling),
            num_layers=self.model.num_layers,
            hidden_size=self.model.hidden_size,
            dtype=dtype,
        )
        poolings = {column.pooling for column in self.columns}
        self.token_settings = TokenSettings(
            max_length=_max_length(max_length, self.model),
            long=_choice(LongTextPolicy, long, "--long"),
            prompt=self.model.default_prompt if prompt is None else prompt,
            special_tokens=special_tokens,
            subword=_choice(Subword, subword, "--subword"),
            with_tokens=Pooling.TOKEN in poolings,
            with_words=Pooling.WORD in poolings,
        )
        self.given_batch_tokens = batch_tokens

    @classmethod
    def recorded(
        cls,
        model: ModelIdentity,
        settings: FeatureSettings,
        columns: Sequence[FeatureColumn],
        *,
        name: str | Path | None = None,
        precision: str | None = None,
        device: str | None = None,
        prompt: str | None = None,
    ) -> Self:
        """Make the extractor that a feature set or an index records, to compute ``columns`` as they were computed.

        ``name`` says where the model is now, if not where it was; ``precision`` and ``prompt`` replace what is
        recorded.

        Raises:
            FeatureSetError: the model there is not the recorded one.
        """
        files = find_model(name or model.name, revision=None if name else model.revision)
        if files.fingerprint != model.fingerprint:
            raise FeatureSetError(
                f"the features were made by {model.name} with the fingerprint {model.fingerprint[:12]}…, but "
                f"{files.name} has {files.fingerprint[:12]}…, and vectors of two models cannot be compared; "
                f"name the right model with --model"
            )
        made = cls(
            name or model.name,
            revision=None if name else model.revision,
            layers=[column.recipe.spec for column in columns],
            pooling=[str(column.pooling) for column in columns],
            precision=precision or settings.precision,
            long=settings.long,
            max_length=settings.max_length,
            device=device,
            dtype=settings.dtype,
            subword=settings.subword or "first",
            special_tokens=settings.special_tokens,
            prompt=settings.prompt if prompt is None else prompt,
        )
        made.columns = tuple(columns)
        return made

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name, revision, size and fingerprint of the model, as feature sets record them."""
        model = self.model
        return ModelIdentity(model.name, model.fingerprint, model.revision, model.num_layers, model.hidden_size)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.model)

    @cached_property
    def encoder(self) -> Encoder:
        """The model's weights, ready to compute."""
        _bound_caches()
        if self.device.type == "cpu":
            keep_freed_memory()
        return load_encoder(self.model, self.precision, self.device)

    @cached_property
    def batch_tokens(self) -> int:
        """Tokens in one batch: as given, else as fits the device."""
        if self.given_batch_tokens is not None:
            return self.given_batch_tokens
        if self.device.type != "cuda":
            return CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(self.device)
        fitting = int(free) // (2 * _CUDA_BYTES_A_TOKEN * self.model.hidden_size)
        return max(self.token_settings.max_length, min(_CUDA_BATCH_TOKENS, fitting))

    # ── steps, which a run overlaps ─────────────────────────────────────────────────────────────────────────

    def prepared(self, rows: Sequence[Row]) -> TokenizedRows:
        """Tokenize the documents among rows, each text once."""
        with stage("tokenize"):
            sorted_rows = partition_rows(rows)
            documents = list(sorted_rows.unique)
            tokenized = tokenize(documents, self.tokenizer, self.token_settings)
            if large := find_oversized(tokenized, self.columns):
                for at in large:  # they keep their places, without their tokens
                    documents[at] = replace(documents[at], text="", pair=None, words=None, before="", after="")
                tokenized = tokenize(documents, self.tokenizer, self.token_settings)
        return TokenizedRows(sorted_rows, tokenized, {**tokenized.rejected, **large})

    def extracted(
        self,
        prepared: TokenizedRows,
        corpus: Corpus,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        kept: Sequence[KeptColumn] = (),
        keep_text: bool = True,
        on_batch: Callable[[int], None] | None = None,
    ) -> PartResult:
        """Compute prepared rows and set their content together."""
        computed = compute_features(
            self.encoder,
            prepared.tokenized,
            self.columns,
            batch_tokens=batch_tokens or self.batch_tokens,
            batch_size=batch_size,
            on_batch=on_batch,
        )
        rows = prepared.rows
        rejected = {**find_overflows(computed, prepared.tokenized, self.columns), **prepared.rejected}
        content = assemble_part(
            rows,
            rejected,
            prepared.tokenized,
            computed,
            self.columns,
            kept=kept,
            keep_text=keep_text,
            tags=corpus.has_tags,
            pairs=corpus.has_pairs,
        )
        failed = [
            Failure(document.row, document.id, f"row {document.row} (id {document.id}): {rejected[of]}")
            for document, of in zip(rows.documents, rows.of.tolist(), strict=True)
            if of in rejected
        ]
        failures = tuple(sorted([*rows.failures, *failed], key=lambda failure: failure.row))
        return PartResult(content, failures, computed)


def _max_length(wanted: int | None, model: Model) -> int:
    limit = model.max_tokens
    if wanted is None:
        return limit
    least = 8
    if not least <= wanted <= limit:
        raise UsageError(f"--max-length {wanted}: {model.name} reads {least} to {limit} tokens at once")
    return wanted


def _choice(kind: Any, wanted: str, option: str) -> Any:
    try:
        return kind(wanted)
    except ValueError:
        raise UsageError(f"{option} {wanted}: known are {', '.join(kind)}") from None


def _bound_caches() -> None:
    """Limit what torch's products keep for each shape that they have met, unless the user has.

    By default that is 1,024 shapes in each of two caches, and as every batch brings new ones, a run over a million
    documents grows by some 150 MB while they fill, and is no faster for it. Both are read at the first product.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(_CACHED_SHAPES))
