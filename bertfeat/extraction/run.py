"""One run over a corpus: read and tokenize ahead on a thread, compute, write behind on others.

Every part is computed by itself, from its own rows alone, so a run that was interrupted and resumed gives byte for
byte what an undisturbed one gives.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from bertfeat.corpus import Corpus, CorpusSettings, Failure, check_readable, open_corpus
from bertfeat.encoder import kernels_in_use
from bertfeat.errors import BertfeatError, CorpusError, DamagedError, RowFailedError, UsageError
from bertfeat.extraction.embedder import Embedder, PartResult, TokenizedRows
from bertfeat.extraction.language_check import corpus_warnings
from bertfeat.extraction.part_content import count_part
from bertfeat.extraction.plan import PlannedPart, plan_parts
from bertfeat.extraction.progress import RunProgress
from bertfeat.extraction.report import ExtractionReport, OnProgress
from bertfeat.extraction.resume import Existing, remove_parts
from bertfeat.extraction.settings import PART_ROWS, bytes_per_character, bytes_per_row, record_settings
from bertfeat.extraction.spool import STDIN, spool_stdin
from bertfeat.features import (
    FORMAT_VERSION,
    FeatureSettings,
    PartHeader,
    check_kept,
    list_parts,
    read_manifest,
    remove_leftovers,
    remove_manifest,
    write_manifest,
    write_part,
)
from bertfeat.features.folder import refuse_foreign_parts
from bertfeat.features.manifest import check_derived
from bertfeat.io import (
    ResultKind,
    claim_folder,
    folder_lock,
    give_back_memory,
    prefetched,
    real_path,
    refuse_other_kind,
    release_folder,
    stage,
)

_log = logging.getLogger("bertfeat")
_TOKENS_BETWEEN = 200_000  # written from one giving back of freed memory to the next


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """How a run goes about its work; none of it but the rows of a part and the texts decides what is written."""

    part_rows: int | None
    max_failures: int | None
    strict: bool
    overwrite: bool
    keep_text: bool


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A part that is due: found whole in the folder, or prepared for the encoder."""

    planned: PlannedPart
    kept: PartHeader | None
    prepared: TokenizedRows | None


