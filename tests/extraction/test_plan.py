"""The plan: every row once and in order, parts of bounded size, digests that miss no change."""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import BlankLine, CorpusSettings, Document, Failure, Row, memory_corpus, open_corpus
from bertfeat.core.extraction.plan import PART_BYTES, PART_CHARACTERS, PartLimits, PlannedPart, plan_parts, read_part
from bertfeat.errors import CorpusError, UsageError
from tests.support.corpus_writers import COMPRESS, write_csv, write_jsonl, write_parquet, write_text
from tests.support.runs import lines


class Rows:
    """A corpus of rows as they are."""

    kept = ()
    columns = ()
    sources = ()
    has_pairs = has_words = has_tags = False
    split = None

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self.read = 0

    @property
    def fraction(self) -> float:
        return self.read / len(self._rows)

    def rows(self) -> Iterator[Row]:
        for number, row in enumerate(self._rows, 1):
            self.read = number
            yield row


def parts_of(rows: list[Row], part_rows: int = 10**9, row: float = 1.0, character: float = 0.0) -> list[PlannedPart]:
    return list(plan_parts(Rows(rows), PartLimits(part_rows, row, character)))


def rows_of(part: PlannedPart) -> tuple[Row, ...]:
    assert part.rows is not None
    return part.rows


def digest_of(row: Row) -> str:
    (part,) = parts_of([row])
    return part.digest


TEXT = st.text(max_size=6)
OPTIONAL_WORDS = st.none() | st.lists(TEXT, max_size=3).map(tuple)
VALUES = st.none() | TEXT | st.integers(-3, 3) | st.booleans() | st.sampled_from([0.0, 1.0, -0.0, 1e300])
DOCUMENTS = st.builds(
    Document,
    row=st.integers(0, 3),
    id=TEXT,
    text=TEXT,
    pair=st.none() | TEXT,
    words=OPTIONAL_WORDS,
    tags=OPTIONAL_WORDS,
    kept=st.lists(VALUES, max_size=3).map(tuple),
    before=TEXT,
    after=TEXT,
)
ROWS = st.one_of(
    DOCUMENTS, st.builds(Failure, st.integers(0, 3), TEXT, TEXT, TEXT), st.builds(BlankLine, st.integers(0, 3))
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(ROWS, max_size=30),
    part_rows=st.integers(1, 9),
    row=st.sampled_from([0.0, 1.0, PART_BYTES / 3]),
    character=st.sampled_from([0.0, PART_BYTES / 7]),
)
def test_every_row_is_in_one_part(rows: list[Row], part_rows: int, row: float, character: float) -> None:
    parts = parts_of(rows, part_rows, row, character)
    assert [one for part in parts for one in rows_of(part)] == rows
    assert [part.number for part in parts] == list(range(len(parts)))
    assert all(part.last_row - part.first_row == len(rows_of(part)) for part in parts)
    assert [part.first_row for part in parts] == [0, *(part.last_row for part in parts)][:-1][: len(parts)]
    for part in parts:
        assert 1 <= part.row_count <= part_rows
        assert part.row_count == 1 or estimate(rows_of(part), row, character) <= PART_BYTES
    for part, after in pairwise(parts):  # no part ends without need
        more = (*rows_of(part), rows_of(after)[0])
        assert part.row_count == part_rows or estimate(more, row, character) > PART_BYTES
    assert parts == parts_of(rows, part_rows, row, character)


def estimate(rows: tuple[Row, ...], row: float, character: float) -> float:
    documents = [one for one in rows if isinstance(one, Document)]
    return sum(row + character * len(one.text + (one.pair or "")) for one in documents)


