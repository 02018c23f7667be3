"""The progress of a run, and its report at the end: documents, tokens, failures, and the seconds it waited."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from bertfeat.core.extraction.agenda import MadePart
from bertfeat.core.extraction.plan import PlannedPart
from bertfeat.core.features import FAILURES_NAME, Counts, Manifest
from bertfeat.display import Cells, displayed, format_duration, format_size
from bertfeat.io import Location, list_files
from bertfeat.progress import ignore_progress


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run."""

    documents: int
    tokens: int
    fraction: float  # of the corpus, 0 to 1
    seconds: float

    def __str__(self) -> str:
        text = f"{self.documents:,} documents, {self.tokens / max(self.seconds, 1e-9):,.0f} tokens/s"
        if self.fraction > 0:
            text += f", {format_duration(self.seconds * (1.0 - self.fraction) / self.fraction)} left"
        return text


OnProgress = Callable[[Progress], None]


@displayed
@dataclass(frozen=True, slots=True)
class ExtractionReport:
    """The result of a run, and the counts of the feature set."""

    folder: Location
    counts: Counts  # of the whole feature set
    failed: int
    blank: int
    parts: int
    kept_parts: int  # parts that an earlier run had finished
    copied: int  # documents whose features were copied from other parts
    split_batches: int
    bytes: int  # of the parts on disk
    computed_tokens: int  # that went through the encoder in this run
    padded_tokens: int  # padding that went through it too
    seconds: float
    waited_for_tokens: float  # seconds in which the encoder had nothing to do
    waited_for_disk: float
    warnings: tuple[str, ...]

    def cells(self) -> Cells:
        """The facts that a line or a table shows of the run."""
        done = {"documents": self.counts.documents, "tokens": self.counts.tokens, "failed": self.failed}
        speed = f"{self.tokens_per_second:,.0f} tokens/s"
        took = {"size": format_size(self.bytes), "time": format_duration(self.seconds), "speed": speed}
        return {"folder": str(self.folder), **done, **took, "warnings": self.warnings}

    @property
    def failure_list(self) -> Location:
        """The file that lists the rows that failed, with the reasons; it exists if there are any."""
        return self.folder / FAILURES_NAME

    @property
    def tokens_per_second(self) -> float:
        """Tokens that this run computed per second, from text to disk."""
        return self.computed_tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def padding_share(self) -> float:
        """Share of padding among all tokens that were computed; the packed encoder has none."""
        total = self.computed_tokens + self.padded_tokens
        return self.padded_tokens / total if total else 0.0

    @property
    def nothing_to_do(self) -> bool:
        """Whether the folder held everything already."""
        return self.parts == self.kept_parts


T = TypeVar("T")


class RunProgress:
    """Adds up the parts of a run and reports its progress."""

    def __init__(self, on_progress: OnProgress = ignore_progress) -> None:
        self._progress = on_progress
        self._begin = time.monotonic()
        self._counts, self._blank = Counts(), 0
        self._splits = self._kept = self._padded = self._computed = self.copied = 0
        self._waited_tokens = self._waited_disk = 0.0
        self._fraction = 0.0
        self._shown = 0, 0.0  # documents and fraction that were reported
        self._lock = Lock()  # parts are added by the threads that wrote them
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

    def add_part(self, planned: PlannedPart, made: MadePart, *, elsewhere: bool = False) -> None:
        """Add a finished part; ``elsewhere`` if another process made it, whose batches were not added here."""
        header = made.header
        with self._lock:
            self._computed += made.computed_tokens if elsewhere else 0
            self._counts += header.counts
            self.failed += len(header.failures)
            self._blank += header.blank
            self._splits += header.split_batches
            self._padded += made.padded_tokens
            self.parts += 1
            self._kept += made.kept
            self.copied += made.copied
            self._fraction = min(1.0, self._fraction + planned.share)
            self._notify(0, self._fraction)

    def skip(self, planned: PlannedPart) -> None:
        """Count the share of a part that others have made."""
        with self._lock:
            self._fraction = min(1.0, self._fraction + planned.share)
            self._notify(0, self._fraction)

    def add_finished(self, manifest: Manifest) -> None:
        """Count a whole set that is finished, though others made all or some of its parts."""
        made = self.parts - self._kept
        self._counts, self.failed, self._blank = manifest.counts, manifest.failed, manifest.blank
        self._splits, self.parts, self._kept = manifest.split_batches, len(manifest.parts), len(manifest.parts) - made
        self._fraction = 1.0

    def add_batch(self, tokens: int, documents: int, planned: PlannedPart, share: float) -> None:
        """Add a batch of a part that has ``documents``; ``share`` is the share of the part that is done after it."""
        with self._lock:
            self._computed += tokens
            self._notify(int(documents * share), min(1.0, self._fraction + planned.share * share))

    def time_waiting(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count the time that the encoder waits for each of them."""
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

    def report(self, folder: Location) -> ExtractionReport:
        """The result of the run, and the counts of the feature set."""
        return ExtractionReport(
            folder=folder,
            counts=self._counts,
            failed=self.failed,
            blank=self._blank,
            parts=self.parts,
            kept_parts=self._kept,
            copied=self.copied,
            split_batches=self._splits,
            bytes=sum(file.stamp.size for file in list_files(folder, "part-")),
            computed_tokens=self._computed,
            padded_tokens=self._padded,
            seconds=self.seconds,
            waited_for_tokens=self._waited_tokens,
            waited_for_disk=self._waited_disk,
            warnings=self.warnings,
        )

    def _notify(self, documents: int, fraction: float) -> None:
        """Report the progress; a part that is computed but not yet written is left out, but numbers never go down."""
        self._shown = max(self._shown[0], self._counts.documents + documents), max(self._shown[1], fraction)
        self._progress(Progress(self._shown[0], self._computed, self._shown[1], self.seconds))
