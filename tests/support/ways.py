"""The ways to work through a plan, over corpora of every kind, for the tests of ``bertfeat.scale``.

A run is a call of the command with arguments. :func:`local_workers` lets ``--workers`` fork its processes instead of
starting Python anew, which takes seconds each; :func:`start_run` starts a run in a process of its own.
"""

import gzip
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.extraction import ExtractionJob
from bertfeat.scale import processes
from tests.support.runs import contents, jsonl_file, lines, text_file
from tests.support.steps import Running, preload, start
from tests.support.tiny_models import Tiny

ROWS = 7  # of a part
_USED = (
    *("bertfeat.core.extraction", "bertfeat.scale", "bertfeat.core.features", "bertfeat.core.environment", "pandas"),
    *("bertfeat.cli.extract", "bertfeat.core.encoder.packed", "bertfeat.core.corpus.jsonl", "tests.support.ways"),
)


def options(bert: Tiny) -> list[str]:
    """What every run is told, so that all write the same."""
    return [
        *("--model", str(bert.folder), "--precision", "fp32", "--device", "cpu", "--layers", "last,-2"),
        *("--part-rows", str(ROWS), "--allow-failures"),
    ]


def extract(*arguments: str | Path, **settings: Any) -> Result:
    """Run the command in this process, and expect it to succeed."""
    result = CliRunner().invoke(main, ["extract", *map(str, arguments)], **settings)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def fails(*arguments: str | Path) -> tuple[int, str]:
    """Run the command in this process, and give its exit code and its message."""
    result = CliRunner().invoke(main, ["extract", *map(str, arguments)])
    assert result.exit_code != 0, result.stdout
    assert "Traceback" not in result.stderr, result.stderr
    return result.exit_code, result.stderr


def made(folder: Path) -> tuple[dict[str, str], Any]:
    """Give digests of the parts and of the list of failures, and the manifest without its times."""
    manifest = json.loads((folder / ".bertfeat/manifest.json").read_text())
    for name in ("times", "digest"):
        manifest.pop(name, None)
    return contents(folder), manifest


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────


def local_workers(patch: pytest.MonkeyPatch) -> None:
    """Let worker processes be forked, with one thread each."""
    fork = multiprocessing.get_context("fork")
    patch.setattr(processes, "multiprocessing", SimpleNamespace(get_context=lambda _method: fork))
    patch.setattr(ExtractionJob, "threads_in_use", lambda _job: 1)
    patch.setattr(processes, "_SECONDS_TO_END", 0.05)  # forked, they hold all ends of their pipes, and see no end


def forking() -> None:
    """The same, in a process of its own: what :func:`start_run` prepares."""
    local_workers(pytest.MonkeyPatch())


def start_run(
    *arguments: str | Path, folder: Path, prepare: str = "tests.support.ways:forking", **more: Any
) -> Running:
    """Start ``bertfeat extract`` in a process of its own; ``folder`` is the one whose steps count."""
    preload(*_USED)
    return start(["extract", *map(str, arguments)], [folder], prepare=prepare, **more)


