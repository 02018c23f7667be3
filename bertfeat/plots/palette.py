"""Colors for white and for dark backgrounds, distinguishable with and without color blindness.

The ten in NAMED were found by search, from hues that have names, as by Petroff (2021, arXiv:2107.02270): as far
apart as can be, in CAM02-UCS and in OKLab, under normal sight and under simulated deuteranopia, protanopia and
tritanopia (Machado, Oliveira and Fernandes 2009), but none so light that it vanishes on white. Their smallest distance
in CAM02-UCS is 15.5 and their smallest contrast 2.4 to 1; of Petroff's own ten, 14.5 and 1.6 to 1.
``tests/plots/test_palette.py`` holds them to that.
"""

NAMED = (
    "#3910bb",  # indigo
    "#f08521",  # orange
    "#56aeee",  # sky blue
    "#830e0c",  # dark red
    "#a37897",  # mauve
    "#573758",  # plum
    "#cf3a11",  # vermilion
    "#7a72f1",  # violet
    "#037364",  # teal
    "#8aa882",  # sage
)
"""Colors for names, on white; the first ones lie farthest apart."""

NAMED_ON_DARK = (
    "#0355fa",  # blue
    "#f0b929",  # amber
    "#95a4bc",  # grey blue
    "#ec7177",  # salmon
    "#cd7efe",  # orchid
    "#8b6797",  # plum
    "#df081f",  # red
    "#dec6ff",  # lilac
    "#8bffe3",  # aqua
    "#d9ff8d",  # lime
)
"""The same, one for one, on :data:`DARK_PAPER`."""

SCALE = ("#440154", "#482374", "#424086", "#375b8d", "#2c728e", "#23898e", "#1fa088", "#32b67a", "#5ec962")
"""Colors for numbers, low to high, on white: viridis from 0 to 0.75, without its light end."""

SCALE_ON_DARK = ("#3b528b", "#2f6b8e", "#26828e", "#1f988b", "#28ae80", "#4ec36b", "#84d44b", "#c2df23", "#fde725")
"""The same on :data:`DARK_PAPER`: viridis from 0.25 to 1, without its dark end."""

OTHERS = "#b9b9b9"  # values that have no color of their own
NO_VALUE = "#6e6e6e"  # for points, always with a cross in place of a dot
OTHERS_ON_DARK = "#5f636b"
NO_VALUE_ON_DARK = "#b4b4b4"
DARK_PAPER = "#16181d"

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
"""A shape for each of :data:`NAMED`, where lines cross."""
