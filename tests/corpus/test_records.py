"""JSONL, CSV and Parquet: which fields become what, and what fails."""

import datetime
import decimal
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat.core.corpus import BlankLine, CorpusSettings, Document, Failure, KeptColumn, memory_corpus, open_corpus
from bertfeat.errors import CorpusError, UsageError, WrongColumnsError
from tests.support.corpus_writers import documents_of, failures_of, rows_of, texts_of

CRANFIELD = Path(__file__).parents[3] / "shared" / "data" / "cranfield" / "corpus.jsonl"


def jsonl(folder: Path, *records: Any, name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


def csv_file(folder: Path, content: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


def parquet(folder: Path, name: str = "a.parquet", **columns: Any) -> Path:
    path = folder / name
    pq.write_table(pa.table(columns), path)
    return path


# ── fields ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_text_columns_are_joined_by_one_space(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"title": "Wings", "text": "in a slipstream"}, {"title": "", "text": "x"})
    path2 = jsonl(tmp_path, {"title": "", "text": ""}, name="b.jsonl")
    settings = CorpusSettings(text_columns=("title", "text"))
    assert texts_of(path, settings) == ["Wings in a slipstream", "x"]
    assert texts_of(path2, settings) == [""]  # a document all the same


def test_ids_default_to_id_or_underscore_id_or_the_number(tmp_path: Path) -> None:
    assert [d.id for d in documents_of(jsonl(tmp_path, {"text": "a", "id": 7}, {"text": "b"}))] == ["7", "2"]
    assert [d.id for d in documents_of(jsonl(tmp_path, {"_id": "x", "text": "a"}))] == ["x"]
    assert [d.id for d in documents_of(csv_file(tmp_path, "text,id\na,x\nb,x\n"))] == ["x", "x"]
    assert [d.id for d in documents_of(parquet(tmp_path, text=["a"], id=[2.5]))] == ["2.5"]


def test_a_wanted_id_column_must_be_filled(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path, {"text": "a", "key": "k"}, {"text": "b"}, {"text": "c", "key": None}, {"text": "d", "key": []}
    )
    rows = rows_of(path, CorpusSettings(id_column="key"))
    assert [type(row) for row in rows] == [Document, Failure, Failure, Failure]
    assert [row.id for row in rows if not isinstance(row, BlankLine)] == ["k", "2", "3", "4"]
    assert "id_column" in rows[1].reason  # type: ignore[union-attr]


def test_a_number_that_is_none_is_no_id(tmp_path: Path) -> None:
    """pandas makes floats of whole numbers where one is missing, and NaN of that one."""
    nan = float("nan")
    missing = parquet(tmp_path, text=["a", "b", "c"], id=[1.0, nan, nan])
    assert [d.id for d in documents_of(missing)] == ["1.0", "2", "3"]
    rows = rows_of(missing, CorpusSettings(id_column="id"))
    assert [type(row) for row in rows] == [Document, Failure, Failure]
    assert "field 'id' is null" in rows[1].reason  # type: ignore[union-attr]
    given = memory_corpus([{"text": "a", "id": nan}, {"text": "b", "id": "x"}]).rows()
    assert [row.id for row in given if isinstance(row, Document)] == ["1", "x"]
    (text,) = memory_corpus([{"text": nan}]).rows()
    assert isinstance(text, Failure)
    assert "field 'text' is null" in text.reason


def test_numbers_as_ids_take_the_files_name_before_them(tmp_path: Path) -> None:
    one, two = jsonl(tmp_path, {"text": "a"}), csv_file(tmp_path, "text\nb\nc\n")
    rows = list(open_corpus([one, two]).rows())
    assert [(row.row, row.id) for row in rows if isinstance(row, Document)] == [
        (0, f"{one}:1"),
        (1, f"{two}:1"),
        (2, f"{two}:2"),
    ]


def test_pairs(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"text": "a", "b": "c"}, {"text": "a"}, {"text": "a", "b": None})
    corpus = open_corpus([path], CorpusSettings(pair_column="b"))
    first, *failed = corpus.rows()
    assert corpus.has_pairs
    assert isinstance(first, Document)
    assert (first.text, first.pair) == ("a", "c")
    assert all(isinstance(row, Failure) and "--pair-column" in row.reason for row in failed)


def test_given_words_and_tags(tmp_path: Path) -> None:
    settings = CorpusSettings(pretokenized=True, tag_column="ner")
    path = jsonl(tmp_path, {"text": ["New York", "!"], "ner": ["B", 0]}, {"text": [], "ner": []})
    first, empty = documents_of(path, settings)
    assert (first.text, first.words, first.tags) == ("New York !", ("New York", "!"), ("B", "0"))
    assert (empty.text, empty.words, empty.tags) == ("", (), ())
    assert documents_of(parquet(tmp_path, text=[["a", "b"]], ner=[[1, 2]]), settings)[0].tags == ("1", "2")
    (row,) = documents_of(csv_file(tmp_path, "text,ner\na  b,X Y\n"), settings)
    assert (row.text, row.words, row.tags) == ("a b", ("a", "b"), ("X", "Y"))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"text": "a string", "ner": []}, "a list of strings"),
        ({"text": ["a"], "ner": ["X", "Y"]}, "1 words but 2 tags"),
        ({"text": ["a", ""], "ner": ["X", "Y"]}, "item 2 of 'text' is empty"),
        ({"text": ["a", None], "ner": ["X", "Y"]}, "item 2 of 'text' is null"),
        ({"text": ["a"]}, "no field 'ner'"),
        ({"text": ["a"], "ner": [["X"]]}, "item 1 of 'ner' is a list"),
    ],
)
def test_words_and_tags_that_fail(tmp_path: Path, record: dict[str, Any], says: str) -> None:
    (failure,) = failures_of(jsonl(tmp_path, record), CorpusSettings(pretokenized=True, tag_column="ner"))
    assert says in failure.reason


