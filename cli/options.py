"""The bundles of options that several commands share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bertfeat.corpus import FORMATS
from bertfeat.recipe import Pooling

from .app import option
from .bundles import bundle
from .command_line import options_on_command_line
from .console import Console
from .option_types import listed_option

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings


def _poolings(*, documents: bool) -> str:
    return ", ".join(pooling for pooling in Pooling if pooling.per_document is documents)


output_options = bundle(
    "console",
    Console,
    ("as_json", "quiet"),
    option("--json", "as_json", is_flag=True, help="Print the result as JSON, one object a line."),
    option("--quiet", is_flag=True, further=True, help="No progress and no notes on stderr; warnings and errors stay."),
)
"""``--json`` and ``--quiet``, which every command has; it gets ``console``."""

width_option = option(
    "--width",
    type=click.IntRange(1, 10_000),
    further=True,
    metavar="N",
    help="Columns of a line.",
    show_default="as fits",
)
"""Of commands that print lines of text."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model, where it runs and how exactly; the names are those of ``Extractor``'s arguments."""

    model: str | None
    revision: str | None
    precision: str
    device: str | None
    batch_tokens: int | None


PRECISIONS = ("fp32", "bf16", "fp16", "int8")

model_options = bundle(
    "model",
    ModelOptions,
    ("model", "revision", "precision", "device", "batch_tokens"),
    option("--model", metavar="NAME|DIR", help="A hub id or a folder.", show_default="all-MiniLM-L6-v2"),
    option(
        "--precision",
        type=click.Choice(["auto", *PRECISIONS]),
        default="auto",
        help="auto: bf16 where the hardware multiplies it natively, else fp32. int8: faster still on CPUs without AMX, "
        "less exact.",
    ),
    option("--revision", further=True, metavar="REV", help="The hub's branch, tag or commit of the model."),
    option("--device", further=True, metavar="DEVICE", help="cpu, cuda, cuda:1.", show_default="a GPU if there is one"),
    option(
        "--batch-tokens",
        type=click.IntRange(1, 10**9),
        further=True,
        metavar="N",
        help="Tokens in one batch; fewer need less memory.",
        show_default="as fits the device",
    ),
)
"""Which model and how it runs; the command gets ``model``, a :class:`ModelOptions`."""


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """The features that are computed of each text; the names are those of ``Extractor``'s arguments."""

    layers: tuple[str, ...]
    pooling: tuple[str, ...] | None
    long: str
    max_length: int | None
    dtype: str
    subword: str
    special_tokens: bool
    prompt: str | None
    context: str | None


feature_options = bundle(
    "features",
    lambda layers, pooling, **others: FeatureOptions(layers or ("last",), pooling or None, **others),
    ("layers", "pooling", "long", "max_length", "dtype", "subword", "special_tokens", "prompt", "context"),
    listed_option(
        "--layers",
        metavar="SPEC[,SPEC]",
        help="Layers, also joined: last, concat4, sum4, mean-all, -1,-2, all, embeddings, cls, mean=1..6, concat=9+12.",
        show_default="last",
    ),
    listed_option(
        "--pooling",
        choices=tuple(Pooling),
        metavar="KIND[,KIND]",
        help=f"{_poolings(documents=True)}: one vector a text; {_poolings(documents=False)}: one vector for each.",
        show_default="the model's own, else mean",
    ),
    option(
        "--long",
        type=click.Choice(["window", "truncate", "error"]),
        default="window",
        further=True,
        help="Texts longer than the model's positions: overlapping windows, truncated, or failed rows.",
    ),
    option(
        "--max-length",
        type=int,
        metavar="N",
        further=True,
        help="Most tokens of one sequence.",
        show_default="the model's positions",
    ),
    option(
        "--dtype",
        type=click.Choice(["float16", "float32"]),
        default="float16",
        further=True,
        help="Number type of stored token and word matrices; vectors of texts are float32.",
    ),
    option(
        "--subword",
        type=click.Choice(["first", "mean", "last"]),
        default="first",
        further=True,
        help="Which subword's vector a word gets under word pooling, or their mean.",
        show_default="first",
    ),
    option(
        "--special-tokens/--no-special-tokens",
        default=True,
        further=True,
        help="Whether pooling over all tokens, and token features, include [CLS] and [SEP].",
        show_default="they do",
    ),
    option(
        "--prompt",
        metavar="TEXT",
        further=True,
        help="Text put before each document; it counts in document vectors only.",
    ),
    option(
        "--context",
        metavar="left:N",
        further=True,
        help="Read each word after the N words before it, and before nothing: a sequence a word.",
        show_default="the whole text",
    ),
)


READING_OPTIONS = (
    *("format", "encoding", "text_columns", "pair_column", "id_column", "tag_column", "keep", "pairs"),
    *("pretokenized", "document_context"),
)


def _corpus_settings(**values: Any) -> "CorpusSettings":
    from bertfeat.corpus import CorpusSettings  # here, because it imports pyarrow

    return CorpusSettings(**values)


reading_options = bundle(
    "reading",
    _corpus_settings,
    READING_OPTIONS,
    listed_option(
        "--text-column",
        "text_columns",
        metavar="COL[,COL]",
        help="Column of the text, in files with columns; several are joined by a space.",
        show_default="text; of SQuAD question",
    ),
    listed_option("--keep", metavar="COL[,COL]", help="Columns to keep beside the features, or all."),
    option(
        "--format",
        metavar="NAME",
        further=True,
        help=f"{', '.join(FORMATS)}; otherwise by the file's ending and beginning.",
    ),
    option(
        "--encoding",
        metavar="NAME",
        further=True,
        help="Encoding of the files.",
        show_default="UTF-8, or UTF-16 by its byte order mark",
    ),
    option(
        "--id-column",
        metavar="COL",
        further=True,
        help="Column of the documents' ids.",
        show_default="id or _id, else the record's number",
    ),
    option(
        "--pair-column",
        metavar="COL",
        further=True,
        help="Column of the second text of a pair.",
        show_default="none; of SQuAD context",
    ),
    option("--pairs", is_flag=True, further=True, help="Lines of text are pairs, written: first ||| second."),
    option(
        "--pretokenized",
        is_flag=True,
        further=True,
        help="Texts are split into words already: by white space, or as lists.",
    ),
    option(
        "--tag-column",
        metavar="COL",
        further=True,
        help="Column of the words' tags: lists; in CoNLL the column's number.",
    ),
    option(
        "--document-context",
        is_flag=True,
        further=True,
        help="Compute each CoNLL sentence with its neighbours in the -DOCSTART- document.",
    ),
)
"""How a corpus is read; the command gets ``reading``, a ``CorpusSettings``."""


def refuse_reading_options(reason: str) -> None:
    """Refuse options of :data:`reading_options` on the command line of a command that reads no corpus.

    Raises:
        click.UsageError: names one, and the reason.
    """
    if names := options_on_command_line(among=READING_OPTIONS):
        raise click.UsageError(f"{names[0]} says how a corpus is read, {reason}; leave it out")
