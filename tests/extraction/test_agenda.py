"""What there is to do: handed out once and in order, whoever does it and whenever results arrive."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import CorpusSettings, FileCorpus, memory_corpus, open_corpus
from bertfeat.core.extraction import (
    MadePart,
    PartLimits,
    PlannedPart,
    ScannedFiles,
    ScanTask,
    Task,
    agenda as agenda_module,
    plan_parts,
)
from bertfeat.core.extraction.agenda import PlannedAgenda, ScanningAgenda, scan_tasks, tasks_of
from bertfeat.core.extraction.plan import scan_file
from tests.support.runs import lines, text_file

LIMITS = PartLimits(4, 1.0, 0.0)
MADE = MadePart(header=None)  # type: ignore[arg-type]  # agendas hand it on


def corpus_of(place: Path, *sizes: int) -> FileCorpus:
    for at, size in enumerate(sizes):
        text_file(place / f"{at:02}.txt", lines(size, at * 100))
    return open_corpus([place], CorpusSettings())


def scan(corpus: FileCorpus, task: ScanTask) -> ScannedFiles:
    return ScannedFiles(tuple(scan_file(corpus.files[number], number, LIMITS) for number in task.files))


class Parts:
    """Notes which parts an agenda shows, and which are made."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.made: list[int] = []

    def select(self, part: PlannedPart) -> PlannedPart:
        self.shown.append(part.number)
        return part

    def on_part(self, part: PlannedPart, made: MadePart) -> None:
        assert made is MADE
        self.made.append(part.number)


@pytest.fixture
def one_file_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_TASK_FILES", 1)


# ── scans ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_large_files_are_scanned_alone_and_small_ones_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path, 1, 1, 50, 1, 1, 1, 50, 50)
    monkeypatch.setattr(agenda_module, "_TASK_BYTES", 200)
    monkeypatch.setattr(agenda_module, "_TASK_FILES", 2)
    tasks = scan_tasks(corpus.files)
    assert [task.files for task in tasks] == [(0, 1), (2,), (3, 4), (5,), (6,), (7,)]
    assert [task.number for task in tasks] == list(range(6))


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 11), min_size=1, max_size=7), data=st.data())
def test_scans_may_end_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("c"), *sizes)
    parts = Parts()
    agenda, out, got = ScanningAgenda(corpus.files, LIMITS, parts.select, parts.on_part), list[Task](), list[Task]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda_module, "_TASK_FILES", data.draw(st.integers(1, 3)))
        patch.setattr(agenda_module, "_READY_PARTS", data.draw(st.integers(1, 4)))
        patch.setattr(agenda_module, "_WAITING_SPANS", data.draw(st.integers(1, 4)))
        agenda = ScanningAgenda(corpus.files, LIMITS, parts.select, parts.on_part)
        while out or not agenda.done:
            task = agenda.take() if data.draw(st.booleans()) or not out else None
            assert task is not None or out or agenda.done, "nobody would ever do anything again"
            if task is not None:
                out.append(task)
            elif out:
                task = out.pop(data.draw(st.integers(0, len(out) - 1)))
                got.append(task)
                agenda.finish(task, scan(corpus, task) if isinstance(task, ScanTask) else MADE)
    planned = [part.task for part in plan_parts(corpus, LIMITS)]
    found = sorted((task for task in got if isinstance(task, PlannedPart)), key=lambda part: part.number)
    assert [(part.number, part.first_row, part.row_count, part.spans, part.digest) for part in found] == [
        (part.number, part.first_row, part.row_count, part.spans, part.digest) for part in planned
    ]
    assert parts.shown == list(range(len(planned)))
    assert sorted(parts.made) == parts.shown
    assert sum(part.share for part in found) == pytest.approx(1.0 if planned else 0.0) or 0 in sizes


@pytest.mark.usefixtures("one_file_a_scan")
def test_scans_do_not_run_far_ahead_of_one_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_WAITING_SPANS", 6)
    corpus = corpus_of(tmp_path, 1, *[8] * 20)  # each of two spans
    parts = Parts()
    agenda = ScanningAgenda(corpus.files, LIMITS, parts.select, parts.on_part)
    late = agenda.take()
    assert isinstance(late, ScanTask)
    ahead = 0
    while isinstance(task := agenda.take(), ScanTask):
        agenda.finish(task, scan(corpus, task))
        ahead += 1
    assert (ahead, task, agenda.done) == (3, None, False)
    agenda.finish(late, scan(corpus, late))
    assert isinstance(agenda.take(), ScanTask)
    assert parts.shown == list(range(7))


@pytest.mark.usefixtures("one_file_a_scan")
def test_parts_are_handed_out_before_all_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_READY_PARTS", 3)
    corpus = corpus_of(tmp_path, *[20] * 9)
    parts = Parts()
    agenda = ScanningAgenda(corpus.files, LIMITS, parts.select, parts.on_part)
    kinds = []
    while not agenda.done:
        task = agenda.take()
        assert task is not None
        kinds.append(type(task).__name__)
        agenda.finish(task, scan(corpus, task) if isinstance(task, ScanTask) else MADE)
    assert kinds[:3] == ["ScanTask", "PlannedPart", "PlannedPart"]
    assert kinds.count("ScanTask") == 9
    assert parts.made == list(range(45))


# ── parts with their rows ───────────────────────────────────────────────────────────────────────────────────


def test_rows_are_freed_before_the_next_are_read() -> None:
    alive: list[weakref.ref[PlannedPart]] = []

    class Part(PlannedPart):  # whose class has no slot for weak references
        pass

    def plan() -> Iterator[PlannedPart]:
        for part in plan_parts(memory_corpus(lines(40)), LIMITS):
            assert sum(each() is not None for each in alive) <= 1
            mine = Part(part.number, 0, 4, (), "", (), 0.1, part.rows)
            alive.append(weakref.ref(mine))
            yield mine
            del mine

    parts = Parts()
    agenda = PlannedAgenda(plan(), parts.select, parts.on_part)
    for task in tasks_of(agenda):
        agenda.finish(task, MADE)
        del task
    assert (parts.shown, parts.made, agenda.done) == (list(range(10)), list(range(10)), True)


def test_a_worker_that_waits_hears_of_errors() -> None:
    class Waits:
        done = False
        given = [ScanTask(0, (0,)), None, None, ScanTask(1, (1,)), None]

        def take(self) -> Task | None:
            self.done = len(self.given) == 1
            return self.given.pop(0)

        def finish(self, task: Task, result: Any) -> None: ...

    looked: list[int] = []
    found = list(tasks_of(Waits(), lambda: looked.append(1)))
    assert ([task.number for task in found], len(looked)) == ([0, 1], 2)

    def fail() -> None:
        raise OSError("the disk is full")

    Waits.given = [ScanTask(0, (0,)), None, None]
    tasks = tasks_of(Waits(), fail)
    assert next(tasks).number == 0
    with pytest.raises(OSError, match="the disk is full"):
        next(tasks)
