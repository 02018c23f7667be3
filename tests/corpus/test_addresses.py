"""Corpora at addresses are found, opened and read as those in folders of this machine are."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BufferedReader, RawIOBase
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typing_extensions import Buffer

from bertfeat.core.corpus import (
    CorpusSettings,
    Document,
    Failure,
    Meter,
    Position,
    Row,
    find_sources,
    inspection,
    open_corpus,
)
from bertfeat.core.corpus.blocks import read_blocks
from bertfeat.core.corpus.parquet import ParquetReader
from bertfeat.errors import CorpusError, StorageError, UsageError
from bertfeat.io import Address, Location, Stamp, as_location, open_file, put_file
from bertfeat.io.storage.files import store_of
from tests.support.corpus_writers import (
    COMPRESS,
    texts_of,
    write_csv,
    write_jsonl,
    write_parquet,
    write_squad,
    write_text,
    write_tsv,
)

TEXTS = [f'text {n}, "and" more é\u2028' + "x" * (n % 50) for n in range(300)]
CONLL = "-DOCSTART- O\n\n" + "".join(f"a{n} O\nb B\n\n" for n in range(60)) + "bad\nc O\n"
FILES = {
    "a.txt": write_text([*TEXTS, "", " "]) + b"\xff\n",
    "q.json": write_squad(TEXTS),
    "b.jsonl": write_jsonl(TEXTS) + b'\n{"text": 1}\n',
    "c.csv": write_csv(["two\nlines", *TEXTS]) + b"only one\n",
    "d.tsv": write_tsv(TEXTS),
    "e.parquet": write_parquet(TEXTS),
    "f.conll": CONLL.encode(),
    "g.conllu": b"1\ta\t_\tNOUN\n\n" * 30,
    "h.txt": "\n".join(TEXTS).encode("utf-16"),
}
_numbers = count()


class Bucket:
    """A bucket in memory and a folder with the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = as_location(f"memory://corpus{next(_numbers)}")

    def put(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
            put_file(self.address / name, content)

    def both(self, name: str = "") -> tuple[str, str]:
        """The name of the same place in the folder and in the bucket."""
        return f"{self.folder}/{name}".rstrip("/"), f"{self.address}/{name}".rstrip("/")

    def local(self, text: str) -> str:
        """A text that names places in the bucket, as it would name those of the folder."""
        return text.replace(str(self.address), str(self.folder))


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


def rows_at(place: str, settings: CorpusSettings | None = None) -> list[Row]:
    return list(open_corpus([place], settings or CorpusSettings()).rows())


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(12)
@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_at_an_address_has_the_rows_of_a_local_one(bucket: Bucket, name: str, ending: str) -> None:
    if ending and name.endswith(".parquet"):
        return
    name += ending
    bucket.put({name: COMPRESS[ending](FILES[name.removesuffix(ending)])})
    here, there = bucket.both(name)
    settings = CorpusSettings(document_context=name.startswith("f.conll"))
    expected = rows_at(here, settings)
    found = rows_at(there, settings)
    assert [_local(row, bucket) for row in found] == expected
    (file,) = open_corpus([there], settings).files
    file = pickle.loads(pickle.dumps(file))
    assert isinstance(file.source.path, Address)
    cut = len(found) * 2 // 3
    reading = file.read(0, rows=cut)
    assert list(reading) == found[:cut]
    assert list(file.read(cut, start=reading.position)) == found[cut:]


def _local(row: Row, bucket: Bucket) -> Row:
    if isinstance(row, Failure):
        return replace(row, id=bucket.local(row.id), reason=bucket.local(row.reason))
    return replace(row, id=bucket.local(row.id)) if isinstance(row, Document) else row


def test_several_files_have_the_rows_and_columns_of_local_ones(bucket: Bucket) -> None:
    """Types come from the first 1,000 records, wherever files are looked into at once."""
    whole = "".join(f'{{"text": "a", "n": {n}, "late": {n}}}\n' for n in range(450))
    floats = "{no\n" * 30 + '{"text": "a", "late": 1.5}\n'  # seen only where more than 20 records are looked at
    truths = whole + '{"text": "a", "late": true}\n'  # not seen
    bucket.put({"in/0.jsonl": whole.encode(), "in/1.jsonl": floats.encode(), "in/2.jsonl": whole.encode()})
    bucket.put({"in/3.jsonl": truths.encode(), "in/4.jsonl": b""})
    bucket.put({f"in/5{n}.jsonl": b'{"text": "b", "n": 1, "late": 2, "id": "x"}\n' for n in range(40)})
    for settings in (CorpusSettings(keep=("n", "late")), CorpusSettings(keep=("late:string",))):
        corpora = [open_corpus([place], settings) for place in bucket.both("in")]
        assert corpora[0].kept == corpora[1].kept
        assert corpora[0].kept[-1].type in ("float64", "string")
        assert corpora[0].columns == corpora[1].columns
        assert [_local(row, bucket) for row in corpora[1].rows()] == list(corpora[0].rows())
        assert corpora[1].fraction == 1.0


def test_the_beginnings_of_files_at_addresses_are_looked_into_at_once(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put({f"{n:02}.txt": b"a\n" for n in range(16)})
    together = threading.Barrier(16, timeout=20)

    def read_together(*args: object) -> Iterator[bytes]:
        together.wait()  # fails unless all have come
        return read_blocks(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "read_blocks", read_together)
    assert len(open_corpus([str(bucket.address)]).files) == 16


def test_the_first_file_that_cannot_be_read_is_told(bucket: Bucket) -> None:
    bucket.put({f"{n:02}.txt": b"%PDF-1.7\n" if n in (7, 9) else b"a\n" for n in range(40)})
    with pytest.raises(CorpusError, match=r"07\.txt: not text: it is a PDF|07\.txt: not text"):
        open_corpus([str(bucket.address)])


@pytest.mark.slow
def test_a_file_is_not_read_up_to_a_position(bucket: Bucket) -> None:
    lines = [f"{n} words in a line" for n in range(400_000)]
    bucket.put({"a.txt": write_text(lines)})
    (file,) = open_corpus([str(bucket.address / "a.txt")]).files
    reading, meter = file.read(0, rows=390_000), Meter()
    assert len(list(reading)) == 390_000
    texts = [row.text for row in file.read(390_000, start=reading.position, meter=meter) if isinstance(row, Document)]
    assert texts == lines[390_000:]
    assert meter.read == len(write_text(texts))


def test_parquet_is_opened_at_its_row_group(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of large row groups only the needed columns of the needed one are asked for."""
    size = 100_000
    noise = pa.array([os.urandom(40) for _ in range(size)])
    table = pa.table({"noise": noise, "text": [os.urandom(8).hex() for _ in range(size)]})
    pq.write_table(table, bucket.folder / "a.parquet", row_group_size=size // 10, compression="none")
    content = (bucket.folder / "a.parquet").read_bytes()
    put_file(bucket.address / "a.parquet", content)
    (file,) = open_corpus([str(bucket.address / "a.parquet")]).files
    lengths: list[int] = []

    def open_counted(place: Location) -> BufferedReader:
        return BufferedReader(_Counted(open_file(place).detach(), lengths))

    monkeypatch.setattr("bertfeat.core.corpus.parquet.open_file", open_counted)
    reading = file.read(50_000, start=Position(50_000, 0, 50_000), rows=10_000)
    texts = [row.text for row in reading if isinstance(row, Document)]
    assert texts == table["text"][50_000:60_000].to_pylist()
    assert 160_000 < sum(lengths) < len(content) / 4


class _Counted(RawIOBase):
    """A file that notes how much is read of it, until its storage breaks."""

    broken = False

    def __init__(self, raw: RawIOBase, lengths: list[int]) -> None:
        super().__init__()
        self._raw, self._lengths = raw, lengths
        self.readable, self.seekable = raw.readable, raw.seekable  # type: ignore[method-assign]
        self.seek, self.tell = raw.seek, raw.tell  # type: ignore[method-assign]

    def readinto(self, buffer: Buffer) -> int | None:
        if self.broken and self.tell() > 4:
            raise StorageError("the storage does not answer")
        length = self._raw.readinto(buffer)
        self._lengths.append(length or 0)
        return length


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.parquet"])
def test_storage_that_cannot_be_reached_is_told_as_such(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is no damage of the file, and no row is taken for its last."""
    content = {
        "a.txt": write_text(["a"]),
        "a.txt.gz": COMPRESS[".gz"](write_text(["a"])),
        "a.parquet": write_parquet(["a"]),
    }
    bucket.put({name: content[name]})
    (file,) = open_corpus([str(bucket.address / name)]).files
    store, _ = store_of(bucket.address)

    def refuse(*_: object) -> None:
        raise StorageError("the storage does not answer", where=name)

    monkeypatch.setattr(type(store), "open", refuse)
    with pytest.raises(StorageError, match="the storage does not answer"):
        list(file.read(0))


def test_storage_that_breaks_while_parquet_is_read_is_told_as_such(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"text": [os.urandom(50).hex() for _ in range(30_000)]}), bucket.folder / "a.parquet")
    put_file(bucket.address / "a.parquet", (bucket.folder / "a.parquet").read_bytes())
    (file,) = open_corpus([str(bucket.address / "a.parquet")]).files
    monkeypatch.setattr(
        "bertfeat.core.corpus.parquet.open_file", lambda place: BufferedReader(_Counted(open_file(place).detach(), []))
    )
    reading = file.read(0)
    monkeypatch.setattr(ParquetReader, "_batches", _break_first(ParquetReader._batches))
    with pytest.raises(StorageError, match="the storage does not answer"):
        list(reading)


def _break_first(batches: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Batches of a file whose storage breaks when its footer has been read."""

    def broken(self: ParquetReader, file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Counted, "broken", True)
            yield from batches(self, file, columns)

    return broken


def test_a_file_that_goes_away(bucket: Bucket) -> None:
    bucket.put({"a.txt": b"a\n", "b.parquet": write_parquet(["b"])})
    corpus = open_corpus([str(bucket.address)])
    store, _ = store_of(bucket.address)
    for name in ("a.txt", "b.parquet"):
        store.remove(name)
    for file in corpus.files:
        with pytest.raises(CorpusError, match=rf"{file.name}: cannot be read"):
            list(file.read(0))


# ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────

TREE = {
    "b.txt": b"b\n",
    "a.txt.gz": COMPRESS[".gz"](b"a\n"),
    "sub/deep/d.jsonl": write_jsonl(["d"]),
    "sub/c.PARQUET": write_parquet(["c"]),
    "sub-x/s.txt": b"s\n",
    "sub.txt": b"t\n",
    "sub2/e.csv": b"text\ne\n",
    "README.md": b"not read\n",
    "notes": b"not read\n",
    ".hidden.txt": b"not read\n",
    ".git/x.txt": b"not read\n",
    "_manifest.json": b"not read\n",
    "sub/_x/x.txt": b"not read\n",
    "sub/.x/x.txt": b"not read\n",
    "b.features/.bertfeat/kind": b"features\n",
    "b.features/part-00000.parquet": write_parquet(["not read"]),
    "b.features/more/x.txt": b"not read\n",
    "sub/ner.tagger/.bertfeat/kind": b"head\n",
    "sub/ner.tagger/x.txt": b"not read\n",
    "other.index/f.txt": b"o\n",
    "odd[1].txt": b"odd\n",
    "odd1.txt": b"odd1\n",
    "dir[2]/x.txt": b"x\n",
}


PATTERNS = """
    sub sub/ b.txt sub/deep dir[2] odd[1].txt .git sub/_x
    *.txt* * *.t?t [ab]* odd[12].txt [!o]*.txt sub* sub*/* sub*/*.c* sub/* sub/*/*
    ** **/* **/*.txt **/*.jsonl sub/** s*/**/d* **/deep/** */x.txt */.x/* .*/* _*
    b.features/* b.features/part-* b.features/**/*.txt *.features sub/ner.tagger/x*
"""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("pattern", ["", *PATTERNS.split()])
@pytest.mark.parametrize("format_name", [None, "text"])
def test_the_same_files_are_found_as_in_a_folder(bucket: Bucket, pattern: str, format_name: str | None) -> None:
    bucket.put(TREE)
    here, there = bucket.both(pattern)
    if pattern == "sub/":
        here += "/"
    expected = _found(here, format_name)
    found = _found(there, format_name)
    assert [bucket.local(name) for name in found] == [name.replace("//", "/") for name in expected]


def _found(place: str, format_name: str | None) -> list[str]:
    try:
        return [source.name for source in find_sources([place], format_name)]
    except CorpusError as error:
        return [str(error)]


def test_files_that_are_not_there(bucket: Bucket) -> None:
    bucket.put(TREE)
    for name, says in (("gone.txt", "no such file or folder"), ("*.gone", "no file matches")):
        with pytest.raises(CorpusError, match=says):
            open_corpus([str(bucket.address / name)])
    with pytest.raises(CorpusError, match="not a corpus but a feature set, which bertfeat wrote"):
        open_corpus([str(bucket.address / "b.features")])
    with pytest.raises(UsageError, match="not storage that bertfeat knows"):
        open_corpus(["ftp://host/a.txt"])


def test_sources_are_found_with_their_stamps_by_one_listing(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put({f"in/{n}.txt": b"a\n" * n for n in range(9)})
    asked = []
    store, _ = store_of(bucket.address)
    for name in ("stamp", "list", "read", "open"):
        original = getattr(type(store), name)

        def ask(self: object, *args: object, _name: str = name, _original: Callable[..., object] = original) -> object:
            asked.append(_name)
            return _original(self, *args)

        monkeypatch.setattr(type(store), name, ask)
    sources = find_sources([str(bucket.address / "in")], None)
    assert len(asked) <= 4  # whether it is a file or a folder, whether bertfeat wrote it, and the listing
    assert [source.size for source in sources] == [2 * n for n in range(9)]
    monkeypatch.undo()
    assert [source.stamp for source in sources] == [store.stamp(f"in/{n}.txt") for n in range(9)]


def test_stamps_of_local_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    (source,) = find_sources([tmp_path / "a.txt"], None)
    assert isinstance(source.stamp, Stamp)
    assert (source.path, source.size) == (tmp_path / "a.txt", 3)
    (tmp_path / "a.txt").write_bytes(b"abcd")
    assert find_sources([tmp_path / "a.txt"], None)[0].stamp != source.stamp


def test_addresses_of_this_machine_are_paths(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(b"one\n")
    (tmp_path / "c.txt").write_bytes(b"two\n")
    assert texts_of(f"file://{tmp_path}/a%20b.txt") == ["one"]
    assert texts_of(f"file://{tmp_path}/*.txt") == ["one", "two"]
    assert open_corpus([f"file://{tmp_path}"]).sources == (f"{tmp_path}/a b.txt", f"{tmp_path}/c.txt")


def test_places_of_all_kinds_are_one_corpus(bucket: Bucket) -> None:
    bucket.put({"a.txt": b"one\n", "b.txt": b"two\n"})
    corpus = open_corpus(
        [str(bucket.address / "b.txt"), bucket.folder / "a.txt", bucket.address / "a.txt", str(bucket.folder / "b.txt")]
    )
    assert [row.text for row in corpus.rows() if isinstance(row, Document)] == ["two", "one", "one", "two"]
    assert [bucket.local(name) for name in corpus.sources] == [f"{bucket.folder}/{name}.txt" for name in "baab"]
