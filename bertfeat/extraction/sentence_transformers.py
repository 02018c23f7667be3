"""``Extractor``: corpora and texts → features; a substitute for ``SentenceTransformer`` in libraries that take one.

The module has this name because BERTopic and KeyBERT look for ``sentence_transformers`` in the name of a model's type.
Any other type they ignore, and silently load a model of their own. With this name they refuse an Extractor instead, and
:mod:`bertfeat.adapters` has the objects that they take.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked, require_at_least
from bertfeat.corpus import Corpus, CorpusItem, CorpusSettings, Document, KeptColumn, memory_corpus
from bertfeat.encoder import resolve_device
from bertfeat.engine import Engine
from bertfeat.errors import UsageError
from bertfeat.extraction.embedder import Embedder, PartResult
from bertfeat.extraction.encode_arguments import (
    AnyKeywords,
    EncodeOptions,
    EncodeResult,
    NumpyKeywords,
    TensorKeywords,
    check_prompt,
    take_texts,
)
from bertfeat.extraction.progress import ExtractionReport, Progress
from bertfeat.extraction.run import ExtractionRun
from bertfeat.extraction.run_options import ExtractionOptions
from bertfeat.extraction.sharing import Sharing
from bertfeat.extraction.similarity import (
    MEASURES,
    Vectors,
    check_measure,
    similarity_of_all,
    similarity_of_pairs,
)
from bertfeat.extraction.source import CorpusSource
from bertfeat.features import DocumentFeatures, MemoryFeatures, PartContent, content_documents
from bertfeat.io import Address, as_location, decode_json, prefetched
from bertfeat.progress import ProgressOption, telling
from bertfeat.recipe import FeatureColumn, Pooling, feature_columns

Inputs = str | Iterable[CorpusItem]
Metrics = TypeVar("Metrics")

_CHUNK = 2048  # texts that encode() and features() compute at a time
_TRAINING = (
    "an Extractor is frozen; train and save the model with sentence-transformers, then give Extractor its folder"
)
_PRECISION = "the precision is set when the Extractor is made, as in Extractor(precision='bf16')"
_ADAPTERS = "bertfeat.adapters has what other libraries take, such as langchain.LangchainEmbeddings(extractor)"
_PROCESSES = "one Extractor uses all cores, or one device; there are no pools of processes"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("fit", "train", "old_fit", "parameters", "named_parameters", "state_dict"), _TRAINING),
    **dict.fromkeys(("children", "modules", "named_modules", "requires_grad_"), _TRAINING),
    **dict.fromkeys(("save", "save_pretrained", "save_to_hub", "push_to_hub", "load_state_dict"), _TRAINING),
    **dict.fromkeys(("half", "bfloat16", "float", "double"), _PRECISION),
    **dict.fromkeys(("start_multi_process_pool", "stop_multi_process_pool", "encode_multi_process"), _PROCESSES),
    **dict.fromkeys(("embed", "embed_documents", "embed_query"), _ADAPTERS),
}
_CACHED = ("tokenizer", "encoder", "batch_tokens", "model_card_data")  # left out of pickles, and made again


@dataclass(slots=True)
class ModelCard:
    """The results of evaluations, under the names that sentence-transformers' model cards have."""

    base_model: str | None
    eval_results_dict: dict[object, dict[str, float]] = field(default_factory=dict)  # evaluator → metric → score
    training_logs: list[dict[str, float]] = field(default_factory=list)  # the evaluators' primary metrics, in order

    def set_evaluation_metrics(
        self, evaluator: object, metrics: Mapping[str, float], epoch: int = 0, step: int = 0
    ) -> None:
        """Keep the newest metrics of each evaluator."""
        self.eval_results_dict[evaluator] = dict(metrics)
        primary = getattr(evaluator, "primary_metric", None)
        names = [primary] if isinstance(primary, str) else list(primary or ())
        self.training_logs.append({"Epoch": epoch, "Step": step, **{n: metrics[n] for n in names if n in metrics}})