# ── failures of single rows ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "says", "value"),
    [
        ('{"text": "SECRET', "not JSON: Unterminated string", '{"text": "SECRET'),
        ("[" * 100_000, "nested too deeply", "[" * 79 + "…"),
        ('{"text": "SECRET", "n": ' + "9" * 5000 + "}", "huge number", None),
        ('["SECRET"]', "not a JSON object", '["SECRET"]'),
        ("null", "not a JSON object", "null"),
        ('{"body": "SECRET"}', "no field 'text'; there are 'body': name one with --text-column", ""),
        ('{"text": null}', "field 'text' is null", ""),
        ('{"text": 12}', "field 'text' is a number, not a string", "12"),
        ('{"text": true}', "field 'text' is true or false", "true"),
        ('{"text": ["SECRET"]}', "--pretokenized takes lists of words", '["SECRET"]'),
        ('{"text": {"SECRET": 1}}', "field 'text' is an object", '{"SECRET": 1}'),
        ('{"text": "SECRET \\ud83d"}', "half of a surrogate pair", '{"text": "SECRET \\ud83d"}'),
        ('{"text": "x", "id": "\\uD83D"}', "half of a surrogate pair", None),
    ],
)
def test_a_row_that_fails_says_why_and_the_rest_survives(
    tmp_path: Path, line: str, says: str, value: str | None
) -> None:
    path = jsonl(tmp_path, {"text": "first"}, line, "", {"text": ""}, {"text": "\U0001f600"})
    first, failed, blank, empty, last = rows_of(path)
    assert first == Document(0, "1", "first")
    assert isinstance(failed, Failure)
    assert (failed.row, failed.id) == (1, "2")
    assert failed.reason.startswith((f"{path}, line 2: ", f"{path}, record 2: "))
    assert says in failed.reason
    assert "SECRET" not in failed.reason
    assert value is None or failed.value == value
    assert len(failed.value) <= 80
    (failed.reason + failed.value + failed.id).encode()
    assert [blank, empty, last] == [BlankLine(2), Document(3, "4", ""), Document(4, "5", "\U0001f600")]


def test_a_surrogate_in_a_field_that_is_not_read_is_no_matter(tmp_path: Path) -> None:
    path = jsonl(tmp_path, '{"text": "a", "other": "\\ud83d", "\\ud83d": 1}', '{"text": "\\ud83d\\ude00"}')
    assert texts_of(path) == ["a", "\U0001f600"]
    assert open_corpus([path]).columns == ("text", "other")