def children(pid: int) -> list[int]:
    """The processes that a process has started, those that have ended left out."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:  # that thread has ended
            continue
    return [child for child in found if is_alive(child)]


def is_alive(pid: int) -> bool:
    """Whether a process is there and one of its threads has not ended: as long as it has files open."""
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if task.read_text().rpartition(")")[2].split()[0] not in "XZ":
                return True
    return False


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


# ── corpora ─────────────────────────────────────────────────────────────────────────────────────────────────


def _small_and_large(place: Path) -> list[str]:
    """Text: many files of none to five lines, blank ones among them, and two larger ones."""
    for at in range(30):
        number = {11: 40, 20: 23}.get(at, at * 5 % 6)
        texts = [text if row % 5 else "" for row, text in enumerate(lines(number, at * 31), 1)]
        text_file(place / f"{at:02}.txt", texts)
    return [str(place)]


def _jsonl(place: Path) -> list[str]:
    """JSONL: two files of one corpus with ids, kept columns, and rows that cannot be read."""
    for name, first in (("a", 0), ("b", 500)):
        records: list[Any] = [
            {"text": text, "id": f"{name}{at}", "year": 1900 + at, "lang": "de" if at % 3 else None}
            for at, text in enumerate(lines(40, first))
        ]
        records[9], records[23], records[30] = "no JSON", {"text": 3, "id": "x"}, ""
        jsonl_file(place / f"{name}.jsonl", records)
    return [str(place / "*.jsonl"), "--keep", "all"]


def _gzipped(place: Path) -> list[str]:
    """Text, gzipped: a large file and small ones."""
    for at, number in enumerate((55, 2, 1, 0, 3)):
        (place / f"{at}.txt.gz").write_bytes(gzip.compress("".join(f"{t}\n" for t in lines(number, at * 90)).encode()))
    return [str(place)]


def _parquet(place: Path) -> list[str]:
    """Parquet: row groups that end elsewhere than parts, nulls, and a kept column."""
    for name, number in (("a", 45), ("b", 5)):
        texts = [None if at == 17 else text for at, text in enumerate(lines(number, len(name) * 70))]
        table = pa.table({"text": pa.array(texts, pa.string()), "score": pa.array([at / 3 for at in range(number)])})
        pq.write_table(table, place / f"{name}.parquet", row_group_size=10)
    return [str(place), "--keep", "score"]


def _csv(place: Path) -> list[str]:
    """CSV: values of several lines, and two text columns."""
    rows = [f'{at},"{text}\nin ""two"" lines",more {at}\n' for at, text in enumerate(lines(40))]
    (place / "c.csv").write_text("number,title,body\n" + "".join(rows))
    return [str(place / "c.csv"), "--text-column", "title,body", "--id-column", "number"]


def _pairs(place: Path) -> list[str]:
    """Pairs, of which some are none."""
    texts = [f"{text} ||| {text[::-1]}" if at % 9 else text for at, text in enumerate(lines(40), 1)]
    return [str(text_file(place / "p.txt", texts)), "--pairs"]


def _pretokenized(place: Path) -> list[str]:
    """Words, with a matrix for each document."""
    return [str(text_file(place / "w.txt", lines(30))), "--pretokenized", "--pooling", "word,mean"]


def _conll(place: Path) -> list[str]:
    """CoNLL: sentences with tags, and with the sentences around them as context."""
    for name, first in (("a", 0), ("b", 300)):
        written = []
        for at, text in enumerate(lines(30, first)):
            written += ["-DOCSTART- -X- O O\n\n"] if at % 8 == 0 else []
            written += [f"{word} {'O' if len(word) % 2 else 'B-X'}\n" for word in text.split()] + ["\n"]
        (place / f"{name}.conll").write_text("".join(written))
    return [str(place), "--document-context", "--pooling", "word"]


CORPORA: dict[str, Callable[[Path], list[str]]] = {
    "small and large text": _small_and_large,
    "JSONL": _jsonl,
    "gzip": _gzipped,
    "Parquet": _parquet,
    "CSV": _csv,
    "pairs": _pairs,
    "words": _pretokenized,
    "CoNLL": _conll,
}
"""Each writes a corpus into a folder, and gives the arguments by which the command reads it."""


def joined(arguments: Sequence[str | Path], folder: Path, count: int, *more: str) -> list[Running]:
    """Start runs that join on a folder."""
    return [start_run(*arguments, "-o", folder, "--join", *more, folder=folder) for _ in range(count)]


def end_all(runs: Sequence[Running]) -> Iterator[int]:
    """Wait for runs, and give the exit code of each."""
    for run in runs:
        ended = run.wait()
        if ended.exit_code not in (0, -9):
            sys.stderr.write(ended.stderr)
        yield ended.exit_code
