"""The settings by which documents are joined into contexts."""

from dataclasses import dataclass
from typing import Annotated

from bertfeat.arguments import checked
from bertfeat.options import Option, check_bounds


@checked
@dataclass(frozen=True, slots=True)
class ContextSettings:
    """The length of contexts, and what they begin with.

    Raises:
        UsageError: a size below 2 or above 1,048,576.
    """

    size: Annotated[
        int | None,
        Option(
            "Tokens of a row.",
            default="as many as the model reads at once",
            least=2,
            most=2**20,
            basic=True,
        ),
    ] = None
    bos: Annotated[
        bool,
        Option("Whether each row begins with what the model sets before a text, as [CLS] is.", default="it does"),
    ] = True

    def __post_init__(self) -> None:
        check_bounds(self)
