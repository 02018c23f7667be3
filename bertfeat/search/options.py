"""The settings of an index build, of a search, and of scoring hits again by their tokens."""

import re
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option, check_bounds
from bertfeat.search.vectors.metric import Metric, Whitening, as_whitening, preparing_metric
from bertfeat.where import WhereText

if TYPE_CHECKING:
    from bertfeat.core import SpanRule

ENCODED_WIDTH = 4096
"""The number of values in the encoding of a text, unless another is asked for."""

NO_ENCODING = "none"
"""The value of ``encode`` by which each token of a text keeps a vector of its own."""

_MOST_ENCODED = 32_768

RERANK_DEPTH = 50
"""The number of hits that are scored again, unless more are asked for."""

RERANK_WEIGHT = 0.5
"""The weight of the score by vector beside maxsim, where the model was not trained to compare tokens."""


@checked
@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of an index build."""

    spans: Annotated[
        str | None,
        Option(
            "sentences, paragraphs, words:200[:50] or column:NAME, pooled from tokens.",
            default="whole documents, tokens or words",
            metavar="RULE",
            basic=True,
        ),
    ] = None
    type: Annotated[
        str,
        Option("auto, flat (exact), hnsw, ivf, ivfpq, sq8, or a FAISS factory string.", metavar="TYPE", basic=True),
    ] = "auto"
    metric: Annotated[Metric, Option("cosine, inner product, or Euclidean distance.")] = Metric.COSINE
    memory: Annotated[
        int | None,
        Option(
            "Memory that the index may take, such as 4G.",
            default="half of this machine's",
            metavar="SIZE",
            in_bytes=True,
            least=1,
        ),
    ] = None
    target_recall: Annotated[
        float,
        Option("Share of the true 10 nearest that a search has to find.", metavar="R", basic=True, above=0, most=1),
    ] = 0.95
    evaluate: Annotated[bool, Option("Whether recall is measured against exact search and tuned.", default="it is")] = (
        True
    )
    keep_text: Annotated[bool, Option("Whether the texts go into the index.", default="they do")] = True
    query_prompt: Annotated[
        str | None,
        Option("Text put before each query.", default="the model's own, if it has one", metavar="TEXT"),
    ] = None
    device: Annotated[str | None, Option("cuda or cuda:1 with faiss-gpu.", default="cpu", metavar="DEVICE")] = None
    with_tokens: Annotated[
        str | None,
        Option(
            "Keep these token vectors, such as last_token, for search --rerank.",
            default="they are read from the feature set",
            metavar="COLUMN",
            basic=True,
        ),
    ] = None
    pool_tokens: Annotated[
        int,
        Option("Keep so many times fewer: one vector for tokens of a text that are alike.", least=1, most=100),
    ] = 1
    transform: Annotated[
        Whitening | str | None,
        Option(
            "whiten or half-whiten, to WIDTH values: for layers not trained for search.",
            default="none",
            metavar="NAME[:WIDTH]",
            basic=True,
        ),
    ] = None

    encode: Annotated[
        str | None,
        Option(
            "fde[:WIDTH]: one vector for all tokens of a text, which finds more of what maxsim would; or none.",
            default="none; fde for a model that compares tokens",
            metavar="NAME[:WIDTH]",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_bounds(self)
        object.__setattr__(self, "transform", as_whitening(self.transform))
        if self.spans is not None:
            object.__setattr__(self, "spans", str(self.span_rule))
        if self.pool_tokens > 1 and self.with_tokens is None:
            problem = f"it pools the tokens that {parameter('with_tokens')} keeps"
            raise UsageError(problem, where=parameter("pool_tokens", self.pool_tokens))
        if self.encode not in (None, NO_ENCODING):
            width_of_encoding(self.encode)
            if self.transform is not None:
                raise UsageError(
                    "an encoding imitates maxsim, which compares vectors that are not whitened",
                    where=parameter("encode", self.encode),
                    remedy=f"leave out {parameter('transform')}",
                )
            if self.metric is Metric.L2:
                raise UsageError(
                    "an encoding imitates maxsim, a mean of cosines; Euclidean distances order its vectors otherwise",
                    where=parameter("encode", self.encode),
                    remedy=f"leave out {parameter('metric', 'l2')}",
                )

    @property
    def preparation(self) -> Metric:
        """The metric for which vectors are prepared before FAISS gets them."""
        return preparing_metric(self.metric, self.whitening)

    @property
    def whitening(self) -> Whitening | None:
        """The transform as a :class:`Whitening`, also where it was given by name; None for none."""
        return as_whitening(self.transform)

    @property
    def span_rule(self) -> "SpanRule | None":
        """The rule that cuts texts into spans; None where vectors are not of spans."""
        from bertfeat.core import SpanRule  # NumPy, which help does without

        return SpanRule.of(self.spans)


def width_of_encoding(encode: str) -> int:
    """The number of values that ``fde[:WIDTH]`` asks for.

    Raises:
        UsageError: it is something else.
    """
    match = re.fullmatch(r"fde(?::([1-9][0-9]{0,5}))?", encode)
    width = int(match[1] or ENCODED_WIDTH) if match else 0
    if not 0 < width <= _MOST_ENCODED:
        raise UsageError(
            "this encoding is unknown",
            where=parameter("encode", encode),
            remedy=f"there is fde, also with a number of values up to {_MOST_ENCODED:,}, such as fde:{ENCODED_WIDTH}",
        )
    return width


@checked
@dataclass(frozen=True, slots=True)
class MaxSim:
    """The options of scoring the hits that are best by vector again: ``maxsim + weight * score``, larger is nearer.

    ``column`` names the token or word vectors that are compared, such as ``layer5_token``: a stored column, or a recipe
    that the stored ones contain. By default they are the model's own (``sentence_token``), else of the index's recipe.
    ``depth`` is the number of hits that are scored again: at least as many as are asked for, by default at least 50.
    With ``idf`` rare tokens of the query count for more: each has the weight ``log((N + 1) / (df + 1))``, where ``df``
    of the index's ``N`` documents have it. Special tokens, and words without a vector, take no part. Where a model was
    trained to compare tokens (``sentence_token``), all that it gives a vector takes part, by default without ``idf``,
    and with the weight 0.

    Raises:
        UsageError: a depth below 1, or a weight that is negative, no number or too large.
    """

    parameter_prefix: ClassVar[str] = "rerank_"
    """The prefix of its fields as options: messages name ``--rerank-depth`` and so on."""

    column: Annotated[
        str | None,
        Option(
            "Which tokens or words are compared: layer5_token.",
            default="the model's own, else those of the index's recipe",
            metavar="NAME",
        ),
    ] = None
    depth: Annotated[int | None, Option("How many hits are scored again.", default=f"{RERANK_DEPTH}", least=1)] = None
    weight: Annotated[
        float | None,
        # with the largest weight, maxsim only decides between hits whose scores by vector are equal
        Option("Weight of the score by vector, which is added.", least=0, most=1_000_000, python_only=True),
    ] = None
    idf: Annotated[
        bool | None,
        Option(
            "Whether rare tokens of the query count for more.",
            default="they do, unless the model was trained to compare tokens",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_bounds(self)

    def of_tokens(self, *, trained: bool) -> "MaxSim":
        """The options with the defaults of tokens that a model was trained to compare, or of others."""
        weight = self.weight if self.weight is not None else 0.0 if trained else RERANK_WEIGHT
        return replace(self, weight=weight, idf=not trained if self.idf is None else self.idf)


def check_rerank(rerank: "MaxSim | str | None") -> MaxSim | None:
    """The options of scoring again; the name ``"maxsim"`` stands for its default options, None for no such scoring."""
    if rerank is None or isinstance(rerank, MaxSim):
        return rerank
    if rerank != "maxsim":
        raise UsageError(f"hits cannot be scored again by {rerank!r}", remedy="there is maxsim")
    return MaxSim()


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of a search in an index: keywords of ``Index.search``, ``search_batch`` and ``search_vectors``."""

    k: Annotated[int, Option("Hits for each query.", basic=True, least=1)] = 10
    _: KW_ONLY
    where: WhereText = None
    exact: Annotated[bool, Option("Compare with every vector, whatever the type of the index.", basic=True)] = False
    score_threshold: Annotated[
        float | None, Option("Leave out hits of lower scores, or of larger distances.", metavar="X")
    ] = None
    one_per_document: Annotated[
        bool,
        Option("Only the best token, word or span of each document; of what was split, of each text.", basic=True),
    ] = False
    rerank: MaxSim | str | None = None
    why: Annotated[
        bool, Option("Which words of each hit meet which of the query, by their shares of the score.", basic=True)
    ] = False
