"""The notebooks of examples/ are run, cell by cell, and show what they were saved with: as many lines, and as much."""

import ast
import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
SHORTENED = {"seeds=(1, 2)": "seeds=(1,)", "epochs=8": "epochs=2", "range(25)": "range(2)"}
"""What the test replaces: as many lines and pictures come of fewer trainings."""
PICTURE, TABLE, TEXT = "image/png", "text/html", "text/plain"


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, list[str]]:
    """Run a cell as Jupyter does: returns what it prints, and the forms of what it shows, its last line among it."""
    parsed = ast.parse(source)
    last = parsed.body.pop() if not source.endswith(";") and isinstance(parsed.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(parsed, "<cell>", "exec"), names)
        value = (
            eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None
        )
    shown = [PICTURE for _ in plt.get_fignums()]
    plt.close("all")
    if value is not None:
        shown.append(_form(value))
    return printed.getvalue(), shown


def _form(value: object) -> str:
    """The richest form that Jupyter shows a value in; it is made, so that it can fail."""
    if isinstance(value, Figure):
        value.canvas.draw()
        return PICTURE
    as_html = getattr(value, "_repr_html_", None)
    if as_html is not None:
        assert as_html().startswith("<")
        return TABLE
    assert repr(value)
    return TEXT


def saved(cell: dict[str, Any]) -> tuple[int, list[str]]:
    """The lines that a cell printed when the notebook was saved, and the forms of what it showed."""
    printed = "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")
    shown = [output["data"] for output in cell["outputs"] if "data" in output]
    return len(printed.splitlines()), [next(form for form in (PICTURE, TABLE, TEXT) if form in each) for each in shown]


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_was_saved_with(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(ROOT / "examples", tmp_path / "examples") / "notebooks"
    shutil.rmtree(folder / "build", ignore_errors=True)
    monkeypatch.chdir(folder)
    plt.close("all")  # figures that other tests left open
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in code_cells(path):
        source = "".join(cell["source"])
        for long, short in SHORTENED.items():
            source = source.replace(long, short)
        printed, shown = run_cell(source, names)
        assert (len(printed.splitlines()), shown) == saved(cell), (source, printed)


def test_there_are_three() -> None:
    sources = "".join("".join(cell["source"]) for path in NOTEBOOKS for cell in code_cells(path))
    assert [long for long in SHORTENED if long not in sources] == []
    assert [path.stem for path in NOTEBOOKS] == ["sparse_autoencoder", "table7", "word_through_time"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_their_links_lead_to_pages(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []
