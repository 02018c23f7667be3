"""The options of a build, and reports of its progress."""

from collections.abc import Callable
from dataclasses import dataclass

from bertfeat.errors import UsageError
from bertfeat.search.settings import TOKEN_DTYPES
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.whitening import Whitening, as_whitening, preparing_metric


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of a build."""

    type: str = "auto"  # an IndexType or a FAISS factory string
    metric: Metric = Metric.COSINE
    memory: int | None = None  # bytes; None: half of this machine's
    target_recall: float = 0.95  # at 10
    evaluate: bool = True
    keep_text: bool = True
    query_prompt: str | None = None
    device: str | None = None
    with_tokens: str | None = None  # the token or word column that the index keeps, to score hits by it again
    token_dtype: str = "int8"  # or float16
    transform: Whitening | None = None  # before vectors are compared

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "metric", Metric(self.metric))  # also by its name
        except ValueError as error:
            raise UsageError(f"metric {self.metric!r} is unknown", remedy=f"there are: {', '.join(Metric)}") from error
        if self.token_dtype not in TOKEN_DTYPES:
            raise UsageError(f"tokens are kept in {' or '.join(TOKEN_DTYPES)}, not in {self.token_dtype!r}")
        object.__setattr__(self, "transform", as_whitening(self.transform))  # also by its name
        if not 0.0 < self.target_recall <= 1.0:
            raise UsageError(f"the wanted recall is {self.target_recall}, but a recall is above 0 and at most 1")
        if self.memory is not None and not 0 < self.memory < float("inf"):  # NaN is neither
            raise UsageError(f"the memory is {self.memory} bytes, but it must be a number above 0")

    @property
    def preparation(self) -> Metric:
        """The metric for which vectors are prepared before FAISS gets them."""
        return preparing_metric(self.metric, self.transform)


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is."""

    step: str  # whiten, sample, train, add, evaluate, write, tokens
    done: int  # vectors, of those that the step goes through
    total: int


OnBuildProgress = Callable[[BuildProgress], None]


def ignore_build_progress(_progress: BuildProgress) -> None:
    """The default: nobody watches."""
