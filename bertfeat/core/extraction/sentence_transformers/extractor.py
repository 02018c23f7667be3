"""``Extractor``: corpora and texts → features; a substitute for ``SentenceTransformer`` in libraries that take one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked, require_at_least
from bertfeat.core.corpus import Corpus, CorpusItem, CorpusSettings, KeptColumn, memory_corpus
from bertfeat.core.engine import Engine
from bertfeat.core.extraction.embedder import Embedder, PartResult
from bertfeat.core.extraction.encode_arguments import EncodeOptions, take_texts, text_documents
from bertfeat.core.extraction.joining import Join
from bertfeat.core.extraction.progress import ExtractionReport, Progress
from bertfeat.core.extraction.run import ExtractionRun
from bertfeat.core.extraction.run_options import ExtractionOptions
from bertfeat.core.extraction.sentence_transformers.methods import SentenceEncoder
from bertfeat.core.extraction.source import CorpusSource
from bertfeat.core.features import DocumentFeatures, MemoryFeatures, PartContent, content_documents
from bertfeat.core.io import Address, as_location, prefetched
from bertfeat.core.recipe import FeatureColumn, Pooling, feature_columns
from bertfeat.errors import UsageError
from bertfeat.progress import ProgressOption, telling

_CHUNK = 2048  # texts that encode() and features() compute at a time
# left out of pickles, and made again
_CACHED = ("tokenizer", "encoder", "_loaded", "canary", "batch_tokens", "model_card_data")


@checked
class Extractor(Embedder, SentenceEncoder):
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
        overwrite: bool = False,
        prune: bool = False,
        keep_text: bool = True,
        width: int | None = None,
        basis: str | Path | Address | None = None,
        progress: ProgressOption[Progress] = None,
        engine: Engine | None = None,
        join: bool | Join = False,
    ) -> ExtractionReport:
        """Extract a corpus into a feature set; in a folder of the same run, keep its finished parts and do the rest.

        ``corpus`` is a corpus, a file, folder or pattern or several of them, or ``"-"`` for standard input. Rows that
        fail are listed in the set; ``max_failures`` stops the run once more rows than this failed.
        Finished parts whose rows the corpus no longer has are not removed unasked: ``prune`` removes them and keeps the
        rest, ``overwrite`` starts again from nothing. ``width`` stores vectors of tokens and words by so many principal
        components, learned from a sample of the corpus, or taken from the feature set ``basis``. An ``engine`` of
        :mod:`bertfeat.scale` has other processes or machines do the work. With ``join`` the run works together with all
        others of the folder that join; :class:`bertfeat.core.Join` says after how long silence one counts as dead.
        ``progress``: see :data:`bertfeat.progress.ProgressOption`.

        Raises:
            CorpusError: the corpus cannot be read (:class:`WrongColumnsError`: its first rows all failed).
            SettingsDifferError, AnotherCorpusError, FolderLockedError: the folder belongs to another run; nothing was
                touched.
            RemovalError: finished parts would be removed; nothing was touched.
            RowFailedError: more rows than ``max_failures`` failed.
        """
        options = ExtractionOptions(
            part_rows=part_rows,
            max_failures=max_failures,
            overwrite=overwrite,
            prune=prune,
            keep_text=keep_text,
            width=width,
            basis=None if basis is None else str(basis),
        )
        reading = corpus_settings or CorpusSettings()
        with telling(progress) as tell:
            joined = Join() if join is True else join or None
            run = ExtractionRun(self, corpus, as_location(folder), reading, options, tell, engine, joined)
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
        column = replace(self.column, pooling=Pooling.TOKEN, dtype="float32")
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
            for content in self.contents(memory_corpus(items), batch_size=options.batch_size):
                yield content
                bar.update(len(content.rows))

    def _with(self, prompt: str, column: FeatureColumn | None = None) -> Self:
        """An extractor with the same weights, but another prompt or another column."""
        settings = replace(self.token_settings, prompt=prompt, with_tokens=column is not None)
        return self.variant(self.columns if column is None else (column,), settings)

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

    # ── what the model is ───────────────────────────────────────────────────────────────────────────────────

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def prompt(self) -> str:
        """The text that is put before every text, unless a call gives another one."""
        return self.token_settings.prompt

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by name; ``query`` and ``document`` are always there, empty if the model has none."""
        return {"query": "", "document": "", **self.model.prompts}

    @property
    def _model_folder(self) -> Path:
        return self.model.folder

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