def test_csv_rows_that_fail(tmp_path: Path) -> None:
    path = csv_file(tmp_path, 'text,n\na,1\nb\nc,2,3\n"d ""e"" \r\n f",4\n\n"g"h,5\ni,6\n')
    rows = rows_of(path)
    assert [row.row for row in rows] == list(range(7))
    assert [row.text for row in rows if isinstance(row, Document)] == ["a", 'd "e" \r\n f', "i"]
    assert rows[4] == BlankLine(4)
    ragged, longer, quotes = (row for row in rows if isinstance(row, Failure))
    assert "line 3: 1 cells under 2 columns" in ragged.reason
    assert "line 4: 3 cells under 2 columns" in longer.reason
    assert "line 8: ',' expected after '\"'" in quotes.reason


def test_a_quotation_that_never_ends_fails(tmp_path: Path) -> None:
    path = csv_file(tmp_path, 'text\na\n"b\nc\n')
    *_, failed = rows_of(path)
    assert isinstance(failed, Failure)
    assert "lines 3 to 4: unexpected end of data" in failed.reason


def test_an_undecodable_line_of_a_csv_file_fails_its_record_only(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,n\na,1\n"b\n\xff",2\nc,3\nd,4\ne,5\nf,6\n')
    rows = rows_of(path)
    assert [row.text for row in rows if isinstance(row, Document)] == ["a", "c", "d", "e", "f"]
    assert isinstance(rows[1], Failure)
    assert "lines 3 to 4: not utf-8 at byte 1" in rows[1].reason


def test_a_cell_may_be_huge(tmp_path: Path) -> None:
    assert texts_of(csv_file(tmp_path, "text\n" + "word " * 100_000 + "\n")) == ["word " * 100_000]


def test_parquet_rows_that_fail(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc"))
    rows = rows_of(parquet(tmp_path, text=bad))
    assert [type(row) for row in rows] == [Document, Failure, Document]
    assert "field 'text' is not UTF-8" in rows[1].reason  # type: ignore[union-attr]
    (null,) = failures_of(parquet(tmp_path, text=["a", None]))
    assert (null.row, "record 2: field 'text' is null" in null.reason) == (1, True)
    (number,) = failures_of(parquet(tmp_path, text=[1]))
    assert "field 'text' is a number" in number.reason


def test_parquet_reads_every_kind_of_string(tmp_path: Path) -> None:
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(4))
    for kind in (*kinds, pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.binary())):
        values = pa.array([b"bank", "은a".encode()], pa.binary())
        plain = values.cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
        column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
        assert texts_of(parquet(tmp_path, text=column)) == ["bank", "은a"]


def test_parquet_reads_bytes_of_old_writers_as_strings_wherever_they_stand(tmp_path: Path) -> None:
    """Impala, Hive and old versions of Spark write strings as bytes without saying that they are UTF-8."""
    path = parquet(
        tmp_path,
        text=pa.array([[b"the", "Fluß".encode()], [b"bank"], [b"\xff"]]),
        ner=pa.array([[b"O", b"B-LOC"], [b"O"], [b"O"]]),
        id=pa.array([b"one", b"two", b"three"]),
        year=pa.array([b"1900", None, b"1901"]),
    )
    settings = CorpusSettings(pretokenized=True, tag_column="ner", keep=("year",))
    first, second, bad = rows_of(path, settings)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert isinstance(bad, Failure)
    assert (first.words, first.tags, first.id, first.kept) == (("the", "Fluß"), ("O", "B-LOC"), "one", ("1900",))
    assert (second.id, second.kept) == ("two", (None,))
    assert "field 'text' is not UTF-8; write it as UTF-8" in bad.reason


