"""The option of a condition, which several settings have; it is imported for the help of the shell, without NumPy."""

from typing import Annotated

from bertfeat.options import Option

WhereText = Annotated[
    str | None, Option("On kept columns: \"year > 1900 and lang in ('de', 'en')\".", metavar="CONDITION", basic=True)
]
"""A condition as it is written, or None."""
