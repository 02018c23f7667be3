"""The reports of a run: its progress, and its result."""

from collections.abc import Callable
from dataclasses import dataclass

from bertfeat.features import FAILURES_NAME, Counts
from bertfeat.io import Location


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    documents: int
    tokens: int
    fraction: float  # of the corpus, 0 to 1
    seconds: float


OnProgress = Callable[[Progress], None]


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
