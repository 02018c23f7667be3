"""``Extractor``: corpora and texts → features; a substitute for ``SentenceTransformer`` in libraries that take one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked, require_at_least
from bertfeat.core.corpus import (
    BlankLine,
    Corpus,
    CorpusItem,
    CorpusSettings,
    Document,
    Failure,
    KeptColumn,
    Row,
    memory_corpus,
)
from bertfeat.core.encoder import AttentionReader, Encoder, load_encoder, resolve_device, resolve_precision
from bertfeat.core.engine import Engine
from bertfeat.core.extraction.canary import compute_canary
from bertfeat.core.extraction.compute import OnBatch, compute_features, windows_of_columns
from bertfeat.core.extraction.cores import held_to_threads, merging_threads
from bertfeat.core.extraction.encode_arguments import EncodeOptions, take_texts, text_documents
from bertfeat.core.extraction.joining import Join
from bertfeat.core.extraction.language_check import query_warning
from bertfeat.core.extraction.part_content import (
    TokenizedRows,
    assemble_part,
    find_oversized,
    find_unique,
    without_texts,
)
from bertfeat.core.extraction.patterns import AttentionPatterns, attention_patterns, pattern_layers
from bertfeat.core.extraction.progress import ExtractionReport, Progress
from bertfeat.core.extraction.resolve import (
    check_role,
    check_sites,
    find_recorded_model,
    resolve_columns,
    resolve_layers,
    resolve_poolings,
    resolve_tokens,
    settings_of_record,
    settings_to_record,
)
from bertfeat.core.extraction.run import ExtractionRun
from bertfeat.core.extraction.run_options import ExtractionOptions
from bertfeat.core.extraction.sentence_pooling import OwnModules
from bertfeat.core.extraction.sentence_transformers.methods import SentenceEncoder
from bertfeat.core.extraction.settings import ExtractorSettings
from bertfeat.core.extraction.source import CorpusSource
from bertfeat.core.features import (
    Canary,
    DocumentFeatures,
    FeatureSettings,
    MemoryFeatures,
    ModelIdentity,
    PartContent,
    content_documents,
    find_canary_problem,
)
from bertfeat.core.models import Model, find_model
from bertfeat.core.recipe import FeatureColumn, LayerSpec, Pooling, Unit
from bertfeat.core.tokens import Tokenizer, TokenSettings, tokenize
from bertfeat.errors import FeatureSetError, ModelError, UsageError
from bertfeat.io import Address, as_location, keep_freed_memory, prefetched, stage, to_plain
from bertfeat.options import takes
from bertfeat.progress import ProgressOption, telling

_CPU_BATCH_TOKENS = 8192
_CUDA_BATCH_TOKENS = 131_072
_CUDA_BYTES_PER_TOKEN = 64  # times hidden size: activations of one block, in 16 bit
_CHUNK = 2048  # texts that encode() and features() compute at a time
# left out of pickles, and made again
_CACHED = ("tokenizer", "encoder", "_loaded", "_attention_reader", "_own", "canary", "batch_tokens", "model_card_data")


@checked
class Extractor(SentenceEncoder):
    """Runs texts through a frozen encoder and gives its layers as features.

    ``layers`` and ``pooling`` are written as on the command line (``"concat4"``, ``"sum=-4..-1,cls"``;
    ``"mean,word"``); every recipe under every pooling is a column. The default pooling is the model's own, the default
    model all-MiniLM-L6-v2. The files are looked up at once; weights are read when they are first needed, and a pickle
    holds the settings without them. With ``context="left:8"`` each word is read after the 8 words before it, and
    without the words after it.

    An Extractor of one column has the methods that sentence-transformers needs of a frozen ``SentenceTransformer``, and
    gives the same numbers in fp32 at the same ``max_length`` with ``long="truncate"``: with ``layers="sentence"`` those
    of all modules after its encoder (Dense, Normalize), else of its pooling.

    Raises:
        UsageError: a setting that cannot be right, such as a layer outside the model.
        ModelError: the model cannot be found or loaded.
    """

    @takes(ExtractorSettings)
    def __init__(self, settings: ExtractorSettings) -> None:
        self.model: Model = find_model(settings.model, revision=settings.revision)
        self.device = resolve_device(settings.device)
        self.precision = resolve_precision(settings.precision, self.device)
        self.columns: tuple[FeatureColumn, ...] = resolve_columns(settings, self.model)
        check_sites(self.model, self.columns, self.precision)
        self.token_settings: TokenSettings = resolve_tokens(settings, self.model, self.columns)
        self.own_prompt = settings.prompt is not None
        """Whether it was made with a prompt, which is used instead of the model's."""
        self.given: ExtractorSettings = replace(
            settings,
            layers=resolve_layers(settings, self.model),
            pooling=resolve_poolings(settings, self.model),
        )
        """The settings that it was made with."""
        self.location = _location(settings.model, self.model)
        """The location by which another process finds the model: a folder's absolute path, or its name."""
        self._record: tuple[ModelIdentity, object] | None = None  # that it was made from, with its folder

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
        """Make the extractor that a feature set, an index or a tagger records, to compute ``columns`` in the same way.

        ``name`` is where the model is now, if it has moved; ``precision`` and ``prompt`` replace the recorded ones;
        ``only`` are the words that get vectors, which are all by default, whatever is recorded: a query may have any
        words. ``where`` is the folder of the record, for errors.

        Raises:
            FeatureSetError: the model there is not the recorded one, or does not take the recorded settings.
        """
        model = find_recorded_model(identity, name, where)
        made = replace(
            settings_of_record(settings, columns),
            model=name or identity.name,
            revision=None if name else identity.revision,
            precision=resolve_precision(precision or settings.precision, resolve_device(device)),
            device=device,
            prompt=settings.prompt if prompt is None else prompt,
            only=only or None,
        )
        try:
            extractor = cls(**asdict(made))
        except UsageError as error:
            problem = f"its settings do not fit {model.name}: {error}"
            raise FeatureSetError(problem, where=where, remedy="make it again") from error
        for column in columns:
            if column.recipe.of_heads and column.hidden_size != model.width_at(column.recipe.site):
                problem = f"it says that the heads of {model.name} are {column.hidden_size} wide"
                raise FeatureSetError(problem, where=where, remedy="make it again")
        extractor.columns = tuple(columns)
        extractor.model = model  # the one whose files have been hashed
        extractor._record = identity, where
        return extractor

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> ExtractorSettings:
        """The settings that make an equal Extractor: ``Extractor(**asdict(settings))``.

        Raises:
            UsageError: its columns are not those that it was made with (:meth:`from_record`, :meth:`variant`), and no
                layers and poolings give just these columns.
        """
        of_columns = replace(
            settings_of_record(self.feature_settings, self.columns),
            model=self.location,
            revision=self.model.revision,
            device=str(self.device),
            batch_tokens=self.given.batch_tokens,
            subword=self.token_settings.subword,
            prompt=self.token_settings.prompt if self.own_prompt else None,
        )
        as_given = replace(of_columns, layers=self.given.layers, pooling=self.given.pooling)
        for settings in (as_given, of_columns):
            made = resolve_columns(settings, self.model)
            if made == self.columns and [each.name for each in made] == [each.name for each in self.columns]:
                return settings
        names = ", ".join(column.name for column in self.columns)
        raise UsageError(f"no layers and poolings give just {names}", remedy="make an Extractor for each column")

    @property
    def feature_settings(self) -> FeatureSettings:
        """The settings that a feature set of its vectors records, but for those of a corpus and a run."""
        return settings_to_record(self.model, self.columns, self.precision, self.token_settings)

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def prompt(self) -> str:
        """The text that is put before every text, unless a call gives another one."""
        return self.token_settings.prompt

    @property
    def marks_texts(self) -> bool:
        """Whether its model compares tokens, and reads queries and documents each in its own way."""
        return self.model.reading is not None

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by name; ``query`` and ``document`` are always there, empty if the model has none."""
        return {"query": "", "document": "", **self.model.prompts}

    @property
    def _model_folder(self) -> Path:
        return self.model.folder

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name, revision, size and fingerprint of the model, as feature sets record them."""
        return ModelIdentity.of(self.model)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.model)

    def language_warning(self, text: str) -> str | None:
        """The warning about a query in a language that the model does not know; None if it knows it."""
        return query_warning(text, self.tokenizer)

    @cached_property
    def encoder(self) -> Encoder:
        """The model's weights, ready to compute; of an extractor that was made from a record, they give its vectors."""
        if self._record is not None:
            self.check_against(*self._record)
        return self._loaded

    @cached_property
    def _loaded(self) -> Encoder:
        if self.device.type == "cpu":
            keep_freed_memory()
        return load_encoder(self.model, self.precision, self.device)

    @cached_property
    def _own(self) -> OwnModules:
        return OwnModules(self.model)

    def _own_for(self, columns: Sequence[FeatureColumn]) -> OwnModules | None:
        check_role(self.model, columns, self.token_settings.prompt)
        if any(column.recipe.projected for column in columns):
            self.tokenizer.check_markers()
        return self._own if any(column.by_own_modules for column in columns) else None

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
        if self.given.batch_tokens is not None:
            return self.given.batch_tokens
        if self.device.type != "cuda":
            return _CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(self.device)
        fitting = int(free) // (2 * _CUDA_BYTES_PER_TOKEN * self.model.hidden_size)
        return max(self.token_settings.max_length, min(_CUDA_BATCH_TOKENS, fitting))

    def __repr__(self) -> str:
        try:
            settings = to_plain(self.settings)
        except UsageError:
            return f"<Extractor of {self.model.name}: {', '.join(column.name for column in self.columns)}>"
        return f"Extractor({', '.join(f'{name}={value!r}' for name, value in settings.items())})"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _CACHED}

    # ── other columns, and the same weights for them ──────────────────────────────────────────────────────────────────

    def columns_under(
        self, *, layers: LayerSpec | Sequence[LayerSpec], pooling: str | Sequence[str] | None, dtype: str
    ) -> tuple[FeatureColumn, ...]:
        """The columns that the model gives under other layers, poolings and dtype.

        Raises:
            UsageError: an unknown one.
        """
        columns = resolve_columns(ExtractorSettings(layers=layers, pooling=pooling, dtype=dtype), self.model)
        check_sites(self.model, columns, self.precision)
        return columns

    def check_role(self, columns: Sequence[FeatureColumn], prompt: str) -> None:
        """Check that texts with a prompt are queries or documents to a model that compares tokens, if columns need it.

        Raises:
            UsageError: they are neither.
        """
        check_role(self.model, columns, prompt)

    def variant(self, columns: Sequence[FeatureColumn], token_settings: TokenSettings) -> Self:
        """An extractor of the same weights, for other columns or another reading of the texts."""
        check_sites(self.model, columns, self.precision)
        self.tokenizer, self.encoder, self._own_for(columns)  # loaded here, once for all variants
        other = self.with_bases(columns)
        other.token_settings = token_settings
        return other

    def with_bases(self, columns: Sequence[FeatureColumn]) -> Self:
        """The extractor of the same columns with the bases by which they are stored."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.columns = tuple(columns)
        return other

    def of_columns(self, columns: Sequence[FeatureColumn]) -> Self:
        """An extractor of the same weights, for other columns."""
        units = {column.pooling.unit for column in columns}
        with_units = replace(self.token_settings, with_tokens=Unit.TOKEN in units, with_words=Unit.WORD in units)
        return self.variant(columns, with_units)

    def token_features(
        self, texts: Sequence[CorpusItem], column: FeatureColumn, prompt: str = ""
    ) -> list[DocumentFeatures]:
        """The tokens or words of texts or pairs after a prompt, and their vectors in a column of these.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        return self._with(prompt, column).features(texts)

    def patterns(self, texts: Sequence[str], layers: LayerSpec | Sequence[LayerSpec]) -> list[AttentionPatterns]:
        """The attention patterns of a few short texts: how much each token attends to each, head by head.

        ``layers`` are layers 1 to L, as ``7``, ``1..6`` or ``all`` are. The weights are transformers' own, in float32,
        whatever the precision. They take ``heads · tokens²`` numbers a layer and text, up to 1 GiB in one call.

        Raises:
            UsageError: an empty list, a text that cannot be embedded or that is longer than the model reads at once,
                too many texts, or something else than layers.
            ModelError: the library does not give the model's attention.
        """
        wanted = pattern_layers(layers, self.model.num_layers)
        documents = list(text_documents(take_texts(texts).items))
        return attention_patterns(documents, wanted, self.tokenizer, self.token_settings, self._attention_reader)

    @cached_property
    def _attention_reader(self) -> AttentionReader:
        return AttentionReader(self.model, self.device)

    # ── the two steps of a part, which a run overlaps ───────────────────────────────────────────────────────

    def tokenize_rows(self, rows: Sequence[Row]) -> TokenizedRows:
        """Tokenize the documents among rows, each text once."""
        with stage("tokenize"):
            documents = tuple(row for row in rows if isinstance(row, Document))
            unique, unique_numbers = find_unique(documents)
            tokens = tokenize(unique, self.tokenizer, self.token_settings)
            if oversized := find_oversized(tokens, self.columns):  # they keep their places, without their tokens
                tokens = tokenize(without_texts(unique, oversized), self.tokenizer, self.token_settings)
            windows = windows_of_columns(tokens.layout, self.columns)
            return TokenizedRows(
                documents=documents,
                unique=unique,
                unique_numbers=unique_numbers,
                failures=tuple(row for row in rows if isinstance(row, Failure)),
                blank=sum(isinstance(row, BlankLine) for row in rows),
                tokens=tokens,
                rejected={**tokens.rejected, **oversized},
                token_count=int(np.diff(tokens.layout.window_offsets)[windows].sum()),
            )

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
        on_batch: OnBatch | None = None,
    ) -> PartContent:
        """Compute tokenized rows and assemble their content, with the failures among them.

        ``kept`` are the columns of the corpus that go into the content. ``tags`` and ``pairs`` say whether the corpus
        has any, and so whether the content has columns for them; ``on_batch`` gets the numbers of tokens and of padding
        of each batch.
        """
        encoder = self.encoder  # not below: loading it may take all threads
        with held_to_threads(merging_threads(self.device, self.columns)):  # beside a GPU few: they only merge batches
            computed = compute_features(
                encoder,
                tokenized.tokens,
                self.columns,
                batch_tokens=batch_tokens or self.batch_tokens,
                batch_size=batch_size,
                on_batch=on_batch,
                own=self._own_for(self.columns),
            )
            return assemble_part(
                tokenized, computed, self.columns, kept=kept, keep_text=keep_text, tags=tags, pairs=pairs
            )

    # ── features of texts and of corpora ────────────────────────────────────────────────────────────────────

    def features(
        self, texts: Iterable[CorpusItem], *, corpus_settings: CorpusSettings | None = None
    ) -> list[DocumentFeatures]:
        """Return texts with their tokens or words, offsets and vectors, as a feature set would hold them.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        items = texts if isinstance(texts, str) else take_texts(texts).items
        documents: list[DocumentFeatures] = []
        for content in self.contents(items, corpus_settings=corpus_settings):
            documents.extend(content_documents(content, self.columns, self.model.num_layers))
        return documents

    def contents(
        self,
        texts: Iterable[CorpusItem],
        *,
        corpus_settings: CorpusSettings | None = None,
        batch_size: int | None = None,
    ) -> Iterator[PartContent]:
        """Compute texts, 2,048 at a time, and tokenize the next ones meanwhile.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        corpus = memory_corpus(texts, corpus_settings or CorpusSettings())
        for content in self._contents(corpus, _CHUNK, (), batch_size):
            if failures := content.failures:
                raise UsageError(f"{len(failures)} texts cannot be embedded; the first: {failures[0].reason}")
            yield content

    def blocks(self, corpus: Corpus, rows: int) -> Iterator[MemoryFeatures]:
        """Compute a corpus in memory, ``rows`` rows at a time; rows that fail are listed in their block.

        Raises:
            UsageError: fewer than one row.
        """
        require_at_least(1, rows=rows)
        origin = ", ".join(corpus.sources[:3]) or "the list"
        for content in self._contents(corpus, rows, corpus.kept):
            yield MemoryFeatures(content, self.columns, origin)

    def _contents(
        self, corpus: Corpus, rows: int, kept: Sequence[KeptColumn], batch_size: int | None = None
    ) -> Iterator[PartContent]:
        """Compute ``rows`` rows of a corpus at a time, and tokenize the next ones meanwhile."""
        listed = corpus.rows()
        first = list(islice(listed, rows))
        chunks = chain([first] if first else [], iter(lambda: list(islice(listed, rows)), []))
        tokenized_chunks = map(self.tokenize_rows, chunks)
        pairs, tags = corpus.has_pairs, corpus.has_tags
        # a thread that tokenizes ahead is only worth it for several chunks; a query has one
        for tokenized in tokenized_chunks if len(first) < rows else prefetched(tokenized_chunks):
            yield self.compute_rows(tokenized, batch_size=batch_size, kept=kept, pairs=pairs, tags=tags)

    def extract(
        self,
        corpus: CorpusSource,
        folder: str | Path | Address,
        *,
        corpus_settings: CorpusSettings | None = None,
        part_rows: int | None = None,
        max_failures: int | None = None,
        overwrite: bool = False,
        update: bool = False,
        reuse: Sequence[str | Path | Address] = (),
        keep_text: bool = True,
        width: int | None = None,
        basis: str | Path | Address | None = None,
        progress: ProgressOption[Progress] = None,
        engine: Engine | None = None,
        join: bool | Join = False,
        chosen: Mapping[str, object] | None = None,
    ) -> ExtractionReport:
        """Extract a corpus into a feature set; in a folder of the same run, keep its finished parts and do the rest.

        ``corpus`` is a corpus, a file, folder or pattern or several of them, or ``"-"`` for standard input. Rows that
        fail are listed in the set; ``max_failures`` stops the run once more rows than this failed.
        A set whose corpus has changed elsewhere than at its end is left alone: ``update`` makes it what the corpus is
        now, byte for byte as if extracted anew, but computes only texts that it does not hold; until it is done, the
        set stays what it was. ``overwrite`` starts again from nothing. ``reuse``: other feature sets of the same
        settings, from which features of texts are copied, too. ``width`` stores vectors of tokens and words by so many
        principal components, learned from a sample of the corpus, or taken from the feature set ``basis``. An
        ``engine`` of :mod:`bertfeat.scale` has other processes or machines do the work. With ``join`` the run works
        together with all others of the folder that join; :class:`bertfeat.core.Join` says after how long silence one
        counts as dead. ``chosen`` tells, for the manifest, how the layers were chosen
        (:meth:`bertfeat.ChosenLayers.to_json`). ``progress``: see :data:`bertfeat.progress.ProgressOption`.

        Raises:
            CorpusError: the corpus cannot be read (:class:`WrongColumnsError`: its first rows all failed).
            SettingsDifferError, AnotherCorpusError, FolderLockedError: the folder belongs to another run; nothing was
                touched.
            RemovalError: finished parts would be removed; nothing was touched.
            FeatureSetError: a set to ``reuse`` has other settings, or holds no texts.
            RowFailedError: more rows than ``max_failures`` failed.
        """
        options = ExtractionOptions(
            part_rows=part_rows,
            max_failures=max_failures,
            overwrite=overwrite,
            update=update,
            reuse=tuple(map(str, reuse)),
            keep_text=keep_text,
            width=width,
            basis=None if basis is None else str(basis),
        )
        reading = corpus_settings or CorpusSettings()
        with telling(progress) as tell:
            joined = Join() if join is True else join or None
            run = ExtractionRun(self, corpus, as_location(folder), reading, options, tell, engine, joined, chosen)
            return run.execute()

    # ── one vector per text, as sentence-transformers gives it ──────────────────────────────────────────────

    _called = "this Extractor"

    @property
    def column(self) -> FeatureColumn:
        """The only column, which gives one vector per text.

        Raises:
            UsageError: there are several columns, or the only one is of tokens or words.
        """
        if len(self.columns) != 1 or not self.columns[0].pooling.per_document:
            names = ", ".join(column.name for column in self.columns)
            raise UsageError(f"encode() gives one vector a text, but the columns are {names}", remedy="use features()")
        return self.columns[0]

    def _vectors(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> NDArray[np.float32]:
        column = self.column
        vectors = np.empty((len(items), column.width), np.float32)
        at = 0
        for content in self._with(prompt)._shown_contents(items, options) if items else ():
            vectors[at : at + len(content.rows)] = content.vectors[column.name]
            at += len(content.rows)
        return vectors

    def _token_matrices(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> Iterator[Tensor]:
        recipe = self.column.recipe
        column = FeatureColumn(recipe, Pooling.TOKEN, recipe.width(self.model.width_at(recipe.site)), "float32")
        # as part of the text, a prompt has tokens of its own in the result
        prompted = [replace(document, text=prompt + document.text) for document in text_documents(items)]
        for content in self._with("", column)._shown_contents(prompted, options):
            assert content.tokens is not None
            matrix, offsets = content.tokens.matrices[column.name], content.tokens.offsets
            for start, stop in pairwise(offsets.tolist()):
                yield torch.from_numpy(matrix[start:stop].copy())

    def _shown_contents(self, items: Sequence[CorpusItem], options: EncodeOptions) -> Iterator[PartContent]:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with tqdm(total=len(items), desc="Texts", disable=not options.show_progress_bar) as bar:
            for content in self.contents(items, batch_size=options.batch_size):
                yield content
                bar.update(len(content.rows))

    def _with(self, prompt: str, column: FeatureColumn | None = None) -> Self:
        """An extractor with the same weights, but another prompt or another column."""
        other = self if column is None else self.of_columns([column])
        return other.variant(other.columns, replace(other.token_settings, prompt=prompt))

    @property
    def max_seq_length(self) -> int:
        """Most tokens read at once, special ones included; a longer text is read in windows unless ``long`` differs."""
        return self.token_settings.max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> NoReturn:
        raise UsageError(
            f"max_seq_length = {value} cuts texts off in sentence-transformers; make the Extractor with "
            f"max_length={value}, and long='truncate' to cut as well"
        )


def _location(given: str | Path | None, model: Model) -> str:
    is_folder = given is not None and Path(given).is_dir()
    return str(Path(str(given)).absolute() if is_folder else given or model.name)
