"""Texts in memory and corpora on disk → features."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from bertfeat.arguments import checked, require_at_least
from bertfeat.corpus import Corpus, CorpusItem, CorpusSettings, Failure, KeptColumn, memory_corpus
from bertfeat.engine import Engine
from bertfeat.errors import UsageError
from bertfeat.extraction.embedder import Embedder, PartResult
from bertfeat.extraction.report import ExtractionReport, Progress
from bertfeat.extraction.run import ExtractionRun
from bertfeat.extraction.run_options import ExtractionOptions
from bertfeat.extraction.sharing import Sharing
from bertfeat.extraction.source import CorpusSource
from bertfeat.extraction.texts import take_texts
from bertfeat.features import DocumentFeatures, MemoryFeatures, PartContent, content_documents
from bertfeat.io import Address, as_location, prefetched
from bertfeat.progress import ProgressOption, telling

_CHUNK = 2048  # texts at a time that encode() and features() hold


@checked
class CorpusExtractor(Embedder):
    """Gives features of texts in memory and of corpora on disk."""

    def features(
        self, texts: Iterable[CorpusItem], *, corpus_settings: CorpusSettings | None = None
    ) -> list[DocumentFeatures]:
        """Yield texts with their tokens or words, offsets and vectors, as a feature set would hold them.

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
            _refuse_failures(result.failures)
            yield result.content

    def blocks(self, corpus: Corpus, rows: int) -> Iterator[MemoryFeatures]:
        """Compute a corpus in memory, so many rows at a time; rows that fail are listed in their block.

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
        """Compute so many rows of a corpus at a time, and tokenize the next ones meanwhile."""
        listed = corpus.rows()
        chunks = iter(lambda: list(islice(listed, rows)), [])
        pairs, tags = corpus.has_pairs, corpus.has_tags
        for tokenized in prefetched(self.tokenize_rows(chunk) for chunk in chunks):
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
        progress: ProgressOption[Progress] = None,
        engine: Engine | None = None,
        sharing: Sharing | None = None,
    ) -> ExtractionReport:
        """Extract a corpus into a feature set; in a folder of the same run, keep its finished parts and do the rest.

        ``corpus`` is a corpus, a file, folder or pattern or several of them, or ``"-"`` for standard input. Rows that
        fail are listed in the set; ``strict`` stops at the first, ``max_failures`` after so many. Finished parts whose
        rows the corpus no longer has are not removed unasked: ``prune`` removes them and keeps the rest, ``overwrite``
        starts anew. ``engine`` and ``sharing``, of :mod:`bertfeat.distributed`, have other processes and machines do
        the work, or a share of it. ``progress``: see :data:`bertfeat.progress.ProgressOption`.

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
        )
        reading = corpus_settings or CorpusSettings()
        with telling(progress) as tell:
            run = ExtractionRun(self, corpus, as_location(folder), reading, options, tell, engine, sharing)
            return run.execute()


def _refuse_failures(failures: Sequence[Failure]) -> None:
    if failures:
        raise UsageError(f"{len(failures)} texts cannot be embedded; the first: {failures[0].reason}")