def test_a_part_ends_before_16_mi_characters() -> None:
    quarter = "x" * (PART_CHARACTERS // 4)
    rows: list[Row] = [Document(n, str(n), quarter) for n in range(6)]
    assert [part.row_count for part in parts_of(rows)] == [4, 2]
    rows = [Document(n, str(n), "x", before=quarter, kept=(quarter, 1)) for n in range(6)]
    assert [part.row_count for part in parts_of(rows)] == [1] * 6
    rows = [Document(n, str(n), quarter * 5) for n in range(2)]
    assert [part.row_count for part in parts_of(rows)] == [1, 1]


def test_the_plan_is_lazy_and_tells_how_far_it_is() -> None:
    rows: list[Row] = [Document(n, str(n), "text") for n in range(10)]
    corpus = Rows(rows)
    parts = plan_parts(corpus, PartLimits(4, 1, 1))
    first = next(parts)
    assert corpus.read == 5  # one row ahead
    assert first.share == 0.5
    assert [part.share for part in parts] == pytest.approx([0.4, 0.1])


def test_nothing_makes_no_part() -> None:
    assert parts_of([]) == []
    with pytest.raises(UsageError, match="part_rows=0"):
        parts_of([], part_rows=0)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def cut(sizes: list[int], most: int) -> list[list[tuple[int, int, int]]]:
    """Give what a plan must be: of each part the file, the first row in it and the number of rows of each span."""
    parts: list[list[tuple[int, int, int]]] = []
    together: list[tuple[int, int, int]] = []
    for file, size in enumerate(sizes):
        if size > most or (together and sum(span[2] for span in together) + size > most):
            parts += [together] if together else []
            together = []
        if size > most:
            parts += [[(file, first, min(most, size - first))] for first in range(0, size, most)]
        elif size:
            together.append((file, 0, size))
    return parts + ([together] if together else [])


WRITERS: dict[str, Callable[[list[str]], bytes]] = {
    "txt": write_text,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
    "txt.gz": lambda texts: COMPRESS[".gz"](write_text(texts)),
    "jsonl.zst": lambda texts: COMPRESS[".zst"](write_jsonl(texts)),
}


@settings(max_examples=80, deadline=None)
@given(
    files=st.lists(st.tuples(st.integers(0, 12), st.sampled_from(sorted(WRITERS))), min_size=1, max_size=9),
    most=st.integers(1, 9),
)
def test_parts_are_ranges_of_large_files_or_whole_small_ones(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, str]], most: int
) -> None:
    place = tmp_path_factory.mktemp("c")
    for number, (size, ending) in enumerate(files):
        (place / f"{number}.{ending}").write_bytes(WRITERS[ending](lines(size, number * 50)))
    corpus = open_corpus([place], CorpusSettings())
    parts = list(plan_parts(corpus, PartLimits(most, 1.0, 0.0)))
    spans = [[(span.file, span.first_row, span.rows) for span in part.spans] for part in parts]
    assert spans == cut([size for size, _ in files], most)
    assert [row for part in parts for row in rows_of(part)] == list(corpus.rows())
    assert [row.row for part in parts for row in rows_of(part)] == list(range(sum(size for size, _ in files)))
    for number, part in enumerate(parts):
        assert (part.number, part.last_row - part.first_row) == (number, len(rows_of(part)))
        assert read_part(corpus.files, part.task) == part.rows  # without reading what is before it


def test_spans_know_their_own_file_only(tmp_path: Path) -> None:
    """What a file's spans are does not depend on the files before it; a part's digest does, as rows are numbered."""
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"{text}\n" for text in lines(10, number * 10)))
    settings, limits = CorpusSettings(id_column=None), PartLimits(4, 1.0, 0.0)
    all_parts = list(plan_parts(open_corpus([tmp_path], settings), limits))
    less = list(plan_parts(open_corpus([tmp_path / "0.txt", tmp_path / "2.txt"], settings), limits))
    assert [replace(part.spans[0], file=0) for part in all_parts[:3]] == [part.spans[0] for part in less[:3]]
    moved = [replace(span, file=1) for part in all_parts[6:] for span in part.spans]
    assert moved == [span for part in less[3:] for span in part.spans]
    assert {part.digest for part in all_parts[6:]}.isdisjoint(part.digest for part in less[3:])
    assert {part.digest for part in all_parts[:3]} == {part.digest for part in less[:3]}


@pytest.mark.parametrize("ending", WRITERS)
def test_a_part_is_read_only_if_it_is_what_was_planned(tmp_path: Path, ending: str) -> None:
    path, texts = tmp_path / f"c.{ending}", lines(20)
    path.write_bytes(WRITERS[ending](texts))
    corpus = open_corpus([path], CorpusSettings())
    parts = [part.task for part in plan_parts(corpus, PartLimits(5, 1.0, 0.0))]
    changed: list[list[str]] = [["one more", *texts], texts[:7], [*texts[:12], "another", *texts[13:]], [], ["x"] * 20]
    for after in [*changed, [*texts, "one more"]]:
        path.write_bytes(WRITERS[ending](after))
        for part in parts:
            rows = slice(part.first_row, part.last_row)
            if after[: part.last_row] == texts[: part.last_row]:
                found = read_part(corpus.files, part)
                assert [row.text for row in found if isinstance(row, Document)] == texts[rows]
            elif after[rows] != texts[rows]:
                with pytest.raises(CorpusError, match=rf"c\.{ending}: "):
                    read_part(corpus.files, part)
    path.unlink()
    with pytest.raises(CorpusError, match=rf"c\.{ending}: cannot be read"):
        read_part(corpus.files, parts[0])


