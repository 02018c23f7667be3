"""The worker of an extraction: scans files and makes parts with one encoder, while threads tokenize ahead and write.

Every part is computed from its own rows alone, so that every worker that makes it writes the same bytes.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch

from bertfeat.core.corpus import CorpusFile, Failure, KeptColumn, Row
from bertfeat.core.engine import Worker
from bertfeat.core.extraction.agenda import MadePart, OnDone, Result, ScannedFiles, ScanTask, Task
from bertfeat.core.extraction.copying import CopiedRows, split_copied
from bertfeat.core.extraction.cores import threads_in_use, use_threads, writer_count
from bertfeat.core.extraction.language_check import corpus_warnings
from bertfeat.core.extraction.part_content import TokenizedRows, count_part, with_digests
from bertfeat.core.extraction.plan import PartLimits, PlannedPart, read_part, scan_file
from bertfeat.core.extraction.progress import RunProgress
from bertfeat.core.features import (
    FAILURES_NAME,
    FORMAT_VERSION,
    FeatureSettings,
    Manifest,
    ModelIdentity,
    PartContent,
    PartHeader,
    StoredFeatures,
    Table,
    content_table,
    merge_rows,
    part_path,
    read_header,
    sound_header,
    write_part,
)
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import BertfeatError, DamagedError, RowFailedError, StorageError, parameter, pluralize
from bertfeat.io import (
    ContextPool,
    Location,
    file_stamp,
    give_back_memory,
    prefetched,
    remove_stored,
    stage,
)

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

_TOKENS_BETWEEN = 200_000  # tokens of the parts that are written before freed memory is given back again


class FailureLimit:
    """The most rows that may fail before a run stops (None: any number), and how many have failed so far."""

    def __init__(self, folder: Location, most: int | None) -> None:
        self._folder, self._most = folder, most
        self._failed = 0

    def check(self, failures: Sequence[Failure], *, final: bool) -> None:
        """Stop if a part's failures, together with those of the parts before it, are too many.

        ``final``: all failures of the part are known, not only those that were found when it was read.

        Raises:
            RowFailedError: they are.
        """
        if failures and self._most is not None and self._failed + len(failures) > self._most:
            one_too_many = failures[self._most - self._failed]
            raise self._error(f"the last: {one_too_many.reason}", f"the finished parts stay in {self._folder}")
        self._failed += len(failures) if final else 0

    def check_finished(self, manifest: Manifest) -> None:
        """Stop if the failures of a whole set, of which others have made parts, are too many.

        Raises:
            RowFailedError: they are.
        """
        if self._most is not None and manifest.failed > self._most:
            raise self._error(f"{manifest.failed:,} in all", f"{self._folder / FAILURES_NAME} lists them")

    def _error(self, told: str, remedy: str) -> RowFailedError:
        many = f"more than {pluralize(self._most, 'row')}" if self._most else "a row"
        return RowFailedError(f"{many} failed, {told}", where=parameter("max_failures", self._most), remedy=remedy)


class PartWorker:
    """Scans files and makes parts, one after the other.

    In the process of the run, ``progress`` records batches and waiting times, ``begin`` is called before each part is
    written, and ``failures`` counts those of all processes. They are checked twice for each part: after it is read, and
    before it is written.
    """

    def __init__(
        self,
        job: "ExtractionJob",
        extractor: "Extractor",
        progress: RunProgress | None = None,
        begin: Callable[[], None] = lambda: None,
        failures: FailureLimit | None = None,
    ) -> None:
        self._job, self._extractor = job, extractor
        self._progress = progress or RunProgress()
        self._failures = failures or FailureLimit(job.folder, job.max_failures)
        self._stored: StoredFeatures | None = None  # of the donors; opened for the first part that is not there
        wait = self._progress.wait_for_write
        self._writer = _PartWriter(
            job.target, job.folder, extractor.device, several_writers=job.several_writers, begin=begin, wait=wait
        )

    def work(self, tasks: Iterator[Task], done: OnDone) -> None:
        """Do the tasks; ``done`` gets the result of each, on any thread, once it is on the disk."""
        with self._writer, ExitStack() as long_run:
            for number, (task, prepared) in enumerate(
                self._progress.time_waiting(prefetched(self._prepare_ahead(tasks)))
            ):
                if number == 1:
                    long_run.enter_context(_frozen_objects())
                if isinstance(prepared, _PreparedRows):
                    assert isinstance(task, PlannedPart)
                    self._make_part(task, prepared, done)
                else:
                    if isinstance(prepared, MadePart):
                        self._failures.check(prepared.header.failures, final=True)
                    done(task, prepared)
                del task, prepared  # the next part needs its memory

    def raise_failed_writes(self) -> None:
        """Raise the error of a write that has failed, on a thread that waits for tasks."""
        self._writer.raise_failed()

    def _prepare_ahead(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, "Result | _PreparedRows"]]:
        """Do all steps before the encoder, for each task; on a thread of its own, one task ahead."""
        for task in tasks:
            yield self._scan(task) if isinstance(task, ScanTask) else self._prepare(task)
            del task

    def _scan(self, task: ScanTask) -> tuple[ScanTask, ScannedFiles]:
        return task, ScannedFiles(tuple(scan_file(self._job.files[n], n, self._job.limits) for n in task.files))

    def _prepare(self, part: PlannedPart) -> tuple[PlannedPart, "MadePart | _PreparedRows"]:
        """The part, without its rows, and what is left to do: nothing where it is there, else its prepared rows."""
        header, damage = self._find_existing(part) if part.exists else (None, "")
        task = replace(part, rows=None, damage=damage)
        if header is not None:
            return task, MadePart(header, kept=True)
        rows: Sequence[Row] = part.rows if part.rows is not None else read_part(self._job.files, part)
        copied = None
        if self._job.donors:
            self._stored = self._stored or StoredFeatures(self._job.donors)
            rows, copied = split_copied(rows, self._stored, self._job.kept, pairs=self._job.has_pairs)
        tokenized = self._extractor.tokenize_rows(rows)
        if not self._progress.warnings:
            tokenized = replace(tokenized, warnings=tuple(corpus_warnings(tokenized.unique, tokenized.tokens)))
        return task, _PreparedRows(tokenized, copied)

    def _find_existing(self, planned: PlannedPart) -> tuple[PartHeader | None, str]:
        """The header of an earlier run's part, if it is whole and from the same rows; else what is wrong with it."""
        damage = ""
        for place in dict.fromkeys((self._job.target, self._job.folder)):
            path = part_path(place, planned.number)
            if file_stamp(path) is None:  # a worker died before it wrote it
                continue
            try:
                header = sound_header(path)
                if (header.digest, header.fingerprint) == (planned.digest, self._job.settings.fingerprint):
                    return header, ""
            except DamagedError as error:
                damage = str(error)
            if self._job.several_writers and place == self._job.target:  # writing does not replace an existing part
                remove_stored(path)
        return None, damage

    def _make_part(self, part: PlannedPart, prepared: "_PreparedRows", done: OnDone) -> None:
        tokenized, copied = prepared.tokenized, prepared.copied
        self._failures.check(tokenized.failures, final=False)  # failures of reading, known before computing
        if copied is not None and not tokenized.documents:
            tables, failures, padded, splits, model = [copied.table], tokenized.failures, 0, 0, self._job.model
        else:
            content, padded = self._compute(part, tokenized)
            tables = [content_table(content, self._job.columns), *([copied.table] if copied else ())]
            failures, splits = content.failures, content.split_batches
            model = replace(self._job.model, canary=self._extractor.canary)
        table = merge_rows(tables)
        documents = (*tokenized.documents, *(copied.documents if copied else ()))
        settings = self._job.settings
        header = PartHeader(
            format_version=FORMAT_VERSION,
            settings=settings,
            fingerprint=settings.fingerprint,
            number=part.number,
            first_row=part.first_row,
            last_row=part.last_row,
            digest=part.digest,
            sketch=part.sketch,
            blank=tokenized.blank,
            failures=failures,
            model=model,
            columns=self._job.columns,
            sources=self._job.sources,
            counts=count_part(table, documents),
            split_batches=splits,
        )
        self._failures.check(header.failures, final=True)
        made = MadePart(
            header,
            computed_tokens=tokenized.token_count,
            padded_tokens=padded,
            warnings=tokenized.warnings,
            damage=part.damage,
            copied=len(copied.documents) if copied else 0,
        )
        self._writer.write(header, table, lambda: done(part, made))

    def _compute(self, part: PlannedPart, tokenized: TokenizedRows) -> tuple[PartContent, int]:
        """The content of a part, and the tokens of padding that went through the encoder with it."""
        begin = time.monotonic()
        _ = self._extractor.encoder, self._extractor.canary  # made for the first part, and not part of the run's time
        self._extractor.check_against(self._job.model, self._job.folder)
        self._progress.exclude(time.monotonic() - begin)
        documents, total, computed, padded = len(tokenized.documents), max(1, tokenized.token_count), 0, 0

        def on_batch(tokens: int, padding: int) -> None:
            nonlocal computed, padded
            computed, padded = computed + tokens, padded + padding
            self._progress.add_batch(tokens, documents, part, computed / total)

        content = self._extractor.compute_rows(
            tokenized,
            batch_tokens=self._job.batch_tokens,
            kept=self._job.kept,
            keep_text=self._job.settings.text,
            tags=self._job.has_tags,
            pairs=self._job.has_pairs,
            on_batch=on_batch,
        )
        return with_digests(content, tokenized.documents) if self._job.settings.text else content, padded


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Keep the garbage collector from the objects that are there, most of them of libraries.

    A full collection, due about every 50,000 rows, goes through some 200,000 of them: a third of Python's work on rows.
    """
    if gc.get_freeze_count():  # by the program itself, or by another run of it
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass(frozen=True, slots=True)
class _PreparedRows:
    """The rows of a part before the encoder: those that it will compute, and copies of the others."""

    tokenized: TokenizedRows
    copied: CopiedRows | None


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """The facts about a run that every worker needs in order to write the same bytes. It can be pickled."""

    model: ModelIdentity
    model_location: str  # where to find it
    columns: tuple[FeatureColumn, ...]
    settings: FeatureSettings
    batch_tokens: int
    limits: PartLimits
    files: tuple[CorpusFile, ...]  # none of a corpus in memory
    sources: tuple[str, ...]
    kept: tuple[KeptColumn, ...]
    has_tags: bool
    has_pairs: bool
    folder: Location
    target: Location  # where parts are written: the folder, or that of its successor
    donors: tuple[Location, ...]  # parts that features are copied from
    max_failures: int | None  # after which the run stops
    several_writers: bool  # whether other processes may write the same parts; the first one written stays

    def open_worker(self, *, device: str | None, threads: int | None) -> Worker[Task, Result]:
        """A worker in another process than the run's.

        Raises:
            ModelError: this machine does not have the model.
            FeatureSetError: the model on this machine differs from the recorded one.
        """
        from bertfeat.core.extraction.sentence_transformers.extractor import (
            Extractor,  # here: it has runs, which have workers
        )

        if threads is not None:
            use_threads(threads)
        # None: the model is found by its recorded name, together with its revision
        location = None if self.model_location == self.model.name else self.model_location
        self.settings.check_words(where=self.folder)
        extractor = Extractor.from_record(
            self.model,
            self.settings,
            self.columns,
            name=location,
            device=device,
            only=self.settings.only,
            where=self.folder,
        )
        return PartWorker(self, extractor)

    def threads_in_use(self) -> int:
        """The number of threads that this process computes with."""
        return threads_in_use()

    def with_absolute_paths(self) -> "ExtractionJob":
        """The job for workers that run in another folder."""
        files = (replace(file, source=replace(file.source, path=file.source.path.absolute())) for file in self.files)
        return replace(
            self,
            files=tuple(files),
            folder=self.folder.absolute(),
            target=self.target.absolute(),
            donors=tuple(path.absolute() for path in self.donors),
        )

    def repeat(self, task: Task) -> Task:
        """The task for another worker, as the part may have been written just before."""
        return replace(task, exists=True) if isinstance(task, PlannedPart) else task

    def error_of_deaths(self, task: Task, problem: str) -> BertfeatError:
        """The error for a task that one worker after another died on."""
        return BertfeatError(
            problem,
            where=f"part {task.number}" if isinstance(task, PlannedPart) else self.files[task.files[0]].source.name,
            remedy=f"if memory ran out, use fewer workers, a smaller {parameter('batch_tokens')} or a smaller "
            f"{parameter('part_rows')}",
        )


# ── writing behind the encoder ──────────────────────────────────────────────────────────────────────────────


class _PartWriter:
    """Writes the parts of one run; leaving it waits for the last ones.

    ``begin`` is called before each part, ``wait`` waits for a write and raises its error. With
    ``several_writers`` other processes write into the folder too: a part that is there stays.
    """

    def __init__(
        self,
        folder: Location,
        home: Location,  # where the parts of a successor end
        device: torch.device,
        *,
        several_writers: bool,
        begin: Callable[[], None],
        wait: Callable[[Future[None]], None],
    ) -> None:
        self._folder, self._begin, self._wait = folder, begin, wait
        self._places = (folder, home)
        self._if_absent = several_writers
        self._threads = writer_count(device)
        self._pool = ContextPool(self._threads, "bertfeat-writer")
        self._pending: deque[Future[None]] = deque()
        self._unreturned_tokens = 0  # written since freed memory was given back

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._pool:
            try:
                for write in self._pending:
                    self._wait(write)
            finally:
                self._pending.clear()
                give_back_memory()

    def write(self, header: PartHeader, table: Table, done: Callable[[], None]) -> None:
        """Wait until a thread is free, and have it write a part; ``done`` is called once the part is written."""
        while self._pending and (len(self._pending) == self._threads or self._pending[0].done()):
            self._wait(self._pending.popleft())
        self._begin()
        self._pending.append(self._pool.submit(copy_context().run, self._write, header, table, done))

    def raise_failed(self) -> None:
        """Raise the error of a write that has failed."""
        for write in tuple(self._pending):
            if write.done():
                write.result()

    def _write(self, header: PartHeader, table: Table, done: Callable[[], None]) -> None:
        with stage("write"):
            try:
                write_part(self._folder, header, table, if_absent=self._if_absent)
            except StorageError:
                # other writers took the part over, finished it and the set, and removed our half-written file
                if not self._if_absent or not any(_is_written(place, header) for place in self._places):
                    raise
        done()
        # not after every small part: the encoder would have to get its blocks from the system anew each time
        self._unreturned_tokens += header.counts.tokens
        if self._unreturned_tokens >= _TOKENS_BETWEEN:
            self._unreturned_tokens = 0
            give_back_memory()


def _is_written(folder: Location, header: PartHeader) -> bool:
    try:
        return read_header(part_path(folder, header.number)).digest == header.digest
    except (BertfeatError, OSError):
        return False
