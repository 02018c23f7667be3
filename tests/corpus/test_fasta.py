"""FASTA: proteins as lists of residues; what cannot be one is told with its line."""

import gzip
from pathlib import Path

import pytest

from bertfeat.core.corpus import CorpusSettings, Document, Failure, fasta, open_corpus
from bertfeat.errors import CorpusError, UsageError

PROTEINS = """\
>sp|P1|HBA_HUMAN Hemoglobin subunit alpha
MVLSPADK
TNVKAAWG*

>x1\tno space
; a comment, as old files have it
mvl spa
>x2
M-V.X
"""


def read(tmp_path: Path, text: str, **settings: object) -> list[Document | Failure]:
    file = tmp_path / "a.fasta"
    file.write_text(text, "utf-8")
    rows = open_corpus(file, CorpusSettings(**settings)).rows()  # type: ignore[arg-type]
    return [row for row in rows if isinstance(row, Document | Failure)]


def test_a_residue_is_a_word(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, PROTEINS, keep=("description",))
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert isinstance(third, Document)
    assert (first.id, first.kept) == ("sp|P1|HBA_HUMAN", ("Hemoglobin subunit alpha",))
    assert first.words == tuple("MVLSPADKTNVKAAWG")
    assert first.text == " ".join(first.words)
    assert (second.id, second.words) == ("x1", tuple("MVLSPA"))
    assert third.words == tuple("M-V.X")


def test_a_compressed_file(tmp_path: Path) -> None:
    (tmp_path / "a.faa.gz").write_bytes(gzip.compress(PROTEINS.encode()))
    assert [row.row for row in open_corpus(tmp_path / "a.faa.gz").rows()] == [0, 1, 2]


@pytest.mark.parametrize(
    "data",
    [
        PROTEINS.replace("\n", "\r\n").encode(),
        PROTEINS.encode("utf-8-sig"),
        PROTEINS.encode("utf-16"),
        PROTEINS.replace("*", "\n**\n").encode(),
        b"; first\n\n" + PROTEINS.encode().rstrip(b"\n"),
    ],
    ids=["CRLF", "BOM", "UTF-16", "two stops", "comment first, no end of line"],
)
def test_odd_files_hold_the_same_proteins(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.fasta").write_bytes(data)
    rows = [row for row in open_corpus(tmp_path / "a.fasta").rows() if isinstance(row, Document)]
    assert [row.text.replace(" ", "") for row in rows] == ["MVLSPADKTNVKAAWG", "MVLSPA", "M-V.X"]


@pytest.mark.parametrize("kept", [30, 60, -1])
def test_a_truncated_compressed_file_is_refused(tmp_path: Path, kept: int) -> None:
    (tmp_path / "a.fasta.gz").write_bytes(gzip.compress(PROTEINS.encode())[:kept])
    with pytest.raises(CorpusError, match=r"a\.fasta\.gz.*truncated"):
        list(open_corpus(tmp_path / "a.fasta.gz").rows())


@pytest.mark.parametrize(
    ("text", "name", "reason", "value"),
    [
        ("MV\n>a\nM\n", "1", "line 1: residues before the first line with '>'; put '>' and an id above them", "MV"),
        (">a\nM\n>b\n\n", "b", "line 3: no residues below the line; leave the protein out", ""),
        (">a\nM\n>b\n*\n", "b", "line 3: no residues below the line; leave the protein out", ""),
        (">a\nM\n>b\n-*.\n", "b", "line 3: no residues below the line; leave the protein out", ""),
        (">a\nM\n>b\rM\rV", "b", "line 3: a carriage return within the line; end lines in line feeds", "b\rM\rV"),
        (">a\nM\n>b\nM\0V\n", "b", "line 4: '\\x00' is no residue; correct the sequence", "M\0V"),
        (">a\nM\n>b\nM\n >c\nM\n", "b", "line 5: '>' is no residue; correct the sequence", " >c"),
        (">a\nM\n>\nMV\n", "2", "line 3: no id after '>'; write one", ""),
        (">a\nM\n>b c\nMV\nM1V\nM2\n", "b", "line 5: '1' is no residue; correct the sequence", "M1V"),
        (">a\nM\n>b\nMÉ\n", "b", "line 4: 'É' is no residue; correct the sequence", "MÉ"),
    ],
)
def test_what_is_no_protein_fails_alone(tmp_path: Path, text: str, name: str, reason: str, value: str) -> None:
    rows = read(tmp_path, text)
    (failure,) = (row for row in rows if isinstance(row, Failure))
    assert (failure.id, failure.value) == (name, value)
    assert failure.reason == f"{tmp_path / 'a.fasta'}, {reason}"
    assert [row.id for row in rows if isinstance(row, Document)] == ["a"]


def test_a_protein_that_is_too_large_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fasta, "_MOST_RESIDUES", 20)
    long, short = read(tmp_path, ">a\n" + "MVLSPADK\n" * 5 + ">b\n" + "M" * 20 + "\n")
    assert isinstance(long, Failure)
    assert long.reason.endswith("line 4: too large: the protein has more than 20 residues; split it")
    assert isinstance(short, Document)


def test_columns_of_other_formats_are_refused(tmp_path: Path) -> None:
    for settings in ({"text_columns": ("sequence",)}, {"pretokenized": True}, {"id_column": "id"}):
        with pytest.raises(UsageError, match="cannot be used with fasta files"):
            read(tmp_path, PROTEINS, **settings)
    with pytest.raises(UsageError, match=r"no such column in .*; there are 'id', 'description', 'sequence'"):
        read(tmp_path, PROTEINS, keep=("organizm",))
