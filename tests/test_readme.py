"""The README is run: its commands in a copy of examples/, and what they print is what it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, int, list[str]]]:
    """Each command of the README, its exit code, and the lines that it is said to print."""
    found: list[tuple[str, int, list[str]]] = []
    for line in "".join(fenced("console")).splitlines():
        if line.startswith("$ "):
            command, _, code = line[2:].partition("   # exit ")
            found.append((command, int(code or 0), []))
        elif line.strip("… "):
            found[-1][2].append(line)
    return found


def plain(text: str) -> str:
    """Numbers differ with hardware and the day, and so does how much of a line there is room for."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "#", text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of examples/ in which the README's commands have been run."""
    folder = tmp_path_factory.mktemp("readme") / "examples"
    shutil.copytree(ROOT / "examples", folder)
    binaries = Path(sys.executable).parent
    for command, code, lines in commands():
        done = subprocess.run(
            ["bash", "-c", f'export PATH="{binaries}:$PATH" COLUMNS=100; {command}'],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        said = plain(done.stdout + done.stderr)
        assert done.returncode == code, (command, done.stderr)
        for line in lines:
            assert plain(line.partition("…")[0]).strip() in said, (command, line, said)
    return folder


def test_commands_print_what_the_readme_says(folder: Path) -> None:
    assert (folder / "corpus.index").is_dir()


def test_a_korean_example_is_warned_about() -> None:
    (said,) = [lines for command, _, lines in commands() if command == "bertfeat extract korean.txt"]
    assert "unknown to the model" in said[0]


def test_python_of_the_readme_runs(folder: Path) -> None:
    source = "\n".join(fenced("python")) + (
        "\nassert vectors.shape == (2, 1536)"
        "\nassert features.matrix('sum4_mean').shape == (303, 384)"
        "\nassert matrix.shape == (16, 1536)"
        "\nassert np.array_equal(matrix.astype('f4'), features[3].matrix('concat4_word'))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=folder, check=True, capture_output=True)
