"""Metadata of whole files, against a join that pandas makes."""

import json
import unicodedata
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat.core.corpus import CorpusSettings, Document, FileCorpus, KeptColumn, memory_corpus, open_corpus
from bertfeat.errors import BertfeatError, CorpusError, UsageError

TEXTS = {"emma.txt": "One.\nTwo.\n", "later/dracula.txt": "Three.\n", "later/Émile.txt": "Four.\n\nFive.\n"}
ROWS = [
    {"file": "emma.txt", "author": "Austen, Jane", "year": 1815, "score": 1.5, "print": True},
    {"file": "dracula", "author": "Stoker", "year": 1897, "score": 2.0, "print": False},
    {"file": "later/Émile.txt", "author": "Rousseau", "year": 1762, "score": None, "print": None},
    {"file": "not-here.txt", "author": "Nobody", "year": 1900, "score": 0.0, "print": True},
]
NAMES = ["emma.txt", "later/dracula.txt", "later/Émile.txt"]
COLUMNS = ("file", "author", "year", "score", "print")


@pytest.fixture
def novels(tmp_path: Path) -> Path:
    """A folder of texts."""
    for name, text in TEXTS.items():
        path = tmp_path / "novels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "novels"


def write_table(path: Path) -> Path:
    """The rows as a table of the kind that its ending says."""
    table = pd.DataFrame(ROWS)
    if path.suffix in (".csv", ".tsv"):
        table.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def opened(folder: Path, table: Path | None, *keep: str) -> FileCorpus:
    return open_corpus([folder], CorpusSettings(metadata=None if table is None else str(table), keep=keep))


def kept(corpus: FileCorpus) -> list[tuple[object, ...]]:
    return [row.kept for row in corpus.rows() if isinstance(row, Document)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("among_the_texts", [False, True])
def test_the_columns_of_a_table_are_kept_beside_every_text_of_a_file(
    novels: Path, ending: str, among_the_texts: bool
) -> None:
    table = write_table((novels if among_the_texts else novels.parent) / f"metadata.{ending}")
    corpus = opened(novels, table)
    rows = pd.DataFrame({"name": NAMES, "texts": [2, 1, 2]}).join(pd.DataFrame(ROWS))
    expected = rows.loc[rows.index.repeat(rows.texts), [*COLUMNS]]
    assert corpus.kept == (
        KeptColumn("file", "string"),
        KeptColumn("author", "string"),
        KeptColumn("year", "int64"),
        KeptColumn("score", "float64"),
        KeptColumn("print", "bool"),
    )
    values = expected.astype(object).where(expected.notna(), None).to_numpy().tolist()
    assert [[*row] for row in kept(corpus)] == values
    assert corpus.sources == tuple(f"{novels}/{name}" for name in NAMES)


def test_keep_names_columns_of_the_table_with_their_types(novels: Path) -> None:
    table = write_table(novels / "metadata.csv")
    corpus = opened(novels, table, "year:string", "author")
    assert kept(corpus)[2:4] == [("1897", "Stoker"), ("1762", "Rousseau")]
    assert kept(opened(novels, table, "all")) == kept(opened(novels, table))


def test_the_names_of_files_are_kept_without_a_table(novels: Path) -> None:
    names = [str(novels / name) for name in NAMES for _ in range(1 if "dracula" in name else 2)]
    assert kept(opened(novels, None, "file")) == [(name,) for name in names]


def test_columns_of_records_come_before_those_of_their_file(tmp_path: Path) -> None:
    for name, year in (("a", 1), ("b", 2)):
        pd.DataFrame({"text": ["x", "y"], "file": [f"own {name}"] * 2, "n": [year, 0]}).to_csv(tmp_path / f"{name}.csv")
    table = tmp_path / "table.tsv"
    table.write_text("which\tgenre\na\tletters\nb.csv\tdiaries\n")
    corpus = opened(tmp_path, table, "genre", "n", "file")
    assert [column.name for column in corpus.kept] == ["n", "file", "genre"]
    a, b = ("own a", "letters"), ("own b", "diaries")
    assert kept(corpus) == [(1, *a), (0, *a), (2, *b), (0, *b)]
    assert [column.name for column in opened(tmp_path, table).kept] == ["which", "genre"]
    table.write_text("which\tn\na\t1\nb\t1\n")
    with pytest.raises(UsageError, match=r"'n' is a column of the files, and of .*table.tsv; rename it"):
        opened(tmp_path, table, "n")


def test_accents_and_slashes_may_be_written_otherwise(novels: Path) -> None:
    table = novels.parent / "table.csv"
    table.write_text(unicodedata.normalize("NFD", "file,n\nemma,1\nlater\\dracula.txt,2\nÉmile,3\n"))
    assert kept(opened(novels, table, "n")) == [(1,), (1,), (2,), (3,), (3,)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,n\nemma,1\ndracula,2\n", "table.csv: a file has no row: .*later/Émile.txt; write their names into"),
        ("n,file\n1,emma\n2,dracula\n3,Émile\n", "its first column, 'n', names none of the files, such as .*emma.txt"),
        ("file;n\nemma;1\n", "seem to be separated by ';'"),
        ("file,n\nemma,1\nemma.txt,2\n", "record 2: a second row of .*emma.txt, which has one in record 1"),
        ("file,n\n", "a table without rows"),
        ("", "empty; the first line must name the columns"),
        ("file,n\nemma,1,2\n", "table.csv, line 2: 3 cells under 2 columns"),
        ("file,id\nemma,1\ndracula,2\nÉmile,3\n", "the feature set has its own column 'id'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(novels: Path, table: str, message: str) -> None:
    path = novels.parent / "table.csv"
    path.write_text(table)
    with pytest.raises(BertfeatError, match=message):
        opened(novels, path)


def test_a_name_of_several_files_is_refused(novels: Path) -> None:
    (novels / "dracula.txt").write_text("Six.\n")
    with pytest.raises(CorpusError, match=r"record 2: 'dracula' stands for 2 files, .*; write more of the path"):
        opened(novels, write_table(novels / "metadata.csv"))


def test_what_is_no_table_or_no_corpus_of_files_is_refused(novels: Path) -> None:
    with pytest.raises(UsageError, match="metadata are one table with a header"):
        opened(novels, novels / "emma.txt")
    with pytest.raises(CorpusError, match="no such file"):
        opened(novels, novels / "none.csv")
    table = write_table(novels / "metadata.csv")
    with pytest.raises(CorpusError, match="the table of metadata is the only file of the corpus"):
        opened(table, table)
    with pytest.raises(UsageError, match="a list is not made of files"):
        memory_corpus(["a"], CorpusSettings(metadata=str(table)))
    with pytest.raises(CorpusError, match=r"no column 'text'.*if it describes the other files, give metadata="):
        opened(novels, None)


def test_columns_that_no_file_has_are_refused_with_those_that_there_are(novels: Path) -> None:
    with pytest.raises(UsageError, match=r"text files have no columns to keep; there are 'file'; metadata=.* gives"):
        opened(novels, None, "year")
    with pytest.raises(UsageError, match=r"there are 'file', 'author', 'year', 'score', 'print'; did you mean year"):
        opened(novels, write_table(novels / "metadata.csv"), "yaer")
    with pytest.raises(CorpusError, match=r"emma.txt: field 'author' is not int64; give --keep author:string"):
        opened(novels, novels / "metadata.csv", "author:int64")
