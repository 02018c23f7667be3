"""Whatever is written, in any format and compression, is read back the same."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import BlankLine, Document, Meter, find_sources, open_corpus
from bertfeat.core.corpus.blocks import read_blocks
from bertfeat.core.corpus.lines import TextEncoding, read_lines
from tests.support.corpus_writers import (
    COMPRESS,
    texts_of,
    write_csv,
    write_jsonl,
    write_parquet,
    write_text,
    write_tsv,
)

# many zero bytes, or a byte order mark where a file begins, say something else about a file
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))
ONE_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff\n\r"), min_size=1)
WRITERS: dict[str, Callable[[Sequence[str]], bytes]] = {
    ".jsonl": write_jsonl,
    ".csv": write_csv,
    ".tsv": write_tsv,
    ".parquet": write_parquet,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.sampled(10)
@pytest.mark.parametrize("compression", COMPRESS, ids=lambda ending: ending or "plain")
@pytest.mark.parametrize("ending", WRITERS)
@settings(max_examples=15, deadline=None)
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=12))
def test_records_come_back(folder: Path, ending: str, compression: str, texts: list[str]) -> None:
    if ending == ".parquet" and compression:
        return
    path = folder / f"corpus{ending}{compression}"
    path.write_bytes(COMPRESS[compression](WRITERS[ending](texts)))
    assert texts_of(path) == texts


@pytest.mark.sampled(5)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@settings(max_examples=15, deadline=None)
@given(lines=st.lists(st.one_of(ONE_LINE, st.just("")), max_size=12), ends=st.booleans())
def test_lines_come_back(folder: Path, encoding: str, newline: str, lines: list[str], ends: bool) -> None:
    path = folder / "corpus.txt"
    data = newline.join(lines) + (newline if ends else "")
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + data).encode(encoding))
    expected = data.split(newline)
    if not expected[-1]:
        expected.pop()
    rows = list(open_corpus([path]).rows())
    assert [row.row for row in rows] == list(range(len(expected)))
    assert [isinstance(row, BlankLine) for row in rows] == [not line.strip() for line in expected]
    texts = [row.text for row in rows if isinstance(row, Document)]
    assert texts == [line for line in expected if line.strip()]


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from("a\n\r\u0a0a\u0d0a\u000aé漢😀\u2028"), max_size=40),
    codec=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "gb18030"]),
    cuts=st.lists(st.integers(0, 160), max_size=6),
)
def test_lines_do_not_depend_on_the_blocks(text: str, codec: str, cuts: list[int]) -> None:
    data = text.encode(codec)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places) if end > start]
    expected = text.replace("\r\n", "\n").split("\n")
    if not expected[-1]:
        expected.pop()
    assert [line for lines in read_lines(iter(pieces), TextEncoding(codec)) for line in lines] == expected


@pytest.mark.parametrize("compression", COMPRESS, ids=lambda ending: ending or "plain")
@settings(max_examples=20, deadline=None)
@given(members=st.lists(st.binary(max_size=300).map(lambda some: some * 50), min_size=1, max_size=4))
def test_archives_of_several_members_come_back(folder: Path, compression: str, members: list[bytes]) -> None:
    path = folder / f"members{compression}"
    path.write_bytes(b"".join(COMPRESS[compression](member) for member in members))
    meter = Meter()
    (source,) = find_sources([path], "text")
    assert b"".join(read_blocks(source, meter)) == b"".join(members)
    assert meter.read == path.stat().st_size


@pytest.mark.slow
def test_blocks_of_an_archive_that_expands_hugely_stay_small(tmp_path: Path) -> None:
    for ending in (".gz", ".bz2", ".xz", ".zst"):
        path = tmp_path / f"bomb{ending}"
        path.write_bytes(COMPRESS[ending](bytes(2**26)))
        (source,) = find_sources([path], "text")
        sizes = [len(block) for block in read_blocks(source, Meter())]
        assert sum(sizes) == 2**26
        assert max(sizes) <= 2**20 or ending == ".zst"  # whose blocks are of 2 KiB of the archive


def test_text_written_by_the_writer_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(write_text(["eins", "zwei\u2028\x85\x0b\x0c\rdrei", "  vier\t "]))
    assert texts_of(path) == ["eins", "zwei\u2028\x85\x0b\x0c\rdrei", "  vier\t "]
