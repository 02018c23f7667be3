"""What it costs to read a file from a position on, and what happens when the file is another one by then."""

import pickle
import threading
from pathlib import Path

import pytest

from bertfeat.core.corpus import (
    START,
    BlankLine,
    CorpusFile,
    CorpusSettings,
    Document,
    Meter,
    Position,
    blocks,
    conll,
    open_corpus,
    records,
)
from bertfeat.errors import CorpusError
from tests.support.corpus_writers import COMPRESS, write_jsonl, write_parquet, write_text


def file_of(path: Path, settings: CorpusSettings | None = None) -> CorpusFile:
    """The file as a worker gets it."""
    (file,) = open_corpus([path], settings or CorpusSettings()).files
    copy: CorpusFile = pickle.loads(pickle.dumps(file))
    return copy


# ── what reading from a position costs ──────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.conll"])
def test_a_file_is_not_read_up_to_a_position(tmp_path: Path, name: str) -> None:
    contents = {
        "a.txt": "some words\n",
        "a.jsonl": '{"text": "some words"}\n',
        "a.csv": "some words\n",
        "a.conll": "some O\nwords O\n\n",
    }
    content = ("text\n" if name == "a.csv" else "") + contents[name] * 100_000
    (tmp_path / name).write_text(content)
    file = file_of(tmp_path / name)
    reading = file.read(0, rows=60_000)
    assert len(list(reading)) == 60_000
    assert reading.position.offset == len(content) - 40_000 * len(contents[name])
    meter = Meter()
    assert len(list(file.read(60_000, start=reading.position, meter=meter))) == 40_000
    assert meter.read == 40_000 * len(contents[name])


def test_an_unpickled_file_is_not_looked_into_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "a", "n": {n}}}\n' for n in range(6)))
    file = file_of(tmp_path / "a.jsonl", CorpusSettings(keep=("n",)))

    def look_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(records, "sample_columns", look_again)
    assert [row.kept for row in file.read(0) if isinstance(row, Document)] == [(n,) for n in range(6)]


