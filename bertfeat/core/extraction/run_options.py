"""The options of an extraction: the size of parts, and what to do with earlier parts and with rows that fail."""

from dataclasses import dataclass
from typing import Annotated

from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option, check_bounds

PART_ROWS = 16_384  # most rows of a part, unless a run or its folder says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionOptions:
    """Options of an extraction; ``part_rows``, ``keep_text``, ``width`` and ``basis`` decide what is written."""

    overwrite: Annotated[
        bool,
        Option("Start anew in a folder with parts of another run.", default="go on from there"),
    ] = False
    update: Annotated[
        bool,
        Option(
            "Make the set what the corpus is now: copy the features of texts that it has, compute the others.",
            default="refuse if rows were edited, moved or removed",
            basic=True,
        ),
    ] = False
    reuse: Annotated[
        tuple[str, ...],
        Option(
            "Copy the features of texts that this feature set holds, of the same settings, instead of computing them.",
            default="with --update those of the folder",
            metavar="FEATURES",
            repeated=True,
        ),
    ] = ()
    part_rows: Annotated[
        int | None,
        Option(
            "Most rows of a part, which also ends at 256 MiB of features or 16 Mi characters.",
            default=f"{PART_ROWS:,}, or as in the folder",
            least=1,
        ),
    ] = None
    max_failures: Annotated[int | None, Option("Stop when more than N rows have failed; 0: at the first.", least=0)] = (
        None
    )
    keep_text: Annotated[
        bool, Option("Whether texts, tokens and words are stored beside the features.", default="they are")
    ] = True

    width: Annotated[
        int | None,
        Option(
            "Store vectors of tokens and words by their N principal components, learned from a sample of the corpus.",
            default="all values",
            least=1,
        ),
    ] = None
    basis: Annotated[
        str | None,
        Option(
            "Store them by the components of another feature set: for joined runs, or a head's other sets.",
            metavar="FEATURES",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.overwrite and self.update:
            raise UsageError(
                f"{parameter('overwrite', True)} starts anew, so {parameter('update', True)} has nothing to copy",
                remedy="give one of them",
            )
