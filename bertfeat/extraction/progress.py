"""The progress of a run: documents, tokens, failures, and the seconds it waited."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from bertfeat.extraction.plan import PlannedPart
from bertfeat.extraction.report import ExtractionReport, OnProgress, Progress
from bertfeat.features import Counts, PartHeader, list_parts

T = TypeVar("T")


class RunProgress:
    """Adds up the parts of a run and reports its progress."""

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress = progress or (lambda _: None)
        self._begin = time.monotonic()
        self._counts, self._blank = Counts(), 0
        self._splits = self._kept = self._padded = self._computed = 0
        self._waited_tokens = self._waited_disk = 0.0
        self._fraction = 0.0
        self.failed = 0
        self.parts = 0
        self.warnings: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds since the run began, without those that :meth:`exclude` left out."""
        return time.monotonic() - self._begin

    def exclude(self, seconds: float) -> None:
        """Leave seconds out of the run's time, such as those of loading the model."""
        self._begin += seconds

    def add_part(self, header: PartHeader, planned: PlannedPart, *, kept: bool, padded: int = 0) -> None:
        """Add a finished part; ``kept`` if an earlier run finished it."""
        self._counts += header.counts
        self.failed += len(header.failures)
        self._blank += header.blank
        self._splits += header.split_batches
        self._padded += padded
        self.parts += 1
        self._kept += kept
        self._fraction = planned.fraction
        self._notify(0, planned.fraction)

    def add_batch(self, tokens: int, documents: int, planned: PlannedPart, share: float) -> None:
        """Add a batch of a part of ``documents``, of which a ``share`` is done with it."""
        self._computed += tokens
        self._notify(int(documents * share), self._fraction + (planned.fraction - self._fraction) * share)

    def time_waiting(self, items: Iterable[T]) -> Iterator[T]:
        """Count the time in which the encoder has nothing to do."""
        iterator = iter(items)
        while True:
            begin = time.monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._waited_tokens += time.monotonic() - begin
            yield item
            del item  # frees its memory once the consumer has dropped it

    def wait_for_write(self, pending: "Future[None]") -> None:
        """Wait for a write to end, and count that time; its error is raised here."""
        begin = time.monotonic()
        pending.result()
        self._waited_disk += time.monotonic() - begin

    def report(self, folder: Path) -> ExtractionReport:
        """The result of the run, and the counts of the feature set."""
        return ExtractionReport(
            folder=folder,
            counts=self._counts,
            failed=self.failed,
            blank=self._blank,
            parts=self.parts,
            kept_parts=self._kept,
            split_batches=self._splits,
            bytes=sum(path.stat().st_size for path in list_parts(folder)),
            computed_tokens=self._computed,
            padded_tokens=self._padded,
            seconds=self.seconds,
            waited_for_tokens=self._waited_tokens,
            waited_for_disk=self._waited_disk,
            warnings=self.warnings,
        )

    def _notify(self, documents: int, fraction: float) -> None:
        self._progress(Progress(self._counts.documents + documents, self._computed, fraction, self.seconds))
