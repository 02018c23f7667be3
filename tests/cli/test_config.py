"""``--config``: options from a TOML file."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main, serve
from bertfeat.server import ServerSettings

Asked = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the command gives to the library in place of a server."""
    given: Asked = {}

    class Opened:
        models: tuple[Any, ...] = ()

    def open_service(folders: Any, settings: ServerSettings, **more: Any) -> Opened:
        given.update(folders=[*map(str, folders)], settings=settings, **more)
        return Opened()

    monkeypatch.setattr("bertfeat.server.open_service", open_service)
    monkeypatch.setattr("bertfeat.server.run_server", lambda *_, **__: None)
    return given


def run(config: str, *arguments: str, **environment: str) -> Result:
    Path("serve.toml").write_text(config)
    return CliRunner().invoke(main, ["serve", "--config", "serve.toml", *arguments], env=environment)


def test_a_file_has_every_kind_of_option(asked: Asked) -> None:
    result = run(
        """
        folders = ["a.index", "s3://bucket/b.features"]
        host = "0.0.0.0"
        port = 8080
        api-key = "secret"
        served-model-name = ["x", "y"]
        most_body = "1MiB"
        most-texts = 7
        timeout = 2.5
        accept-token-ids = true
        layers = ["last", "-2"]
        pooling = "mean,cls"
        precision = "fp32"
        tagger = "t.tagger"
        """
    )
    assert result.exit_code == 0, result.output
    settings = asked["settings"]
    assert (settings.host, settings.port, settings.api_keys, settings.served_names) == (
        *("0.0.0.0", 8080, ("secret",), ("x", "y")),
    )
    assert (settings.most_body, settings.most_texts, settings.request_seconds) == (2**20, 7, 2.5)
    assert settings.accept_token_ids
    assert asked["folders"] == ["a.index", "s3://bucket/b.features"]
    assert (asked["layers"], asked["pooling"], asked["precision"]) == (("last", "-2"), ("mean", "cls"), "fp32")
    assert asked["tagger"] == Path("t.tagger")


def test_a_byte_order_mark_is_no_part_of_it(asked: Asked) -> None:
    assert run("\ufeffport = 8080\nfolders = 'a.index'\n").exit_code == 0
    assert asked["settings"].port == 8080


def test_the_command_line_and_the_environment_go_before_it(asked: Asked) -> None:
    config = 'folders = ["a.index"]\nport = 1\nmost-texts = 2\nserved-model-name = "x"\n'
    result = run(config, "b.index", "--port", "3", "--served-model-name", "y", BERTFEAT_SERVE_MOST_TEXTS="4")
    assert result.exit_code == 0, result.output
    settings = asked["settings"]
    assert (settings.port, settings.most_texts, settings.served_names, asked["folders"]) == (3, 4, ("y",), ["b.index"])
    Path("other.toml").write_text("port = 5\n")
    result = CliRunner().invoke(main, ["serve"], env={"BERTFEAT_SERVE_CONFIG": "other.toml"})
    assert (result.exit_code, asked["settings"].port) == (0, 5)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("prot = 1", "serve.toml: there is no option 'prot'; did you mean port?"),
        ("config = 'a'", "there is no option 'config'"),
        ("most-values = 3", "there is no option 'most-values'"),
        ("port = 'x'", "serve.toml: port: 'x' is not a valid integer range"),
        ("port = 70000", "serve.toml: port: 70000 is not in the range"),
        ("port = [1, 2]", "serve.toml: port: a value stands here"),
        ("port = true", "serve.toml: port: a value stands here"),
        ("accept-token-ids = 'yes'", "serve.toml: accept-token-ids: true or false stands here"),
        ("served-model-name = [['a']]", "serve.toml: served-model-name: a value, or a list of values stands here"),
        ("precision = 'fp8'", "serve.toml: precision: 'fp8' is not one of"),
        ("most-body = '1 parsec'", "serve.toml: most-body: '1 parsec' is not a size"),
        ("[serve]\nport = 1", "serve.toml: there is no option 'serve'"),
        ("port =", "serve.toml: not TOML"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(asked: Asked, config: str, problem: str) -> None:
    result = run(config)
    assert (result.exit_code, asked) == (2, {})
    assert problem in result.stderr


def test_a_file_that_cannot_be_read(asked: Asked) -> None:
    for path, problem in (("none.toml", "cannot be read: No such file"), (".", "cannot be read: Is a directory")):
        result = CliRunner().invoke(main, ["serve", "--config", path])
        assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr
    Path("bytes.toml").write_bytes(b"port = '\xff'")
    assert "not TOML" in CliRunner().invoke(main, ["serve", "--config", "bytes.toml"]).stderr
    assert not asked


@pytest.mark.parametrize(
    "option",
    [each for each in serve.command.params if isinstance(each, click.Option) and not each.is_eager],
    ids=lambda option: option.opts[-1],
)
def test_every_option_can_stand_in_it(asked: Asked, option: click.Option) -> None:
    usual = "true" if option.is_flag else "'fp32'" if isinstance(option.type, click.Choice) else "2"
    value = {"prefix": "'/2'", "cors_origins": "'*'", "host": "'localhost'"}.get(str(option.name), usual)
    name = max(option.opts, key=len).lstrip("-")
    result = run(f"{name} = {value}")
    assert result.exit_code == 0, result.output
    settings = asked["settings"]
    if hasattr(settings, str(option.name)):
        assert getattr(settings, str(option.name)) != getattr(ServerSettings(), str(option.name))
