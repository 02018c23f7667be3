"""Markdown tables without the times in them."""

import re


def timeless_table(text: str) -> str:
    """A Table 7 in Markdown without its column of seconds, and without ratios of them."""
    lines, at = [], None
    for line in text.splitlines():
        cells = line.removesuffix(" |").split(" | ")
        if "seconds" in cells:
            at = cells.index("seconds")
        if at is not None and line.startswith("| ") and len(cells) > at:
            cells[at] = "TIME"
        lines.append(" | ".join(cells))
    return re.sub(r"in [\d,]+ times the seconds", "in TIME times the seconds", "\n".join(lines))
