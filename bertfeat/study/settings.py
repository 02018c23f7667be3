"""The settings of a comparison of two feature sets, and of a measurement of change."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from bertfeat.arguments import checked
from bertfeat.core import Pooling
from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option, check_bounds

MOST_COMPARED = 10_000
"""The most usages of a slice that are compared, since all resamples of them are held at once."""


@checked
@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """The settings of a comparison of two feature sets.

    Raises:
        UsageError: a number outside of its bounds.
    """

    pooling: Annotated[
        str | None,
        Option(
            f"{', '.join(Pooling)}; needed only where both have several.",
            metavar="NAME",
            basic=True,
        ),
    ] = None
    layers: Annotated[
        tuple[str, ...],
        Option(
            "Which ones of each, such as 3,last,sum4.",
            default="every single one",
            metavar="SPEC[,SPEC]",
            basic=True,
        ),
    ] = ()
    k: Annotated[int, Option("Nearest neighbors, of which a share is common.", least=1, basic=True)] = 10
    sample: Annotated[  # each pair of them takes 8 bytes in every layer
        int,
        Option(
            "Documents, tokens or words, at random, for RSA and neighbors; CKA takes all.",
            least=3,
            most=4000,
            basic=True,
        ),
    ] = 1000
    seed: Annotated[int, Option("Of the random sample.", least=0, python_only=True)] = 1

    def __post_init__(self) -> None:
        check_bounds(self)


class ChangeMeasure(StrEnum):
    """The measure of a word's change; greater is more change."""

    PRT = "prt"  # prototype distance: inverted cosine similarity; it detects planted changes best
    APD = "apd"  # average pairwise distance
    JSD = "jsd"  # Jensen-Shannon divergence over senses


@checked
@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """The settings of a measurement of change.

    Raises:
        UsageError: a number outside of its bounds, or more senses than the compared usages can show.
    """

    slices: Annotated[
        str | int | None,
        Option(
            "1839-1895,1896-1937 or draft,print; every:10 for decades; or a number of slices with equally many tokens.",
            default="2 of numbers, every value of texts",
            metavar="SPEC",
            basic=True,
        ),
    ] = None
    column: Annotated[
        str | None,
        Option(
            "A stored column of words or tokens, or one derived from it: sum4, -2, last_word.",
            default="concat4, where it can be read, else the only one",
            metavar="NAME",
            aliases=("--layer",),
            basic=True,
        ),
    ] = None
    measure: Annotated[
        ChangeMeasure | str,
        Option(
            "That ranks the words: prototype distance, average pairwise distance, or divergence of senses.",
            basic=True,
        ),
    ] = ChangeMeasure.PRT
    senses: Annotated[int, Option("Of a word, for jsd (scikit-learn).", least=2)] = 4
    least: Annotated[int, Option("Usages that a word must have in every slice.", least=2, basic=True)] = 20
    most: Annotated[
        int,
        Option(
            "Usages compared of every slice, a random sample of equal size.",
            least=2,
            most=MOST_COMPARED,
            basic=True,
        ),
    ] = 100
    usages: Annotated[
        int,
        Option(
            "Usages shown of the first and of the last slice: those that moved most.",
            least=0,
            most=10_000,
            basic=True,
        ),
    ] = 3
    context: Annotated[
        int, Option("Characters kept on each side of a usage.", least=0, most=10_000, python_only=True)
    ] = 300
    seed: Annotated[int, Option("Of samples and intervals.", least=0, python_only=True)] = 1

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.senses > 2 * min(self.least, self.most):
            raise UsageError(
                f"{self.senses} senses cannot be told apart in {2 * min(self.least, self.most)} usages",
                remedy=f"give fewer {parameter('senses')}, or a greater {parameter('least')} and {parameter('most')}",
            )