def test_context_is_read_from_near_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a document is, only as much of it is passed over as belongs to the context."""
    content = "-DOCSTART- O\n\n" + "".join(f"word{n} O\n\n" for n in range(2000))
    (tmp_path / "a.conll").write_text(content)
    monkeypatch.setattr(blocks, "_CHUNK", 100)
    monkeypatch.setattr(conll, "REACH", 25)
    file = file_of(tmp_path / "a.conll", CorpusSettings(document_context=True))
    reading = file.read(0, rows=1000)
    assert len(list(reading)) == 1000
    assert reading.position.skip == 4  # of 7 characters each
    meter = Meter()
    (row,) = file.read(1000, start=reading.position, rows=1, meter=meter)
    assert row == Document(
        1000, "1001", "word1000", None, ("word1000",), ("O",), (), "word997 word998 word999", "word1001 word1002"
    )
    assert meter.read <= 200


# ── archives ────────────────────────────────────────────────────────────────────────────────────────────────

PACKED = [ending for ending in COMPRESS if ending]
LINES = [f"{n} words {n * n % 1009} {n * n * n % 10_007}" for n in range(100_000)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CorpusFile]:
    """A file in each compression, of two members."""
    folder = tmp_path_factory.mktemp("packed")
    for ending in PACKED:
        half = len(LINES) // 2
        members = [COMPRESS[ending](write_text(LINES[:half])), COMPRESS[ending](write_text(LINES[half:]))]
        (folder / f"a.txt{ending}").write_bytes(b"".join(members))
    return {ending: file_of(folder / f"a.txt{ending}") for ending in PACKED}


@pytest.fixture
def no_archive_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_left_open", type(blocks._left_open)())


def read_range(file: CorpusFile, start: Position, rows: int, meter: Meter) -> Position:
    """Read a range and compare it; returns the position after it."""
    reading = file.read(start.record, start=start, rows=rows, meter=meter)
    texts = [row.text for row in reading if isinstance(row, Document)]
    assert texts == LINES[start.record : start.record + rows]
    return reading.position


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.usefixtures("no_archive_left")
def test_ascending_ranges_of_an_archive_decompress_it_once(packed: dict[str, CorpusFile], ending: str) -> None:
    file, meter, start = packed[ending], Meter(), START
    while start.record < len(LINES):
        start = read_range(file, start, 15_011, meter)
    assert meter.read == file.source.size


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.usefixtures("no_archive_left")
def test_ranges_of_an_archive_in_any_order(packed: dict[str, CorpusFile], ending: str) -> None:
    file = packed[ending]
    starts, meter = [START], Meter()
    for _ in range(4):
        starts.append(read_range(file, starts[-1], 20_000, meter))
    for number in (3, 1, 1, 4, 0, 2, 3):
        read_range(file, starts[number], 20_000, meter)
    before = meter.read
    read_range(file, starts[1], 20_000, meter)
    read_range(packed[PACKED[PACKED.index(ending) - 1]], START, 10, Meter())
    read_range(file, starts[2], 20_000, meter)  # from the beginning: another file was read between them
    assert meter.read > before + file.source.size // 2


@pytest.mark.usefixtures("no_archive_left")
def test_readings_of_one_archive_at_the_same_time_do_not_meet(packed: dict[str, CorpusFile]) -> None:
    file = packed[".gz"]
    starts = [START, read_range(file, START, 25_000, Meter())]
    readings = [file.read(start.record, start=start) for start in (*starts, *starts)]
    for rows in zip(*readings, strict=False):
        assert [row.text for row in rows if isinstance(row, Document)] == [LINES[row.row] for row in rows]


@pytest.mark.usefixtures("no_archive_left")
def test_an_archive_is_left_open_for_one_thread_and_process(
    packed: dict[str, CorpusFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, meter = packed[".gz"], Meter()
    start = read_range(file, START, 50_000, Meter())
    thread = threading.Thread(target=read_range, args=(file, start, 1000, meter))
    thread.start()
    thread.join()
    assert meter.read > file.source.size // 4
    monkeypatch.setattr("os.getpid", lambda: -1)  # as after a fork
    meter = Meter()
    after = read_range(file, start, 1000, meter)
    assert meter.read > file.source.size // 4
    meter = Meter()
    read_range(file, after, 1000, meter)
    assert meter.read == 0  # it lies in the block that was read last


@pytest.mark.slow
@pytest.mark.usefixtures("no_archive_left")
def test_a_damaged_archive_is_told_from_any_position(tmp_path: Path) -> None:
    for ending in PACKED:
        path = tmp_path / f"a.txt{ending}"
        whole = COMPRESS[ending](write_text(LINES[:60_000]))
        path.write_bytes(whole[: len(whole) * 9 // 10])
        file = file_of(path)
        start = read_range(file, START, 1000, Meter())
        for _ in range(2):
            with pytest.raises(CorpusError, match="data end too early"):
                list(file.read(start.record, start=start))


# ── files that change ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("no_archive_left")
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl.zst", "a.csv", "a.conll", "a.parquet"])
def test_a_file_that_was_cut_off_is_told(tmp_path: Path, name: str) -> None:
    def write(count: int) -> None:
        texts = [f"text {n}" for n in range(count)]
        stem, _, compression = name.partition(".")[2].partition(".")
        content = {
            "txt": write_text,
            "jsonl": write_jsonl,
            "csv": lambda texts: write_text(["text", *texts]),
            "conll": lambda texts: "".join(f"{text}\n\n" for text in texts).encode(),
            "parquet": write_parquet,
        }[stem](texts)
        (tmp_path / name).write_bytes(COMPRESS[f".{compression}" if compression else ""](content))

    write(100)
    file = file_of(tmp_path / name)
    reading = file.read(0, rows=90)
    assert len(list(reading)) == 90
    write(50)
    for position in (reading.position, reading.row_position):
        with pytest.raises(CorpusError, match=rf"{name}: has changed since it was first read; start again"):
            list(file.read(90, start=position))
    (tmp_path / name).unlink()
    with pytest.raises(CorpusError, match="cannot be read"):
        list(file.read(90, start=reading.position))


def test_context_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\n" + "word O\n\n" * 20)
    file = file_of(path, CorpusSettings(document_context=True))
    with pytest.raises(CorpusError, match="has changed since it was first read"):
        list(file.read(9, start=Position(14, 2, 40, 30)))


def test_blank_lines_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n\nb\n")
    reading = file_of(tmp_path / "a.txt").read(5)
    assert next(reading) == Document(5, "1", "a")
    assert next(reading) == BlankLine(6)
    assert (reading.row_position, reading.position) == (Position(2, 1, 1), Position(3, 2, 2))
    assert list(reading) == [Document(7, "3", "b")]
    assert reading.position == Position(5, 3, 3)