def writer_count(device: torch.device) -> int:
    """How many parts are written at once: one beside an encoder that uses every core, several beside a GPU."""
    return 1 if device.type == "cpu" else max(1, min(4, len(os.sched_getaffinity(0)) // 4))


class ExtractionRun:
    """One run, from the lock to the manifest."""

    def __init__(
        self,
        embedder: Embedder,
        source: Corpus | str | Path | Sequence[str | Path],
        folder: Path,
        corpus_settings: CorpusSettings,
        options: ExtractionOptions,
        progress: OnProgress | None,
    ) -> None:
        self._embedder, self._source, self._folder = embedder, source, folder
        self._reading, self._options = corpus_settings, options
        self._account = RunProgress(progress)
        self._touched = False
        self._unreturned = 0  # tokens written since freed memory was given back

    def go(self) -> ExtractionReport:
        """Do what is not done yet, and account for every row."""
        existed = self._folder.exists()
        try:
            with folder_lock(self._folder):
                self._go()
        except BaseException:
            if not existed:
                release_folder(self._folder)  # if nothing was written, nothing stays
            raise
        return self._account.report(self._folder)

    def _go(self) -> None:
        refuse_other_kind(self._folder, ResultKind.FEATURES)
        refuse_foreign_parts(self._folder)
        remove_leftovers(self._folder)
        with self._opened() as corpus:
            self._refuse_own_input(corpus)
            next(check_readable(corpus.rows(), corpus), None)  # wrong columns are told before anything is touched
            existing = Existing(self._folder) if self._options.overwrite else Existing.of(self._folder)
            self._settle(corpus, existing)
            self._sources = corpus.sources
            self._existing = existing
            self._work(corpus)
        self._finish(existing)

    # ── before ──────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _opened(self) -> Iterator[Corpus]:
        source = self._source
        if isinstance(source, str | Path):
            source = [source]
        if not isinstance(source, Sequence):
            yield source
        elif [str(each) for each in source] == [STDIN]:
            with spool_stdin(self._folder, self._reading) as corpus:
                yield corpus
        elif STDIN in map(str, source):
            raise CorpusError("- (standard input) cannot be mixed with files; give it alone")
        else:
            yield open_corpus(source, self._reading)

    def _refuse_own_input(self, corpus: Corpus) -> None:
        """Refuse to write into a folder that the corpus lies in, where results and input would get mixed up."""
        folder = real_path(self._folder)
        for name in corpus.sources:
            if name != STDIN and folder in real_path(name).parents:
                raise UsageError(f"{self._folder} holds {name}, which is to be read; name another folder with -o")

    def _settle(self, corpus: Corpus, existing: Existing) -> None:
        """Fix the settings, and refuse a folder that belongs to another run before anything is touched."""
        embedder, recorded = self._embedder, existing.settings or FeatureSettings()
        check_kept(corpus.kept, embedder.columns)
        if embedder.token_settings.prompt and self._reading.document_context:
            raise UsageError("a prompt and --document-context both stand before a text: give one of them")
        tokens = embedder.given_batch_tokens or recorded.batch_tokens or embedder.batch_tokens
        rows = self._options.part_rows or recorded.part_rows or PART_ROWS
        self._settings = RunSettings(
            model=embedder.identity,
            columns=embedder.columns,
            tokens=embedder.token_settings,
            precision=embedder.precision.value,
            document_context=self._reading.document_context,
            keep=corpus.kept,
            keep_text=self._options.keep_text,
            batch_tokens=int(tokens),
            part_rows=int(rows),
        )
        self._plain = self._settings.plain()
        self._fingerprint = settings_fingerprint(self._plain)
        existing.check_settings(self._plain, self._fingerprint)
        existing.check_corpus(self._plan(corpus))

    def _plan(self, corpus: Corpus) -> Iterator[PlannedPart]:
        columns, tokens = self._embedder.columns, self._embedder.token_settings
        return plan_parts(
            corpus,
            part_rows=self._part_rows,
            bytes_per_row=bytes_per_row(columns, special_tokens=tokens.special_tokens),
            bytes_per_character=bytes_per_character(columns),
        )

    # ── the work ────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, corpus: Corpus) -> None:
        writers = writer_count(self._embedder.device)
        with ThreadPoolExecutor(writers, "bertfeat-writer") as writer:
            pending: deque[Future[None]] = deque()
            try:
                for ahead in self._account.timed(prefetched(self._ahead(corpus))):
                    if ahead.kept is not None:
                        self._check_failures(ahead.kept.failures)
                        self._account.part(ahead.kept, ahead.planned, kept=True)
                        continue
                    assert ahead.prepared is not None  # it is not kept
                    self._check_failures(ahead.prepared.rows.failures)  # those need no computing
                    extracted = self._compute(ahead.planned, ahead.prepared, corpus)
                    header = self._header(ahead.planned, ahead.prepared, extracted, corpus)
                    self._check_failures(header.failures)
                    while pending and (len(pending) == writers or pending[0].done()):
                        self._account.wait(pending.popleft())
                    self._touch()
                    pending.append(writer.submit(self._write, header, extracted))
                    padded = extracted.computed.padded_tokens
                    self._account.part(header, ahead.planned, kept=False, padded=padded)
                    del ahead, extracted  # the writer's from now on: the next part needs their memory
            finally:
                for each in pending:
                    self._account.wait(each)
                give_back_memory()

    def _ahead(self, corpus: Corpus) -> Iterator[_Ahead]:
        """Plan and prepare the parts; on a thread of its own, one part ahead of the encoder."""
        for planned in self._plan(corpus):
            kept = self._existing.kept(planned)
            yield _Ahead(planned, kept, None if kept else self._embedder.prepared(planned.rows))

    def _compute(self, planned: PlannedPart, prepared: TokenizedRows, corpus: Corpus) -> PartResult:
        self._load()
        total = max(1, len(prepared.tokenized.layout.ids))
        documents, done = len(prepared.rows.documents), 0
        warnings = corpus_warnings(prepared.rows.unique, prepared.tokenized)
        if warnings and not self._account.warnings:  # once a run: of every part they would be much the same
            self._account.warnings = tuple(warnings)
            for warning in warnings:
                _log.warning(warning)

        def on_batch(tokens: int) -> None:
            nonlocal done
            done += tokens
            self._account.batch(tokens, documents, planned, done / total)

        return self._embedder.extracted(
            prepared,
            corpus,
            batch_tokens=self._batch_tokens,
            kept=corpus.kept,
            keep_text=self._options.keep_text,
            on_batch=on_batch,
        )

    def _load(self) -> None:
        """Load the model when the first part needs it; the time that takes is none of the run's."""
        begin = time.monotonic()
        _ = self._embedder.encoder
        self._account.apart(time.monotonic() - begin)

    def _header(
        self, planned: PlannedPart, prepared: TokenizedRows, extracted: PartResult, corpus: Corpus
    ) -> PartHeader:
        return PartHeader(
            format_version=FORMAT_VERSION,
            settings=self._settings,
            fingerprint=self._settings.fingerprint,
            number=planned.number,
            first_row=planned.first_row,
            last_row=planned.first_row + len(planned.rows),
            digest=planned.digest,
            sketch=planned.sketch,
            blank=prepared.rows.blank,
            failures=extracted.failures,
            model=self._embedder.identity,
            columns=self._embedder.columns,
            sources=corpus.sources,
            counts=count_part(extracted.content, prepared.rows.documents),
            split_batches=extracted.computed.split_batches,
        )

    def _write(self, header: PartHeader, extracted: PartResult) -> None:
        with stage("write"):
            write_part(self._folder, header, extracted.content)
        # after every small part it would cost time, since the encoder's blocks would come fresh each time
        self._unreturned += header.counts.tokens
        if self._unreturned >= _TOKENS_BETWEEN:
            self._unreturned = 0
            give_back_memory()

    def _touch(self) -> None:
        """Mark the set as unfinished before the first change to it."""
        if not self._touched:
            claim_folder(self._folder, ResultKind.FEATURES)
            remove_manifest(self._folder)
            if self._options.overwrite:
                remove_parts(list_parts(self._folder))
            self._touched = True

    def _check_failures(self, failures: Sequence[Failure]) -> None:
        """Stop if the failures of a part are more than are wanted, with those of the parts before it."""
        if failures and self._options.strict:
            raise RowFailedError(f"--strict: {failures[0].reason}")
        most = self._options.max_failures
        if most is not None and failures and self._account.failed + len(failures) > most:
            raise BertfeatError(
                f"more than {most} rows failed (--max-failures), the last: {failures[-1].reason}; "
                f"the finished parts stay in {self._folder}"
            )

    # ── after ───────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, existing: Existing) -> None:
        if not self._account.parts:
            raise CorpusError(f"{', '.join(self._sources)}: the corpus has no rows, so there is nothing to extract")
        if surplus := existing.surplus(self._account.parts):
            self._touch()
            remove_parts(surplus)
        seconds = self._account.seconds
        if self._touched or not self._is_finished():
            finished = datetime.now(UTC).isoformat(timespec="seconds")
            kernels = kernels_in_use(self._embedder.device, self._embedder.precision.dtype)
            names = ("bertfeat", "torch", "transformers", "tokenizers", "pyarrow", "numpy")
            write_manifest(
                self._folder,
                sources=self._sources,
                times={"finished": finished, "seconds": round(seconds, 3), "device": str(self._embedder.device)},
                versions={name: version(name) for name in names}
                | {"threads": str(torch.get_num_threads()), "kernels": kernels},
            )
        for problem in existing.damaged:
            _log.warning("done again: %s", problem)

    def _is_finished(self) -> bool:
        """Whether what is derived from the parts is there too, and says what they say."""
        try:
            manifest = read_manifest(self._folder)
            if manifest is None or manifest.sources != self._sources:
                return False
            check_derived(self._folder, manifest)
        except DamagedError:
            return False
        return True
