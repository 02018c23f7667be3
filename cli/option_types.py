"""Types of options' values: lists separated by commas, and sizes in bytes."""

import re
from decimal import Decimal
from typing import Any

import click

from .app import Decorator, option


class CommaList(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Values separated by commas."""

    name = "list"

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split at the commas and check each value against the choices, if there are any."""
        if isinstance(value, tuple | list):  # a default
            return tuple(value)
        items = tuple(item.strip() for item in str(value).split(","))
        for item in items:
            if not item:
                self.fail(f"{value!r} has an empty item", param, ctx)
            if self.choices and item not in self.choices:
                self.fail(f"{item!r} is not one of {', '.join(self.choices)}", param, ctx)
        return items


class ByteSize(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A number of bytes, such as ``4G``, ``500MB`` or ``1.5GiB``; below ``least`` it is refused: a unit is missing."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and its unit."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", str(value).strip().lower(), re.ASCII)
        if not match or (match[3] and not match[2]):
            self.fail(f"{value!r} is not a size; write 4G, 500M or 1.5GiB", param, ctx)
        power = "kmgt".index(match[2]) + 1 if match[2] else 0
        size = int(Decimal(match[1]) * (1024 if match[3] else 1000) ** power)
        if not self.least <= size < 2**62:
            self.fail(f"{value!r} is not a possible size of memory; write 4G or 500M, with a unit", param, ctx)
        return size


def listed_option(*declarations: str, choices: tuple[str, ...] = (), **settings: Any) -> Decorator:
    """Declare an option that takes values separated by commas, or repeated; they arrive as one flat tuple."""

    def flatten(
        _context: click.Context, _option: click.Parameter, lists: tuple[tuple[str, ...], ...]
    ) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for items in lists for item in items))

    return option(*declarations, type=CommaList(choices), multiple=True, callback=flatten, **settings)
