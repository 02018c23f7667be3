"""The settings of a search for usages: each field is a keyword in Python and an option in the shell, with its help.

This module is imported for the help of the shell, and so it imports neither torch nor NumPy.
"""

from dataclasses import dataclass
from typing import Annotated

from bertfeat.options import Option
from bertfeat.where import WhereText


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSettings:
    """The usages of a word that are looked for, and what is shown of them: keywords of every search for usages."""

    near: Annotated[str | None, Option("Only usages that have WORD2, or a pattern, near them.", metavar="WORD2")] = None
    left: Annotated[
        int | None, Option("Of --near: words before the usage.", default="5, or all of the span of --spans", least=0)
    ] = None
    right: Annotated[
        int | None, Option("Of --near: words after the usage.", default="5, or all of the span of --spans", least=0)
    ] = None
    k: Annotated[
        int | None,
        Option(
            "Number of usages; 0 only counts.",
            default="10, or 5 for each sense or slice",
            basic=True,
            least=0,
            most=10_000,
        ),
    ] = None
    column: Annotated[
        str | None,
        Option(
            "A stored column, or one derived from it: sum4, -2, last_word.",
            default="last, where it can be read, else the only one",
            metavar="NAME",
            basic=True,
        ),
    ] = None
    where: WhereText = None
    one_per_document: Annotated[bool, Option("Only the nearest usage, else the first, of each document.")] = False
    spans: Annotated[
        str | None,
        Option(
            "The context is the usage's span: sentences, paragraphs, words:50, column:NAME; --near looks there.",
            metavar="RULE",
        ),
    ] = None
    context: Annotated[int | None, Option("Characters on each side.", default="300, or the whole span", least=0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSettings(UsageSettings):
    """The usages that are listed, and their order: keywords of searches that list them."""

    like: Annotated[
        str | None, Option("Nearest first to what WORD means in this sentence.", metavar="SENTENCE", basic=True)
    ] = None
    page: Annotated[
        int | None, Option("Which page: 2 is the -k usages after the first ones.", default="1", least=1)
    ] = None
    sort: Annotated[
        str | None,
        Option("By the words on the left or right, or by a kept column.", metavar="left|right|COL", basic=True),
    ] = None
    sample: Annotated[int | None, Option("Take N usages at random, always the same ones.", metavar="N", least=1)] = None
