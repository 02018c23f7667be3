"""The palettes: they hold on their paper, and for the color-blind, by published formulas."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.plots import palette

WHITE = "#ffffff"
OKABE_ITO = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#000000")
PETROFF = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)

# Machado, Oliveira and Fernandes 2009, table 1, severity 1.0, for linear RGB
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(color: str) -> NDArray[np.float64]:
    """IEC 61966-2-1: sRGB as linear light."""
    part = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def luminance(color: str) -> float:
    return float(linear(color) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def oklab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ottosson 2020: a space in which equal steps look equally large."""
    to_cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_cones += [[0.0883024619, 0.2817188376, 0.6299787005]]
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab += [[0.0259040371, 0.7827717662, -0.8086757660]]
    return np.array(to_lab) @ np.cbrt(np.array(to_cones) @ light)


def smallest_distance(colors: tuple[str, ...], sight: str) -> float:
    seen = [oklab(np.clip(SIGHT[sight] @ linear(color), 0, 1)) for color in colors]
    return min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2))


@pytest.mark.parametrize("sight", list(SIGHT))
@pytest.mark.parametrize("colors", [palette.NAMED, palette.NAMED_ON_DARK], ids=["light", "dark"])
def test_ten_names_are_told_apart_better_than_in_the_published_palettes(colors: tuple[str, ...], sight: str) -> None:
    assert len(set(colors)) == 10
    published = min(smallest_distance(PETROFF, sight), smallest_distance(OKABE_ITO, sight))
    assert smallest_distance(colors, sight) > max(0.085, published)


def test_no_name_vanishes() -> None:
    assert min(contrast(color, WHITE) for color in palette.NAMED) > 2.4
    assert min(contrast(color, WHITE) for color in PETROFF) < 1.6
    assert min(contrast(color, palette.DARK_PAPER) for color in palette.NAMED_ON_DARK) > 3


@pytest.mark.parametrize("sight", list(SIGHT))
@pytest.mark.parametrize(
    ("stops", "paper"),
    [(palette.SCALE, WHITE), (palette.SCALE_ON_DARK, palette.DARK_PAPER)],
    ids=["light", "dark"],
)
def test_scales_rise_steadily_and_do_not_vanish(stops: tuple[str, ...], paper: str, sight: str) -> None:
    lightness = [float(oklab(np.clip(SIGHT[sight] @ linear(stop), 0, 1))[0]) for stop in stops]
    steps = np.diff(lightness)
    assert (steps > 0.02).all()
    assert min(contrast(stop, paper) for stop in stops) > 2


def test_scales_are_viridis() -> None:
    colors = pytest.importorskip("matplotlib.colors")
    viridis = pytest.importorskip("matplotlib").colormaps["viridis"]
    assert tuple(colors.to_hex(viridis(at)) for at in np.linspace(0, 0.75, 9)) == palette.SCALE
    assert tuple(colors.to_hex(viridis(at)) for at in np.linspace(0.25, 1, 9)) == palette.SCALE_ON_DARK


def test_greys_are_lighter_than_colors_and_have_no_hue() -> None:
    for grey in (palette.OTHERS, palette.NO_VALUE, palette.OTHERS_ON_DARK, palette.NO_VALUE_ON_DARK):
        assert np.linalg.norm(oklab(linear(grey))[1:]) < 0.02
