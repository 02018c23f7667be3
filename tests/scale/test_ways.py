"""Whoever does the work, the feature set is byte for byte the one of a single undisturbed run."""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bertfeat.core.corpus import CorpusFile, memory_corpus
from bertfeat.core.extraction import joining
from bertfeat.core.extraction.agenda import ScanningAgenda
from bertfeat.core.features import list_parts, read_header
from bertfeat.errors import (
    AnotherCorpusError,
    CorpusError,
    ModelError,
    RemovalError,
    RowFailedError,
    SettingsDifferError,
    UsageError,
    WrongColumnsError,
)
from bertfeat.scale import Processes
from tests.support.runs import accounted, contents, everything, extractor, failed_rows, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny
from tests.support.ways import CORPORA, ROWS, end_all, extract, joined, local_workers, made, options

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it is forked

WAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "one process": dict,
    "workers": lambda: {"engine": Processes(2)},
    "join": lambda: {"join": True},
    "workers that join": lambda: {"engine": Processes(2), "join": True},
}
SHARED: list[Callable[[], dict[str, Any]]] = list(WAYS.values())[1:]
all_ways = pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
each_way = pytest.mark.parametrize("way", [pytest.param(WAYS[name], id=name) for name in list(WAYS)[:3]])
shared_ways = pytest.mark.parametrize("way", [pytest.param(WAYS[name], id=name) for name in ("workers", "join")])


@pytest.fixture(autouse=True)
def workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    local_workers(monkeypatch)


def run(bert: Tiny, corpus: Any, folder: Path, **more: Any) -> Any:
    return extractor(bert).extract(corpus, folder, **{"part_rows": ROWS} | more)


def state(folder: Path) -> dict[str, str]:
    """Everything but the manifest; nothing that joined runs need must be left."""
    found = contents(folder)
    assert all(name == "failures.jsonl" or name == "kind" or name.startswith("part-") for name in found), found
    return found


def rows_of(folder: Path) -> list[Any]:
    """What the parts hold: all but the names of the corpus's files, which kept parts have from when they were made."""
    return [(replace(read_header(path), sources=()), pq.read_table(path)) for path in list_parts(folder)]


class Stopped(Exception):
    """Raised by the progress of a run, to stop it."""


def stop_after(parts: int, folder: Path) -> Callable[[Any], None]:
    """Give a progress that stops a run when so many parts are there."""

    def progress(_: Any) -> None:
        if len(list_parts(folder)) >= parts:
            raise Stopped

    return progress


# ── the same bytes ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(3, 2)
@pytest.mark.parametrize("write", CORPORA.values(), ids=CORPORA)
def test_the_same_bytes(bert: Tiny, tmp_path: Path, write: Callable[[Path], list[str]]) -> None:
    (tmp_path / "corpus").mkdir()
    arguments = [*write(tmp_path / "corpus"), *options(bert)]
    extract(*arguments, "-o", tmp_path / "one")
    alone = made(tmp_path / "one")
    assert len(alone[0]) > 4
    runs = joined(arguments, tmp_path / "joined", 3)
    extract(*arguments, "-o", tmp_path / "two", "--workers", "2")
    assert made(tmp_path / "two") == alone
    assert list(end_all(runs)) == [0, 0, 0]
    assert made(tmp_path / "joined") == alone
    for name, way in (("one", ["--workers", "1"]), ("two", ["--join"]), ("joined", [])):
        told = extract(*arguments, "-o", tmp_path / name, *way)
        assert "nothing to do" in told.stdout, told.stdout
        assert made(tmp_path / name) == alone


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    "ways",
    [
        ("one process", "workers", "join", "one process"),
        ("workers", "one process", "workers that join", "workers"),
        ("join", "workers", "one process", "join"),
        ("workers that join", "join", "workers", "workers that join"),
    ],
    ids=lambda ways: ways[0],
)
def test_the_way_changes_midway(bert: Tiny, tmp_path: Path, ways: tuple[str, ...]) -> None:
    (tmp_path / "c").mkdir()
    corpus = CORPORA["small and large text"](tmp_path / "c")
    assert run(bert, corpus, tmp_path / "one").parts > 12
    counts = []
    for at, name in enumerate(ways[:-1], 1):
        with pytest.raises(Stopped):
            run(bert, corpus, tmp_path / "two", progress=stop_after(3 * at, tmp_path / "two"), **WAYS[name]())
        counts.append(len(list_parts(tmp_path / "two")))
        assert not (tmp_path / "two/.bertfeat/manifest.json").exists()
        assert not list((tmp_path / "two").glob(".bertfeat/claims/*"))
    report = run(bert, corpus, tmp_path / "two", **WAYS[ways[-1]]())
    assert made(tmp_path / "two") == made(tmp_path / "one")
    assert counts[0] < counts[1] < counts[2]
    assert 0 < report.kept_parts <= report.parts
    # another encoder's numbers: batches of another size, told by the set
    assert run(bert, corpus, tmp_path / "two", **WAYS[ways[0]]()).nothing_to_do


