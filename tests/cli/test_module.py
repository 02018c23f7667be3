"""The command line as a module: ``python -m bertfeat``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bertfeat import __version__

ROOT = Path(__file__).parents[2]


def run_module(folder: Path, *arguments: str) -> str:
    """What the module prints, run in a folder."""
    command = [sys.executable, "-m", "bertfeat", *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout


def test_it_is_the_program(tmp_path: Path) -> None:
    assert run_module(tmp_path, "--version") == f"bertfeat {__version__}\n"


def test_a_clone_runs_its_own(tmp_path: Path) -> None:
    """Not what is installed, though that is found by the same name."""
    for name in ("bertfeat", "cli"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path in (tmp_path / "cli" / "words.py", tmp_path / "bertfeat" / "__init__.py"):
        path.write_text(
            path.read_text("utf-8").replace("Number of words.", "OWN.").replace(__version__, "9.9.9"), "utf-8"
        )
    assert run_module(tmp_path, "--version") == "bertfeat 9.9.9\n"
    assert "OWN." in run_module(tmp_path, "words", "--help")
    assert os.listdir(tmp_path / "cli")
