"""The reports of a run: its progress, and its result."""

from collections.abc import Callable
from dataclasses import dataclass

from bertfeat.display import Cells, displayed, format_duration, format_size
from bertfeat.features import FAILURES_NAME, Counts
from bertfeat.io import Location


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
    split_batches: int
    bytes: int  # of the parts on disk
    computed_tokens: int  # that went through the encoder in this run
    padded_tokens: int  # padding that went with them
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
        """Tokens of this run a second, from text to disk."""
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
