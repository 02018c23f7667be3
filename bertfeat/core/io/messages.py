"""Names in messages: short, quoted, and always storable as UTF-8."""

from collections.abc import Sequence

from bertfeat.errors import shorten as shorten


def quote_names(names: Sequence[str], limit: int = 30) -> str:
    """Write names for a message: quoted, separated by commas, at most ``limit``, then the number of the others."""
    shown = ", ".join(f"'{shorten(name)}'" for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown or "none"
