"""What an extraction must leave alone, what it must not read, and what it must not believe."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat.core.corpus import open_corpus
from bertfeat.core.features import FeatureSet, list_parts
from bertfeat.errors import CorpusError, DamagedError, FeatureSetError, RowFailedError, StorageError, UsageError
from bertfeat.io import ResultKind, claim_folder, result_kind, write_json
from tests.support.runs import contents, everything, extractor, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny

MANIFEST, FAILURES = ".bertfeat/manifest.json", ".bertfeat/failures.jsonl"
RECORDS: list[Any] = [*({"text": text} for text in lines(20)), "no JSON", {"text": 3}]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return jsonl_file(tmp_path / "corpus.jsonl", RECORDS)


def run(bert: Tiny, corpus: Any, folder: Path, **options: Any) -> Any:
    return extractor(bert).extract(corpus, folder, **{"part_rows": 8} | options)


def parquet_files(folder: Path, number: int) -> list[Path]:
    folder.mkdir()
    for at in range(number):
        pq.write_table(pa.table({"text": [f"text {at}"]}), folder / f"part-{at:05d}.parquet")
    return sorted(folder.iterdir())


# ── files of others ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("overwrite", [False, True])
def test_parts_of_others_are_left_alone(bert: Tiny, tmp_path: Path, overwrite: bool) -> None:
    parquet_files(tmp_path / "sp", 5)
    before = everything(tmp_path / "sp")
    with pytest.raises(FeatureSetError, match="was not written by bertfeat extract; move it elsewhere"):
        run(bert, str(tmp_path / "sp/part-*.parquet"), tmp_path / "sp", overwrite=overwrite)
    assert everything(tmp_path / "sp") == before


@pytest.mark.parametrize("join", [False, True], ids=["alone", "joined"])
@pytest.mark.parametrize("notes", [False, True])
def test_a_run_that_writes_nothing_leaves_a_folder_as_it_was(
    bert: Tiny, tmp_path: Path, join: bool, notes: bool
) -> None:
    (tmp_path / "out").mkdir()
    if notes:
        (tmp_path / "out" / "notes.txt").write_text("mine")
    before = everything(tmp_path / "out")
    if not join:  # which has written scans for others by then
        bad = jsonl_file(tmp_path / "c.jsonl", [*RECORDS[:3], "no JSON"])
        with pytest.raises(RowFailedError):
            run(bert, bad, tmp_path / "out", max_failures=0, join=join)
    with pytest.raises(CorpusError, match="no rows"):
        run(bert, text_file(tmp_path / "e.txt", []), tmp_path / "out", join=join)
    assert everything(tmp_path / "out") == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == list(before)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_is_no_parquet_is_left_alone(bert: Tiny, corpus: Path, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/part-00000.parquet").write_text("my own notes")
    with pytest.raises(FeatureSetError, match="was not written by bertfeat extract"):
        run(bert, corpus, tmp_path / "out", overwrite=overwrite)
    assert (tmp_path / "out/part-00000.parquet").read_text() == "my own notes"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_its_own_input_is_refused(bert: Tiny, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "texts/deep").mkdir(parents=True)
    text_file(tmp_path / "texts/deep/a.txt", lines(5))
    for given in (tmp_path / "texts", tmp_path / "texts/deep/a.txt", str(tmp_path / "texts/**/*.txt")):
        with pytest.raises(UsageError, match=r"a\.txt, which is to be read; name another folder"):
            run(bert, given, tmp_path / "texts", overwrite=overwrite)
    assert [path.name for path in (tmp_path / "texts").rglob("*") if path.is_file()] == ["a.txt"]


def test_overwriting_starts_anew_over_damaged_parts_of_ours(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    run(bert, corpus, tmp_path / "out")
    for path in list_parts(tmp_path / "out"):
        path.write_bytes(path.read_bytes()[:50])
    run(bert, corpus, tmp_path / "out", overwrite=True)
    run(bert, corpus, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_another_kind_of_result_is_left_alone(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    claim_folder(tmp_path / "ner.tagger", ResultKind.HEAD)
    with pytest.raises(StorageError, match="holds a head; name another folder"):
        run(bert, corpus, tmp_path / "ner.tagger", overwrite=True)
    assert result_kind(tmp_path / "ner.tagger") is ResultKind.HEAD


def test_a_pipe_in_the_place_of_a_part(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    run(bert, corpus, tmp_path / "out")
    (tmp_path / "out/part-00001.parquet").unlink()
    os.mkfifo(tmp_path / "out/part-00001.parquet")
    with pytest.raises(FeatureSetError, match="not a regular file"):
        run(bert, corpus, tmp_path / "out")
    with pytest.raises(FeatureSetError):
        FeatureSet(tmp_path / "out")


def test_standard_input_is_not_spooled_through_a_link(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out/.bertfeat").mkdir(parents=True)
    (tmp_path / "out/.bertfeat/stdin").symlink_to(tmp_path / "precious")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a text\n")))
    run(bert, "-", tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "mine"
    assert len(FeatureSet(tmp_path / "out")) == 1


def test_standard_input_that_cannot_be_read(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Folder(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Folder()))
    with pytest.raises(CorpusError, match="standard input cannot be read: Is a directory"):
        run(bert, "-", tmp_path / "out")


# ── results of ours as a corpus ─────────────────────────────────────────────────────────────────────────────


def test_a_second_run_does_not_read_the_first_ones_output(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(Path("a.txt"), lines(5))
    for _ in range(2):
        report = run(bert, ".", Path("o"))
        assert report.counts.documents == 5
    assert report.nothing_to_do
    assert open_corpus(["**/*"]).sources == ("a.txt",)
    shutil.copy("o/part-00000.parquet", "part-00007.parquet")  # a part is known without its folder
    assert open_corpus(["."]).sources == ("./a.txt",)


def test_results_of_every_kind_are_no_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ResultKind:
        claim_folder(Path(f"{kind}.result"), kind)
        Path(f"{kind}.result/told.jsonl").write_text('{"text": "not read"}\n')
        with pytest.raises(CorpusError, match=f"not a corpus but {kind.noun}"):
            open_corpus([f"{kind}.result"])
    text_file(Path("a.txt"), ["read"])
    assert open_corpus(["."]).sources == ("./a.txt",)
    assert open_corpus(["*"]).sources == ("a.txt",)


# ── what is derived ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", ["emptied", "edited", "deleted", "more", "a pipe"])
def test_a_false_list_of_failures_is_told_and_mended(bert: Tiny, corpus: Path, tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    run(bert, corpus, out)
    good = (out / FAILURES).read_bytes()
    wrong = {"emptied": b"", "edited": good.replace(b"20", b"21"), "more": good + good}
    (out / FAILURES).unlink()
    if damage in wrong:
        (out / FAILURES).write_bytes(wrong[damage])
    elif damage == "a pipe":
        os.mkfifo(out / FAILURES)
    with pytest.raises(FeatureSetError, match=r"failures\.jsonl"):
        list(FeatureSet(out).check())
    if damage != "a pipe":
        assert run(bert, corpus, out).nothing_to_do
        assert (out / FAILURES).read_bytes() == good
        list(FeatureSet(out).check())


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to every number and string of a JSON value."""
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in _numbers(each, (*path, key))]
    if isinstance(value, list):
        return [found for at, each in enumerate(value) for found in _numbers(each, (*path, at))]
    return [path]


