"""A map as a page: one HTML file that shows texts, zooms and searches, and asks nothing of any network."""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, Value
from bertfeat.io import output_file
from bertfeat.plots.map_content import OTHER, DocumentMap, NumberScale
from bertfeat.plots.palette import (
    NAMED,
    NAMED_ON_DARK,
    NO_VALUE,
    NO_VALUE_ON_DARK,
    OTHERS,
    OTHERS_ON_DARK,
    SCALE,
    SCALE_ON_DARK,
)
from bertfeat.plots.texts import number_labels, one_line

PAGE = "html"
MOST_TEXT = 1000  # characters of a text that the page carries
_MOST_VALUE = 200  # characters of another value
_DIGITS = 6  # significant ones of a coordinate
_EXACT = 2**53  # up to which JavaScript, whose numbers are floats, holds every integer
_TEMPLATES = Path(__file__).parent / "page"
_SCRIPTS = ("draw.js", "labels.js", "move.js", "panel.js")  # joined into one script in the page
TEXTS = ("text", "pair")
_SCRIPT_SIGNS = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def page_values(features: FeatureSet) -> tuple[str, ...]:
    """The columns that a page shows beside the texts of each document or span: its id, and kept columns."""
    return ("id", *(kept.name for kept in features.kept))


def write_page(content: DocumentMap, path: Path) -> None:
    """Write a map as one HTML file.

    Raises:
        StorageError: the file cannot be written.
    """
    style = _template("map.css")
    script = "".join(_template(name).replace("export function", "function") for name in _SCRIPTS)
    parts = {
        "title": html.escape(one_line(content.title)),
        "note": html.escape(one_line(content.note)),
        "policy": f"default-src 'none'; style-src '{_csp_digest(style)}'; script-src '{_csp_digest(script)}'",
        "style": style,
        "data": json.dumps(page_data(content), ensure_ascii=False, allow_nan=False).translate(_SCRIPT_SIGNS),
        "script": script,
    }
    # in one pass, so that placeholders in the inserted content stay as they are
    page = re.sub(r"\{\{(\w+)\}\}", lambda sign: parts[sign[1]], _template("map.html"))
    with output_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")


def page_data(content: DocumentMap) -> dict[str, object]:
    """The data that the page's script reads: lists of coordinates, groups and fields, with an entry for each point."""
    named = {name: [_page_value(value, name) for value in values] for name, values in content.fields.items()}
    texts = [name for name in TEXTS if name in named]
    return {
        "x": _rounded(content.flat[:, 0]),
        "y": _rounded(content.flat[:, 1]),
        "axes": [one_line(name) for name in content.axis_names],
        "texts": [named.pop(name) for name in texts],
        "labels": [{"name": one_line(each.short_name), "x": each.x, "y": each.y} for each in content.labels],
        "fields": [{"name": one_line(name), "values": values} for name, values in named.items()],
        **_legend_groups(content),
    }


def _legend_groups(content: DocumentMap) -> dict[str, object]:
    """The groups of the legend, which of them each point is in, and the scale of numbers if colors are one."""
    codes, numbers = content.codes(), content.numbers()
    drawn = sorted(set(codes.tolist()), key=lambda code: (code < 0, -code if code < 0 else code))
    places = {code: place for place, code in enumerate(drawn)}
    coloring = content.coloring
    legend: dict[str, object] = {
        "column": None if coloring is None else one_line(coloring.column),
        "groups": [_legend_group(content, code) for code in drawn],
        "of": [places[code] for code in codes.tolist()],
        "scale": None,
    }
    if isinstance(coloring, NumberScale) and numbers is not None:
        span = coloring.high - coloring.low or 1.0
        shares = np.where(np.isfinite(numbers), (numbers - coloring.low) / span, -1.0)
        legend["scale"] = {
            "ends": number_labels((coloring.low, coloring.high)),
            "at": _rounded(shares),
            "light": list(SCALE),
            "dark": list(SCALE_ON_DARK),
        }
    return legend


def _legend_group(content: DocumentMap, code: int) -> dict[str, object]:
    if code >= 0:
        of_scale = isinstance(content.coloring, NumberScale)
        label = "" if content.coloring is None else "a number" if of_scale else content.label(code)
        return {"label": label, "light": NAMED[code], "dark": NAMED_ON_DARK[code], "mark": "dot", "grey": False}
    light, dark = (OTHERS, OTHERS_ON_DARK) if code == OTHER else (NO_VALUE, NO_VALUE_ON_DARK)
    mark = "dot" if code == OTHER else "cross"
    return {"label": content.label(code), "light": light, "dark": dark, "mark": mark, "grey": True}


def _page_value(value: Value, name: str) -> Value:
    """A value as JSON and JavaScript can hold it: long texts cut; numbers not finite or beyond 2**53 as text."""
    if isinstance(value, str):
        most = MOST_TEXT if name in TEXTS else _MOST_VALUE
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(value)
    return value


def _rounded(values: NDArray[np.floating]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _csp_digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
