"""Corpora that nobody would write and somebody will have: each with a name, its bytes, and how it is read."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

NAMES = ("text", "number")


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus in one file."""

    name: str  # what is odd about it
    file: str
    make: Callable[[], bytes]
    options: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0, 1, 2, 3)  # of extract
    documents: int | None = None  # that there must be, where that is known
    heavy: bool = False  # takes seconds


def plain(name: str, file: str, data: bytes | str, *options: str, **more: object) -> Corpus:
    """A corpus of given bytes."""
    known = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return Corpus(name, file, lambda: known, options, **more)  # type: ignore[arg-type]


def crafted() -> Iterator[Corpus]:
    """All of them."""
    yield from _texts()
    yield from _json_lines()
    yield from _questions()
    yield from _tables()
    yield from _sentences()
    yield from _proteins()
    yield from _parquets()
    yield from _token_ids()
    yield from _archives()


def _texts() -> Iterator[Corpus]:
    yield plain("empty", "c.txt", b"", codes=(0, 1, 2))
    yield plain("one line feed", "c.txt", b"\n", codes=(0, 1, 2))
    yield plain("20,000 blank lines", "c.txt", b"\n" * 20_000, codes=(0, 1, 2))
    yield plain("one byte", "c.txt", b"a", documents=1, codes=(0,))
    yield plain("no last line feed", "c.txt", b"a\nb", documents=2, codes=(0,))
    yield plain("NUL bytes", "c.txt", b"a\0b\n\0\nc\n", codes=(0, 3, 2))
    yield plain("only NUL bytes", "c.txt", bytes(100_000), codes=(0, 1, 2, 3))
    yield plain("lone carriage returns", "c.txt", b"a\rb\rc", codes=(1,))
    yield plain("mixed line ends", "c.txt", b"a\r\nb\nc\r\n\r\nd", documents=4, codes=(0,))
    yield plain("UTF-8 mark", "c.txt", b"\xef\xbb\xbfa\nb\n", documents=2, codes=(0,))
    yield plain("two marks", "c.txt", b"\xef\xbb\xbf\xef\xbb\xbfa\nb\n", documents=2, codes=(0,))
    yield plain("only a mark", "c.txt", b"\xef\xbb\xbf", codes=(0, 1, 2))
    yield plain("half a mark", "c.txt", b"\xef\xbb", codes=(1, 2))
    yield plain("UTF-16 with a mark", "c.txt", "a\nb\n".encode("utf-16"), documents=2, codes=(0,))
    yield plain("UTF-16 cut in a character", "c.txt", "a\nbc\n".encode("utf-16")[:-3], codes=(0, 1, 3))
    yield plain("UTF-16 without a mark", "c.txt", "a\nb\n".encode("utf-16-le") * 50, codes=(0, 1, 2, 3))
    yield plain("UTF-32 with a mark", "c.txt", "a\nb\n".encode("utf-32"), documents=2, codes=(0,))
    yield plain("Latin-1", "c.txt", "café\nnaïve\n".encode("latin-1") * 60, codes=(1, 2))
    yield plain("one line of Latin-1", "c.txt", b"a\n" * 150 + "café\n".encode("latin-1"), codes=(3,))
    yield plain("overlong UTF-8", "c.txt", b"a\n\xc0\xaf\nb\n", codes=(1, 2, 3))
    yield plain("surrogates in UTF-8", "c.txt", b"a\n\xed\xa0\x80\nb\n", codes=(1, 2, 3))
    yield plain("another encoding than said", "c.txt", "은행\n" * 20, "--encoding", "ascii", codes=(1, 2))
    yield plain("an encoding of bytes to bytes", "c.txt", "a\n", "--encoding", "rot13", codes=(2,))
    yield plain("an encoding with a NUL", "c.txt", "a\n", "--encoding", "utf\x01-8", codes=(2,))
    yield plain("pairs without bars", "c.txt", "a\nb ||| c\n||| \n", "--pairs")
    yield plain("control characters", "c.txt", "\x1b[31ma\x07\x08b\n\x00\x7f\x85\n", codes=(0, 3))
    yield plain("texts of other directions", "c.txt", "\u202eabc\u202c\n\u2066x\n", documents=2, codes=(0,))
    yield plain("combining marks", "c.txt", "a" + "\u0301" * 20_000 + "\n", documents=1, codes=(0,))
    yield plain(
        "characters beyond the first plane", "c.txt", "\U0001f600\U0010ffff\U000e0001\n" * 5, documents=5, codes=(0,)
    )
    yield plain("white space of all kinds", "c.txt", "\u2028\u2029\x85\u3000\xa0\n\u200b\n", codes=(0, 3))
    yield plain("a line of 2 MB without a blank", "c.txt", b"x" * 2_000_000 + b"\nb\n", codes=(0, 3))
    yield Corpus("a line of 2 MB of words", "c.txt", lambda: b"xy z " * 400_000 + b"\nb\n", codes=(0, 3), heavy=True)
    yield Corpus("a line of 300 MB", "c.txt", lambda: b"xy z " * 60_000_000 + b"\nb\n", codes=(0, 3), heavy=True)
    yield plain("text under .jsonl", "c.txt.jsonl", "no JSON\n" * 3, codes=(1, 2))


