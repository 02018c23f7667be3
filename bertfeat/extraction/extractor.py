"""A model, what is wanted of its layers, and the texts that go through it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.corpus import Corpus, CorpusSettings, Failure, Item, KeptColumn, Row, memory_corpus
from bertfeat.encoder import Encoder, load_encoder, resolve_device, resolve_precision
from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.extraction.compute import Computed, compute
from bertfeat.extraction.content import SortedRows, not_finite, part_content, sort_rows, too_large
from bertfeat.extraction.report import ExtractionReport, OnProgress
from bertfeat.extraction.settings import parse_poolings
from bertfeat.features import DocumentFeatures, ModelIdentity, PartContent, content_documents
from bertfeat.models import Model, find_model
from bertfeat.recipe import FeatureColumn, Pooling, feature_columns
from bertfeat.tokens import Long, Subword, Tokenized, Tokenizer, TokenSettings, tokenize

CPU_BATCH_TOKENS = 8192
_CUDA_BATCH_TOKENS = 131_072
_CUDA_BYTES_A_TOKEN = 64  # times hidden size: activations of one block, in 16 bit
_CHUNK = 4096  # texts at a time that encode() and features() hold


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows that are tokenized and wait for the encoder."""

    rows: SortedRows
    tokenized: Tokenized
    rejected: dict[int, str]  # number among the unique documents → reason


@dataclass(frozen=True, slots=True)
class Extracted:
    """The content of computed rows, and the rows that failed on the way."""

    content: PartContent
    failures: tuple[Failure, ...]  # those of the corpus too, in row order
    computed: Computed


