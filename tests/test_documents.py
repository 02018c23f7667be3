"""The documentation is run: every block of code in README.md and docs/, in a copy of examples/, page by page.

``console`` blocks: a line ``$ command`` has to end with exit code 0, or that of ``# exit N`` behind it, and print the
lines below it. ``python`` blocks of a page share their names. In front of a block, HTML comments may say
``<!-- first: COMMAND -->``, which is run before it, or ``<!-- not run: REASON -->``. After a line ``<!-- anew -->`` the
page goes on in another copy of examples/, as a test of its own; after ``<!-- anew, slow -->`` as one of ``make slow``.
"""

import ast
import glob
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from tests.support.korean_models import write_stand_ins

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")])
TOUR = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"((?:^<!-- (?:first|not run): [^\n]+ -->\n)*)^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {"console", "python", "sql"}
ELSEWHERE = {"ecosystem.md": "run by tests/ecosystem/test_docs.py"}
FIRST_READ = {"README.md", "tour.md", "linguists.md"}  # what make test runs; make slow runs all pages


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block of code, what is run before it, and why it is not run, if it is not."""

    language: str
    source: str
    first: tuple[str, ...]
    reason: str

    def commands(self) -> list[tuple[str, int, list[str]]]:
        """What comes first, and each command of a console block; its exit code, and the lines that it has to print."""
        commands: list[tuple[str, int, list[str]]] = [(command, 0, []) for command in self.first]
        for line in self.source.splitlines() if self.language == "console" else ():
            if line.startswith("$ "):
                command, _, code = line[2:].partition("   # exit ")
                commands.append((command, int(code or 0), []))
            elif line.strip("… "):
                commands[-1][2].append(line)
        return commands


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[CodeBlock]:
    return [block for part, _ in parts(path) for block in part]


def parts(path: Path) -> list[tuple[list[CodeBlock], bool]]:
    """The blocks of a page by the tests that run them, and whether a test is slow."""
    first, *more = re.split(r"<!-- anew(, slow)? -->\n", path.read_text("utf-8"))
    texts = [(first, None), *zip(more[1::2], more[::2], strict=True)]
    return [(_blocks(text), path.name not in FIRST_READ or slow is not None) for text, slow in texts]


def _blocks(text: str) -> list[CodeBlock]:
    return [
        CodeBlock(
            language,
            source,
            tuple(re.findall(r"<!-- first: (.+) -->", notes)),
            "".join(re.findall(r"<!-- not run: (.+) -->", notes)),
        )
        for notes, language, source in BLOCK.findall(text)
    ]


def plain(text: str) -> str:
    """Numbers differ with hardware and the day, and so does how much of a line there is room for."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "#", text))


def run_command(command: str) -> tuple[int, str]:
    """Run a command as the shell would: ``bertfeat`` in this process, which has loaded torch, all else in bash."""
    if not command.startswith("bertfeat "):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr
    typed = shlex.split(command, comments=True)
    quoted = {word for word in typed if f'"{word}"' in command or f"'{word}'" in command}
    words = [each for word in typed for each in ([] if word in quoted else sorted(glob.glob(word))) or [word]]
    words, into = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
    result = CliRunner().invoke(main, words[1:], env={"COLUMNS": "100"})
    if into:
        Path(into).write_text(result.stdout, "utf-8")
    return result.exit_code, result.output


def run_block(block: CodeBlock, names: dict[str, Any]) -> None:
    for command, code, lines in block.commands():
        exit_code, output = run_command(command)
        assert exit_code == code, (command, output)
        for line in lines:
            assert plain(line.partition("…")[0]).strip() in plain(output), (command, line, output)
    if block.language == "python":
        exec(compile(block.source, "<block>", "exec"), names)
    if block.language == "sql":
        names["rows"] = duckdb.execute(block.source).fetchall()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of examples/, where a page is run."""
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture(autouse=True)
def korean_models(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models that docs/ko names are found in the cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_ins(tmp_path_factory.mktemp("hub"))


def with_code() -> Iterator[Any]:
    for path in PAGES:
        for number, (part, slow) in enumerate(parts(path), 1):
            run = [block for block in part if not block.reason]
            if run and path.name not in ELSEWHERE:
                name = f"{name_of(path)}, {number}" if len(parts(path)) > 1 else name_of(path)
                yield pytest.param(path, run, marks=[pytest.mark.slow] * slow, id=name)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("path", "run"), [*with_code()])
def test_page_runs(path: Path, run: list[CodeBlock], folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in run:
        run_block(block, names)
    for name in {"vectors", "matrix", "weighted"} & set(names):
        assert names[name].dtype in (np.float16, np.float32)
        assert names[name].ndim == 2
    if path.name == "storage-format.md":
        assert names["rows"][0][0] == "1"  # the document nearest to "1" is itself
    if path == TOUR and "features" in names:
        assert names["vectors"].shape == (2, 1536)
        assert names["features"].matrix("sum4_mean").shape == (303, 384)
        assert names["matrix"].shape == (16, 1536)
        assert np.array_equal(names["matrix"].astype("f4"), names["features"][3].matrix("concat4_word"))


def test_each_of_fourteen_tasks_takes_one_command(folder: Path) -> None:
    page = (ROOT / "docs" / "linguists.md").read_text("utf-8")
    commands = re.findall(r"^\| [^|`]+ \| `(bertfeat [^`]+)`", page, re.MULTILINE)
    assert len(commands) == 14
    for command in commands:
        exit_code, output = run_command(command)
        assert (exit_code, "error" in output, len(output) > 50) == (0, False, True), (command, output)
    assert (folder / "plane.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("path", "block"),
    [pytest.param(path, block, id=name_of(path)) for path in PAGES for block in blocks(path) if block.reason],
)
def test_block_is_not_run(path: Path, block: CodeBlock) -> None:
    pytest.skip(f"{name_of(path)}: {block.reason}")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_code_is_fenced_and_says_its_language(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.name in ELSEWHERE:
        assert f"<!-- {ELSEWHERE[path.name]} -->" in text
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(blocks(path))
    assert {block.language for block in blocks(path)} <= LANGUAGES
    assert re.findall(r"^ {4}(?:bertfeat |from |import |\$ ).*", re.sub(BLOCK, "", text), re.MULTILINE) == []


def test_messages_of_the_troubleshooting_page_are_those_of_the_sources() -> None:
    rows = (ROOT / "docs/troubleshooting.md").read_text("utf-8").splitlines()
    quoted = [each for row in rows if row.startswith("| `") for each in re.findall(r"`([^`]+)`", row.split("|")[1])]
    messages = [each.strip("… ") for each in quoted if not each.startswith("bertfeat ")]
    assert len(messages) > 8
    sources = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "bertfeat").rglob("*.py")]
    said = [node.value for tree in sources for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = "\n".join(each for each in said if isinstance(each, str))
    assert [message for message in messages if message not in texts] == []


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_a_korean_example_is_warned_about() -> None:
    commands = [command for block in blocks(TOUR) for command in block.commands()]
    (printed,) = [lines for command, _, lines in commands if command == "bertfeat extract korean.txt"]
    assert "unknown to the model" in printed[0]
