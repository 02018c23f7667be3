"""Bundles of options that several commands share; each reaches its command as one object."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from .app import option
from .console import Console

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings

Decorator = Callable[[Any], Any]


class CommaList(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Values separated by commas."""

    name = "list"

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split at the commas and check each value against the choices, if there are any."""
        if not isinstance(value, str):
            return tuple(value)
        items = tuple(item.strip() for item in value.split(","))
        for item in items:
            if not item:
                self.fail(f"{value!r} has an empty item", param, ctx)
            if self.choices and item not in self.choices:
                self.fail(f"{item!r} is not one of {', '.join(self.choices)}", param, ctx)
        return items


class ByteSize(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A number of bytes, such as ``4G``, ``500MB`` or ``1.5GiB``; of fewer than ``least`` a unit was forgotten."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and its unit."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", str(value).strip().lower(), re.ASCII)
        if not match or (match[3] and not match[2]):
            self.fail(f"{value!r} is no size; write 4G, 500M or 1.5GiB", param, ctx)
        power = "kmgt".index(match[2]) + 1 if match[2] else 0
        size = int(Decimal(match[1]) * (1024 if match[3] else 1000) ** power)
        if not self.least <= size < 2**62:
            self.fail(f"{value!r} is no size that memory can have; write 4G or 500M, with a unit", param, ctx)
        return size


def listed_option(*declarations: str, choices: tuple[str, ...] = (), **settings: Any) -> Decorator:
    """Declare an option that takes values separated by commas, or repeated; they arrive as one flat tuple."""

    def flat(_context: click.Context, _option: click.Parameter, lists: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for items in lists for item in items))

    return option(*declarations, type=CommaList(choices), multiple=True, callback=flat, **settings)


def bundle(argument: str, make: Callable[..., Any], names: Sequence[str], *options: Decorator) -> Decorator:
    """Make a decorator that adds ``options`` and hands the command ``argument=make(**those options' values)``."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            chosen = {name: values.pop(name) for name in names}
            return function(**values, **{argument: make(**chosen)})

        decorated: Any = command
        for add in reversed(options):  # click lists the option that was added last first
            decorated = add(decorated)
        return decorated

    return decorate


output_options = bundle(
    "console",
    Console,
    ("as_json", "quiet"),
    option("--json", "as_json", is_flag=True, help="Print the result as JSON, one object a line."),
    option("--quiet", is_flag=True, further=True, help="No progress and no notes on stderr; warnings and errors stay."),
)
"""``--json`` and ``--quiet``, which every command has; it gets ``console``."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model, where it runs and how exactly; the names are those of ``Extractor``'s arguments."""

    model: str | None
    revision: str | None
    precision: str
    device: str | None
    batch_tokens: int | None


model_options = bundle(
    "model",
    ModelOptions,
    ("model", "revision", "precision", "device", "batch_tokens"),
    option("--model", metavar="NAME|DIR", help="A hub id or a folder.", show_default="all-MiniLM-L6-v2"),
    option(
        "--precision",
        type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
        default="auto",
        help="auto: bf16 where the hardware multiplies it natively, else fp32.",
    ),
    option("--revision", further=True, metavar="REV", help="The hub's branch, tag or commit of the model."),
    option("--device", further=True, metavar="DEVICE", help="cpu, cuda, cuda:1.", show_default="a GPU if there is one"),
    option(
        "--batch-tokens",
        type=click.IntRange(1, 10**9),
        further=True,
        metavar="N",
        help="Tokens in one batch; fewer need less memory.",
        show_default="as suits the device",
    ),
)
"""Which model and how it runs; the command gets ``model``, a :class:`ModelOptions`."""


def _corpus_settings(**chosen: Any) -> "CorpusSettings":
    from bertfeat.corpus import CorpusSettings  # here, because it imports pyarrow

    return CorpusSettings(**chosen)


reading_options = bundle(
    "reading",
    _corpus_settings,
    (
        "format",
        "encoding",
        "text_columns",
        "pair_column",
        "id_column",
        "tag_column",
        "keep",
        "pairs",
        "pretokenized",
        "document_context",
    ),
    listed_option(
        "--text-column",
        "text_columns",
        metavar="COL[,COL]",
        help="Where the text is, in files with columns; several are joined by a space.",
        show_default="text",
    ),
    listed_option("--keep", metavar="COL[,COL]", help="Columns to keep beside the features, or all."),
    option(
        "--format",
        metavar="NAME",
        further=True,
        help="text, jsonl, csv, tsv, parquet, conll or conllu; else by ending.",
    ),
    option(
        "--encoding",
        metavar="NAME",
        further=True,
        help="Of the file.",
        show_default="UTF-8, or UTF-16 by its byte order mark",
    ),
    option(
        "--id-column",
        metavar="COL",
        further=True,
        help="Where each document's id is.",
        show_default="id or _id, else the record's number",
    ),
    option("--pair-column", metavar="COL", further=True, help="Where the second text of a pair is."),
    option("--pairs", is_flag=True, further=True, help="Lines of text are pairs, written: first ||| second."),
    option("--pretokenized", is_flag=True, further=True, help="The words are given: by white space, or as lists."),
    option("--tag-column", metavar="COL", further=True, help="One tag a word: a column of lists; in CoNLL a number."),
    option(
        "--document-context",
        is_flag=True,
        further=True,
        help="Let each CoNLL sentence see its neighbours in the -DOCSTART- document.",
    ),
)
"""How a corpus is read; the command gets ``reading``, a ``CorpusSettings``."""