def _json_lines() -> Iterator[Corpus]:
    good = '{"text": "a"}\n'
    odd = {
        "nested 10,000 deep": '{"text": ' + "[" * 10_000 + "]" * 10_000 + "}\n",
        "nested 500,000 deep": '{"text": ' + '{"a":' * 500_000 + "1" + "}" * 500_000 + "}\n",
        "a text that is a number": '{"text": 5}\n',
        "a text that is a list": '{"text": ["a", "b"]}\n',
        "a text that is an object": '{"text": {"a": 1}}\n',
        "a text that is null": '{"text": null}\n',
        "a text that is true": '{"text": true}\n',
        "no text": '{"txt": "a"}\n',
        "a list": '["a"]\n',
        "a number": "5\n",
        "NaN": '{"text": "a", "x": NaN}\n',
        "1e999": '{"text": "a", "x": 1e999}\n',
        "a number of 5,000 digits": f'{{"text": "a", "x": {"9" * 5000}}}\n',
        "half a character": '{"text": "a\\ud800b"}\n',
        "a NUL in a text": '{"text": "a\\u0000b"}\n',
        "the same key twice": '{"text": "a", "text": "b"}\n',
        "two objects in a line": '{"text": "a"} {"text": "b"}\n',
        "a comma too many": '{"text": "a",}\n',
        "an object over two lines": '{"text":\n"a"}\n',
        "a text that ends in it": '{"text": "a\n',
        "an id of 5,000 characters": f'{{"text": "a", "id": "{"i" * 5000}"}}\n',
        "an id that is a list": '{"text": "a", "id": [1]}\n',
        "an id that is huge": f'{{"text": "a", "id": {2**70}}}\n',
        "an id with escapes": '{"text": "a", "id": "\\u001b[31m\\n\\u202e"}\n',
        "an id of half a character": '{"text": "a", "id": "\\udc00"}\n',
        "an empty key": '{"text": "a", "": 1}\n',
        "a key with escapes": '{"text": "a", "\\u001b[31m\\n": 1}\n',
    }
    for name, line in odd.items():
        yield plain(f"one record: {name}", "c.jsonl", good * 3 + line + good, codes=(0, 3))
        yield plain(f"all records: {name}", "c.jsonl", line * 3, "--keep", "all")
    for name in (
        "nested 10,000 deep",
        "NaN",
        "1e999",
        "a number of 5,000 digits",
        "an empty key",
        "a key with escapes",
    ):
        line = odd[name].replace('"text"', '"text": "a", "x"', 1) if "deep" in name else odd[name]
        yield plain(f"kept: {name}", "c.jsonl", line * 3, "--keep", "all")
    wide = json.dumps({"text": "a", **{f"c{at}": at for at in range(10_000)}}) + "\n"
    yield plain("10,000 fields", "c.jsonl", wide * 2, codes=(0,), documents=2)
    yield plain("10,000 fields kept", "c.jsonl", wide * 2, "--keep", "all")
    yield plain(
        "other fields in each record",
        "c.jsonl",
        "".join(f'{{"text": "a", "f{at}": {at}}}\n' for at in range(300)),
        "--keep",
        "all",
    )
    yield plain(
        "other types in each record",
        "c.jsonl",
        "".join(f'{{"text": "a", "x": {value}}}\n' for value in ("1", '"b"', "[1]", "1.5", "true")),
        "--keep",
        "all",
    )
    yield plain(
        "a number after 200 texts",
        "c.jsonl",
        '{"text": "a", "x": 1}\n' * 1500 + '{"text": "a", "x": "b"}\n',
        "--keep",
        "x",
        codes=(0, 3),
    )
    yield plain("an array in a file", "c.json", '[{"text": "a"},\n{"text": "b"}]\n', codes=(0, 1, 2, 3))
    yield plain("a mark before it", "c.jsonl", b"\xef\xbb\xbf" + good.encode() * 2, codes=(0,), documents=2)
    yield plain(
        "kept columns of our own names",
        "c.jsonl",
        '{"text": "a", "row": 1, "n_tokens": 2, "last_mean": 3, "tags": 4}\n',
        "--keep",
        "all",
    )
    yield plain("kept columns that are not there", "c.jsonl", good, "--keep", "nothing", codes=(2, 1))
    yield plain("text columns that are not there", "c.jsonl", good, "--text-column", "nothing", codes=(2,))
    yield plain("a type for a column that it is not", "c.jsonl", '{"text": "a", "x": "b"}\n', "--keep", "x:int64")
    yield plain("a type that there is not", "c.jsonl", '{"text": "a", "x": "b"}\n', "--keep", "x:blob")


