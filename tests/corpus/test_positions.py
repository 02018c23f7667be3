"""Reading from any row on gives exactly the rows that follow it when the file is read from its start."""

import csv
import io
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from bertfeat.core.corpus import (
    START,
    CorpusFile,
    CorpusSettings,
    Document,
    Failure,
    FileReading,
    Position,
    Row,
    blocks,
    conll,
    lines,
    open_corpus,
)
from tests.support.corpus_writers import COMPRESS, write_squad

LIMIT = 120  # bytes of a line
REACH = 25  # characters of context
LONG = "long " * 30


@dataclass(frozen=True, slots=True)
class Case:
    """A corpus that is hard to cut, and how many of its rows cannot be read."""

    name: str
    content: bytes
    failures: int = 0
    settings: CorpusSettings = field(default_factory=CorpusSettings)


def _lines(*lines: str, end: str = "\n") -> str:
    return "".join(line + end for line in lines)


_WIDE = "".join(map(chr, (0x0A0A, 0x0D0A, 0x0A0D, 0x0A00, 0x000B)))  # characters with bytes of line ends
_JSON = [json.dumps({"text": f"text {n}", "id": f"i{n}", "n": n, "id2": None}) for n in range(6)]
_QUOTED = 'text,n\n"one\nof three\nlines",1\n\n"two ""quoted"" words",2\r\nplain,3\r\n'
_CONLL = "-DOCSTART- -X- O\n\n# id = 1\nThe DT O\nbank NN B\n\n\nof IN O\n\nriver NN O\nbanks NN O\n"
_DOCUMENTS = _CONLL + "".join(f"\nword{n} X O\n" + "more X O\n" * (n % 4) for n in range(12))
_TREE = "# a\n1\tThe\t_\tDET\n2-3\tit's\n2\tit\t_\tPRON\n3\t's\t_\tAUX\n\n"
_BAD_QUESTIONS = """ {"data": [{"title": "a", "paragraphs": []}, 5, {"paragraphs": [
  {"context": "c d", "qas": [{"id": "1", "question": "?", "answers": [{"text": "d", "answer_start": 2}]}, {}]}, [], {
  "context": 1, "qas": [{"id": "2", "question": "?"}]}]} , {"paragraphs": [{"context": "e", "qas": []}]},
  {"title": "b", "paragraphs": [{"context": "f", "qas": [{"id": "3", "question": "\\ud83d"},
  {"id": "4", "question": "x"}, {"id": "5", "question": "y", "is_impossible": true}]}]}], "version": 2}
"""