@pytest.mark.sampled(2)
@all_ways
def test_rows_are_accounted_for(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    records: list[Any] = [{"text": text} for text in lines(40)]
    records[5] = records[33] = "no JSON"
    records[20] = ""
    shown: list[Any] = []
    report = run(bert, jsonl_file(tmp_path / "c.jsonl", records), tmp_path / "out", progress=shown.append, **way())
    assert accounted(report) == 40
    assert (report.failed, report.blank, report.parts, report.kept_parts) == (2, 1, 6, 0)
    assert failed_rows(tmp_path / "out") == [5, 33]
    assert report.counts.documents == 37
    assert report.computed_tokens == report.counts.tokens
    assert (shown[-1].documents, shown[-1].tokens) == (37, report.counts.tokens)
    assert shown[-1].fraction == pytest.approx(1.0)
    for name in ("documents", "fraction"):
        values = [getattr(each, name) for each in shown]
        assert values == sorted(values)


# ── corpora that change ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(0, 1)
@each_way
def test_a_corpus_that_has_changed_since_the_last_run(
    bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]
) -> None:
    place, folder = tmp_path / "c", tmp_path / "out"
    place.mkdir()
    for name, number in (("a", 20), ("b", 16), ("c", 3), ("d", 4)):
        text_file(place / f"{name}.txt", lines(number, ord(name) * 100))
    run(bert, place, folder, **way())

    def replace_two() -> None:
        text_file(place / "c.txt", lines(1))
        text_file(place / "b.txt", lines(4, ord("b") * 100))  # shorter

    def add_and_lengthen() -> None:
        text_file(place / "b.txt", lines(19, ord("b") * 100))
        text_file(place / "e.txt", lines(9))

    changes: list[Callable[[], Any]] = [add_and_lengthen, replace_two, (place / "d.txt").unlink]
    for number, change in enumerate(changes):
        change()
        before = everything(folder)
        with pytest.raises(RemovalError):
            run(bert, place, folder, **way())
        assert everything(folder) == before
        report = run(bert, place, folder, **way(), update=True)
        run(bert, place, tmp_path / f"fresh-{number}")
        assert state(folder).keys() == state(tmp_path / f"fresh-{number}").keys()
        assert rows_of(folder) == rows_of(tmp_path / f"fresh-{number}")
        assert 0 < report.kept_parts < report.parts or number == 2
    assert run(bert, place, folder, **way()).nothing_to_do


@pytest.mark.sampled(1)
@each_way
def test_another_corpus_and_other_settings_are_refused(
    bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]
) -> None:
    first, other = text_file(tmp_path / "a.txt", lines(30)), text_file(tmp_path / "b.txt", lines(30, 500))
    for unfinished in (False, True):
        folder = tmp_path / f"out-{unfinished}"
        run(bert, first, folder)
        if unfinished:
            (folder / ".bertfeat/manifest.json").unlink()
        before = everything(folder)
        with pytest.raises(AnotherCorpusError, match=r"was made from another corpus \(.*a\.txt\)"):
            run(bert, other, folder, **way())
        assert everything(folder) == before
        with pytest.raises(SettingsDifferError, match="part_rows: 7 → 8"):
            run(bert, first, folder, **way(), part_rows=8)
        assert everything(folder) == before
        assert run(bert, first, folder, **way()).kept_parts == 5