@checked
class Extractor(Embedder):
    """Runs texts through a frozen encoder and gives its layers as features.

    ``layers`` and ``pooling`` are written as on the command line (``"concat4"``, ``"sum=-4..-1,cls"``;
    ``"mean,word"``); every recipe under every pooling is a column. The default pooling is the model's own, the default
    model all-MiniLM-L6-v2. The files are looked up at once; weights are read when they are first needed, and a pickle
    holds the settings without them. With ``context="left:8"`` each word is read after the 8 words before it, and
    without the words after it.

    An Extractor of one column has the methods that sentence-transformers needs of a frozen ``SentenceTransformer``, and
    gives the same numbers in fp32 at the same ``max_length`` with ``long="truncate"``. Modules after the pooling
    (Dense, Normalize) are not applied; ``encode(normalize_embeddings=True)`` does the work of Normalize.

    Raises:
        UsageError: a setting that cannot be right, such as a layer outside the model.
        ModelError: the model cannot be found or loaded.
    """

    # ── features of texts and of corpora ────────────────────────────────────────────────────────────────────

    def features(
        self, texts: Iterable[CorpusItem], *, corpus_settings: CorpusSettings | None = None
    ) -> list[DocumentFeatures]:
        """Return texts with their tokens or words, offsets and vectors, as a feature set would hold them.

        Raises:
            UsageError: an item that is no text, or a text that cannot be embedded.
        """
        items = texts if isinstance(texts, str) else take_texts(texts).items
        corpus = memory_corpus(items, corpus_settings or CorpusSettings())
        documents: list[DocumentFeatures] = []
        for content in self.contents(corpus):
            documents.extend(content_documents(content, self.columns, self.model.num_layers))
        return documents

    def contents(self, corpus: Corpus, *, batch_size: int | None = None) -> Iterator[PartContent]:
        """Compute the documents of a corpus in memory, 2,048 at a time, and tokenize the next ones meanwhile.

        Raises:
            UsageError: a text that cannot be embedded.
        """
        for result in self._results(corpus, _CHUNK, (), batch_size):
            if failures := result.failures:
                raise UsageError(f"{len(failures)} texts cannot be embedded; the first: {failures[0].reason}")
            yield result.content

    def blocks(self, corpus: Corpus, rows: int) -> Iterator[MemoryFeatures]:
        """Compute a corpus in memory, ``rows`` rows at a time; rows that fail are listed in their block.

        Raises:
            UsageError: fewer than one row.
        """
        require_at_least(1, rows=rows)
        origin = ", ".join(corpus.sources[:3]) or "the list"
        for result in self._results(corpus, rows, corpus.kept):
            yield MemoryFeatures(result.content, self.columns, result.failures, origin)

    def _results(
        self, corpus: Corpus, rows: int, kept: Sequence[KeptColumn], batch_size: int | None = None
    ) -> Iterator[PartResult]:
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
        strict: bool = False,
        overwrite: bool = False,
        prune: bool = False,
        keep_text: bool = True,
        width: int | None = None,
        basis: str | Path | Address | None = None,
        progress: ProgressOption[Progress] = None,
        engine: Engine | None = None,
        sharing: Sharing | None = None,
    ) -> ExtractionReport:
        """Extract a corpus into a feature set; in a folder of the same run, keep its finished parts and do the rest.

        ``corpus`` is a corpus, a file, folder or pattern or several of them, or ``"-"`` for standard input. Rows that
        fail are listed in the set; ``strict`` stops at the first, ``max_failures`` once more rows than this failed.
        Finished parts whose rows the corpus no longer has are not removed unasked: ``prune`` removes them and keeps the
        rest, ``overwrite`` starts again from nothing. ``width`` stores vectors of tokens and words by so many principal
        components, learned from a sample of the corpus, or taken from the feature set ``basis``. ``engine`` and
        ``sharing``, of :mod:`bertfeat.distributed`, have other processes and machines do the work, or a share of it.
        ``progress``: see :data:`bertfeat.progress.ProgressOption`.

        Raises:
            CorpusError: the corpus cannot be read (:class:`WrongColumnsError`: its first rows all failed).
            SettingsDifferError, AnotherCorpusError, FolderLockedError: the folder belongs to another run; nothing was
                touched.
            RemovalError: finished parts would be removed; nothing was touched.
            RowFailedError: a row failed, and ``strict`` is set.
        """
        options = ExtractionOptions(
            part_rows=part_rows,
            max_failures=max_failures,
            strict=strict,
            overwrite=overwrite,
            prune=prune,
            keep_text=keep_text,
            width=width,
            basis=None if basis is None else str(basis),
        )
        reading = corpus_settings or CorpusSettings()
        with telling(progress) as tell:
            run = ExtractionRun(self, corpus, as_location(folder), reading, options, tell, engine, sharing)
            return run.execute()

    # ── one vector per text, as sentence-transformers gives it ──────────────────────────────────────────────

    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode(self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]) -> EncodeResult:
        """Embed texts as one vector each, as sentence-transformers' ``encode`` does.

        ``inputs`` is a string, or strings in a list, tuple, array, Series, column or generator; pairs are tuples. The
        keywords are sentence-transformers' too: ``convert_to_tensor``, ``convert_to_numpy``, ``normalize_embeddings``,
        ``truncate_dim``, ``prompt``, ``prompt_name``, ``precision``, ``batch_size`` and others that
        :class:`~bertfeat.extraction.encode_arguments.EncodeOptions` explains. With ``output_value="token_embeddings"``
        each text gives the matrix of its tokens, special ones and the prompt's included.

        Shape: ``[n, width]`` float32, in the order of the texts; ``[width]`` for a single string; a list of
        ``[tokens, width]`` for tokens.

        Raises:
            UsageError: the Extractor has several columns, or one of tokens or words; an input is no text; or a keyword
                is unknown, or is one that is set when the Extractor is made.
        """
        return self._encode(inputs, sentence_transformers_kwargs)

    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode_query(
        self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]
    ) -> EncodeResult:
        """Embed queries: :meth:`encode` with the model's prompt ``query`` where none is given."""
        return self._encode(inputs, self._with_named_prompt("query", sentence_transformers_kwargs))

    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode_document(
        self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]
    ) -> EncodeResult:
        """Embed documents: :meth:`encode` with the model's prompt ``document`` where none is given."""
        return self._encode(inputs, self._with_named_prompt("document", sentence_transformers_kwargs))

    # ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by name; ``query`` and ``document`` are always there, empty if the model has none."""
        return {"query": "", "document": "", **self.model.prompts}

    def _prompt(self, options: EncodeOptions) -> str:
        if options.prompt is not None:
            return check_prompt(options.prompt)
        if options.prompt_name is None:
            return self.token_settings.prompt
        if options.prompt_name not in list(self.prompts):
            known = ", ".join(self.prompts)
            raise UsageError(
                f"the model has no prompt named {options.prompt_name!r}", remedy=f"its prompts are {known}"
            )
        return check_prompt(self.prompts[options.prompt_name])

    def _with_named_prompt(self, name: str, keywords: AnyKeywords) -> AnyKeywords:
        """Add the prompt ``name``, unless the call or the Extractor was given one of its own."""
        if self.own_prompt or keywords.get("prompt") is not None or keywords.get("prompt_name") is not None:
            return keywords
        return {**keywords, "prompt_name": name}

    # ── computing ───────────────────────────────────────────────────────────────────────────────────────────

    def _encode(self, inputs: object, keywords: AnyKeywords) -> EncodeResult:
        others = {name: value for name, value in keywords.items() if name != "sentences"}
        options = EncodeOptions.of(others)
        sentences = keywords.get("sentences")  # the name of inputs before sentence-transformers 6
        if inputs is not None and sentences is not None:
            raise UsageError("encode() was given texts twice, as inputs and as sentences", remedy="give them once")
        inputs = sentences if inputs is None else inputs
        if inputs is None:
            raise UsageError(
                "encode() needs texts", remedy="for a library that calls it without, see bertfeat.adapters"
            )
        self._refuse_another_device(options.device)
        texts, prompt = take_texts(inputs), self._prompt(options)
        result: EncodeResult
        if options.output_value == "token_embeddings":
            result = [matrix.to(self.device) for matrix in self._token_matrices(texts.items, prompt, options)]
        else:
            result = options.convert(self._vectors(texts.items, prompt, options), self.device)
        return result[0] if texts.single else result

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
        column = replace(self.column, pooling=Pooling.TOKEN, dtype="float32")
        # as part of the text, a prompt has tokens of its own in the result
        prompted = [replace(document, text=prompt + document.text) for document in _text_documents(items)]
        for content in self._with("", column)._shown_contents(prompted, options):
            assert content.tokens is not None
            matrix, offsets = content.tokens.matrices[column.name], content.tokens.offsets
            for start, stop in pairwise(offsets.tolist()):
                yield torch.from_numpy(matrix[start:stop].copy())

    def _shown_contents(self, items: Sequence[CorpusItem], options: EncodeOptions) -> Iterator[PartContent]:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with tqdm(total=len(items), desc="Texts", disable=not options.show_progress_bar) as bar:
            for content in self.contents(memory_corpus(items), batch_size=options.batch_size):
                yield content
                bar.update(len(content.rows))

    def _with(self, prompt: str, column: FeatureColumn | None = None) -> Self:
        """An extractor with the same weights, but another prompt or another column."""
        settings = replace(self.token_settings, prompt=prompt, with_tokens=column is not None)
        return self.variant(self.columns if column is None else (column,), settings)

    def _refuse_another_device(self, device: object) -> None:
        if device is None:
            return
        if isinstance(device, str | torch.device):
            other = resolve_device(str(device))
            if (other.type, other.index or 0) == (self.device.type, self.device.index or 0):
                return
        raise UsageError(
            f"this Extractor computes on {self.device}, not on {device}",
            remedy=f"make another with device={str(device)!r}",
        )

    # ── comparing vectors ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def similarity_fn_name(self) -> str:
        """The measure that compares vectors, as the model's configuration names it, else ``cosine``; may be set."""
        named = None
        with suppress(OSError, ValueError):
            file = self.model.folder / "config_sentence_transformers.json"
            named = decode_json(file.read_bytes(), dict).get("similarity_fn_name")
        return named if named in MEASURES else "cosine"  # as sentence-transformers does with unknown names

    def similarity(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare each vector of one side with each of the other. Shape: ``[n1, n2]``."""
        return similarity_of_all(check_measure(self.similarity_fn_name), embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare the vectors of two sides one by one. Shape: ``[n]``."""
        return similarity_of_pairs(check_measure(self.similarity_fn_name), embeddings1, embeddings2)

    # ── what the model is ───────────────────────────────────────────────────────────────────────────────────

    def get_embedding_dimension(self) -> int:
        """Number of values in a vector of :meth:`encode`."""
        return self.column.width

    def get_sentence_embedding_dimension(self) -> int:
        """The same, under its name before sentence-transformers 5."""
        return self.get_embedding_dimension()

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

    def get_max_seq_length(self) -> int:
        """The same as :attr:`max_seq_length`."""
        return self.max_seq_length

    @cached_property
    def model_card_data(self) -> ModelCard:
        """The metrics of evaluators, and the model's name."""
        return ModelCard(self.model.name)

    @property
    def settings(self) -> dict[str, object]:
        """The arguments that make an equal Extractor, as JSON values.

        Raises:
            UsageError: its columns are not those that it was made with (:meth:`from_record`, :meth:`variant`), and no
                layers and poolings give just these columns.
        """
        tokens, columns = self.token_settings, self.columns
        sizes = {"num_layers": self.model.num_layers, "hidden_size": self.model.hidden_size}
        dtype = next((column.dtype for column in columns if not column.pooling.per_document), "float16")
        ways = (
            (self.layers, self.poolings),
            (
                tuple(dict.fromkeys(column.recipe.spelling for column in columns)),
                tuple(dict.fromkeys(column.pooling for column in columns)),
            ),
        )
        for layers, poolings in ways:
            made = feature_columns(layers, poolings, dtype=dtype, **sizes)
            if made == columns and all(one.name == other.name for one, other in zip(made, columns, strict=True)):
                break
        else:
            names = ", ".join(column.name for column in columns)
            raise UsageError(f"no layers and poolings give just {names}", remedy="make an Extractor for each column")
        return {
            "model": self.location,
            "layers": list(layers),
            "pooling": list(map(str, poolings)),
            "precision": str(self.precision),
            "long": str(tokens.long),
            "max_length": tokens.max_length,
            "device": str(self.device),
            "dtype": dtype,
            "subword": str(tokens.subword),
            "special_tokens": tokens.special_tokens,
            "batch_tokens": self.given_batch_tokens,
            "prompt": tokens.prompt if self.own_prompt else None,
            "only": None if tokens.only is None else list(tokens.only.entries),
            "words": str(tokens.words),
            "context": None if tokens.left_words is None else f"left:{tokens.left_words}",
            "revision": self.model.revision,
        }

    def __repr__(self) -> str:
        try:
            return f"Extractor({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"
        except UsageError:
            return f"<Extractor of {self.model.name}: {', '.join(column.name for column in self.columns)}>"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _CACHED}

    # ── as a module of torch, frozen ────────────────────────────────────────────────────────────────────────

    def preprocess(
        self, inputs: Iterable[CorpusItem], prompt: str | None = None, task: str | None = None
    ) -> dict[str, Sequence[CorpusItem] | str]:
        """Return the input of a call of the Extractor: texts, which are tokenized there; ``task`` has no effect."""
        features: dict[str, Sequence[CorpusItem] | str] = {"texts": take_texts(inputs).items}
        return features if prompt is None else {**features, "prompt": check_prompt(prompt)}

    def __call__(self, features: MutableMapping[str, object], **_: object) -> MutableMapping[str, object]:
        """Add ``sentence_embedding`` to the result of :meth:`preprocess`, for losses; without gradients.

        Shape: ``[n, width]``.
        """
        if "texts" not in features:
            raise UsageError(f"call the Extractor with what its preprocess() gives, not with {', '.join(features)}")
        texts, prompt = cast(Inputs, features["texts"]), cast("str | None", features.get("prompt"))
        features["sentence_embedding"] = self.encode(texts, prompt=prompt, convert_to_tensor=True)
        return features

    def eval(self) -> Self:
        """Nothing to do: a frozen model has no dropout."""
        return self

    def to(self, device: str | torch.device) -> Self:
        """Stay where the model is.

        Raises:
            UsageError: another device, which is chosen when the Extractor is made.
        """
        self._refuse_another_device(device)
        return self

    def evaluate(self, evaluator: Callable[[Any, str | None], Metrics], output_path: str | None = None) -> Metrics:
        """Run an evaluator of sentence-transformers."""
        return evaluator(self, output_path)

    if not TYPE_CHECKING:  # so that type checkers still find misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            reason = f": {_REFUSED[name]}" if name in _REFUSED else ""
            raise AttributeError(f"an Extractor has no {name!r}{reason}")


def _text_documents(items: list[CorpusItem]) -> Iterator[Document]:
    for row in memory_corpus(items).rows():
        if not isinstance(row, Document):
            raise UsageError(f"a text cannot be embedded: {getattr(row, 'reason', 'it is blank')}")
        yield row
