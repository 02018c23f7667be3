"""The settings of an extractor: each field is a keyword in Python and an option in the shell, with its help and bounds.

A feature set records them, resolved against its model, as :class:`bertfeat.core.features.FeatureSettings`. This module
is imported for every help text of the shell, and so it imports neither torch nor NumPy.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from bertfeat.core.grammar import list_poolings
from bertfeat.core.recipe import LayerSpec, Pooling, VectorDtype
from bertfeat.core.tokens import LongTextPolicy
from bertfeat.options import Option, check_bounds

PrecisionName = Literal["auto", "fp32", "bf16", "fp16", "int8"]
ModelName = Annotated[
    str | Path | None, Option("A hub id or a folder.", default="all-MiniLM-L6-v2", metavar="NAME|DIR", basic=True)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model, its device and its precision: keywords of all that computes features, which checks their types."""

    model: ModelName = None
    precision: Annotated[
        PrecisionName | str,
        Option(
            "auto: bf16 where the hardware multiplies it natively, else fp32. int8: faster still on CPUs without AMX, "
            "less exact.",
            basic=True,
        ),
    ] = "auto"
    revision: Annotated[str | None, Option("The hub's branch, tag or commit of the model.", metavar="REV")] = None
    device: Annotated[
        str | None,
        Option(
            "cpu, cuda, cuda:1; extract: cuda:0,cuda:1 is a worker process for each.",
            default="a GPU if there is one",
            metavar="DEVICE",
        ),
    ] = None
    batch_tokens: Annotated[
        int | None,
        Option("Tokens in one batch; fewer need less memory.", default="as fits the device", least=1, most=10**9),
    ] = None

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, slots=True)
class ExtractorSettings(ModelSettings):
    """A model and the features that it computes for each text: the arguments of ``Extractor``."""

    model: ModelName = None  # the only one that can be given by its place
    _: KW_ONLY
    layers: Annotated[
        LayerSpec | Sequence[LayerSpec] | None,
        Option(
            "Layers, also joined: last, concat4, sum4, mean-all, -1,-2, all, embeddings, cls, mean=1..6, concat=9+12; "
            "attn:7, mlp:1..6, also mlp-in, heads, mid, pre-norm: within blocks; sentence: the vector that "
            "sentence-transformers gives a text; auto (of extract): what reads --dev best.",
            default="last, or sentence where more than a pooling makes it",
            metavar="SPEC[,SPEC]",
            basic=True,
        ),
    ] = None
    pooling: Annotated[
        str | Sequence[str] | None,
        Option(
            f"{list_poolings()}: one vector a text; {list_poolings(documents=False)}: one vector for each.",
            default="the model's own, else mean",
            metavar="KIND[,KIND]",
            choices=tuple(Pooling),
            basic=True,
        ),
    ] = None
    long: Annotated[
        LongTextPolicy | str,
        Option("Texts longer than the model's positions: windows, cut off at the end or beginning, or failed rows."),
    ] = "window"
    max_length: Annotated[int | None, Option("Most tokens of one sequence.", default="the model's positions")] = None
    dtype: Annotated[
        VectorDtype | str,
        Option(
            "Number type of stored token and word matrices; vectors of texts are float32. In int8, whose cosines with "
            "what was computed are at least 0.9995, they take half the bytes of float16."
        ),
    ] = "float16"
    subword: Annotated[
        Literal["first", "mean", "last"] | str,
        Option("Which subword's vector a word gets under word pooling, or their mean."),
    ] = "first"
    special_tokens: Annotated[
        bool,
        Option("Whether pooling over all tokens, and token features, include [CLS] and [SEP].", default="they do"),
    ] = True
    prompt: Annotated[
        str | None, Option("Text put before each document; it counts in document vectors only.", metavar="TEXT")
    ] = None
    only: Annotated[
        str | Sequence[str] | None,
        Option(
            "Store the vectors of these words only, under word pooling; train* is all that begin so, @FILE all in a "
            "file, one a line (@-: stdin).",
            default="every word",
            metavar="WORD|@FILE[,…]",
        ),
    ] = None
    words: Annotated[
        Literal["spaces", "korean"] | str,
        Option(
            "What the words of running text are: what stands between spaces and punctuation; or, in Korean, that with "
            "particles apart (은행에서: 은행, 에서), which needs kiwipiepy."
        ),
    ] = "spaces"
    context: Annotated[
        str | None,
        Option(
            "Read each word after the N words before it, and before nothing: a sequence a word.",
            default="the whole text",
            metavar="left:N",
        ),
    ] = None