_RUNNING = "\n\nThe bank\nof  the river\n \t\n\nstood\n\nhigh" + "\nand\nhigher\n\n" * 3
_PARAGRAPHS = CorpusSettings(format="paragraphs")
_PROTEINS = ">a one\nMVL\nSPA*\n\n>b\n; old\nmv\n>c two words\nM V\nL\n"
CASES = [
    Case("plain.txt", _lines("one", "two", "", " \t", "three", "a last one").encode()[:-1]),
    Case("empty.txt", b""),
    Case("mark.txt", _lines("one", "zwei é", "", "漢字").encode("utf-8-sig")),
    Case("only-mark.txt", "\ufeff".encode()),
    Case("utf16.txt", _lines("one", "漢字", "", _WIDE, "😀 end").encode("utf-16")),
    Case("utf16-be.txt", ("\ufeff" + _lines("one", _WIDE, "", "end", end="\r\n")).encode("utf-16-be")),
    Case("utf16-odd.txt", "\ufeffone\n漢字\n".encode("utf-16-le") + b"a", 1),
    Case("utf32.txt", _lines("one", "漢字", _WIDE, "end").encode("utf-32")),
    Case("declared.txt", _lines("one", _WIDE, "", "end").encode("utf-16-le"), 0, CorpusSettings(encoding="utf-16-le")),
    Case("returns.txt", _lines("one", "two\r", "th\rree", "", "end", end="\r\n").encode()),
    Case("bad.txt", b"one\nb\xffd\n\ntwo\r\n\xff\xfe\xfd\nthree\nfour\nfive\nsix", 2),
    Case(
        "long.txt",
        _lines("one", LONG, "two", "", LONG, LONG, "x" * LIMIT, "x" * (LIMIT + 1), "end", LONG).encode()[:-1],
        5,
    ),
    Case("long16.txt", _lines("one", LONG, "two", "", LONG, "end").encode("utf-16"), 2),
    Case("korean.txt", _lines("은행", "", "찾았다").encode("cp949"), 0, CorpusSettings(encoding="cp949")),
    Case("japanese.txt", _lines("銀行", "", "漢字").encode("iso2022_jp"), 0, CorpusSettings(encoding="iso-2022-jp")),
    Case("ebcdic.txt", _lines("one", "", "two").encode("cp037"), 0, CorpusSettings(encoding="cp037")),
    Case("pairs.txt", b"a ||| b\n\nno pair\nc ||| d\n", 1, CorpusSettings(pairs=True)),
    Case("words.txt", b" a  b\n\nc\n", 0, CorpusSettings(pretokenized=True)),
    Case("paragraphs.txt", _RUNNING.encode(), 0, _PARAGRAPHS),
    Case("utf16-paragraphs.txt", _RUNNING.replace("\n", "\r\n").encode("utf-16"), 0, _PARAGRAPHS),
    Case("bad-paragraphs.txt", f"a\n{LONG}\nb\n\nc\n\n{LONG}\n\n".encode() + b"d\n\xff\ne\n\nf", 3, _PARAGRAPHS),
    Case("good.jsonl", _lines(*_JSON).encode()),
    Case("kept.jsonl", _lines(*_JSON).encode(), 0, CorpusSettings(keep=("n", "id2:string"))),
    Case("late.jsonl", _lines('{"text": "a"}', '{"text": "b", "k": 1}').encode(), 0, CorpusSettings(keep=("k:int64",))),
    Case(
        "bad.jsonl",
        _lines(
            *_JSON[:2], "", '{"text": 1}', "{no", "[1]", "  ", '{"text": "\\ud83d"}', *_JSON[2:], end="\r\n"
        ).encode()
        + b'{"text": "\xff"}\n{"no": 1}',
        6,
    ),
    Case("long.jsonl", _lines('{"text": "a"}', json.dumps({"text": LONG}), '{"text": "b"}').encode("utf-16"), 1),
    Case("mark.jsonl", _lines(*_JSON).encode("utf-8-sig")),
    Case("quoted.csv", (_QUOTED + "last,4").encode()),
    Case("utf16.csv", (_QUOTED + f"{_WIDE},4\n").encode("utf-16")),
    Case("header.csv", '"text","two\nlines"\r\na,1\r\nb,2\r\n'.encode("utf-8-sig")),
    Case("only-header.csv", b"text,n\n"),
    Case("cells.csv", b"text,n\na,1\nb\nc,1,2\n\nd,2\n", 2),
    Case("damaged.csv", b'text,n\na,1\n"b" c,2\n"d\ne"f,3\ng,4\n"h\n\ni",5\nj,6\n"never\nclosed,7\n\n', 3),
    Case("bytes.csv", b'text,n\na,1\n"b\n\xff\nc",2\n\xfe,3\nd,4\ne,5\nf,6\ng,7\nh,8\n', 2),
    Case("long.csv", _lines("text,n", f"{LONG},1", "a,2", f'"b\n{LONG}",3', '"c\nd",4', "e,5").encode(), 2),
    Case("tabs.tsv", b'text\tn\na "b" c\t1\n"d\ne"\t2\n\nf\t3\n'),
    Case("kept.csv", b"text,n\na,1\nb,x\n,\nc,2\n", 0, CorpusSettings(keep=("n",))),
    Case("plain.conll", _CONLL.encode()),
    Case("returns.conll", (_CONLL + "\n  \n\nend X O\n\n\n# no = sentence\n").replace("\n", "\r\n").encode()),
    Case("bad.conll", b"a O\n\nb\nc O\n\n-DOCSTART- O\nd O\n\xff O\n\ne O\n-DOCSTART- O\n\nf O\ng O\n" * 3, 6),
    Case("context.conll", (_DOCUMENTS * 3).encode(), 0, CorpusSettings(document_context=True)),
    Case("utf16-context.conll", (_DOCUMENTS * 2).encode("utf-16"), 0, CorpusSettings(document_context=True)),
    Case(
        "bad-context.conll",
        ("a O\n\nb\nc O\n\nd O\n\n" * 9 + "-DOCSTART- O\ne O\n\n\n# f = g\nf O\n-DOCSTART-\n\ng O\n\nh").encode(),
        10,
        CorpusSettings(document_context=True),
    ),
    Case("tree.conllu", (_TREE * 4).encode()),
    Case("utf16.json", json.dumps([{"text": f"é {n}", "n": n} for n in range(14)], indent=1).encode("utf-16")),
    Case("bytes.json", b'[{"text": "a"}, 3, {"text": null}, {"text": "b"}, [], {"no": 1}, {"text": "c"}]', 4),
    Case("good.json", write_squad([f"é {n}?" for n in range(14)])),
    Case("lines.json", json.dumps(json.loads(write_squad("abcdefg")), indent=1).encode("utf-16")),
    Case("bad.json", _BAD_QUESTIONS.encode(), 5, CorpusSettings(keep=("answer_start", "title"))),
    Case("none.json", b'{"data": [{"paragraphs": []}, {"paragraphs": [{"context": "c", "qas": []}]}]}'),
    Case("good.fasta", (_PROTEINS * 3).encode(), 0, CorpusSettings(keep=("description",))),
    Case("utf16.fasta", _PROTEINS.replace("\n", "\r\n").encode("utf-16")),
    Case(
        "bad.fasta", b"MV\n>a\nM1\n>b\n\n>\nM\n>c\n\xff\nMM\n>d e\nMV\n" * 2 + b">" + LONG.encode() + b"\nM\n>f\nM", 10
    ),
    Case("bad.conllu", (_TREE + "1\ta\n\n# only\n\n1-2\tx\t_\tX\n\n" + _TREE).encode(), 2),
]
PACKED = [case for case in CASES if case.name.partition(".")[0] in ("bad", "bytes", "utf16", "context")]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", LIMIT)
    monkeypatch.setattr(conll, "REACH", REACH)


