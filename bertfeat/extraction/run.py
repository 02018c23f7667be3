"""One extraction of a corpus: tokenize ahead on a thread, compute, write behind on others.

Every part is computed from its own rows alone, so a run that was interrupted and resumed gives byte for byte what an
undisturbed one gives.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertfeat.corpus import Corpus, CorpusSettings, Failure, check_readable
from bertfeat.errors import BertfeatError, CorpusError, RowFailedError, UsageError, parameter
from bertfeat.extraction.embedder import Embedder, PartResult, TokenizedRows
from bertfeat.extraction.language_check import corpus_warnings
from bertfeat.extraction.part_content import count_part
from bertfeat.extraction.part_writer import PartWriter
from bertfeat.extraction.plan import PlannedPart, plan_parts
from bertfeat.extraction.progress import RunProgress
from bertfeat.extraction.report import ExtractionReport, OnProgress
from bertfeat.extraction.resume import ExistingParts
from bertfeat.extraction.run_manifest import is_finished, write_run_manifest
from bertfeat.extraction.settings import PART_ROWS, bytes_per_character, bytes_per_row, record_settings
from bertfeat.extraction.source import CorpusSource, open_run_source
from bertfeat.features import (
    FORMAT_VERSION,
    FeatureSettings,
    PartHeader,
    check_kept,
    refuse_foreign_parts,
    remove_leftovers,
)
from bertfeat.io import ResultKind, folder_lock, prefetched, refuse_other_kind, release_folder

_log = logging.getLogger("bertfeat")


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """How a run does its work; only the rows of a part and ``keep_text`` decide what is written."""

    part_rows: int | None
    max_failures: int | None
    strict: bool
    overwrite: bool
    keep_text: bool


@dataclass(frozen=True, slots=True)
class _ExistingPart:
    """A part that an earlier run finished."""

    planned: PlannedPart
    header: PartHeader


@dataclass(frozen=True, slots=True)
class _TokenizedPart:
    """A part that waits for the encoder."""

    planned: PlannedPart
    tokenized: TokenizedRows


class ExtractionRun:
    """One run, from the lock to the manifest."""

    def __init__(
        self,
        embedder: Embedder,
        source: CorpusSource,
        folder: Path,
        corpus_settings: CorpusSettings,
        options: ExtractionOptions,
        on_progress: OnProgress | None,
    ) -> None:
        self._embedder, self._source, self._folder = embedder, source, folder
        self._corpus_settings, self._options = corpus_settings, options
        self._progress = RunProgress(on_progress)

    def execute(self) -> ExtractionReport:
        """Compute the missing parts, and account for every row."""
        existed = self._folder.exists()
        try:
            with folder_lock(self._folder):
                self._execute_locked()
        except BaseException:
            if not existed:
                release_folder(self._folder)  # if nothing was written, nothing stays
            raise
        return self._progress.report(self._folder)

    def _execute_locked(self) -> None:
        self._check_folder()
        with open_run_source(self._source, self._folder, self._corpus_settings) as corpus:
            self._check_corpus(corpus)
            existing = self._read_existing_parts()
            settings = self._settle(corpus, existing)
            writer = self._new_writer()
            with writer:
                self._make_parts(corpus, existing, settings, writer)
        self._finish(corpus.sources, existing, writer)

    # ── before ──────────────────────────────────────────────────────────────────────────────────────────────

    def _check_folder(self) -> None:
        refuse_other_kind(self._folder, ResultKind.FEATURES)
        refuse_foreign_parts(self._folder)
        remove_leftovers(self._folder)

    def _check_corpus(self, corpus: Corpus) -> None:
        """Refuse wrong columns and contradictions before anything is touched."""
        next(check_readable(corpus.rows(), corpus), None)
        check_kept(corpus.kept, self._embedder.columns)
        if self._embedder.token_settings.prompt and self._corpus_settings.document_context:
            raise UsageError(
                f"a prompt and {parameter('document_context')} both stand before a text", remedy="give one of them"
            )

    def _read_existing_parts(self) -> ExistingParts:
        return ExistingParts(self._folder) if self._options.overwrite else ExistingParts.read(self._folder)

    def _settle(self, corpus: Corpus, existing: ExistingParts) -> FeatureSettings:
        """Fix the settings, and refuse a folder that belongs to another run before anything is touched."""
        embedder, recorded = self._embedder, existing.settings or FeatureSettings()
        self._batch_tokens = embedder.given_batch_tokens or recorded.batch_tokens or embedder.batch_tokens
        self._part_rows = self._options.part_rows or recorded.part_rows or PART_ROWS
        settings = record_settings(
            embedder.identity,
            embedder.columns,
            embedder.token_settings,
            embedder.precision.value,
            document_context=self._corpus_settings.document_context,
            keep=corpus.kept,
            keep_text=self._options.keep_text,
            batch_tokens=self._batch_tokens,
            part_rows=self._part_rows,
        )
        existing.check_settings(settings)
        existing.check_corpus(self._plan(corpus))
        return settings

    def _plan(self, corpus: Corpus) -> Iterator[PlannedPart]:
        columns, tokens = self._embedder.columns, self._embedder.token_settings
        return plan_parts(
            corpus,
            part_rows=self._part_rows,
            bytes_per_row=bytes_per_row(columns, special_tokens=tokens.special_tokens),
            bytes_per_character=bytes_per_character(columns),
        )

    def _new_writer(self) -> PartWriter:
        return PartWriter(
            self._folder,
            self._embedder.device,
            overwrite=self._options.overwrite,
            wait=self._progress.wait_for_write,
        )

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────

    def _make_parts(
        self, corpus: Corpus, existing: ExistingParts, settings: FeatureSettings, writer: PartWriter
    ) -> None:
        for part in self._progress.time_waiting(prefetched(self._parts_ahead(corpus, existing))):
            if isinstance(part, _ExistingPart):
                self._check_failures(part.header.failures)
                self._progress.add_part(part.header, part.planned, kept=True)
            else:
                self._make_part(part, corpus, settings, writer)
            del part  # the next part needs its memory

    def _parts_ahead(self, corpus: Corpus, existing: ExistingParts) -> Iterator[_ExistingPart | _TokenizedPart]:
        """Plan and tokenize the parts; on a thread of its own, one part ahead of the encoder."""
        for planned in self._plan(corpus):
            header = existing.find(planned)
            if header is not None:
                yield _ExistingPart(planned, header)
            else:
                yield _TokenizedPart(planned, self._embedder.tokenize_rows(planned.rows))

    def _make_part(self, part: _TokenizedPart, corpus: Corpus, settings: FeatureSettings, writer: PartWriter) -> None:
        self._check_failures(part.tokenized.rows.failures)  # of the corpus: known before computing
        self._load_model()
        self._warn_of_language(part.tokenized)
        result = self._compute(part, corpus)
        header = self._part_header(part, result, corpus.sources, settings)
        self._check_failures(header.failures)
        writer.write(header, result.content)
        self._progress.add_part(header, part.planned, kept=False, padded=result.padded_tokens)

    def _load_model(self) -> None:
        """Load the model when the first part needs it; the run's time does not include that."""
        begin = time.monotonic()
        _ = self._embedder.encoder
        self._progress.exclude(time.monotonic() - begin)

    def _warn_of_language(self, tokenized: TokenizedRows) -> None:
        """Warn once a run: the warnings of all parts would be much the same."""
        warnings = corpus_warnings(tokenized.rows.unique, tokenized.tokens)
        if warnings and not self._progress.warnings:
            self._progress.warnings = tuple(warnings)
            for warning in warnings:
                _log.warning(warning)

    def _compute(self, part: _TokenizedPart, corpus: Corpus) -> PartResult:
        documents, total, done = len(part.tokenized.rows.documents), max(1, part.tokenized.token_count), 0

        def on_batch(tokens: int) -> None:
            nonlocal done
            done += tokens
            self._progress.add_batch(tokens, documents, part.planned, done / total)

        return self._embedder.compute_rows(
            part.tokenized,
            batch_tokens=self._batch_tokens,
            kept=corpus.kept,
            keep_text=self._options.keep_text,
            tags=corpus.has_tags,
            pairs=corpus.has_pairs,
            on_batch=on_batch,
        )

    def _part_header(
        self, part: _TokenizedPart, result: PartResult, sources: Sequence[str], settings: FeatureSettings
    ) -> PartHeader:
        planned, rows = part.planned, part.tokenized.rows
        return PartHeader(
            format_version=FORMAT_VERSION,
            settings=settings,
            fingerprint=settings.fingerprint,
            number=planned.number,
            first_row=planned.first_row,
            last_row=planned.first_row + len(planned.rows),
            digest=planned.digest,
            sketch=planned.sketch,
            blank=rows.blank,
            failures=result.failures,
            model=self._embedder.identity,
            columns=self._embedder.columns,
            sources=tuple(sources),
            counts=count_part(result.content, rows.documents),
            split_batches=result.split_batches,
        )

    def _check_failures(self, failures: Sequence[Failure]) -> None:
        """Stop if a part's failures, together with those of the parts before it, are too many."""
        if failures and self._options.strict:
            raise RowFailedError(failures[0].reason, where=parameter("strict", True))
        most = self._options.max_failures
        if most is not None and failures and self._progress.failed + len(failures) > most:
            raise BertfeatError(
                f"more than {most} rows failed ({parameter('max_failures')}), the last: {failures[-1].reason}",
                remedy=f"the finished parts stay in {self._folder}",
            )

    # ── after ───────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, sources: Sequence[str], existing: ExistingParts, writer: PartWriter) -> None:
        if not self._progress.parts:
            raise CorpusError("the corpus has no rows, so there is nothing to extract", where=", ".join(sources))
        if surplus := existing.surplus(self._progress.parts):
            writer.remove(surplus)
        if writer.changed or not is_finished(self._folder, sources):
            write_run_manifest(self._folder, self._embedder, sources, self._progress.seconds)
        for problem in existing.damaged:
            _log.warning("done again: %s", problem)