# ── digests ─────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=300, deadline=None)
@given(one=st.lists(ROWS, max_size=3), other=st.lists(ROWS, max_size=3))
def test_different_rows_have_different_digests(one: list[Row], other: list[Row]) -> None:
    digests = [tuple(part.digest for part in parts_of(rows)) for rows in (one, other)]
    # repr tells 0 from 0.0 and False, which are equal to Python; that of a document leaves out what it has not
    told = [repr([(type(row).__name__, astuple(row)) for row in rows]) for rows in (one, other)]
    assert (digests[0] == digests[1]) == (told[0] == told[1])


@pytest.mark.parametrize(
    "change",
    [
        {"row": 1},
        {"id": "2"},
        {"text": "a"},
        {"pair": None},
        {"pair": ""},
        {"words": ("ab",)},
        {"words": None},
        {"tags": ("XY",)},
        {"tags": None},
        {"kept": ("1", 1, None, 0.0)},
        {"kept": (1, 1, None, 0)},
        {"kept": (1, 1, "", 0.0)},
        {"kept": (1, True, None, 0.0)},
        {"before": "b", "after": "a"},
        {"before": "", "after": "bc"},
    ],
    ids=str,
)
def test_every_field_is_in_the_digest(change: dict[str, Any]) -> None:
    whole = Document(0, "1", "ab", "p", ("a", "b"), ("X", "Y"), (1, 1, None, 0.0), "b", "c")
    assert digest_of(replace(whole, **change)) != digest_of(whole)


def test_rows_that_are_written_alike_differ() -> None:
    rows: list[Row] = [
        Document(0, "1", "a1:b"),
        Document(0, "1", "a", "b"),
        Document(0, "1", "a", words=("a",)),
        Document(0, "1", "a", words=(), tags=("a",)),
        Document(0, "1", "a", kept=("a",)),
        Document(0, "", "a"),
        Failure(0, "1", "a", ""),
        Failure(0, "1", "", "a"),
        Failure(0, "1a", "", ""),
        BlankLine(0),
        BlankLine(1),
    ]
    assert len({digest_of(row) for row in rows}) == len(rows)


def test_the_digest_stays_what_it_is() -> None:
    """Feature sets are resumed by it: a change of this value makes everything anew."""
    rows: list[Row] = [
        Document(0, "1", "은행 bank", "p", ("은행", "bank"), ("O", "B"), (1, 2.5, True, None, "x"), "b", "a"),
        BlankLine(1),
        Failure(2, "3", "bad", "value"),
    ]
    (part,) = parts_of(rows)
    assert part.spans[0].digest == "fd261b8130e40c04b9b780794efe6b6ffbd7968965ac692694ebcf877a6b8ce6"
    assert part.digest == "bd4c539c974d41e5312c9dc889f07ed50b9a442ef0a0c6898fa764c39c863105"
    assert part.sketch == ("33e24621f2f47f7e6c3dd59e513e7510",)


def test_sketches_meet_where_rows_are_shared() -> None:
    texts = [f"text {n}" for n in range(1000)]

    def sketch(texts: list[str]) -> set[str]:
        (part,) = plan_parts(memory_corpus(texts), PartLimits(10**6, 1, 1))
        assert len(part.sketch) == min(16, len(set(texts) - {""}))
        assert list(part.sketch) == sorted(part.sketch)
        return set(part.sketch)

    assert sketch(["put in before", *texts]) & sketch(texts)
    assert sketch(texts[:900]) & sketch(texts)
    assert not sketch([f"other {n}" for n in range(1000)]) & sketch(texts)
    assert sketch(["", ""]) == set()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Any) -> None:
    peaks = []
    for count in (20_000, 100_000):
        path = tmp_path / f"{count}.txt"
        path.write_text("".join(f"a short document of a few words, number {n}\n" for n in range(count)))
        corpus = open_corpus([path], CorpusSettings())
        tracemalloc.start()
        for _ in plan_parts(corpus, PartLimits(2000, 1, 1)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.1