def _questions() -> Iterator[Corpus]:
    start = '{"data": [{"title": "t", "paragraphs": ['
    good = '{"context": "a bank", "qas": [{"id": "1", "question": "b", "answers": [{"text": "a", "answer_start": 0}]}]}'
    yield plain("one question", "c.json", f"{start}{good}]}}]}}", codes=(0,), documents=1)
    yield plain("a mark before it", "c.json", f"\ufeff{start}{good}]}}]}}", codes=(0,), documents=1)
    yield plain("no questions", "c.json", f"{start}]}}]}}", codes=(0, 1, 2), documents=0)
    odd = {
        "an answer that is elsewhere": good.replace('"a", "answer_start": 0', '"bank", "answer_start": 0'),
        "an answer before the beginning": good.replace('"answer_start": 0', '"answer_start": -6'),
        "an answer beyond the end": good.replace('"answer_start": 0', f'"answer_start": {10**30}'),
        "a start that is a fraction": good.replace('"answer_start": 0', '"answer_start": 0.5'),
        "a start that is not a number": good.replace('"answer_start": 0', '"answer_start": NaN'),
        "an answer of half a character": good.replace("a bank", "\\ud800b").replace('"a"', '"\\ud800"'),
        "an id of half a character": good.replace('"1"', '"\\udc00"'),
        "an id with escapes": good.replace('"1"', '"\\u001b[31m\\n\\u202e"').replace(
            '"question": "b"', '"question": 5'
        ),
        "an id of 5,000 characters": good.replace('"1"', f'"{"i" * 5000}"').replace('"question": "b"', '"question": 5'),
        "a context that is an object": good.replace('"a bank"', '{"a": 1}'),
        "questions that are an object": '{"context": "a", "qas": {"a": 1}}',
        "a paragraph that is null": "null",
        "a question that is a list": '{"context": "a", "qas": [[]]}',
        "impossible by a number": good.replace('"id"', '"is_impossible": 1, "id"'),
        "impossible with an answer": good.replace('"id"', '"is_impossible": true, "id"'),
        "the same key twice": good.replace('"id"', '"id": 5, "id"'),
    }
    for name, paragraph in odd.items():
        content = f"{start}{good}, {paragraph}, {good}]}}]}}"
        yield plain(f"one question: {name}", "c.json", content, "--keep", "answers", codes=(0, 3))
        yield plain(f"all questions: {name}", "c.json", f"{start}{paragraph}]}}]}}", "--keep", "all")
    broken = {
        "nested 10,000 deep": "[" * 10_000 + "]" * 10_000,
        "nested 500,000 deep": '{"a":' * 500_000 + "1" + "}" * 500_000,
        "a number of 5,000 digits": "9" * 5000,
        "a comma too many": f"{good},",
        "its end missing": good[:-3],
    }
    for name, paragraph in broken.items():
        yield plain(name, "c.json", f"{start}{good}, {paragraph}]}}]}}", "--format", "squad")
    yield plain("two of them", "c.json", f"{start}{good}]}}]}}\n" * 2, codes=(1,))
    yield plain("lines called questions", "c.jsonl", '{"text": "a"}\n', "--format", "squad", codes=(1,))
    yield plain("nothing called questions", "c.json", b"", "--format", "squad", codes=(1,))
    yield plain("its text in another column", "c.json", f"{start}{good}]}}]}}", "--text-column", "text", codes=(2,))
    yield plain("words that it has not", "c.json", f"{start}{good}]}}]}}", "--pretokenized", codes=(2,))
    huge = f'{start}{{"context": "{"a b " * 5_000_000}", "qas": [{{"id": "1", "question": "b"}}]}}]}}]}}'
    yield plain("a context of 20 MB", "c.json", huge, codes=(2,))
    many = ",".join([good] * 50_000)
    yield Corpus("50,000 questions", "c.json", lambda: f"{start}{many}]}}]}}".encode(), codes=(0,), heavy=True)


