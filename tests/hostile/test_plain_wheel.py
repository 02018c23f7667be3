"""Every verb runs from a wheel that was installed without extras, or says which extra it needs.

The wheel is built from the tree, and the process that uses it sees of all installed packages only those that it
depends on. One process runs all commands, since to start it takes longer than any of them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bertfeat.cli import main
from tests.hostile.process import ROOT, words
from tests.hostile.verbs import BASES
from tests.hostile.world import HEADS
from tests.hostile.yard import GROUPS, Yard
from tests.support.once import made_once

# Of the base use of a verb the extra that it cannot do without.
NEEDED = {
    "index": "faiss",
    "search": "faiss",
    "evaluate": "evaluate",
    "pretrain": "finetune",
    "pretrain from scratch": "finetune",
    "probe": "analysis",
    "plot layers": "analysis",
    "plot map": "analysis",
    "change": "analysis",
}
TINY = "--model model --device cpu --precision fp32"
# What else needs an extra: the results that it reads, the command, the extra.
BRANCHES = [
    ("docs.jsonl model", f"extract docs.jsonl -o out.features {TINY} --engine ray", "ray"),
    ("docs.jsonl", "extract docs.jsonl -o out.features --precision fp32", "minilm"),
    ("docs.jsonl model", f"extract docs.jsonl -o s3://bucket/out.features {TINY}", "cloud"),
    ("model", f"extract s3://bucket/docs.jsonl -o out.features {TINY}", "cloud"),
    ("", "info s3://bucket/docs.features", "cloud"),
    ("", "usages s3://bucket/docs.features bank", "cloud"),
    ("docs.features", "export docs.features --to lance --column last_mean -o out.lance", "lance"),
    ("docs.features", "export docs.features --to qdrant --column last_mean -o out.qdrant", "qdrant"),
    ("docs.features", "export docs.features --to qdrant --column last_mean --url http://localhost:9", "qdrant"),
    ("flat.index", "verify flat.index", "faiss"),
    ("docs.features", "usages docs.features bank --column last_word --senses 2", "analysis"),
    ("docs.features beir model", "evaluate docs.features --beir beir --model model --pooling mean", "evaluate"),
    ("flat.index", "serve flat.index", "serve"),
    ("docs.features", "compare docs.features docs.features --pooling mean -k 2 --plot out.png", "analysis"),
    ("docs.features", "plot map docs.features --column last_mean -o out.html", ""),
    ("docs.features", "plot map docs.features --column last_mean -o out.html --method umap", "umap"),
    ("docs.features", "plot map docs.features --column last_mean -o out.html --method tsne", "analysis"),
]
BRANCHES += [
    (
        f"train.{ending} dev.{ending} model",
        f"{kind} {verb} --train train.{ending} --dev dev.{ending} {columns} -o out --fine-tune --model model",
        "finetune",
    )
    for kind, (ending, columns) in HEADS.items()
    for verb in ("train", "table7")
]

HIDE = """
import sys
from importlib.machinery import PathFinder

HIDDEN = set({hidden!r})
PLAIN = PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in HIDDEN else PLAIN(name, path, target)


PathFinder.find_spec = find_spec
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in repr(finder)]
"""


def verbs() -> Iterator[str]:
    """The verbs of the shell, as it lists them."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {verb}" for verb in command.list_commands(context))
        else:
            yield name


