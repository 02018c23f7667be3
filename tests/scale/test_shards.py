"""Shards and their merge: byte for byte the set of a single run, whatever happened on the way."""

import gzip
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.engine import Agenda
from bertfeat.core.extraction import ExtractionJob, Result, Task
from bertfeat.core.extraction.agenda import tasks_of
from bertfeat.core.features import FeatureSet, list_parts, read_manifest, read_shard, write_shard
from bertfeat.core.io import Address, ResultKind, claim_folder, folder_lock, list_files, read_file, remove_stored
from bertfeat.errors import (
    AnotherCorpusError,
    BertfeatError,
    CorpusError,
    DamagedError,
    FeatureSetError,
    FolderLockedError,
    RemovalError,
    SettingsDifferError,
    StorageError,
    UsageError,
)
from bertfeat.scale import MergeReport, Shard, merge_features
from tests.support.corpus_writers import write_parquet
from tests.support.runs import contents, everything, extractor, jsonl_file, lines, text_file
from tests.support.steps import Stop, preload, start, steps
from tests.support.tiny_models import Tiny

ROWS = 6  # of a part
RECORDS: list[Any] = [{"text": text} for text in lines(50)]
RECORDS[8], RECORDS[9], RECORDS[30] = "no JSON", {"text": 3}, ""
NUMBERS = itertools.count()


def run(bert: Tiny, corpus: Any, folder: Path | Address, shard: Shard | None = None, **options: Any) -> Any:
    given = {"part_rows": ROWS, "sharing": shard} | options
    return extractor(bert, pooling="mean,token").extract(corpus, folder, **given)


def run_all(bert: Tiny, corpus: Any, folder: Path, count: int, **options: Any) -> list[Path]:
    folders = [folder / f"shard-{index}" for index in range(count)]
    for index, each in enumerate(folders):
        run(bert, corpus, each, Shard(index, count), **options)
    return folders


def kept(folder: Path | Address) -> dict[str, str]:
    """Give a digest of every part and of the list of failures: what must be that of a single run."""
    return {
        file.name: sha256(read_file(folder / file.name)).hexdigest()
        for file in list_files(folder)
        if file.name.startswith("part-") or file.name.endswith("failures.jsonl")
    }