def _tables() -> Iterator[Corpus]:
    yield plain("a header alone", "c.csv", "text,number\n", codes=(0, 1, 2))
    yield plain("nothing", "c.csv", "", codes=(0, 1, 2))
    yield plain("an empty header", "c.csv", "\na,b\n", codes=(0, 1, 2))
    yield plain("names twice", "c.csv", "text,text\na,b\n", codes=(1, 2))
    yield plain("nameless columns", "c.csv", "text,,\na,b,c\n", codes=(0, 1, 2))
    yield plain("fields too many and too few", "c.csv", "text,x\na,b\nc\nd,e,f\n\ng,h\n", codes=(0, 1, 3))
    yield plain("a quote that does not end", "c.csv", 'text,x\n"a,b\nc,d\n', codes=(0, 1, 2, 3))
    yield plain("a quote in the middle", "c.csv", 'text,x\na"b,c\n"a"b,c\n', codes=(0, 1, 3))
    yield plain("a field of 2 MB", "c.csv", "text,x\n" + "a b " * 500_000 + ",c\n", codes=(0, 3), heavy=True)
    yield plain("NUL bytes", "c.csv", b"text,x\na\0,b\n", codes=(0, 1, 3))
    yield plain("lone carriage returns", "c.csv", b"text,x\ra,b\rc,d\r", codes=(0, 1, 2, 3))
    yield plain("semicolons", "c.csv", "text;x\na;b\n", codes=(2,))
    yield plain(
        "70,000 columns",
        "c.csv",
        "text," + ",".join(f"c{at}" for at in range(70_000)) + "\na" + "," * 70_000 + "\n",
        codes=(0,),
        documents=1,
    )
    yield plain(
        "10,000 columns kept",
        "c.csv",
        "text," + ",".join(f"c{at}" for at in range(10_000)) + "\na" + ",1" * 10_000 + "\n",
        "--keep",
        "all",
    )
    yield plain("a header with a line feed", "c.csv", '"te\nxt",text\na,b\n', codes=(0,))
    yield plain("a header with escapes", "c.csv", "text,\x1b[31m\na,b\n", "--keep", "all")
    yield plain("header names of bytes", "c.csv", b"text,\xff\na,b\n", codes=(1, 2))
    yield plain("a mark", "c.csv", b"\xef\xbb\xbftext,x\r\na,b\r\n", codes=(0,), documents=1)
    yield plain("UTF-16", "c.csv", "text,x\na,b\n".encode("utf-16"), codes=(0,), documents=1)
    yield plain(
        "numbers that grow into texts", "c.csv", "text,x\n" + "a,1\n" * 1500 + "a,b\n", "--keep", "x", codes=(0, 3)
    )
    yield plain(
        "huge and odd numbers", "c.csv", "text,x\na,99999999999999999999\na,1e999\na,nan\na,-0\n", "--keep", "x"
    )
    yield plain("quotes are not quotes", "c.tsv", 'text\tx\n"a\tb\n', codes=(0, 1, 2, 3))
    yield plain("a tab too many", "c.tsv", "text\tx\na\tb\tc\nd\te\n", codes=(0, 1, 3))