def plain_packages() -> set[str]:
    """What a plain installation brings, by the requirements that the installed packages state."""
    found: set[str] = set()
    waiting = [("bertfeat", "")]
    while waiting:
        name, extra = waiting.pop()
        found.add(canonicalize_name(name))
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                new = {(wanted.name, each) for each in ("", *wanted.extras)}
                waiting += [pair for pair in new if canonicalize_name(pair[0]) not in found or pair[1]]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the wheel is installed without extras."""
    base = made_once(tmp_path_factory, "wheel", install_wheel)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTFEAT_")}
    path = f"{base / 'site'}:{base / 'target'}"
    return {**kept, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "HF_HOME": str(base / "hf")}


def install_wheel(base: Path) -> None:
    """Build the wheel, and install it into a folder of ``base``, beside one that hides what it does not depend on."""
    source, target, site = base / "source", base / "target", base / "site"
    for name in ("bertfeat", "cli"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(base), str(source)]
    # without a compiler the kernels are left out, which takes a minute less
    subprocess.run(build, check=True, env={**os.environ, "CC": "/bin/false"}, capture_output=True)
    (built,) = base.glob("*.whl")
    install = [*pip, "install", "--no-index", "--no-deps", "--target", str(target), str(built)]
    subprocess.run(install, check=True, capture_output=True)
    plain = plain_packages()
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if not any(canonicalize_name(package) in plain for package in packages)
    ]
    assert {"faiss", "sklearn", "obstore", "pytest"} <= set(hidden)
    site.mkdir()
    (site / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))


RUN = """
import json, os, sys, traceback
from click.testing import CliRunner
from bertfeat.cli import main

for name, (place, arguments) in json.load(sys.stdin).items():
    os.chdir(place)
    done = CliRunner().invoke(main, arguments)
    failed = [] if isinstance(done.exception, SystemExit | None) else traceback.format_exception(done.exception)
    print(json.dumps([name, done.exit_code, done.stderr + "".join(failed)]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(yard: Yard, wheel: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """The exit code and the messages of each command."""
    base = made_once(tmp_path_factory, "plain", lambda base: run_all(yard, wheel, base))
    told = map(json.loads, (base / "told").read_text("utf-8").splitlines())
    return {name: (code, messages) for name, code, messages in told}


def run_all(yard: Yard, wheel: dict[str, str], base: Path) -> None:
    """Run each command in a folder of its own below ``base``, and write there what came of it."""

    def place_with(needs: Iterable[str]) -> str:
        """A folder with these results; the yard has one, which the next use finds anew."""
        return str(shutil.copytree(yard.fresh(needs), base / str(len(os.listdir(base))), symlinks=True))

    base.mkdir()
    commands = {name: (place_with(use.needs), use.command.arguments) for name, use in BASES.items()}
    commands |= {line: (place_with(needs.split()), words(line)) for needs, line, _ in BRANCHES}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=base,
        input=json.dumps(commands),
        env=wheel,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (base / "told").write_text(done.stdout, "utf-8")


def check(code: int, messages: str, extra: str) -> None:
    """Check that a command did its work, or named the one extra that it needs."""
    assert "Traceback" not in messages, messages
    assert "this is a bug" not in messages, messages
    errors = "\n".join(line for line in messages.splitlines() if not line.startswith("warning: no picture"))
    named = re.findall(r"pip install 'bertfeat\[([\w-]+)\]'", errors)
    assert (code, named) == ((1, [extra]) if extra else (0, [])), messages


def test_the_wheel_is_what_runs(wheel: dict[str, str], tmp_path: Path) -> None:
    code = "import bertfeat.cli; from importlib.util import find_spec as find; print(bertfeat.__file__, find('faiss'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=wheel, capture_output=True, text=True)
    target = wheel["PYTHONPATH"].partition(":")[2]
    assert done.stdout.split() == [f"{target}/bertfeat/__init__.py", "None"]


def test_every_verb_has_a_case() -> None:
    cases = {*BASES}
    for _, command, _ in BRANCHES:  # serve, which ends no other way
        first, second = command.split(" ")[:2]
        cases.add(f"{first} {second}" if first in GROUPS else first)
    assert set(verbs()) - cases == set()


@pytest.mark.parametrize("name", BASES)
def test_a_verb_without_extras(outcomes: dict[str, tuple[int, str]], name: str) -> None:
    check(*outcomes[name], NEEDED.get(name, ""))


@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize(
    ("command", "extra"), [pytest.param(command, extra, id=command) for _, command, extra in BRANCHES]
)
def test_a_branch_without_extras(outcomes: dict[str, tuple[int, str]], command: str, extra: str) -> None:
    check(*outcomes[command], extra)