@pytest.fixture(scope="module")
def made(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of nine parts, three of its rows failed or blank, as a whole set and in three shards."""
    place = tmp_path_factory.mktemp("made")
    corpus = jsonl_file(place / "c.jsonl", RECORDS)
    run(tiny("bert"), corpus, place / "whole")
    run_all(tiny("bert"), corpus, place, 3)
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of them in the working folder; the corpus is where it was."""
    shutil.copytree(made, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def shards(place: Path) -> list[Path]:
    return [place / f"shard-{index}" for index in range(3)]


# ── the same bytes ──────────────────────────────────────────────────────────────────────────────────────────


def _text(place: Path) -> Any:
    return text_file(place / "c.txt", [*lines(40), "", *lines(9, 40)])


def _jsonl(place: Path) -> Any:
    return jsonl_file(place / "c.jsonl", RECORDS)


def _gzipped(place: Path) -> Any:
    (place / "c.jsonl.gz").write_bytes(gzip.compress(_jsonl(place).read_bytes()))
    return place / "c.jsonl.gz"


def _parquet(place: Path) -> Any:
    (place / "c.parquet").write_bytes(write_parquet(lines(45)))
    return place / "c.parquet"


def _many_small(place: Path) -> Any:
    """Files of none to eight lines, and a long one among them."""
    (place / "files").mkdir()
    for at in range(23):
        text_file(place / "files" / f"{at:02}.txt", lines(30 if at == 11 else at * 5 % 9, at * 31))
    return place / "files"


CORPORA = {"text": _text, "JSONL": _jsonl, "gzip": _gzipped, "Parquet": _parquet, "many small files": _many_small}


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("make", CORPORA.values(), ids=CORPORA)
def test_the_parts_are_those_of_a_single_run(bert: Tiny, tmp_path: Path, make: Callable[[Path], Any]) -> None:
    corpus = make(tmp_path)
    report = run(bert, corpus, tmp_path / "whole")
    for count in (1, 2, 3, 7):
        folders = run_all(bert, corpus, tmp_path / str(count), count)
        assert sum(len(list_parts(folder)) for folder in folders) == report.parts
        merged = merge_features(folders[::-1], tmp_path / f"merged-{count}")
        assert (merged.shards, merged.documents) == (count, report.counts.documents)
        assert (merged.failed, merged.blank, merged.parts) == (report.failed, report.blank, report.parts)
        assert (merged.bytes, merged.kept_parts, merged.warnings) == (report.bytes, 0, ())
        assert contents(tmp_path / f"merged-{count}") == contents(tmp_path / "whole")


def test_the_manifest_is_that_of_a_single_run(bert: Tiny, made: Path, tmp_path: Path) -> None:
    merge_features(shards(made), tmp_path / "merged")
    ours, theirs = read_manifest(tmp_path / "merged"), read_manifest(made / "whole")
    assert ours is not None
    assert theirs is not None
    ours_plain, theirs_plain = (
        json.loads((folder / ".bertfeat/manifest.json").read_text()) for folder in (tmp_path / "merged", made / "whole")
    )
    for plain in (ours_plain, theirs_plain):
        assert list(plain.pop("times")) == ["finished", "seconds", "device"]
        del plain["digest"]
    assert ours_plain == theirs_plain
    seconds = [record.times["seconds"] for folder in shards(made) if (record := read_shard(folder))]
    assert ours.times["seconds"] == pytest.approx(sum(seconds))  # type: ignore[arg-type]
    # a run over the corpus takes it for its own
    before = everything(tmp_path / "merged")
    assert run(bert, made / "c.jsonl", tmp_path / "merged").nothing_to_do
    assert everything(tmp_path / "merged") == before


class _Inline:
    """An engine that scans and reads by itself, as other processes do, in this one."""

    def run(self, job: ExtractionJob, agenda: Agenda[Task, Result]) -> None:
        job.open_worker(device="cpu", threads=None).work(tasks_of(agenda), agenda.finish)


def test_an_engine_may_make_a_shard(bert: Tiny, made: Path, tmp_path: Path) -> None:
    for index in range(3):
        run(bert, made / "c.jsonl", tmp_path / f"shard-{index}", Shard(index, 3), engine=_Inline())
        assert kept(tmp_path / f"shard-{index}") == kept(made / f"shard-{index}")
    merge_features([*shards(tmp_path)[:2], shards(made)[2]], tmp_path / "merged")
    assert contents(tmp_path / "merged") == contents(made / "whole")


def test_parts_take_no_more_room_and_shards_stay_as_they_are(place: Path) -> None:
    before = [everything(folder) for folder in shards(place)]
    merge_features(shards(place), place / "merged")
    assert [everything(folder) for folder in shards(place)] == before
    for path in list_parts(place / "merged"):
        number = int(path.stem.partition("-")[2])
        assert path.samefile(place / f"shard-{number % 3}" / path.name)
    # a shard that is done again leaves the merged set alone
    shutil.rmtree(place / "shard-0")
    assert contents(place / "merged") == contents(place / "whole")


def test_where_there_are_no_links_parts_are_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_paths: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    merge_features(shards(place), place / "merged")
    assert contents(place / "merged") == contents(place / "whole")
    assert {path.stat().st_nlink for path in list_parts(place / "merged")} == {1}


@pytest.mark.slow
def test_object_storage(bert: Tiny, made: Path, tmp_path: Path) -> None:
    bucket = Address.parse(f"memory://shards-{next(NUMBERS)}/work")
    folders = [bucket / f"shard-{index}" for index in range(3)]
    for index, folder in enumerate(folders):
        run(bert, made / "c.jsonl", folder, Shard(index, 3))
    merges: list[tuple[Sequence[Path | Address], Path | Address]] = [
        (folders, tmp_path / "from"),
        (shards(made), bucket / "to"),
        (folders, bucket / "within"),
        ([folders[0], shards(made)[1], folders[2]], tmp_path / "mixed"),
    ]
    for given, target in merges:
        assert merge_features(given, target).kept_parts == 0
        assert kept(target) == kept(made / "whole")
        assert merge_features(given, target).nothing_to_do
        assert len(FeatureSet(target)) == 47
    remove_stored(bucket / "within/part-00004.parquet")
    remove_stored(bucket / "to/.bertfeat/manifest.json")
    assert [merge_features(folders, bucket / name).kept_parts for name in ("within", "to")] == [8, 9]
    assert len(FeatureSet(bucket / "within")) == len(FeatureSet(bucket / "to")) == 47


# ── a shard ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("text", "index", "count"), [("0/1", 0, 1), ("2/3", 2, 3), (" 0/3\n", 0, 3), ("07/11", 7, 11)])
def test_a_shard_is_written_as_index_and_count(text: str, index: int, count: int) -> None:
    shard = Shard.parse(text)
    assert (shard.index, shard.count, str(shard)) == (index, count, f"{index}/{count}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *(
            (text, "is written index/count; 0/3 is the first")
            for text in ("", "3", "1/", "/3", "a/b", "1/3/5", "1 / 3")
        ),
        *((text, "is written index/count") for text in ("-1/3", "1.0/3", "٣/٩", "1\n/3", "0x1/3")),
        ("3/3", "of 3 shards there is no number 3; count from 0 to 2"),
        ("7/3", "no number 7; count from 0 to 2"),
        ("0/99999999999999999999", "among 1,000,000 shards at most"),
        ("0/0", "one shard at least; write 0/3"),
        ("1/0", "one shard at least"),
    ],
)
def test_nonsense_is_no_shard(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Shard.parse(text)


def test_a_shard_is_no_finished_set(made: Path) -> None:
    folder = made / "shard-1"
    assert not (folder / ".bertfeat/manifest.json").exists()
    with pytest.raises(FeatureSetError, match=r"shard-1: this is shard 1/3 .* bertfeat merge SHARD\.\.\. -o DIR"):
        FeatureSet(folder)
    features = FeatureSet(folder, allow_unfinished=True)
    assert [part.number for part in features.entries] == [1, 4, 7]
    whole = FeatureSet(made / "whole")
    assert [document.text for document in features] == [
        document.text for document in whole if document.row // ROWS % 3 == 1
    ]


def test_small_corpora_have_shards_without_parts(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(ROWS))
    run(bert, corpus, tmp_path / "whole")
    folders = run_all(bert, corpus, tmp_path, 3)
    assert [len(list_parts(folder)) for folder in folders] == [1, 0, 0]
    before = everything(folders[2])
    assert run(bert, corpus, folders[2], Shard(2, 3)).nothing_to_do
    assert everything(folders[2]) == before
    merge_features(folders, tmp_path / "merged")
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")
    with pytest.raises(FeatureSetError, match="2/3 is missing"):
        merge_features(folders[:2], tmp_path / "less")


def test_a_corpus_without_rows_has_no_shards(bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"e\.txt: the corpus has no rows"):
        run(bert, text_file(tmp_path / "e.txt", []), tmp_path / "shard-0", Shard(0, 2))
    assert not (tmp_path / "shard-0").exists()


def test_a_finished_shard_is_left_alone(bert: Tiny, made: Path) -> None:
    before = everything(made / "shard-1")
    report = run(bert, made / "c.jsonl", made / "shard-1", Shard(1, 3))
    assert (report.nothing_to_do, report.parts, report.kept_parts, report.computed_tokens) == (True, 3, 3, 0)
    assert everything(made / "shard-1") == before


@pytest.mark.parametrize("missing", [(0,), (1, 2), (0, 1, 2)])
def test_a_shard_goes_on(bert: Tiny, made: Path, place: Path, missing: tuple[int, ...]) -> None:
    folder = place / "shard-1"
    for at in reversed(missing):
        list_parts(folder)[at].unlink()
    (folder / ".bertfeat/shard.json").unlink()
    report = run(bert, made / "c.jsonl", folder, Shard(1, 3))
    assert report.kept_parts == 3 - len(missing)
    assert kept(folder) == kept(made / "shard-1")
    assert read_shard(folder) is not None


def test_damage_in_a_shard_is_mended(bert: Tiny, made: Path, place: Path) -> None:
    folder = place / "shard-2"
    flip(list_parts(folder)[1])
    (folder / ".bertfeat/shard.json").write_text("{}")
    assert run(bert, made / "c.jsonl", folder, Shard(2, 3)).kept_parts == 2
    assert kept(folder) == kept(made / "shard-2")
    merge_features(shards(place), place / "merged")


def test_a_run_over_another_shard_is_refused(bert: Tiny, made: Path, place: Path) -> None:
    corpus = made / "c.jsonl"
    before = everything(place)
    for shard in (Shard(0, 3), Shard(1, 2), Shard(1, 4), Shard(0, 1)):
        with pytest.raises(FeatureSetError, match=rf"it holds shard 1/3, and this run makes shard {shard}"):
            run(bert, corpus, place / "shard-1", shard)
    with pytest.raises(FeatureSetError, match="it holds a whole feature set"):
        run(bert, corpus, place / "whole", Shard(0, 1))
    assert everything(place) == before
    # also where the run of the other one did not come to its end
    (place / "shard-1/.bertfeat/shard.json").unlink()
    (place / "whole/.bertfeat/manifest.json").unlink()
    before = everything(place)
    for folder, shard in (("shard-1", Shard(0, 3)), ("shard-1", Shard(1, 4)), ("whole", Shard(0, 3))):
        with pytest.raises(
            FeatureSetError, match=r"part-0000\d\.parquet, which is a part of another shard or of a run"
        ):
            run(bert, corpus, place / folder, shard)
    assert everything(place) == before


def test_overwriting_makes_it_another_shard(bert: Tiny, made: Path, place: Path) -> None:
    corpus = made / "c.jsonl"
    for folder in (place / "shard-1", place / "whole"):
        run(bert, corpus, folder, Shard(0, 3), overwrite=True)
        assert contents(folder).keys() == contents(made / "shard-0").keys()
        assert kept(folder) == kept(made / "shard-0")
    run(bert, corpus, place / "whole", Shard(60, 61), overwrite=True)  # which has no parts
    assert kept(place / "whole") == {}
    assert not (place / "whole/.bertfeat/manifest.json").exists()


def test_a_run_that_is_not_shared_out_may_finish_a_shard(bert: Tiny, made: Path, place: Path) -> None:
    assert run(bert, made / "c.jsonl", place / "shard-1").kept_parts == 3
    assert contents(place / "shard-1") == contents(made / "whole")
    with pytest.raises(FeatureSetError, match="shard-1: this is a whole feature set and no shard"):
        merge_features(shards(place), place / "merged")


@pytest.mark.slow
def test_a_corpus_that_grew(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(40))
    folders = run_all(bert, corpus, tmp_path, 3)
    merge_features(folders, tmp_path / "merged")
    text_file(corpus, lines(57))
    run(bert, corpus, tmp_path / "whole")
    run(bert, corpus, folders[0], Shard(0, 3))
    before = everything(tmp_path / "merged")
    with pytest.raises(FeatureSetError, match=r"shard-0: shard 0/3 .*57 rows in 10 parts, there 40 rows in 7 parts"):
        merge_features(folders, tmp_path / "merged")
    assert everything(tmp_path / "merged") == before
    reports = [run(bert, corpus, folder, Shard(at, 3)) for at, folder in enumerate(folders)]
    assert [report.kept_parts for report in reports] == [4, 2, 2]  # the first one is just done; part 6 was not full
    report = merge_features(folders, tmp_path / "merged")
    assert (report.parts, report.kept_parts) == (10, 6)
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_corpus_that_shrank(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(57))
    folders = run_all(bert, corpus, tmp_path, 3)
    merge_features(folders, tmp_path / "merged")
    text_file(corpus, lines(22))
    run(bert, corpus, tmp_path / "whole")
    for at, folder in enumerate(folders):
        before = everything(folder)
        with pytest.raises(RemovalError, match=r"a file gone, a disk not mounted\?"):
            run(bert, corpus, folder, Shard(at, 3))
        assert everything(folder) == before
        run(bert, corpus, folder, Shard(at, 3), prune=True)
    assert [len(list_parts(folder)) for folder in folders] == [2, 1, 1]
    before = everything(tmp_path / "merged")
    with pytest.raises(RemovalError, match=r"of its 10 finished parts this run would remove 7 .* overwrite=True"):
        merge_features(folders, tmp_path / "merged")
    assert everything(tmp_path / "merged") == before
    merge_features(folders, tmp_path / "merged", overwrite=True)
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


# ── merging again ───────────────────────────────────────────────────────────────────────────────────────────


def flip(path: Path, at: float = 0.4) -> None:
    """Change a byte of a file that no other name shares."""
    held = bytearray(path.read_bytes())
    held[int(at * len(held))] ^= 1
    path.unlink()
    path.write_bytes(held)


def test_merging_again_changes_nothing(place: Path) -> None:
    merge_features(shards(place), place / "merged")
    before = everything(place / "merged")
    report = merge_features([Path("shard-2"), Path("shard-0"), Path("shard-1")], place / "merged")
    assert (report.nothing_to_do, report.documents, report.failed, report.blank) == (True, 47, 2, 1)
    assert everything(place / "merged") == before


def _remove_part(folder: Path) -> None:
    list_parts(folder)[4].unlink()


def _damage_part(folder: Path) -> None:
    flip(list_parts(folder)[4])


def _damage_footer(folder: Path) -> None:
    flip(list_parts(folder)[4], 0.99)


def _exchange_part(folder: Path) -> None:
    shutil.copy(list_parts(folder)[2], folder / "another")
    os.replace(folder / "another", list_parts(folder)[4])


def _add_part(folder: Path) -> None:
    shutil.copy(list_parts(folder)[4], folder / "part-00009.parquet")


def _leave_temporary(folder: Path) -> None:
    (folder / ".part-00004.parquet.tmp").write_text("half")


def _remove_manifest(folder: Path) -> None:
    (folder / ".bertfeat/manifest.json").unlink()


def _change_manifest(folder: Path) -> None:
    flip(folder / ".bertfeat/manifest.json")


def _remove_failures(folder: Path) -> None:
    (folder / ".bertfeat/failures.jsonl").unlink()


def _change_failures(folder: Path) -> None:
    flip(folder / ".bertfeat/failures.jsonl")


MISHAPS = (
    *(_remove_part, _damage_part, _damage_footer, _exchange_part, _add_part, _leave_temporary),
    *(_remove_manifest, _change_manifest, _remove_failures, _change_failures),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("harm", MISHAPS, ids=lambda harm: harm.__name__)
def test_a_merged_set_is_mended(place: Path, harm: Callable[[Path], None]) -> None:
    merge_features(shards(place), place / "merged")
    before = contents(place / "merged")
    harm(place / "merged")
    if harm is _add_part:
        with pytest.raises(RemovalError, match=r"remove 1 \(part-00009\.parquet\)"):
            merge_features(shards(place), place / "merged")
    merge_features(shards(place), place / "merged", overwrite=harm is _add_part)
    assert contents(place / "merged") == before == contents(place / "whole")
    assert sum(1 for _ in FeatureSet(place / "merged").check()) == 9


def test_what_a_single_run_has_begun_is_taken_over(bert: Tiny, made: Path, place: Path) -> None:
    for path in list_parts(place / "whole")[4:]:
        path.unlink()
    (place / "whole/.bertfeat/manifest.json").unlink()
    report = merge_features(shards(place), place / "whole")
    assert (report.kept_parts, report.parts) == (4, 9)
    assert contents(place / "whole") == contents(made / "whole")


def test_runs_that_were_not_alike_are_told(place: Path) -> None:
    record = read_shard(place / "shard-1")
    assert record is not None
    versions = {**record.versions, "torch": "9.9", "kernels": "others"}
    times = {"finished": "2999-01-01T00:00:00+00:00", "seconds": 1000.0, "device": "cuda:0"}
    write_shard(place / "shard-1", replace(record, versions=versions, times=times))
    report = merge_features(shards(place), place / "merged")
    (warning,) = report.warnings
    assert warning.startswith("the shards were not made alike (torch ")
    assert ", 9.9; kernels " in warning
    manifest = read_manifest(place / "merged")
    assert manifest is not None
    assert manifest.versions["torch"] == f"{record.versions['torch']}, 9.9"
    assert manifest.times["finished"] == "2999-01-01T00:00:00+00:00"
    assert manifest.times["device"] == "cpu, cuda:0"


# ── what cannot be merged ───────────────────────────────────────────────────────────────────────────────────


def refused(place: Path, folders: list[Path], told: str, kind: type[BertfeatError] = FeatureSetError) -> None:
    """Merge in vain, into a new folder and into an older merge, and see that nothing was touched."""
    assert isinstance(merge_features(_untouched(place), place / "older"), MergeReport)
    before = everything(place)
    for target in (place / "merged", place / "older"):
        with pytest.raises(kind, match=told):
            merge_features(folders, target)
    assert everything(place) == before
    assert not (place / "merged").exists()


def _untouched(place: Path) -> list[Path]:
    """Copies of the shards that the older merge was made of."""
    return [place / "sound" / folder.name for folder in shards(place)]


@pytest.fixture
def sound(place: Path) -> Path:
    for folder in shards(place):
        shutil.copytree(folder, place / "sound" / folder.name)
    return place


def test_a_missing_shard(sound: Path) -> None:
    first, second, third = shards(sound)
    refused(sound, [first, third], r"there are 2 of 3 shards; 1/3 is missing; .*c\.jsonl --shard 1/3 -o DIR")
    refused(sound, [second, third], "0/3 is missing")
    refused(sound, [second], "1 of 3 shards; 0/3 is missing")


def test_a_shard_twice(sound: Path) -> None:
    shutil.copytree(sound / "shard-1", sound / "copy")
    refused(sound, [*shards(sound), sound / "copy"], "copy: this is shard 1/3, as .*shard-1 is; leave one of them out")
    refused(sound, [*shards(sound), Path("shard-2")], "shard-2: the same folder as .*; name each once", UsageError)


def test_no_shards(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folders of the shards"):
        merge_features([], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_shard_of_another_division(bert: Tiny, made: Path, sound: Path) -> None:
    run(bert, made / "c.jsonl", sound / "quarter", Shard(1, 4))
    first, _, third = shards(sound)
    refused(sound, [first, sound / "quarter", third], "quarter: this is shard 1/4, and .*shard-0 is shard 0/3")


def test_a_shard_with_other_settings(bert: Tiny, made: Path, sound: Path) -> None:
    run(bert, made / "c.jsonl", sound / "other", Shard(0, 3), part_rows=ROWS + 1)
    told = r"other: shard 0/3 was made with other settings than .*shard-1:\n  part_rows: 7, there 6\n"
    refused(sound, [sound / "other", *shards(sound)[1:]], told)


def test_a_shard_of_another_corpus(bert: Tiny, sound: Path) -> None:
    another = jsonl_file(sound / "d.jsonl", [{"text": text} for text in lines(50, 900)])
    run(bert, another, sound / "other", Shard(2, 3))
    told = r"other: shard 2/3 was made from another corpus than .*shard-0, .*: 50 rows in 9 parts, there 50 rows in 9"
    refused(sound, [*shards(sound)[:2], sound / "other"], told)


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_folder_of_a_shard(sound: Path, name: str) -> None:
    (sound / "empty").mkdir()
    (sound / "file").write_text("text")
    told = f"{name}: this is a file" if name == "file" else f"{name}: this folder holds no shard; run its command"
    refused(sound, [*shards(sound)[:2], sound / name], told)


def test_an_unfinished_shard(sound: Path) -> None:
    (sound / "shard-1/.bertfeat/shard.json").unlink()
    refused(sound, shards(sound), r"shard-1: this shard is not finished; run its command, again if need be: bertfeat e")


def test_an_older_merge_is_no_shard(sound: Path) -> None:
    told = r"whole: this is a whole feature set and no shard; .*bertfeat index A B"
    refused(sound, [*shards(sound)[:2], sound / "whole"], told)


def test_an_index_is_no_shard(sound: Path) -> None:
    claim_folder(sound / "an.index", ResultKind.INDEX)
    refused(sound, [*shards(sound)[:2], sound / "an.index"], "an.index holds an index", StorageError)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.95, 0.9999])
def test_a_damaged_part(sound: Path, at: float) -> None:
    flip(list_parts(sound / "shard-1")[1], at)
    before = everything(sound)
    with pytest.raises(DamagedError, match=r"shard-1.part-00004\.parquet: .*redoes this part"):
        merge_features(shards(sound), sound / "merged")
    assert everything(sound) == before


@pytest.mark.slow
def test_a_part_that_is_damaged_after_it_was_merged(place: Path) -> None:
    merge_features(shards(place), place / "merged")
    flip(list_parts(place / "shard-1")[1])  # of a copy: the merged set still has what was written
    assert merge_features(shards(place), place / "merged").nothing_to_do
    flip(list_parts(place / "merged")[4])
    before = everything(place)
    with pytest.raises(DamagedError, match=r"shard-1.part-00004\.parquet: a checksum does not hold"):
        merge_features(shards(place), place / "merged")
    assert everything(place) == before


def test_a_missing_part(sound: Path) -> None:
    list_parts(sound / "shard-1")[1].unlink()
    told = (
        r"part-00004\.parquet: this part of the shard is missing; run its command again: bertfeat extract .*c\.jsonl "
    )
    refused(sound, shards(sound), told + r"--shard 1/3 -o .*shard-1", DamagedError)


def test_a_part_of_another_shard(sound: Path) -> None:
    shutil.copy(list_parts(sound / "shard-0")[1], sound / "shard-1")
    refused(sound, shards(sound), r"shard-1.part-00003\.parquet: this is no part of shard 1/3", DamagedError)


def test_a_part_under_anothers_name(sound: Path) -> None:
    parts = list_parts(sound / "shard-1")
    shutil.copy(parts[0], parts[1])
    refused(sound, shards(sound), r"part-00004\.parquet: says of itself that it is part 1", DamagedError)


def test_a_part_of_another_state_of_the_corpus(bert: Tiny, made: Path, sound: Path) -> None:
    changed = jsonl_file(sound / "c.jsonl", [*RECORDS[:26], {"text": "another text"}, *RECORDS[27:]])
    run(bert, changed, sound / "changed", Shard(1, 3))
    shutil.copy(list_parts(sound / "changed")[1], list_parts(sound / "shard-1")[1])
    refused(sound, shards(sound), "the parts of these shards are not those of the plan", DamagedError)


def test_a_damaged_record(sound: Path) -> None:
    flip(sound / "shard-2/.bertfeat/shard.json")
    refused(
        sound, shards(sound), r"shard\.json: cannot be read .*; run the shard's extract command again", DamagedError
    )


# ── where it is written ─────────────────────────────────────────────────────────────────────────────────────


def test_the_folder_of_a_shard_is_no_place_for_the_set(place: Path) -> None:
    before = everything(place)
    for target in (place / "shard-1", Path("shard-1"), Path("whole/../shard-1")):
        with pytest.raises(UsageError, match="shard-1: it holds shard 1/3; name another output"):
            merge_features(shards(place), target)
    with pytest.raises(UsageError, match=r"place: it holds .*shard-0, which is to be read; name another output"):
        merge_features(shards(place), place)
    with pytest.raises(UsageError, match=r"deeper: it lies in .*shard-1, which is to be read; name another output"):
        merge_features(shards(place), place / "shard-1/deep/deeper")
    shutil.copytree(place / "shard-1", place / "copy")
    with pytest.raises(FeatureSetError, match="copy: it holds shard 1/3; name another output"):
        merge_features(shards(place), place / "copy")
    shutil.rmtree(place / "copy")
    assert everything(place) == before


def test_another_feature_set_is_not_replaced(bert: Tiny, place: Path) -> None:
    another = text_file(place / "d.txt", lines(20, 500))
    run(bert, another, place / "another")
    run(bert, place / "c.jsonl", place / "different", part_rows=5)
    before = everything(place)
    with pytest.raises(AnotherCorpusError, match="another was made from another corpus"):
        merge_features(shards(place), place / "another")
    with pytest.raises(SettingsDifferError, match="part_rows: 5 → 6"):
        merge_features(shards(place), place / "different")
    assert everything(place) == before
    for name in ("another", "different", "whole"):
        merge_features(shards(place), place / name, overwrite=True)
        assert kept(place / name) == kept(place / "whole")


def test_other_things_are_not_replaced(place: Path) -> None:
    claim_folder(place / "an.index", ResultKind.INDEX)
    with pytest.raises(StorageError, match=r"an\.index holds an index"):
        merge_features(shards(place), place / "an.index", overwrite=True)
    (place / "mine").mkdir()
    (place / "mine/part-00000.parquet").write_bytes(write_parquet(["mine"]))
    with pytest.raises(FeatureSetError, match="this file was not written by bertfeat extract"):
        merge_features(shards(place), place / "mine", overwrite=True)
    assert [path.name for path in (place / "mine").iterdir()] == ["part-00000.parquet"]


def test_a_folder_at_which_another_run_is(place: Path) -> None:
    with folder_lock(place / "merged"), pytest.raises(FolderLockedError, match="another run is at work on it"):
        merge_features(shards(place), place / "merged")
    merge_features(shards(place), place / "merged")


@pytest.mark.slow
def test_a_shard_that_changes_meanwhile(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", RECORDS)
    folders = run_all(bert, corpus, tmp_path, 3)
    jsonl_file(corpus, [*RECORDS[:26], {"text": "another text"}, *RECORDS[27:]])

    def change(progress: Any) -> None:
        if progress.step == "checked" and progress.done == progress.total:
            run(bert, corpus, folders[1], Shard(1, 3), prune=True)

    with pytest.raises(DamagedError, match="merged: a shard was changed while it was merged"):
        merge_features(folders, tmp_path / "merged", progress=change)
    assert not (tmp_path / "merged/.bertfeat/manifest.json").exists()
    for index, folder in enumerate(folders):
        run(bert, corpus, folder, Shard(index, 3), prune=True)
    merge_features(folders, tmp_path / "merged", overwrite=True)
    run(bert, corpus, tmp_path / "whole")
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


def test_progress_is_told(place: Path) -> None:
    told: list[tuple[str, int, int]] = []
    merge_features(shards(place), place / "m", progress=lambda each: told.append((each.step, each.done, each.total)))
    assert told == [(step, done, 9) for step in ("checked", "merged") for done in range(1, 10)]


# ── killed ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True], ids=["new", "over an older merge"])
def test_a_killed_merge_goes_on(bert: Tiny, made: Path, place: Path, older: bool) -> None:
    preload("bertfeat.scale", "bertfeat.core.features")
    arguments = ["merge", "shard-0", "shard-1", "shard-2", "-o", "merged", *(["--overwrite"] if older else [])]
    if older:  # whose parts are other ones, but for two
        before = jsonl_file(place / "before.jsonl", [*RECORDS[:14], {"text": "another text"}, *RECORDS[14:40]])
        run(bert, before, place / "old")
    else:
        (place / "old").mkdir()

    def again() -> None:
        shutil.rmtree(place / "merged", ignore_errors=True)
        shutil.copytree(place / "old", place / "merged")

    again()
    count = len(steps(arguments, [place / "merged"], cwd=place))
    inputs = [everything(folder) for folder in shards(place)]
    for step in range(1, count + 1, 11):
        again()
        with start(arguments, [place / "merged"], stop=Stop(step, signal.SIGKILL), cwd=place) as killed:
            assert killed.wait().exit_code == -signal.SIGKILL
        manifest = (place / "merged/.bertfeat/manifest.json").exists()
        if manifest:  # then it is a whole set: the old one or the new one
            assert sum(1 for _ in FeatureSet(place / "merged").check()) in (7, 9)
        merge_features(shards(place), place / "merged", overwrite=older)
        assert contents(place / "merged") == contents(made / "whole"), step
        assert [everything(folder) for folder in shards(place)] == inputs


def test_a_killed_shard_goes_on(bert: Tiny, made: Path, tmp_path: Path) -> None:
    preload("bertfeat.core.extraction", "bertfeat.scale", "bertfeat.core.features")
    options = (
        "--layers last,-2 --pooling mean,token --part-rows 6 --precision fp32 --device cpu --allow-failures --shard 1/3"
    )
    arguments = ["extract", made / "c.jsonl", "-o", "s", "--model", bert.folder, *options.split()]
    count = len(steps(list(map(str, arguments)), [tmp_path / "s"], cwd=tmp_path))
    shutil.rmtree(tmp_path / "s")
    for step in range(2, count + 1, max(1, count // 4)):
        with start(
            list(map(str, arguments)), [tmp_path / "s"], stop=Stop(step, signal.SIGKILL), cwd=tmp_path
        ) as killed:
            assert killed.wait().exit_code == -signal.SIGKILL
        if read_shard(tmp_path / "s") is None:
            with pytest.raises(FeatureSetError):
                merge_features([made / "shard-0", tmp_path / "s", made / "shard-2"], tmp_path / "merged")
            assert not (tmp_path / "merged").exists()
        run(bert, made / "c.jsonl", tmp_path / "s", Shard(1, 3))
        assert kept(tmp_path / "s") == kept(made / "shard-1")
        shutil.rmtree(tmp_path / "s")
