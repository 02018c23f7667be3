"""The files of ``deploy/``: each is read as its program reads it, and the command in it is one that there is."""

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.search import VectorIndex

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``bertfeat serve`` gives to the library in place of a server."""
    given: dict[str, Any] = {}

    class Opened:
        models: tuple[Any, ...] = ()

    def open_service(folders: Any, settings: Any, **_: Any) -> Opened:
        given.update(folders=[*map(str, folders)], settings=settings)
        return Opened()

    monkeypatch.setattr("bertfeat.server.open_service", open_service)
    monkeypatch.setattr("bertfeat.server.run_server", lambda *_, **__: None)
    return given


def serve(words: list[str]) -> None:
    """Run ``bertfeat serve`` with the arguments that a file has, and the configuration beside it."""
    own = [str(DEPLOY / "serve.toml") if word == "/etc/bertfeat/serve.toml" else word for word in words]
    result = CliRunner().invoke(main, ["serve", *own], env={"BERTFEAT_SERVE_API_KEY": "secret"})
    assert result.exit_code == 0, result.output


def test_the_configuration_is_read(served: dict[str, Any]) -> None:
    serve(["--config", "/etc/bertfeat/serve.toml"])
    assert served["folders"] == ["corpus.index", "words.features"]
    assert (served["settings"].host, served["settings"].api_keys) == ("0.0.0.0", ("secret",))


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest) for name, _, rest in (line.strip().partition(" ") for line in lines if line.strip())]


def test_the_image_runs_a_command_that_there_is(served: dict[str, Any]) -> None:
    found = dict(instructions())
    entry, arguments = (yaml.safe_load(found[name]) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["bertfeat", "serve"]
    serve(arguments)
    assert served["settings"].port == int(found["EXPOSE"])
    assert f":{found['EXPOSE']}/ready'" in found["HEALTHCHECK"]
    assert found["USER"] != "root"


def test_the_image_is_built_from_what_is_there() -> None:
    installed = " ".join(rest for name, rest in instructions() if name == "RUN")
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert re.findall(r"torch==[\d.]+", installed) == [line for line in constraints if line.startswith("torch==")]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"'\.\[([\w,]+)\]'", installed)
    assert {"faiss", "serve"} <= set(named.split(",")) <= set(extras)
    copied = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in copied)
    readme = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["readme"]
    assert {"bertfeat", "cli", "setup.py", "pyproject.toml", readme} <= set(copied)


def test_the_composition_names_what_is_there(served: dict[str, Any]) -> None:
    composition = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for each in composition["services"].values():
        place = DEPLOY / each["build"]["context"]
        assert (place / each["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    service = composition["services"]["bertfeat"]
    serve(service["command"])
    (port,) = service["ports"]
    assert int(port.partition(":")[2]) == served["settings"].port
    sources = [volume.partition(":")[0] for volume in service["volumes"]]
    assert (DEPLOY / sources[0]).is_file()
    assert {name for name in sources if not name.startswith(".")} == set(composition["volumes"])


def test_the_unit_runs_a_command_that_there_is(served: dict[str, Any]) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "bertfeat.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, words[0]) == ("bertfeat", "serve")
    serve(words[1:])
    assert int(unit["Service"]["TimeoutStopSec"]) > served["settings"].grace_seconds
    assert unit["Service"]["SuccessExitStatus"] == "143"


def compose_update() -> list[str]:
    """The shell commands of the composition's job that brings a corpus up to date."""
    composition = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    shell, option, line = composition["services"]["update"]["entrypoint"]
    assert (shell, option) == ("sh", "-c")
    return [*line.split(" && ")]


def unit_update() -> list[str]:
    """The commands of the systemd unit that brings a corpus up to date."""
    lines = (DEPLOY / "bertfeat-update.service").read_text().splitlines()
    return [line.partition("=")[2].rpartition("/")[2] for line in lines if line.startswith("ExecStart=")]


def crontab_update() -> list[str]:
    """The commands of the line for a crontab in the documentation."""
    (line,) = re.findall(r"line of a crontab -->\n```console\n\$ (.*)\n", (ROOT / "docs" / "living.md").read_text())
    return [*line.split(" && ")]


@pytest.mark.parametrize("commands", [compose_update, unit_update, crontab_update])
def test_what_runs_every_night_brings_all_up_to_date(
    commands: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = ["A river.", "A mill.", "A bank."]
    Path("corpus.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    run = CliRunner().invoke
    for command in ("extract corpus.jsonl", "index corpus.features"):
        assert run(main, shlex.split(command)).exit_code == 0
    Path("corpus.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in ["A lake.", *texts[1:]]))
    for command in commands():
        program, *words = shlex.split(command)
        assert program == "bertfeat"
        assert run(main, words).exit_code == 0
    index = VectorIndex("corpus.index")
    assert sorted(index.documents.take(np.arange(3))["text"].to_pylist()) == ["A bank.", "A lake.", "A mill."]


@pytest.mark.parametrize("name", ["bertfeat.service", "bertfeat-update.service", "bertfeat-update.timer"])
def test_systemd_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for path in DEPLOY.glob("bertfeat*"):
        unit = path.read_text().replace("/opt/bertfeat/bin/bertfeat", "/bin/true")
        (tmp_path / path.name).write_text(unit)
    done = subprocess.run(["systemd-analyze", "verify", tmp_path / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