@pytest.mark.slow
def test_every_false_number_in_the_manifest_is_told_and_mended(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    """With a digest that holds, as whoever forges one would write it."""
    out, draw = tmp_path / "out", random.Random(0)
    run(bert, corpus, out)
    good = json.loads((out / MANIFEST).read_text())
    del good["digest"]
    told = {"times", "versions", "sources", "format_version"}
    paths = [path for path in _numbers(good) if path[0] not in told]
    names = [path for path in paths if path[-1] == "name"]  # by which recipes are not compared
    for path in [*draw.sample(paths, 40), *names]:
        bad = json.loads(json.dumps(good))
        holder = bad
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        holder[path[-1]] = value + 1 if isinstance(value, int) and not isinstance(value, bool) else f"{value}x"
        write_json(out / MANIFEST, bad)
        with pytest.raises(FeatureSetError):
            list(FeatureSet(out).check())
        assert run(bert, corpus, out).nothing_to_do
        mended = json.loads((out / MANIFEST).read_text())
        assert {name: mended[name] for name in good if name not in told} == {
            name: good[name] for name in good if name not in told
        }, path


def test_a_damaged_list_of_parts_is_written_anew(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(bert, corpus, out)
    good = json.loads((out / MANIFEST).read_text())
    del good["digest"]
    for parts in ([], good["parts"][:1], [*good["parts"], good["parts"][0]]):
        write_json(out / MANIFEST, good | {"parts": parts})
        with pytest.raises(DamagedError):
            FeatureSet(out)
        run(bert, corpus, out)
        assert len(FeatureSet(out)) == 20


def test_the_manifest_names_the_files_of_the_last_run(bert: Tiny, tmp_path: Path) -> None:
    old = text_file(tmp_path / "old.txt", lines(20))
    run(bert, old, tmp_path / "out")
    old.rename(tmp_path / "new.txt")
    assert run(bert, tmp_path / "new.txt", tmp_path / "out").nothing_to_do
    assert FeatureSet(tmp_path / "out").sources == (str(tmp_path / "new.txt"),)
