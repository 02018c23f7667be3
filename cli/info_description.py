"""A description, as ``bertfeat info`` prints it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """The output of ``bertfeat info``: ``value`` as JSON, ``rows`` as a table."""

    value: dict[str, object]
    rows: Sequence[tuple[str, object]]