def test_parquet_is_read_in_batches_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = ["x" * 2**20 + str(n) for n in range(100)]
    plain = {"compression": "none", "use_dictionary": False, "write_batch_size": 1}  # pages of 1 MiB
    pq.write_table(pa.table({"text": texts}), path, row_group_size=100, **plain)
    before = pa.total_allocated_bytes()
    corpus = open_corpus([path])
    seen = [(corpus.fraction, pa.total_allocated_bytes() - before) for _ in corpus.rows()]
    fractions = [fraction for fraction, _ in seen]
    assert len(set(fractions)) > 2  # several batches of the one row group
    assert fractions == sorted(fractions)
    assert max(allocated for _, allocated in seen) < 80 * 2**20


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_column_names_those_that_there_are(tmp_path: Path) -> None:
    for path in (csv_file(tmp_path, "body,n\na,1\n"), parquet(tmp_path, body=["a"], n=[1])):
        with pytest.raises(
            WrongColumnsError, match=r"no column 'text'; there are 'body', 'n': name one with text_columns"
        ):
            open_corpus([path])
    with pytest.raises(WrongColumnsError, match="id_column"):
        open_corpus([csv_file(tmp_path, "text\na\n")], CorpusSettings(id_column="key"))
    with pytest.raises(WrongColumnsError, match="separated by ';'"):
        open_corpus([csv_file(tmp_path, "text;n\na;1\n")])


def test_a_csv_header_must_be_sound(tmp_path: Path) -> None:
    for content, says in (("", "empty"), ("text,text\n", "more than one column is called 'text'"), ('"text', "sound")):
        with pytest.raises(CorpusError, match=says):
            open_corpus([csv_file(tmp_path, content)])


# ── kept columns ────────────────────────────────────────────────────────────────────────────────────────────


def kept_of(path: Path, *keep: str) -> tuple[tuple[KeptColumn, ...], list[tuple[Any, ...]]]:
    corpus = open_corpus([path], CorpusSettings(keep=keep))
    return corpus.kept, [row.kept for row in corpus.rows() if isinstance(row, Document)]


def test_types_of_kept_json_fields(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        {"text": "a", "i": 1, "f": 1, "b": True, "s": "x", "l": [1, "é"], "m": 1, "n": None, "big": 2**70},
        {"text": "b", "i": None, "f": 0.5, "b": False, "s": None, "l": {"k": None}, "m": "1", "n": None, "big": 1},
        {"text": "c"},
    )
    columns, values = kept_of(path, "all")
    types = {"i": "int64", "f": "float64", "b": "bool"}
    assert columns == tuple(KeptColumn(name, types.get(name, "string")) for name in (*"ifbslmn", "big"))
    assert values == [
        (1, 1.0, True, "x", '[1, "é"]', "1", None, str(2**70)),
        (None, 0.5, False, None, '{"k": null}', "1", None, "1"),
        (None,) * 8,
    ]
    assert isinstance(values[0][1], float)


def test_types_of_kept_csv_cells(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "text,i,f,b,zip,phone,s,none\n"
        "a,1, 2.5,true,01234,+821012345678,1\x1d,\n"
        "b,,3,FALSE,12345,+82,,\n"
        "c,-7,1e3,,00000,5,1,\n",
    )
    columns, values = kept_of(path, "i", "f", "b", "zip", "phone", "s", "none")
    assert [column.type for column in columns] == ["int64", "float64", "bool", *["string"] * 4]
    assert values == [
        (1, 2.5, True, "01234", "+821012345678", "1\x1d", ""),
        (None, 3.0, False, "12345", "+82", "", ""),
        (-7, 1000.0, None, "00000", "5", "1", ""),
    ]


def test_types_of_kept_parquet_columns(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        text=["a"],
        i=pa.array([1], pa.uint8()),
        f=pa.array([0.5], pa.float16()),
        b=[True],
        day=[datetime.date(2020, 1, 2)],
        at=pa.array([1], pa.timestamp("ns")),
        price=[decimal.Decimal("1.10")],
        list=[["x"]],
        raw=[b"\xc3\xa4"],
        kind=pa.array([3]).dictionary_encode(),
    )
    columns, values = kept_of(path, "all")
    assert [column.type for column in columns] == ["int64", "float64", "bool", *["string"] * 5, "int64"]
    assert values == [(1, 0.5, True, "2020-01-02", "1970-01-01 00:00:00.000000001", "1.10", '["x"]', "ä", 3)]


