"""Points of settings that fine-tuning tries, as an option has them."""

import click

from ..option_types import CommaList


class GridPoints(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """Points ``batch:rate:epochs`` separated by commas."""

    name = "grid"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, float, int], ...]:
        """Read each point."""
        points = []
        for item in CommaList().convert(value, param, ctx):
            try:
                batch, rate, epochs = item.split(":")
                points.append((int(batch), float(rate), int(epochs)))
            except ValueError:
                self.fail(f"{item!r} is not written as batch:rate:epochs, for example 32:5e-5:3", param, ctx)
        return tuple(points)
