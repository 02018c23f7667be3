"""The table of formats: every reader is there, and reading changes nothing in the process."""

import csv
from importlib import import_module
from pathlib import Path

import pytest

from bertfeat.core.corpus import FORMATS, CorpusSettings, Document, Format, format_of, open_corpus
from bertfeat.core.corpus.document import MAX_LINE
from tests.support.corpus_writers import (
    texts_of,
    write_csv,
    write_jsonl,
    write_parquet,
    write_squad,
    write_text,
    write_tsv,
)

FILES = {
    "text": write_text(["A"]),
    "paragraphs": b"A\n\n",
    "jsonl": write_jsonl(["A"]),
    "csv": write_csv(["A"]),
    "tsv": write_tsv(["A"]),
    "parquet": write_parquet(["A"]),
    "conll": b"A O\n",
    "conllu": b"1\tA\t_\tNOUN\t_\t_\t_\t_\t_\t_\n",
    "json": b'[{"text": "A"}]',
    "squad": write_squad(["A"]),
    "fasta": b">x a protein\na*\n",
}
OPTIONS = {
    "text_columns": ("text",),
    "pair_column": "text",
    "id_column": "text",
    "tag_column": "2",
    "keep": ("text",),
    "pairs": True,
    "pretokenized": True,
    "document_context": True,
    "word_column": "1",
    "split": "sentences",
}


def test_every_format_has_a_file_to_try() -> None:
    assert set(FILES) == set(FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_by_its_ending_and_by_its_format(tmp_path: Path, name: str) -> None:
    for ending in FORMATS[name].endings:
        (tmp_path / f"x{ending}").write_bytes(FILES[name])
        assert texts_of(tmp_path / f"x{ending}") == ["A"]
    (tmp_path / "x").write_bytes(FILES[name])
    assert texts_of(tmp_path / "x", CorpusSettings(format=name)) == ["A"]


@pytest.mark.parametrize("file_format", FORMATS.values(), ids=lambda file_format: file_format.name)
def test_a_line_of_the_table_is_sound(file_format: Format) -> None:
    module, _, name = file_format.reader.partition(":")
    assert hasattr(import_module(module), name)
    assert file_format.options <= set(OPTIONS)
    assert all(format_of(f"x{ending}") is file_format for ending in file_format.endings)
    assert all(ending == ending.lower() and ending.startswith(".") for ending in file_format.endings)


def test_the_format_of_a_name() -> None:
    assert format_of("A.JSONL.gz").name == "jsonl"
    assert format_of("a.unknown").name == "text"
    assert format_of("a.csv", "conll").name == "conll"


def test_the_limit_of_the_csv_module_stays_and_long_cells_are_read(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "a.csv").write_text(f"text\n{'x' * (before + 1)}\nb\n")
    corpus = open_corpus([tmp_path / "a.csv"])
    lengths = []
    for row in corpus.rows():
        assert isinstance(row, Document)
        assert csv.field_size_limit() == before < MAX_LINE  # while the file is being read, too
        lengths.append(len(row.text))
    assert lengths == [before + 1, 1]
