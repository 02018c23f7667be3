"""Values and names in messages: short, quoted, and always storable as UTF-8."""

from collections.abc import Sequence

_SHOWN = 80  # characters of a value


def shorten(value: object) -> str:
    """Show a value in at most 80 characters that can be stored as UTF-8."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _SHOWN:
        text = text[: _SHOWN - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:_SHOWN]


def quote_names(names: Sequence[str], limit: int = 30) -> str:
    """Write names for a message: quoted, separated by commas, the first ``limit`` of them."""
    shown = ", ".join(f"'{shorten(name)}'" for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown or "none"