@pytest.mark.sampled(1)
@each_way
def test_overwriting(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    first, other = text_file(tmp_path / "a.txt", lines(30)), text_file(tmp_path / "b.txt", lines(17, 500))
    run(bert, first, tmp_path / "out")
    run(bert, other, tmp_path / "fresh")
    if "join" in way():
        before = everything(tmp_path / "out")
        with pytest.raises(UsageError, match="removes what others who join are at work on; start anew with one run"):
            run(bert, other, tmp_path / "out", overwrite=True, **way())
        assert everything(tmp_path / "out") == before
        return
    assert run(bert, other, tmp_path / "out", overwrite=True, **way()).kept_parts == 0
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


@pytest.mark.sampled(1)
@each_way
def test_damage_is_mended(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(30))
    run(bert, corpus, tmp_path / "fresh")
    shutil.copytree(tmp_path / "fresh", tmp_path / "out")
    (tmp_path / "out/.bertfeat/manifest.json").unlink()
    parts = list_parts(tmp_path / "out")
    for path, at in ((parts[1], 200), (parts[3], -20)):  # a page, and the footer
        content = bytearray(path.read_bytes())
        content[at] ^= 0xFF
        path.write_bytes(content)
    parts[4].unlink()
    assert run(bert, corpus, tmp_path / "out", **way()).kept_parts == 2
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


class ChangesFiles:
    """Changes the corpus at the moment when the plan is made, and no part is computed yet."""

    def __init__(self, patch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
        self._change, self._changed = change, False
        for owner, name in ((ScanningAgenda, "finish"), (joining._JoinAgenda, "_make_plan")):
            patch.setattr(owner, name, self._changing(getattr(owner, name)))

    def _changing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any) -> Any:
            result = method(*arguments)
            if not self._changed:
                self._changed = True
                self._change()
            return result

        return changed


@pytest.mark.sampled(1)
@shared_ways
@pytest.mark.parametrize("change", ["replaced", "shortened", "removed", "inserted"])
def test_a_file_that_changes_between_planning_and_reading_is_noticed(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[], dict[str, Any]], change: str
) -> None:
    place = tmp_path / "c"
    place.mkdir()
    for name in "abc":
        text_file(place / f"{name}.txt", lines(10, ord(name) * 100))
    texts = lines(10, ord("b") * 100)
    after: dict[str, Callable[[], Any]] = {
        "replaced": lambda: text_file(place / "b.txt", [*texts[:8], texts[8][::-1], texts[9]]),
        "shortened": lambda: text_file(place / "b.txt", texts[:3]),
        "removed": (place / "b.txt").unlink,
        "inserted": lambda: text_file(place / "b.txt", ["new", *texts]),
    }
    with monkeypatch.context() as patch:
        local_workers(patch)
        ChangesFiles(patch, after[change])
        with pytest.raises(CorpusError, match=r"b\.txt: (the file )?(has changed since|cannot be read: No such file)"):
            run(bert, place, tmp_path / "out", **way())
    assert not (tmp_path / "out/.bertfeat/manifest.json").exists()
    run(bert, place, tmp_path / "out", **way())
    run(bert, place, tmp_path / "fresh")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "fresh")


