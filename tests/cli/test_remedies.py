"""Remedies that name a command which writes: each is listed here, and runs without a loss just as it is printed."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat import Extractor, FeatureSet
from bertfeat.cli import main
from bertfeat.core.features import list_parts
from bertfeat.errors import FeatureSetError
from tests.support.index_toy import files_of
from tests.support.tiny_models import Tiny

ROOT = Path(__file__).parent.parent.parent
WRITING = re.compile(r"bertfeat (?:extract|index|pretrain|\w+ train|\w+ table7) (?:.*-|$)")
LISTED = {
    # what is printed, and where it is run
    "the same command again finishes it: bertfeat extract ": "test_an_unfinished_set",
    "none was kept (bertfeat extract --keep keeps them)": "an option of the command that made the set",
    "--remove takes a feature set only with --update: bertfeat index -o DIR --remove FILE": "names made up",
    "to read it: bertfeat extract ": "contexts/test_contexts.py",
    "name the index with -o: bertfeat index -o corpus.index ": "test_index.py, which makes these",
}


def printed_commands() -> set[str]:
    """Every string of the library and the shell that names a command with a place or options; no docstrings."""
    found = set()
    for path in (path for room in ("bertfeat", "cli") for path in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        documented = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)]
        docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found |= {node.value} if WRITING.search(node.value) and "\n" not in node.value else set()
    return found


def test_every_command_that_is_printed_is_listed() -> None:
    """``search`` and ``verify`` make theirs of an index's record: tests/search/test_replacing.py runs it."""
    assert printed_commands() == set(LISTED)


@pytest.mark.parametrize("settings", [{}, {"layers": "concat4", "pooling": "mean,token"}], ids=["defaults", "others"])
def test_an_unfinished_set(
    settings: dict[str, str], bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is that of the run, whose options are not known; without them it is refused, or finishes the set."""
    corpus, folder = tmp_path / "my corpus.txt", tmp_path / "c.features"
    corpus.write_text("".join(f"The bank of river {number}.\n" for number in range(6)))
    monkeypatch.setenv("BERTFEAT_EXTRACT_MODEL", str(bert.folder))
    Extractor(bert.folder, **settings).extract(corpus, folder, part_rows=2)  # type: ignore[arg-type]
    (folder / ".bertfeat" / "manifest.json").unlink()
    list_parts(folder)[-1].unlink()
    before = files_of(folder)
    with pytest.raises(FeatureSetError) as refused:
        FeatureSet(folder)
    printed = re.search(r"bertfeat (extract .+) …", str(refused.value))
    assert printed is not None
    done = CliRunner().invoke(main, shlex.split(printed[1]))
    after = files_of(folder)
    if settings:
        assert (done.exit_code, {name: after[name] for name in before}) == (1, before), done.output
    else:
        assert (done.exit_code, len(FeatureSet(folder))) == (0, 6), done.output
        assert {name: after[name] for name in before if name.endswith(".parquet")} == {
            name: content for name, content in before.items() if name.endswith(".parquet")
        }
