"""docs/ecosystem.md: every block runs, one library each, and the versions are those that are installed here."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "ecosystem.md").read_text("utf-8")
FIRST, *BLOCKS = re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def missing(source: str) -> list[str]:
    """The libraries that a block imports, or its adapter does, and that are not here."""
    modules = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    named = {name.removeprefix("bertfeat.adapters.").split(".")[0] for name in modules}
    return sorted(name for name in named - {"langchain"} if find_spec(name) is None)  # whose package is langchain_core


@pytest.mark.parametrize(("library", "source"), BLOCKS, ids=[library for library, _ in BLOCKS])
def test_blocks(library: str, source: str) -> None:
    if absent := missing(source):
        pytest.skip(f"{', '.join(absent)} not installed; make ecosystem installs it")
    names: dict[str, Any] = {}
    exec(FIRST[1], names)
    exec(source, names)
    for name in ("found", "nodes", "answer", "rows"):  # what a search for "a fish" finds
        if name in names:
            assert "trout" in str(names[name]) or names[name][0][0] == 0
    if library == "SetFit":
        assert names["predicted"].tolist() == [0]
    if library in ("BERTopic", "scikit-learn"):
        first = names["topics"] if library == "BERTopic" else names["search"].predict(names["texts"]).tolist()
        assert first[0] == first[1] != first[2] == first[3]


def test_every_library_has_its_block() -> None:
    table = re.findall(r"^\| ([A-Za-z-]+) \| .*\d", PAGE, re.MULTILINE)
    assert sorted(table) == sorted(library for library, _ in BLOCKS)


def test_versions_are_those_that_are_tested() -> None:
    lines = [*(ROOT / "constraints.txt").read_text().splitlines()]
    lines += (Path(__file__).parent / "requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for library, cell in re.findall(r"^\| ([A-Za-z-]+) \| (.*?\d.*?) \|", PAGE, re.MULTILINE):
        for named in cell.split(", "):
            package, _, version = named.rpartition(" ")
            assert pinned[package or library.lower()] == version