class Extractor:
    """Runs texts through a frozen encoder and gives the layers that are asked for.

    ``layers`` and ``pooling`` are written as on the command line (``"concat4"``, ``"sum=-4..-1,cls"``;
    ``"mean,word"``); every recipe under every pooling is a column. The default pooling is the model's own, the default
    model all-MiniLM-L6-v2. The files are looked up at once; weights are read when they are first needed.

    Raises:
        UsageError: a setting that cannot be right, such as a layer outside the model.
        ModelError: the model cannot be found or loaded.
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
        self.files: Model = find_model(model, revision=revision)
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        if dtype not in ("float16", "float32"):
            raise UsageError(f"unknown dtype {dtype!r}; token and word matrices are float16 or float32")
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"a batch of {batch_tokens} tokens holds no text; give at least 1")
        self.columns: tuple[FeatureColumn, ...] = feature_columns(
            layers,
            parse_poolings(pooling, self.files.pooling),
            num_layers=self.files.num_layers,
            hidden_size=self.files.hidden_size,
            dtype=dtype,
        )
        poolings = {column.pooling for column in self.columns}
        self.token_settings = TokenSettings(
            max_length=_max_length(max_length, self.files),
            long=_choice(Long, long, "--long"),
            prompt=self.files.default_prompt if prompt is None else prompt,
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
        settings: Mapping[str, Any],
        columns: Sequence[FeatureColumn],
        *,
        name: str | Path | None = None,
        precision: str | None = None,
        device: str | None = None,
        prompt: str | None = None,
    ) -> "Extractor":
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
            precision=precision or settings["precision"],
            long=settings["long"],
            max_length=settings["max_length"],
            device=device,
            dtype=settings["dtype"],
            subword=settings["subword"] or "first",
            special_tokens=settings["special_tokens"],
            prompt=settings["prompt"] if prompt is None else prompt,
        )
        made.columns = tuple(columns)
        return made

    @cached_property
    def model(self) -> ModelIdentity:
        """Which model this is, with the fingerprint of its files."""
        files = self.files
        return ModelIdentity(files.name, files.fingerprint, files.revision, files.num_layers, files.hidden_size)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.files)

    @cached_property
    def encoder(self) -> Encoder:
        """The model's weights, ready to compute."""
        return load_encoder(self.files, self.precision, self.device)

    @cached_property
    def batch_tokens(self) -> int:
        """Tokens in one batch: as given, else as fits the device."""
        if self.given_batch_tokens is not None:
            return self.given_batch_tokens
        if self.device.type != "cuda":
            return CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(self.device)
        fitting = int(free) // (2 * _CUDA_BYTES_A_TOKEN * self.files.hidden_size)
        return max(self.token_settings.max_length, min(_CUDA_BATCH_TOKENS, fitting))

    # ── texts in memory ─────────────────────────────────────────────────────────────────────────────────────

    def encode(
        self,
        sentences: str | Sequence[Item],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
        **ignored: Any,
    ) -> NDArray[np.float32]:
        """Embed texts as one vector each, as sentence-transformers' ``encode`` does.

        ``batch_size`` limits the texts in one batch, which a token budget already does. Further keywords of
        sentence-transformers are accepted where they leave the result what it is.

        Shape: ``[n, width]`` float32, in the order of the texts; ``[width]`` for a single string.

        Raises:
            UsageError: several columns are asked for, or one of tokens or words; a text that is no text; or a keyword
                that would change the result.
        """
        _refuse_other_results(ignored)
        if len(self.columns) != 1 or not self.columns[0].pooling.per_document:
            names = ", ".join(column.name for column in self.columns)
            raise UsageError(f"encode() gives one vector a text, but the columns are {names}; use features()")
        if isinstance(sentences, str):
            vector: NDArray[np.float32] = self._embedded([sentences], batch_size, normalize_embeddings)[0]
            return vector
        texts = list(sentences)
        parts = [
            self._embedded(texts[at : at + _CHUNK], batch_size, normalize_embeddings)
            for at in _steps(len(texts), show=bool(show_progress_bar))
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.columns[0].width), np.float32)

    def features(
        self, texts: Iterable[Item], *, corpus_settings: CorpusSettings | None = None
    ) -> list[DocumentFeatures]:
        """Give texts with their tokens or words, offsets and vectors, as a feature set would hold them.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        corpus = memory_corpus(texts, corpus_settings or CorpusSettings())
        rows = list(corpus.rows())
        found: list[DocumentFeatures] = []
        for at in range(0, len(rows), _CHUNK):
            extracted = self.extracted(self.prepared(rows[at : at + _CHUNK]), corpus)
            _refuse_failures(extracted.failures)
            found.extend(content_documents(extracted.content, self.columns, self.files.num_layers))
        return found

    def _embedded(self, texts: Sequence[Item], batch_size: int | None, normalize: bool) -> NDArray[np.float32]:
        corpus = memory_corpus(texts)
        extracted = self.extracted(self.prepared(list(corpus.rows())), corpus, batch_size=batch_size)
        _refuse_failures(extracted.failures)
        vectors = extracted.content.vectors[self.columns[0].name]
        if not normalize:
            return vectors
        normed: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return normed

    # ── corpora on disk ─────────────────────────────────────────────────────────────────────────────────────

    def extract(
        self,
        corpus: Corpus | str | Path | Sequence[str | Path],
        folder: str | Path,
        *,
        corpus_settings: CorpusSettings | None = None,
        part_rows: int | None = None,
        max_failures: int | None = None,
        strict: bool = False,
        overwrite: bool = False,
        keep_text: bool = True,
        progress: OnProgress | None = None,
    ) -> ExtractionReport:
        """Extract a corpus into a feature set; over a folder of the same run, keep what is there and do the rest.

        ``corpus`` is a corpus, a file, folder or pattern or several of them, or ``"-"`` for standard input. Rows that
        fail are listed in the set; ``strict`` stops at the first, ``max_failures`` after so many. ``overwrite``
        starts anew.

        Raises:
            CorpusError: the corpus cannot be read (:class:`WrongColumns`: its first rows all failed).
            SettingsDiffer, AnotherCorpus, FolderLocked: the folder belongs to another run; nothing was touched.
            RowFailed: a row failed and ``strict`` was asked for.
        """
        from bertfeat.extraction.run import Run, RunOptions

        options = RunOptions(part_rows, max_failures, strict, overwrite, keep_text)
        return Run(self, corpus, Path(folder), corpus_settings or CorpusSettings(), options, progress).go()

    # ── steps, which a run overlaps ─────────────────────────────────────────────────────────────────────────

    def prepared(self, rows: Sequence[Row]) -> Prepared:
        """Tokenize the documents among rows, each text once."""
        sorted_rows = sort_rows(rows)
        documents = list(sorted_rows.unique)
        tokenized = tokenize(documents, self.tokenizer, self.token_settings)
        if large := too_large(tokenized, self.columns):
            for at in large:  # they keep their places, without their tokens
                documents[at] = replace(documents[at], text="", pair=None, words=None, before="", after="")
            tokenized = tokenize(documents, self.tokenizer, self.token_settings)
        return Prepared(sorted_rows, tokenized, {**tokenized.rejected, **large})

    def extracted(
        self,
        prepared: Prepared,
        corpus: Corpus,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        kept: Sequence[KeptColumn] = (),
        keep_text: bool = True,
        on_batch: Callable[[int], None] | None = None,
    ) -> Extracted:
        """Compute prepared rows and set their content together."""
        computed = compute(
            self.encoder,
            prepared.tokenized,
            self.columns,
            batch_tokens=batch_tokens or self.batch_tokens,
            batch_size=batch_size,
            on_batch=on_batch,
        )
        rows = prepared.rows
        rejected = {**not_finite(computed, prepared.tokenized, self.columns), **prepared.rejected}
        content = part_content(
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
        return Extracted(content, failures, computed)


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


_HARMLESS = {
    "prompt_name": (None,),
    "prompt": (None, ""),
    "output_value": ("sentence_embedding",),
    "precision": ("float32",),
    "convert_to_numpy": (True,),
    "convert_to_tensor": (False,),
    "truncate_dim": (None,),
    "device": (None,),
    "pool": (None,),
    "chunk_size": (None,),
}


def _refuse_other_results(keywords: dict[str, Any]) -> None:
    for name, value in keywords.items():
        if name not in _HARMLESS:
            raise UsageError(f"encode() has no keyword {name!r}")
        if value not in _HARMLESS[name]:
            raise UsageError(f"encode({name}={value!r}) would change the result; set it when the Extractor is made")


def _refuse_failures(failures: Sequence[Failure]) -> None:
    if failures:
        raise UsageError(f"{len(failures)} texts cannot be embedded; the first: {failures[0].reason}")


def _steps(number: int, *, show: bool) -> Iterable[int]:
    steps = range(0, number, _CHUNK)
    if not show:
        return steps
    from tqdm import tqdm  # type: ignore[import-untyped]

    bar: Iterable[int] = tqdm(steps, desc="Batches")
    return bar