def _sentences() -> Iterator[Corpus]:
    yield plain("no tags", "c.conll", "The\nbank\n\nof\n", codes=(0, 1, 2, 3))
    yield plain("columns that differ", "c.conll", "The O\nbank\nof X O\n\nthe O\n", codes=(0, 1, 3))
    yield plain("only document marks", "c.conll", "-DOCSTART- O\n\n-DOCSTART- O\n", codes=(0, 1, 2))
    yield plain("odd tags", "c.conll", "a I-\nb B\nc -PER\nd B-\x1b[31m\ne " + "T" * 5000 + "\n", codes=(0, 1, 3))
    yield plain("a sentence of 70,000 words", "c.conll", "a O\n" * 70_000, codes=(0, 3), heavy=True)
    yield plain("a word of 200,000 characters", "c.conll", "w" * 200_000 + " O\nb O\n", codes=(0, 3))
    yield plain("tabs and blanks mixed", "c.conll", "a\tO\nb O\n c  O \n", codes=(0, 1, 3))
    yield plain("NUL bytes", "c.conll", b"a\0 O\nb O\n", codes=(0, 1, 3))
    yield plain("a column that is not there", "c.conll", "a O\nb O\n", "--tag-column", "9")
    yield plain("column 0", "c.conll", "a O\n", "--tag-column", "0", codes=(2,))
    yield plain("a column of 5,000 digits", "c.conll", "a O\n", "--tag-column", "9" * 5000, codes=(0, 1, 2))
    yield plain("a column in other digits", "c.conll", "a O\n", "--tag-column", "\u0663", codes=(2,))
    line = "{}\tw\tl\tNOUN\tN\t_\t0\troot\t_\t_\n"
    yield plain(
        "ranges and empty nodes",
        "c.conllu",
        "# text = w\n" + line.format("1-2") + line.format(1) + line.format("1.1") + line.format(2) + "\n",
        codes=(0, 1, 3),
    )
    yield plain(
        "numbers that are none",
        "c.conllu",
        line.format("x") + line.format("-1") + line.format("") + "\n",
        codes=(1, 2, 3),
    )
    yield plain("too few columns", "c.conllu", "1\tw\n2\tv\tl\n", codes=(0, 1, 2, 3))
    yield plain(
        "ranges that never end",
        "c.conllu",
        line.format("1-99999999999999999999") + line.format(1) + "\n",
        codes=(0, 1, 2, 3),
    )
    yield plain("comments alone", "c.conllu", "# text = w\n# b\n", codes=(0, 1, 2))


def _proteins() -> Iterator[Corpus]:
    yield plain("residues without an id", "c.fasta", "MV\n>a\nMV\n", codes=(0, 1, 3))
    yield plain("no proteins", "c.fasta", "", codes=(0, 1, 2))
    yield plain("ids alone", "c.fasta", ">a\n>b\n>\n", codes=(2,))
    yield plain("digits and gaps", "c.fasta", ">a\n1 MVLS 4\n>b\nM-V.L*\n>c\n*\n", codes=(0, 1, 3))
    yield plain("NUL bytes", "c.fasta", b">a\0b\nM\0V\n>c\nMV\n", codes=(0, 1, 3))
    yield plain("letters of other scripts", "c.fasta", ">\u00e9 \u7537\nM\u00e9V\n>b\n\uff2d\n>c\nM\n", codes=(0, 3))
    yield plain("a protein of 70,000 residues", "c.fasta", ">a\n" + "MVLSPADKTN\n" * 7000, codes=(0, 3), heavy=True)
    yield plain("an id of 200,000 characters", "c.fasta", ">" + "a" * 200_000 + "\nMV\n", codes=(0, 3))
    yield plain("lines of text", "c.fasta", "The bank.\nThe river.\n", codes=(2,))