def in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let files be read so many bytes at a time."""
    monkeypatch.setattr(blocks, "_CHUNK", size)
    monkeypatch.setattr(blocks, "_HELD", size)
    monkeypatch.setattr(blocks, "_BLOCK", size)


def file_of(path: Path, settings: CorpusSettings | None = None) -> CorpusFile:
    """The file as a worker gets it."""
    (file,) = open_corpus([path], settings or CorpusSettings()).files
    copy: CorpusFile = pickle.loads(pickle.dumps(file))
    assert copy == file
    return copy


def check_cuts(file: CorpusFile, first: int = 70) -> list[Row]:
    """Cut a file after each of its rows; returns them all."""
    whole = list(file.read(first))
    passed = [START, *(reading.position for reading in _stepwise(file, first))]
    for count in range(len(whole) + 1):
        reading = file.read(first, rows=count)
        assert reading.position == START
        assert list(reading) == whole[:count]
        assert reading.position == passed[count]
        assert reading.position.record == count
        after = file.read(first + count, start=reading.position)
        assert after.position == reading.position
        assert list(after) == whole[count:]
        if count:
            assert list(file.read(first + count - 1, start=reading.row_position)) == whole[count - 1 :]
            assert reading.row_position.record == count - 1
        check_second_cut(file, whole[count:], reading.position)
    return whole


def _stepwise(file: CorpusFile, first: int) -> Iterator[FileReading]:
    reading = file.read(first)
    for _ in reading:
        yield reading


def check_second_cut(file: CorpusFile, rest: Sequence[Row], start: Position) -> None:
    """Cut what follows a cut."""
    if not rest:
        return
    middle = len(rest) // 2
    reading = file.read(rest[0].row, start=start, rows=middle)
    assert list(reading) == list(rest[:middle])
    again = file.read(rest[middle].row, start=reading.position)
    assert list(again) == list(rest[middle:])
    assert again.position.record == start.record + len(rest)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("size", [1, 13, 2**18], ids="pieces of {}".format)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_cut(case: Case, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / case.name
    path.write_bytes(case.content)
    rows = list(open_corpus([path], case.settings).rows())  # in pieces of the usual size
    in_pieces(monkeypatch, size)
    found = check_cuts(file_of(path, case.settings), first=0)
    assert found == rows
    assert sum(isinstance(row, Failure) for row in rows) == case.failures


@pytest.mark.sampled(20)
@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
@pytest.mark.parametrize("case", PACKED, ids=lambda case: case.name)
def test_every_cut_of_an_archive(case: Case, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, packed = tmp_path / case.name, tmp_path / f"{case.name}{ending}"
    path.write_bytes(case.content)
    third = len(case.content) // 3 + 1
    members = [case.content[start : start + third] for start in range(0, len(case.content), third)]
    packed.write_bytes(b"".join(map(COMPRESS[ending], [members[0], b"", *members[1:]])))
    in_pieces(monkeypatch, 17)
    plain, rows = file_of(path, case.settings), check_cuts(file_of(packed, case.settings))
    assert [_named(row, plain.name, plain.name) for row in plain.read(70)] == [
        _named(row, str(packed), plain.name) for row in rows
    ]


def _named(row: Row, name: str, other: str) -> Row:
    return replace(row, reason=row.reason.replace(name, other)) if isinstance(row, Failure) else row


# ── other readers of the same files ─────────────────────────────────────────────────────────────────────────


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.text(st.sampled_from("ab \té漢😀\r\x85\u2028\x0b"), max_size=8), max_size=10),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    size=st.sampled_from([1, 5, 64]),
)
def test_lines_from_any_on(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, encoding: str, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    text = "".join(line + end for line in lines)
    path.write_bytes(text.encode(encoding))
    expected = [line.removesuffix("\r") for line in text.split("\n")[:-1]]
    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, size)
        file = file_of(path)
        reading = file.read(0)
        for number, row in enumerate(reading):
            found = list(file.read(number, start=reading.row_position))
            assert found[0] == row
            assert [_text(row) for row in found] == [line if line.strip() else None for line in expected[number:]]
            assert [row.row for row in found] == list(range(number, len(expected)))
        assert reading.position.line == len(expected)


def _text(row: Row) -> str | None:
    assert not isinstance(row, Failure)
    return row.text if isinstance(row, Document) else None


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.tuples(st.text(st.sampled_from('a,"\n\ré '), max_size=8), st.integers(0, 99)), max_size=8),
    dialect=st.sampled_from([(csv.QUOTE_MINIMAL, "\r\n"), (csv.QUOTE_ALL, "\n")]),
    size=st.sampled_from([1, 5, 64]),
)
def test_cells_from_any_on(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, int]], dialect: tuple[int, str], size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=dialect[0], lineterminator=dialect[1])  # type: ignore[arg-type]
    writer.writerows([("text", "n"), *cells])
    path.write_bytes(written.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, size)
        file = file_of(path, CorpusSettings(keep=("n",)))
        reading = file.read(0)
        for number, _ in enumerate(reading):
            for position, passed in ((reading.row_position, number), (reading.position, number + 1)):
                rest = written.getvalue().encode()[position.offset :].decode()
                assert [(text, int(n)) for text, n in csv.reader(io.StringIO(rest, newline=""))] == cells[passed:]
                documents = [row for row in file.read(passed, start=position) if isinstance(row, Document)]
                assert [(row.text, *row.kept, row.id) for row in documents] == [
                    (text, n, str(place)) for place, (text, n) in enumerate(cells[passed:], passed + 1)
                ]


@pytest.mark.parametrize("ending", COMPRESS)
def test_objects_from_any_on(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.jsonl{ending}"
    records = [{"text": f"é {n}" * (n % 5 + 1), "id": f"i{n}"} for n in range(3000)]
    path.write_bytes(COMPRESS[ending](_lines(*map(json.dumps, records)).encode()))
    file = file_of(path)
    position, row = START, 0
    while row < len(records):
        reading = file.read(row, start=position, rows=701)
        documents = [row for row in reading if isinstance(row, Document)]
        assert [{"text": one.text, "id": one.id} for one in documents] == records[row : row + 701]
        position, row = reading.position, row + len(documents)
    assert list(file.read(row, start=position)) == []


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("groups", [[], [0], [5], [3, 4, 1], [2, 0, 0, 3, 0]], ids=str)
def test_every_cut_of_parquet(tmp_path: Path, groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    _write_groups(path, groups)
    file = file_of(path, CorpusSettings(keep=("n",)))
    monkeypatch.setattr("bertfeat.core.corpus.parquet._BATCH_ROWS", 2)
    rows = check_cuts(file)
    assert [row.kept for row in rows if isinstance(row, Document)] == [(n,) for n in range(sum(groups)) if n % 3]
    assert sum("record 4: field 'text' is null" in row.reason for row in rows if isinstance(row, Failure)) == (
        sum(groups) > 3
    )


def _write_groups(path: Path, groups: list[int]) -> None:
    schema = pa.schema({"text": pa.string(), "n": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        first = 0
        for size in groups:
            texts = [f"text {n}" if n % 3 else None for n in range(first, first + size)]
            writer.write_table(pa.table({"text": texts, "n": range(first, first + size)}, schema))
            first += size


def test_a_position_in_parquet_names_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    _write_groups(path, [3, 4, 1])
    reading = file_of(path).read(0)
    positions = [reading.position for _ in reading]
    offsets = [(position.offset, position.skip, position.record, position.line) for position in positions]
    assert offsets == [
        (0, 1, 1, 0),
        (0, 2, 2, 0),
        (3, 0, 3, 0),
        (3, 1, 4, 0),
        (3, 2, 5, 0),
        (3, 3, 6, 0),
        (7, 0, 7, 0),
        (8, 0, 8, 0),
    ]