@pytest.mark.sampled(1)
@shared_ways
def test_a_file_that_grows_meanwhile_is_taken_as_it_was(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[], dict[str, Any]]
) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(30))
    run(bert, corpus, tmp_path / "before")
    joins = "join" in way()
    with monkeypatch.context() as patch:
        local_workers(patch)
        ChangesFiles(patch, lambda: text_file(corpus, lines(45)))
        if joins:  # who else joins takes its word for what the corpus is
            with pytest.raises(CorpusError, match=r"c\.txt: the file has changed since the run began; run the same"):
                run(bert, corpus, tmp_path / "out", **way())
        else:
            run(bert, corpus, tmp_path / "out", **way())
            assert json.loads((tmp_path / "out/.bertfeat/manifest.json").read_text())["run"] == ""
    assert list_parts(tmp_path / "out")[-1].name == "part-00004.parquet"
    assert contents(tmp_path / "before").items() <= (contents(tmp_path / "out")).items()
    assert run(bert, corpus, tmp_path / "out", **way()).kept_parts == 4
    run(bert, corpus, tmp_path / "fresh")
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@each_way
def test_a_corpus_without_rows(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    corpus = text_file(tmp_path / "e.txt", [])
    with pytest.raises(CorpusError, match=r"e\.txt: the corpus has no rows, so there is nothing to extract"):
        run(bert, corpus, tmp_path / "out", **way())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@all_ways
def test_max_failures(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    records: list[Any] = [{"text": text} for text in lines(40)]
    records[25] = records[26] = records[39] = {"text": 3}
    corpus = jsonl_file(tmp_path / "c.jsonl", records)
    with pytest.raises(RowFailedError, match=r"c\.jsonl, record (26|40)"):
        run(bert, corpus, tmp_path / "out", max_failures=0, **way())
    assert "part-00003.parquet" not in {path.name for path in list_parts(tmp_path / "out")}
    with pytest.raises(RowFailedError, match=r"max_failures=1: more than 1 row failed"):
        run(bert, corpus, tmp_path / "out", max_failures=1, **way())
    assert run(bert, corpus, tmp_path / "out", max_failures=3, **way()).failed == 3
    for most in (1, 2):  # also when the parts are there
        with pytest.raises(RowFailedError, match=f"more than {most} rows? failed, (3 in all|the last: )"):
            run(bert, corpus, tmp_path / "out", max_failures=most, **way())
    with pytest.raises(RowFailedError):
        run(bert, corpus, tmp_path / "out", max_failures=0, **way())
    run(bert, corpus, tmp_path / "fresh")
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


@each_way
def test_wrong_columns(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", [{"body": text} for text in lines(9)])
    with pytest.raises(WrongColumnsError, match="the columns that there are: 'body'"):
        run(bert, corpus, tmp_path / "out", **way())
    assert not (tmp_path / "out").exists()


@pytest.mark.sampled(1)
@each_way
def test_an_archive_that_is_damaged_in_its_middle(
    bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]
) -> None:
    place = tmp_path / "c"
    place.mkdir()
    text_file(place / "a.txt", lines(30))
    content = gzip.compress("".join(f"{text}\n" for text in lines(40_000)).encode())
    (place / "b.txt.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(CorpusError, match=r"b\.txt\.gz: "):
        run(bert, place, tmp_path / "out", part_rows=10_000, **way())
    assert not (tmp_path / "out/.bertfeat/manifest.json").exists()
    (place / "b.txt.gz").write_bytes(gzip.compress(b"a text\n"))
    run(bert, place, tmp_path / "out", part_rows=10_000, update=True, **way())  # one process has made parts of it
    run(bert, place, tmp_path / "fresh", part_rows=10_000)
    assert made(tmp_path / "out") == made(tmp_path / "fresh")


@shared_ways
def test_what_only_one_process_can_read(bert: Tiny, tmp_path: Path, way: Callable[[], dict[str, Any]]) -> None:
    given: list[Any] = ["-", memory_corpus(lines(3))]
    for corpus in given:
        with pytest.raises(UsageError, match="texts in memory and standard input are read by one process; write them"):
            run(bert, corpus, tmp_path / "out", **way())
        assert not (tmp_path / "out").exists()


def test_a_model_that_workers_do_not_find(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(30))
    made_extractor = extractor(bert_folder)
    read = CorpusFile.read

    def read_without_model(*arguments: Any, **more: Any) -> Any:
        shutil.rmtree(bert_folder, ignore_errors=True)
        return read(*arguments, **more)

    assert made_extractor.identity.fingerprint
    monkeypatch.setattr(CorpusFile, "read", read_without_model)
    with pytest.raises(ModelError, match="is no folder, and it cannot be a model of the Hugging Face hub"):
        made_extractor.extract(corpus, tmp_path / "out", part_rows=ROWS, engine=Processes(2))
    assert not (tmp_path / "out").exists()