def _parquets() -> Iterator[Corpus]:
    texts = pa.array(["a", "b"])
    columns: dict[str, pa.Array] = {
        "whole numbers": pa.array([1, 2]),
        "bytes": pa.array([b"a", b"\xff"]),
        "lists": pa.array([["a"], ["b", "c"]]),
        "structs": pa.array([{"a": "b"}, None]),
        "nulls": pa.nulls(2),
        "dictionaries": texts.dictionary_encode(),
        "large strings": texts.cast(pa.large_string()),
        "views": texts.cast(pa.string_view()),
        "times": pa.array([0, 1], pa.timestamp("ns")),
        "maps": pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string())),
        "fixed bytes": pa.array([b"ab", b"\xff\xfe"], pa.binary(2)),
    }
    for name, column in columns.items():
        yield Corpus(f"a text of {name}", "c.parquet", _written(pa.table({"text": column})))
        yield Corpus(f"kept {name}", "c.parquet", _written(pa.table({"text": texts, "x": column})), ("--keep", "x"))
    yield Corpus("no rows", "c.parquet", _written(pa.table({"text": pa.array([], pa.string())})), codes=(0, 1, 2))
    yield Corpus("no columns", "c.parquet", _written(pa.table({})), codes=(1, 2))
    yield Corpus("no text column", "c.parquet", _written(pa.table({"txt": texts})), codes=(2,))
    yield Corpus(
        "names twice", "c.parquet", _written(pa.Table.from_arrays([texts, texts], ["text", "text"])), codes=(1, 2)
    )
    yield Corpus(
        "names with escapes", "c.parquet", _written(pa.table({"text": texts, "\x1b[31m\n": texts})), ("--keep", "all")
    )
    yield Corpus(
        "2,000 columns kept",
        "c.parquet",
        _written(pa.table({"text": texts, **{f"c{at}": texts for at in range(2000)}})),
        ("--keep", "all"),
    )
    unsound = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    yield Corpus("texts that are no UTF-8", "c.parquet", _written(pa.table({"text": unsound})), codes=(1, 2, 3))
    yield Corpus(
        "huge whole numbers",
        "c.parquet",
        _written(pa.table({"text": texts, "x": pa.array([2**64 - 1, 0], pa.uint64())})),
        ("--keep", "x"),
    )
    yield plain("another format under its name", "c.parquet", "text\na\n", codes=(1, 2))
    yield plain("its magic alone", "c.parquet", b"PAR1PAR1", codes=(1, 2))
    yield plain("a footer of 4 GB", "c.parquet", b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1", codes=(1, 2))


def _token_ids() -> Iterator[Corpus]:
    """Lists of numbers, which are read as token ids."""
    lists: dict[str, tuple[pa.Array, tuple[int, ...]]] = {
        "small numbers": (pa.array([[5, 6], [7]], pa.list_(pa.uint8())), (0,)),
        "numbers beyond the vocabulary": (pa.array([[5, 6], [7, 2**31 - 1]]), (3,)),
        "numbers beyond 32 bits": (pa.array([[5, 6], [2**63 - 1]]), (3,)),
        "numbers below zero": (pa.array([[5, 6], [-1]]), (3,)),
        "numbers with a null": (pa.array([[5, None], [7]]), (3,)),
        "nulls alone": (pa.array([[None], [None]], pa.list_(pa.int32())), (1, 2, 3)),
        "a null list": (pa.array([None, [7]], pa.list_(pa.int32())), (3,)),
        "empty lists": (pa.array([[], []], pa.list_(pa.int32())), (0,)),
        "fractions": (pa.array([[5.0, 6.5], [7.0]]), (1, 2, 3)),
        "not a number": (pa.array([[float("nan")], [7.0]]), (1, 2, 3)),
        "booleans": (pa.array([[True, False], [True]]), (1, 2, 3)),
        "lists of lists": (pa.array([[[5]], [[6, 7]]]), (1, 2, 3)),
        "100,000 numbers": (pa.array([[5] * 100_000, [7]]), (0, 3)),
    }
    for name, (column, codes) in lists.items():
        table = pa.table({"text": column})
        yield Corpus(f"token ids: {name}", "c.parquet", _written(table), ("--pretokenized",), codes=codes)
    yield plain("ids after words", "c.jsonl", '{"text": ["a"]}\n{"text": [5, 6]}\n', "--pretokenized")
    yield plain("ids that begin as words", "c.jsonl", '{"text": ["5", 6]}\n{"text": [5, "6"]}\n', "--pretokenized")
    yield plain(
        "an id of 5,000 digits", "c.jsonl", f'{{"text": [{"9" * 5000}]}}\n' * 2, "--pretokenized", codes=(1, 2, 3)
    )


def _written(table: pa.Table) -> Callable[[], bytes]:
    def make() -> bytes:
        sink = io.BytesIO()
        pq.write_table(table, sink)
        return sink.getvalue()

    return make


def _archives() -> Iterator[Corpus]:
    body = b"a\nb\n"
    yield Corpus("many members", "c.txt.gz", lambda: gzip.compress(body) * 200, documents=400, codes=(0,))
    yield Corpus(
        "5,000 empty members",
        "c.txt.gz",
        lambda: gzip.compress(b"") * 5000 + gzip.compress(body),
        documents=2,
        codes=(0,),
    )
    yield Corpus("zeros after it", "c.txt.gz", lambda: gzip.compress(body) + bytes(1000), documents=2, codes=(0,))
    yield Corpus("something after it", "c.txt.gz", lambda: gzip.compress(body) + b"junk", codes=(1,))
    yield Corpus("an archive of an archive", "c.txt.gz", lambda: gzip.compress(gzip.compress(body)), codes=(1, 2, 3))
    yield Corpus(
        "skippable frames", "c.txt.zst", lambda: b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + _zst(body), documents=2, codes=(0,)
    )
    yield Corpus(
        "a skippable frame of 4 GB", "c.txt.zst", lambda: b"\x50\x2a\x4d\x18\xff\xff\xff\xffab" + _zst(body), codes=(1,)
    )
    yield Corpus("many members", "c.txt.xz", lambda: lzma.compress(body) * 50, documents=100, codes=(0,))
    yield Corpus("many members", "c.txt.bz2", lambda: bz2.compress(body) * 50, documents=100, codes=(0,))
    for ending in ("gz", "bz2", "xz", "zst"):
        yield plain(f"nothing under .{ending}", f"c.txt.{ending}", b"", codes=(1, 2))
        yield plain(f"text under .{ending}", f"c.txt.{ending}", body, codes=(1, 2))
    yield plain("Parquet under .gz", "c.parquet.gz", gzip.compress(body), codes=(1, 2))
    yield Corpus(
        "a bomb of 10 GB of zeros", "c.txt.zst", lambda: _bomb(bytes(1 << 24), 10 << 30), codes=(0, 1, 2, 3), heavy=True
    )
    yield Corpus(
        "a bomb of 2 GB of JSON",
        "c.jsonl.zst",
        lambda: _bomb(b'{"text": "' + b"a" * (1 << 24), 1 << 31),
        codes=(1, 2, 3),
        heavy=True,
    )
    yield Corpus(
        "a bomb of 2 GB of questions",
        "c.json.zst",
        lambda: _bomb(b'{"data": [{"paragraphs": [{"context": "' + b"a" * (1 << 24), 1 << 31),
        codes=(1, 2),
        heavy=True,
    )
    yield Corpus(
        "a bomb of 1 GB in one CSV field",
        "c.csv.zst",
        lambda: _bomb(b'text,"' + b"a" * (1 << 24), 1 << 30),
        codes=(1, 2, 3),
        heavy=True,
    )
    yield Corpus(
        "a bomb of gzip", "c.txt.gz", lambda: gzip.compress(bytes(1 << 28), 1) * 4, codes=(0, 1, 2, 3), heavy=True
    )


def _zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _bomb(block: bytes, size: int) -> bytes:
    """One frame of a block again and again."""
    sink = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(sink, closefd=False) as writer:
        for _ in range(size // len(block)):
            writer.write(block)
    return sink.getvalue()


def write(corpus: Corpus, folder: Path) -> None:
    """Write a corpus into a folder."""
    (folder / corpus.file).write_bytes(corpus.make())
