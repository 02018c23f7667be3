"""Which files are read, and what happens to those that cannot be."""

import gzip
import os
import stat
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat.core.corpus import CorpusSettings, Document, Row, open_corpus
from bertfeat.errors import CorpusError, UsageError
from tests.support.corpus_writers import COMPRESS, texts_of, write_jsonl, write_parquet, write_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every kind of file that a folder may hold, and things that are not read."""
    for name, content in {
        "b.txt": write_text(["b1", "b2"]),
        "a.txt.gz": COMPRESS[".gz"](write_text(["a"])),
        "sub/deep/d.jsonl": write_jsonl(["d"]),
        "sub/c.PARQUET": write_parquet(["c"]),
        "sub2/e.csv.zst": COMPRESS[".zst"](b"text\ne\n"),
        "README.md": b"not read",
        "notes": b"not read",
        ".hidden.txt": b"not read",
        ".git/x.txt": b"not read",
        "_manifest.json": b"not read",
        "old.index/.bertfeat/index.json": b"not read",
        "old.index/version-1/documents.txt": b"not read",
        "ner.tagger/.bertfeat/kind": b"head\n",
        "ner.tagger/checkpoint.json": b"not read",
        "t.table7/.bertfeat/kind": b"table7\n",
        "t.table7/runs/last/seed-1.json": b"not read",
        "other.index/f.txt": write_text(["o"]),
        "elsewhere/_failures.jsonl": b"not read",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    own = pa.table({"text": ["not read"]}).replace_schema_metadata({b"bertfeat": b"{}"})
    for where in ("elsewhere", "b.features"):
        (tmp_path / where).mkdir(exist_ok=True)
        pq.write_table(own, tmp_path / where / "part-00000.parquet")
    pq.write_table(pa.table({"text": ["f"]}), tmp_path / "sub2/part-00000.parquet")
    return tmp_path


def documents(rows: list[Row]) -> list[Document]:
    return [row for row in rows if isinstance(row, Document)]


def test_a_folder_is_read_in_sorted_order(folder: Path) -> None:
    corpus = open_corpus([folder])
    found = documents(list(corpus.rows()))
    assert [document.text for document in found] == ["a", "b1", "b2", "o", "c", "d", "e", "f"]
    assert [document.row for document in found] == list(range(8))
    assert found[2].id == f"{folder}/b.txt:2"
    assert corpus.sources[:2] == (f"{folder}/a.txt.gz", f"{folder}/b.txt")
    assert corpus.fraction == 1.0


def test_with_a_format_every_visible_file_of_a_folder_is_read(folder: Path) -> None:
    (folder / "sub3").mkdir()
    (folder / "sub3/notes").write_text("n\n")
    assert texts_of(folder / "sub3", CorpusSettings(format="text")) == ["n"]


def test_names_are_as_the_user_gave_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert open_corpus(["b.txt", "./a.txt.gz"]).sources == ("b.txt", "./a.txt.gz")
    assert [document.id for document in documents(list(open_corpus(["b.txt"]).rows()))] == ["1", "2"]


def test_globs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert open_corpus(["*.txt*"]).sources == ("a.txt.gz", "b.txt")
    assert open_corpus(["sub*/*.c*"]).sources == ("sub2/e.csv.zst",)
    assert open_corpus(["sub*"]).sources == (
        "sub/c.PARQUET",
        "sub/deep/d.jsonl",
        "sub2/e.csv.zst",
        "sub2/part-00000.parquet",
    )
    assert open_corpus(["**/*.parquet"]).sources == ("sub2/part-00000.parquet",)
    Path("odd[1].txt").write_text("odd\n")
    assert texts_of("odd[1].txt") == ["odd"]  # a file of that name comes before a pattern


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path_is_a_corpus(tmp_path: Path, kind: type) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    assert [row.text for row in open_corpus(kind(file)).rows() if isinstance(row, Document)] == ["one", "two"]


def test_a_file_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "loop").symlink_to("loop")  # no text by its name
    assert len(open_corpus(tmp_path).files) == 1
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    with pytest.raises(CorpusError, match=r"loop.txt: cannot be read: Too many levels of symbolic links"):
        open_corpus(tmp_path)


def test_files_that_are_not_there(folder: Path) -> None:
    for name, says in (("gone.txt", "no such file or folder"), ("*.gone", "no file matches")):
        with pytest.raises(CorpusError, match=says):
            open_corpus([folder / name])
    assert texts_of(folder / ".git") == ["not read"]  # given by name it is read
    (folder / "empty").mkdir()
    with pytest.raises(CorpusError, match="no file with a known ending"):
        open_corpus([folder / "empty"])
    with pytest.raises(CorpusError, match="not a corpus but a feature set, which bertfeat wrote"):
        open_corpus([folder / "b.features"])
    with pytest.raises(UsageError, match="no corpus given"):
        open_corpus([])


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorpusError, match="not a regular file; pipe it in and give '-'"):
        open_corpus([tmp_path / "pipe"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    path.chmod(stat.S_IWUSR)
    with pytest.raises(CorpusError, match="cannot be read"):
        open_corpus([path])


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    corpus = open_corpus([path])
    path.unlink()
    with pytest.raises(CorpusError, match=r"a\.txt: cannot be read: No such file"):
        list(corpus.rows())


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    with open(name, "wb") as file:
        file.write(b"a ||| b\nc\n")
    corpus = open_corpus([os.fsdecode(name), os.fsdecode(name)], CorpusSettings(pairs=True))
    assert all("\\xff.txt" in source for source in corpus.sources)
    for row in corpus.rows():
        repr(row).encode()


# ── files that must agree ───────────────────────────────────────────────────────────────────────────────────


def test_words_and_tags_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a O\n")
    (tmp_path / "b.txt").write_text("b\n")
    with pytest.raises(CorpusError, match=r"a\.conll brings its own words, .*b\.txt does not"):
        open_corpus([tmp_path])
    with pytest.raises(UsageError, match=r"a\.conll: pretokenized cannot be used with conll files"):
        open_corpus([tmp_path], CorpusSettings(pretokenized=True))


def test_options_must_fit_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(write_jsonl(["a"]))
    (tmp_path / "b.txt").write_text("b\n")
    with pytest.raises(UsageError, match=r"b\.txt: keep=.*: text files have no columns to keep; there are 'file'"):
        open_corpus([tmp_path], CorpusSettings(keep=("year",)))


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────

LINES = [f"{n} words {n * n}" for n in range(80_000)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
def test_a_truncated_archive_gives_its_rows_and_then_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    whole = COMPRESS[ending](write_text(LINES))
    path.write_bytes(whole[: len(whole) * 9 // 10])
    rows: list[Row] = []
    with pytest.raises(CorpusError, match=rf"a\.txt{ending}: the \w+ data end too early"):
        _collect(path, rows)
    texts = [row.text for row in documents(rows)]
    assert len(texts) > len(LINES) // 4
    assert texts == LINES[: len(texts)]


def _collect(path: Path, rows: list[Row]) -> None:
    for row in open_corpus([path]).rows():
        rows.append(row)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
def test_a_damaged_archive_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    whole = bytearray(COMPRESS[ending](write_text(LINES)))
    whole[len(whole) // 2 : len(whole) // 2 + 64] = bytes(64)
    path.write_bytes(whole)
    with pytest.raises(CorpusError, match=rf"a\.txt{ending}: (damaged|the \w+ data end|something)"):
        _collect(path, [])


@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
@pytest.mark.parametrize(
    ("content", "says"),
    [(b"plain text, long enough\n", "not .* data, in spite of the ending"), (b"", "end too early"), (b"B", "not")],
)
def test_what_is_no_archive(tmp_path: Path, ending: str, content: bytes, says: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=says):
        open_corpus([path])


@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
def test_something_after_an_archive(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(COMPRESS[ending](b"a\n") + b"something else")
    rows: list[Row] = []
    with pytest.raises(CorpusError, match="something that is not"):
        _collect(path, rows)


def test_zeros_after_an_archive_are_padding(tmp_path: Path) -> None:
    for ending in (".gz", ".xz"):
        path = tmp_path / f"a.txt{ending}"
        path.write_bytes(COMPRESS[ending](b"a\n") + bytes(512))
        assert texts_of(path) == ["a"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF"),
        (b"PK\x03\x04\x14\0\x06\0", "a ZIP archive"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a picture"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a picture"),
        (COMPRESS[".gz"](b"a\n"), r"rename it to end in \.gz"),
        (COMPRESS[".bz2"](b"a\n"), r"rename it to end in \.bz2"),
        (COMPRESS[".xz"](b"a\n"), r"rename it to end in \.xz"),
        (COMPRESS[".zst"](b"a\n"), r"rename it to end in \.zst"),
        (write_parquet(["a"]), "Parquet; give format='parquet'"),
        (b"\x7fELF\x02\x01\x01" + bytes(9), "a program"),
        (b"SQLite format 3\0" + bytes(84), "binary data"),
        (b"abc" + bytes(600) + b"def" * 100, "of its first 903 bytes are zero"),
    ],
    # named, since gzip puts the time into its bytes
    ids=["pdf", "zip", "png", "jpeg", "gz", "bz2", "xz", "zst", "parquet", "elf", "sqlite", "zeros"],
)
def test_what_is_no_text(tmp_path: Path, content: bytes, says: str) -> None:
    for name in ("a.txt", "a.jsonl", "a.csv", "a.conll", "unknown"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(CorpusError, match=f"{name}: not text.*{says}"):
            open_corpus([path])


def test_a_few_zeros_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\0b\n")
    assert texts_of(tmp_path / "a.txt") == ["a\0b"]


def test_what_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    good = write_parquet([f"text {n}" * 20 for n in range(1000)])
    for content in (b"", b"text\n", good[:-5], good[:1000]):
        path.write_bytes(content)
        with pytest.raises(CorpusError, match=r"a\.parquet: not a sound Parquet file"):
            open_corpus([path])
    path.write_bytes(good[:2000] + bytes(200) + good[2200:])
    rows: list[Row] = []
    with pytest.raises(CorpusError, match=r"a\.parquet: cannot be read on after record"):
        _collect(path, rows)
    twice = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), twice)
    with pytest.raises(CorpusError, match="more than one column is called 'text'"):
        open_corpus([twice])
    (tmp_path / "a.parquet.gz").write_bytes(COMPRESS[".gz"](good))
    with pytest.raises(CorpusError, match="decompress the file first"):
        open_corpus([tmp_path / "a.parquet.gz"])


def test_zeros_without_end_after_an_archive_are_told(tmp_path: Path) -> None:
    """Some follow where a tape had them; a file that was made longer by gigabytes of nothing is damaged."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a line\n") + bytes(100_000))
    assert [document.text for document in open_corpus([path]).rows() if isinstance(document, Document)] == ["a line"]
    os.truncate(path, 1 << 40)
    with pytest.raises(CorpusError, match="something that is not gzip data follows"):
        list(open_corpus([path]).rows())


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.symlink_to("a.txt")
    with pytest.raises(CorpusError, match=r"a\.txt"):
        open_corpus([path])
