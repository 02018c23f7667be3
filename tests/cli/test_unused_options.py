"""An option that would do nothing is refused: for each use of a command, every option that the use does not read."""

from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.io import ResultKind, claim_folder
from tests.support.commands import find_command

READING = {"text_columns", "keep", "format", "encoding", "pretokenized"}
BUILD = {"type", "metric", "memory", "target_recall", "query_prompt", "evaluate", "keep_text", "device", "column"}
BUILD |= {"with_tokens", "pool_tokens", "overwrite"}
SCANNED = {"column", "senses", "by", "slices", "plot", "sort", "sample", "near"}
SAMPLE = {"sample", "corpus", "model", "device"}
LAYERS = {"layers", "pooling", "transforms", "plot"}
RERANK = {"rerank_column", "rerank_depth", "rerank_idf"}
CORPUS = {*READING, "id_column", "pair_column", "pairs", "document_context"} - {"keep"}

# a use of a command → the options that it does not read, as they reach the command
USES: dict[str, set[str]] = {
    "bench": {"text_columns", "format", "encoding"},
    "change some.features --by year --json": {"width"},
    "export some.features --to npy": {"url", "collection", "update", "evaluate"},
    "export some.features --to lance": {"url", "collection"},
    "export some.features --to qdrant --url http://localhost": {"output"},
    "index x.features -o i --update": {*BUILD},
    "index -o i --update": {*BUILD},
    "index -o i --remove ids.txt": {*BUILD},
    "index some.features": {"pool_tokens"},
    "info": {*READING, "revision"},
    "info ids.txt": {"revision"},
    "info some.features": {*READING, "revision"},
    "info some.index": {*READING, "revision"},
    "info some.table7": {*READING, "revision"},
    "info some.head": {*READING, "revision"},
    "info no/model": READING,
    "search some.index query": {"queries", "vectors", *RERANK},
    "search some.index query --json": {"queries", "vectors", "width", *RERANK},
    "search some.index --queries ids.txt": {"vectors", *RERANK},
    "search some.index --vectors vectors.npy": {"queries", "model", "device", "rerank", *RERANK},
    "evaluate some.index --beir some.beir": {*RERANK, *LAYERS},
    "evaluate some.features --beir some.beir": {"exact", "run", "rerank", *RERANK},
    "evaluate ids.txt --beir some.beir": {"exact", "run", "rerank", "model", "device", *RERANK, *LAYERS},
    "usages some.features word": {"model", "device", "slices", "plot", "left", "right"},
    "usages some.features word --like a --csv": {"width", "senses", "as_json", "slices", "plot", "sort"},
    "usages some.features word --like a --json": {"width", "senses", "as_csv", "slices", "plot", "sort"},
    "usages some.features word --senses 2": {"like", "model", "device", "slices", "plot", "page", "sort", "sample"},
    "usages some.features word --by a": {"model", "device", "left", "right"},
    "usages some.index * --like *a*": {*SCANNED},
    "verify some.features": CORPUS,
    "verify some.features --sample 0": {*CORPUS, *SAMPLE} - {"sample"},
    "verify some.index": {*CORPUS, *SAMPLE},
    "verify some.table7": {*CORPUS, *SAMPLE},
    "verify some.head": {*CORPUS, *SAMPLE},
    "info some.model": {*READING, "revision"},
    "verify some.model": {*CORPUS, *SAMPLE},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a folder of each kind of result, as far as a command looks before it refuses options."""
    monkeypatch.chdir(tmp_path)
    for kind in ResultKind:
        claim_folder(tmp_path / f"some.{kind.value}", kind)
    (tmp_path / "ids.txt").write_text("1\n")
    np.save(tmp_path / "vectors.npy", np.zeros((1, 2), np.float32))
    return tmp_path


def run(use: str, *arguments: str) -> Result:
    command, *rest = use.split()
    return CliRunner().invoke(main, [command, *rest, *arguments])


def typed(option: click.Option) -> list[str]:
    """The option with a value that its type takes."""
    name = max(option.secondary_opts or option.opts, key=len)
    if option.is_flag:
        return [name]
    if isinstance(option.type, click.Choice):
        return [name, str(list(option.type.choices)[-1])]
    if isinstance(option.type, click.File | click.Path):
        return [name, "vectors.npy"]
    return [name, {"memory": "4G", "target_recall": "0.9"}.get(str(option.name), "2")]


def options_of(use: str) -> list[click.Option]:
    return [option for option in find_command((use.split()[0],)).params if isinstance(option, click.Option)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("use", "option"),
    [
        pytest.param(use, option, id=f"{use} {max(option.opts, key=len)}")
        for use, unread in USES.items()
        for option in options_of(use)
        if option.name in unread
    ],
)
def test_an_option_that_would_do_nothing_is_refused(use: str, option: click.Option) -> None:
    result = run(use, *typed(option))
    assert result.exit_code == 2, result.output
    assert typed(option)[0] in result.stderr


@pytest.mark.parametrize("use", USES)
def test_the_uses_name_options_that_there_are(use: str) -> None:
    assert USES[use] <= {option.name for option in options_of(use)}