def test_a_later_value_that_does_not_fit_fails_with_the_remedy(tmp_path: Path) -> None:
    records = [{"text": "a", "year": 1900 + n % 100} for n in range(1000)]
    path = jsonl(tmp_path, *records, {"text": "a", "year": "c. 1900"}, {"text": "a", "year": 3.0}, {"text": "a"})
    settings = CorpusSettings(keep=("year",))
    (failure,) = failures_of(path, settings)
    assert failure.row == 1000
    assert "--keep year:string" in failure.reason
    assert "c. 1900" not in failure.reason
    assert "c. 1900" in failure.value
    given = documents_of(path, CorpusSettings(keep=("year:string",)))
    assert [given[place].kept for place in (0, 1000, 1001, 1002)] == [("1900",), ("c. 1900",), ("3.0",), (None,)]


@pytest.mark.parametrize("value", [2**63, 0.5, True, "x", [1]])
def test_what_does_not_fit_int64(tmp_path: Path, value: object) -> None:
    path = jsonl(tmp_path, {"text": "a", "n": value})
    assert len(failures_of(path, CorpusSettings(keep=("n:int64",)))) == 1


def test_keep_refuses(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"text": "a", "year": 1, "row": 2})
    for keep, says in (
        (("decade",), r"no such field .* there are 'text', 'year', 'row'"),
        (("row",), "the feature set has its own column 'row'"),
        (("all",), r"or keep the others only: keep=\('year',\)"),
        (("year:int32",), "not a type; there are string, int64"),
        (("year:int64", "year:string"), "kept already"),
    ):
        with pytest.raises(UsageError, match=says):
            open_corpus([path], CorpusSettings(keep=keep))
    with pytest.raises(UsageError, match=r"no such column in .*a\.csv; there are 'text'"):
        open_corpus([csv_file(tmp_path, "text\na\n")], CorpusSettings(keep=("year",)))
    assert open_corpus([path], CorpusSettings(keep=("decade:string",))).kept == (KeptColumn("decade", "string"),)


def test_files_must_agree_on_the_types_of_kept_columns(tmp_path: Path) -> None:
    paths = [parquet(tmp_path, text=["a"], n=[1]), jsonl(tmp_path, {"text": "b", "n": "x"})]
    with pytest.raises(CorpusError, match=r"column 'n' is int64 in .*parquet and string in .*jsonl; give keep="):
        open_corpus(paths, CorpusSettings(keep=("n",)))
    corpus = open_corpus(paths, CorpusSettings(keep=("n:string",)))
    assert [row.kept for row in corpus.rows() if isinstance(row, Document)] == [("1",), ("x",)]
    floats = parquet(tmp_path, "f.parquet", text=["c"], n=[0.5])
    assert open_corpus([paths[0], floats], CorpusSettings(keep=("n",))).kept == (KeptColumn("n", "float64"),)


def test_not_a_number_is_kept(tmp_path: Path) -> None:
    columns, ((value, infinite),) = kept_of(jsonl(tmp_path, '{"text": "a", "x": NaN, "y": Infinity}'), "x", "y")
    assert [column.type for column in columns] == ["float64", "float64"]
    assert (value != value, infinite) == (True, float("inf"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_time_grows_with_the_number_of_kept_fields_and_not_its_square(tmp_path: Path, kind: str) -> None:
    seconds = {}
    for count in (1_000, 8_000):
        record = {"text": "a", **{f"field {at}": at for at in range(count)}}
        if kind == "parquet":
            path = parquet(tmp_path, f"{count}.parquet", **{name: [value] for name, value in record.items()})
        elif kind == "csv":
            path = csv_file(tmp_path, f"{','.join(record)}\n{','.join(map(str, record.values()))}\n", f"{count}.csv")
        else:
            path = jsonl(tmp_path, record, name=f"{count}.jsonl")
        tries = []
        for _ in range(3):
            begin = time.process_time()
            columns, _ = kept_of(path, "all")
            tries.append(time.process_time() - begin)
            assert len(columns) == count
        seconds[count] = min(tries)
    assert seconds[8_000] < 20 * seconds[1_000]  # 8 times as many; by the square it is 30 times as long


@pytest.mark.skipif(not CRANFIELD.exists(), reason="the data set is not here")
def test_a_real_collection() -> None:
    documents = documents_of(CRANFIELD, CorpusSettings(text_columns=("title", "text")))
    assert len(documents) == 1400
    assert sum(not document.text for document in documents) == 2
    assert (documents[0].row, documents[0].id) == (0, "1")
