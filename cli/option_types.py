"""Types of values that options take: lists separated by commas, sizes in bytes, finite numbers, paths and addresses."""

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertfeat.errors import did_you_mean

from .app import Decorator, option

if TYPE_CHECKING:
    from bertfeat.io import Location


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
                meant = did_you_mean(item, self.choices)
                self.fail(f"{item!r} is unknown; {meant}known are {', '.join(self.choices)}", param, ctx)
        return items


class ByteSize(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A number of bytes, such as ``4G``, ``500MB`` or ``1.5GiB``; below ``least`` it is refused, for lack of a unit."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and its unit."""
        from decimal import Decimal  # here, because the help needs none

        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", str(value).strip().lower(), re.ASCII)
        if not match or (match[3] and not match[2]):
            self.fail(f"{value!r} is not a size; write 4G, 500M or 1.5GiB", param, ctx)
        power = "kmgt".index(match[2]) + 1 if match[2] else 0
        size = int(Decimal(match[1]) * (1024 if match[3] else 1000) ** power)
        if not self.least <= size < 2**62:
            self.fail(f"{value!r} is not a possible size of memory; write 4G or 500M, with a unit", param, ctx)
        return size


def format_bytes(size: int) -> str:
    """A number of bytes as :class:`ByteSize` reads it: ``4GiB``, ``1000``."""
    power = max(power for power in range(5) if size % 1024**power == 0)
    return f"{size // 1024**power}{' kmgt'[power].strip().upper()}{'iB' if power else ''}"


class FiniteRange(click.FloatRange):
    """A finite number within bounds; click accepts "nan" within any bounds, and "inf" if there is no upper bound."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        number: float = super().convert(value, param, ctx)  # type: ignore[arg-type]
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class LocationType(click.Path):
    """A path, or an address such as ``s3://bucket/corpus.features``."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(  # type: ignore[override]  # click's own says what its path_type makes
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Location":
        """Distinguish an address from a path; read as a path, it would lose one of its slashes."""
        from bertfeat.io import as_location, is_address  # here, because the help needs none

        if is_address(value):
            return as_location(value)
        return Path(os.fsdecode(super().convert(value, param, ctx)))


LOCATION = LocationType()
"""The type of arguments that may be a path or an address."""


class LocalPathType(click.Path):
    """A path on this machine, for output that cannot be written to an address."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(  # type: ignore[override]
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Refuse an address; read as a path, it would be in a folder with the name ``s3:``."""
        from bertfeat.io import is_address

        if is_address(value):
            self.fail(f"{value} is an address, and this is written to a file or folder of this machine", param, ctx)
        return Path(os.fsdecode(super().convert(value, param, ctx)))


LOCAL_PATH = LocalPathType()


def listed_option(*declarations: str, choices: tuple[str, ...] = (), **settings: Any) -> Decorator:
    """Declare an option that takes values separated by commas, or repeated; they arrive as one flat tuple."""

    def flatten(
        _context: click.Context, _option: click.Parameter, lists: tuple[tuple[str, ...], ...]
    ) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for items in lists for item in items))

    return option(*declarations, type=CommaList(choices), multiple=True, callback=flatten, **settings)
