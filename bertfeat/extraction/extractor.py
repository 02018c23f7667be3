"""Texts in memory and corpora on disk → features."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Corpus, CorpusSettings, Failure, Item, memory_corpus
from bertfeat.errors import UsageError
from bertfeat.extraction.embedder import Embedder, Prepared
from bertfeat.extraction.prefetch import prefetched
from bertfeat.extraction.report import ExtractionReport, OnProgress
from bertfeat.extraction.run import Run, RunOptions
from bertfeat.features import DocumentFeatures, content_documents

Step = TypeVar("Step")
_CHUNK = 2048  # texts at a time that encode() and features() hold


class Extractor(Embedder):
    """Runs texts through a frozen encoder and gives the layers that are asked for.

    ``layers`` and ``pooling`` are written as on the command line (``"concat4"``, ``"sum=-4..-1,cls"``;
    ``"mean,word"``); every recipe under every pooling is a column. The default pooling is the model's own, the default
    model all-MiniLM-L6-v2. The files are looked up at once; weights are read when they are first needed.

    Raises:
        UsageError: a setting that cannot be right, such as a layer outside the model.
        ModelError: the model cannot be found or loaded.
    """

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
            corpus = memory_corpus([sentences])
            vectors = self._vectors(corpus, self.prepared(list(corpus.rows())), batch_size, normalize_embeddings)
            vector: NDArray[np.float32] = vectors[0]
            return vector
        texts = list(sentences)
        starts = range(0, len(texts), _CHUNK)
        chunks = (memory_corpus(texts[at : at + _CHUNK]) for at in starts)
        prepared = prefetched((chunk, self.prepared(list(chunk.rows()))) for chunk in chunks)
        shown = _with_bar(prepared, len(starts)) if show_progress_bar else prepared
        parts = [self._vectors(*each, batch_size, normalize_embeddings) for each in shown]
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

    def _vectors(
        self, corpus: Corpus, prepared: Prepared, batch_size: int | None, normalize: bool
    ) -> NDArray[np.float32]:
        extracted = self.extracted(prepared, corpus, batch_size=batch_size)
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
        options = RunOptions(part_rows, max_failures, strict, overwrite, keep_text)
        return Run(self, corpus, Path(folder), corpus_settings or CorpusSettings(), options, progress).go()


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


def _with_bar(steps: Iterator[Step], number: int) -> Iterator[Step]:
    from tqdm import tqdm  # type: ignore[import-untyped]

    yield from tqdm(steps, desc="Batches", total=number)
