"""The settings of a probe."""

from dataclasses import dataclass
from typing import Annotated

from bertfeat.arguments import checked
from bertfeat.core import list_poolings
from bertfeat.options import Option, check_bounds


@checked
@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The settings of a probe.

    Raises:
        UsageError: a number that cannot be right.
    """

    pooling: Annotated[
        str | None,
        Option(f"{list_poolings()}; needed only where several are stored.", metavar="NAME", basic=True),
    ] = None
    layers: Annotated[
        tuple[str, ...],
        Option("Which ones, such as 3,last,sum4.", default="all that are stored", metavar="SPEC[,SPEC]", basic=True),
    ] = ()
    folds: Annotated[int, Option("Folds of the cross-validation.", least=2, basic=True)] = 5
    most: Annotated[int, Option("Documents or words to learn from, a random sample.", least=1, python_only=True)] = (
        20_000
    )
    min_members: Annotated[int, Option("Leave out classes in fewer documents.", least=0, basic=True)] = 0
    strength: Annotated[float, Option("Inverse of the L2 penalty: scikit-learn's C.", above=0, python_only=True)] = 1.0
    # scikit-learn takes no larger seed
    seed: Annotated[int, Option("Of the random sample and folds.", least=0, most=2**32 - 1, python_only=True)] = 1

    def __post_init__(self) -> None:
        check_bounds(self)
