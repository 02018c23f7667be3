"""A run over a folder that is not empty: what is sound is kept, what is not is redone, another's is left alone."""

import io
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet, list_parts, write_part as write
from bertfeat.errors import (
    AnotherCorpusError,
    BertfeatError,
    CorpusError,
    FeatureSetError,
    FolderLockedError,
    RemovalError,
    SettingsDifferError,
    UsageError,
)
from bertfeat.io import folder_lock
from bertfeat.scale import Processes
from tests.support.runs import contents, everything, extractor, failed_rows, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny, build

ROWS = 6  # of a part
RECORDS: list[Any] = [{"text": text} for text in lines(29)]
RECORDS[8] = "no JSON"
RECORDS[9] = {"text": 3}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Five parts, failures in the second."""
    return jsonl_file(tmp_path / "corpus.jsonl", RECORDS)


@pytest.fixture
def done(bert: Tiny, corpus: Path, tmp_path: Path) -> Path:
    """A finished set of that corpus."""
    run(bert, corpus, tmp_path / "done")
    return tmp_path / "done"


def run(bert: Tiny, corpus: Any, folder: Path, **options: Any) -> Any:
    return extractor(bert, pooling="mean,token").extract(corpus, folder, **{"part_rows": ROWS} | options)


def fresh(bert: Tiny, corpus: Any, folder: Path) -> dict[str, str]:
    """Give what an undisturbed run leaves."""
    run(bert, corpus, folder)
    return contents(folder)


def test_nothing_to_do(bert: Tiny, corpus: Path, done: Path) -> None:
    before = everything(done)
    report = run(bert, corpus, done)
    assert (report.nothing_to_do, report.kept_parts, report.computed_tokens) == (True, 5, 0)
    assert (report.counts.documents, report.failed) == (27, 2)
    assert everything(done) == before


def test_the_rows_of_a_part_need_not_be_said_again(bert: Tiny, corpus: Path, done: Path) -> None:
    assert run(bert, corpus, done, part_rows=None).nothing_to_do


@pytest.mark.sampled(2)
@pytest.mark.parametrize("missing", [(0,), (1, 3), (4,), (0, 1, 2, 3), range(5)])
def test_missing_parts_are_done(bert: Tiny, corpus: Path, done: Path, missing: Any) -> None:
    before = contents(done)
    parts = list_parts(done)
    for number in missing:
        parts[number].unlink()
    (done / ".bertfeat/manifest.json").unlink()
    report = run(bert, corpus, done)
    assert (contents(done), report.kept_parts) == (before, 5 - len(missing))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.95, 1.0])
def test_a_flipped_byte_is_found_told_and_mended(
    bert: Tiny, corpus: Path, done: Path, at: float, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(done)
    part = list_parts(done)[2]
    held = bytearray(part.read_bytes())
    held[int(at * (len(held) - 1))] ^= 1
    part.write_bytes(held)
    report = run(bert, corpus, done)
    assert (contents(done), report.kept_parts) == (before, 4)
    assert [m for m in caplog.messages if m.startswith("done again: ") and str(part) in m]


def test_a_truncated_part_and_one_under_anothers_name(bert: Tiny, corpus: Path, done: Path) -> None:
    before = contents(done)
    parts = list_parts(done)
    os.truncate(parts[0], parts[0].stat().st_size // 2)
    shutil.copy(parts[3], parts[1])
    run(bert, corpus, done)
    assert contents(done) == before


def test_every_part_damaged(bert: Tiny, corpus: Path, done: Path) -> None:
    before = contents(done)
    for part in list_parts(done):
        os.truncate(part, 10)
    assert run(bert, corpus, done).kept_parts == 0
    assert contents(done) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hurt", ["{", "", "[]", '{"format_version": 1}', None])
def test_a_hurt_manifest_is_written_anew(bert: Tiny, corpus: Path, done: Path, hurt: str | None) -> None:
    path = done / ".bertfeat/manifest.json"
    if hurt is None:
        path.unlink()
    else:
        path.write_text(hurt)
    assert run(bert, corpus, done).nothing_to_do
    assert len(FeatureSet(done)) == 27


def test_a_lost_list_of_failures_is_written_anew(bert: Tiny, corpus: Path, done: Path) -> None:
    (done / ".bertfeat/failures.jsonl").unlink()
    run(bert, corpus, done)
    assert failed_rows(done) == [8, 9]


# ── another state of the corpus ─────────────────────────────────────────────────────────────────────────────


def changed(records: list[Any]) -> list[Any]:
    return [*records[:13], {"text": "another text"}, *records[14:]]


CHANGES = [
    pytest.param(lambda records: [*records, {"text": "one"}], 4, "", id="grown within a part"),
    pytest.param(lambda records: records + [{"text": t} for t in lines(9, 50)], 4, "", id="grown"),
    pytest.param(lambda records: records + [{"text": "one"}] * 7, 4, "", id="grown by a part"),
    pytest.param(changed, 4, "1 (part-00002.parquet) with 6 rows", id="changed"),
    pytest.param(
        lambda records: [*records[:28], {"text": "another"}, {"text": "more"}],
        4,
        "1 (part-00004.parquet) with 5 rows",
        id="grown and changed in the last part",
    ),
    pytest.param(lambda records: records[:24], 4, "1 (part-00004.parquet) with 5 rows", id="shrunk to whole parts"),
    pytest.param(lambda records: records[:15], 2, "3 (part-00002.parquet …) with 17 rows", id="shrunk within a part"),
    pytest.param(
        lambda records: [{"text": "before"}, *records],
        0,
        "5 (part-00000.parquet …) with 29 rows",
        id="put in at the beginning",
    ),
    pytest.param(
        lambda records: [*records[:8], {"text": "mended"}, *records[9:]],
        4,
        "1 (part-00001.parquet) with 6 rows",
        id="failed row mended",
    ),
]
JOINED = ("grown", "changed", "shrunk within a part", "put in at the beginning")
"""Of a run that joins the plan is the same; how it reads and removes is another."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "kept", "removed", "join"),
    [
        *(pytest.param(*each.values, False, id=each.id) for each in CHANGES),
        *(pytest.param(*each.values, True, id=f"{each.id}, joined") for each in CHANGES if each.id in JOINED),
    ],
)
def test_finished_parts_go_only_when_asked(
    bert: Tiny,
    corpus: Path,
    done: Path,
    tmp_path: Path,
    change: Callable[[list[Any]], list[Any]],
    kept: int,
    removed: str,
    join: bool,
) -> None:
    before = everything(done)
    jsonl_file(corpus, change(RECORDS))
    if removed:
        with pytest.raises(RemovalError) as error:
            run(bert, corpus, done, join=join)
        assert f"of its 5 finished parts this run would remove {removed}," in str(error.value)
        assert "update=True" in str(error.value)
        assert everything(done) == before
    report = run(bert, corpus, done, join=join, update=bool(removed))
    if not join:
        assert report.kept_parts == kept
    assert contents(done) == fresh(bert, corpus, tmp_path / "fresh")


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("way", ["workers", "join and workers"])
def test_finished_parts_go_only_when_asked_whoever_works(
    bert: Tiny, corpus: Path, done: Path, tmp_path: Path, way: str
) -> None:
    def again(**options: Any) -> Any:
        return run(bert, corpus, done, engine=Processes(2), join="join" in way, **options)

    before = everything(done)
    jsonl_file(corpus, RECORDS[:15])
    with pytest.raises(RemovalError, match=r"remove 3 .* 17 rows"):
        again()
    assert everything(done) == before
    again(update=True)
    assert contents(done) == fresh(bert, corpus, tmp_path / "fresh")
    jsonl_file(corpus, RECORDS)
    again()
    assert contents(done) == fresh(bert, corpus, tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda records: [{"text": "before"}, *records],
            "1 text edited or new (about 7 tokens to compute), 0 gone, 27 moved",
        ),
        (changed, "1 text edited or new (about 8 tokens to compute), 1 gone, 0 moved"),
        (lambda records: records[:15], "0 texts edited or new (about 0 tokens to compute), 14 gone, 0 moved"),
        (lambda records: [*records[:2], records[3], records[2], *records[4:]], "0 gone, 2 moved"),
        (lambda records: [{"id": "a"} | records[0], *records[1:]], "no text has changed, but ids or kept columns have"),
    ],
)
def test_the_refusal_says_which_texts_changed(
    bert: Tiny, corpus: Path, done: Path, change: Callable[[list[Any]], list[Any]], told: str
) -> None:
    jsonl_file(corpus, change(RECORDS))
    with pytest.raises(RemovalError) as error:
        run(bert, corpus, done)
    assert f"{told}; see that all of the corpus is there" in str(error.value)


def test_where_texts_are_not_stored_the_refusal_says_less(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    run(bert, corpus, tmp_path / "out", keep_text=False)
    jsonl_file(corpus, changed(RECORDS))
    with pytest.raises(RemovalError, match="in that place; see that"):
        run(bert, corpus, tmp_path / "out", keep_text=False)


def test_a_file_gone_and_one_that_came(bert: Tiny, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, name in enumerate("abdf"):  # a part of small files, and parts of large ones
        text_file(corpus / f"{name}.txt", lines((2, 3, 13, 4)[number], 20 * number))
    run(bert, corpus, tmp_path / "out")
    before = everything(tmp_path / "out")
    for gone in "abdf":
        (corpus / f"{gone}.txt").rename(tmp_path / "gone")
        with pytest.raises(RemovalError, match=r"a file gone"):
            run(bert, corpus, tmp_path / "out")
        (tmp_path / "gone").rename(corpus / f"{gone}.txt")
    assert everything(tmp_path / "out") == before
    with (corpus / "f.txt").open("a") as file:  # the last file grows past what one part holds with those before it
        file.writelines(f"{line}\n" for line in lines(9, 200))
    run(bert, corpus, tmp_path / "out")
    text_file(corpus / "g.txt", lines(3, 300))
    run(bert, corpus, tmp_path / "out")
    run(bert, corpus, tmp_path / "fresh")
    held, wanted = FeatureSet(tmp_path / "out"), FeatureSet(tmp_path / "fresh")
    assert [(one.id, one.text) for one in held] == [(one.id, one.text) for one in wanted]


@pytest.mark.parametrize("engine", [None, pytest.param("workers", marks=pytest.mark.slow)])
def test_a_part_of_small_files_of_which_the_last_one_grows_out_of_it(
    bert: Tiny, tmp_path: Path, engine: str | None
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    text_file(corpus / "a.txt", lines(3))
    text_file(corpus / "b.txt", lines(2, 20))
    run(bert, corpus, tmp_path / "out")
    text_file(corpus / "b.txt", lines(9, 20))
    run(bert, corpus, tmp_path / "out", engine=Processes(1) if engine else None)
    assert contents(tmp_path / "out") == fresh(bert, corpus, tmp_path / "fresh")


def test_texts_in_memory_too(bert: Tiny, tmp_path: Path) -> None:
    texts = lines(20)
    run(bert, memory_corpus(texts), tmp_path / "out")
    before = everything(tmp_path / "out")
    with pytest.raises(RemovalError, match=r"remove 2 .* 8 rows"):
        run(bert, memory_corpus(texts[:12]), tmp_path / "out")
    assert everything(tmp_path / "out") == before
    run(bert, memory_corpus([*texts, "more"]), tmp_path / "out")
    assert run(bert, memory_corpus(texts[:12]), tmp_path / "out", update=True).kept_parts == 2


def test_copies_and_links_are_kept(bert: Tiny, corpus: Path, done: Path, tmp_path: Path) -> None:
    copy = done / "part-00002 (copy).parquet"
    shutil.copy(list_parts(done)[2], copy)
    with pytest.raises(RemovalError, match=r"part-00002 \(copy\)"):
        run(bert, corpus, done)
    copy.unlink()
    last = list_parts(done)[4]
    last.rename(tmp_path / "elsewhere")
    last.symlink_to(tmp_path / "elsewhere")
    before = contents(done)
    assert run(bert, corpus, done).nothing_to_do
    jsonl_file(corpus, [*RECORDS, {"text": "more"}])
    with pytest.raises(RemovalError, match="part-00004"):  # it would be replaced by a file
        run(bert, corpus, done)
    assert contents(done) == before
    assert last.is_symlink()


def test_a_corpus_that_changes_between_two_looks(bert: Tiny, corpus: Path, done: Path) -> None:
    from bertfeat.core.corpus import open_corpus

    opened = open_corpus([corpus], CorpusSettings())
    readings, looks = opened.readings, 0

    def changing() -> Any:
        nonlocal looks
        looks += 1
        jsonl_file(corpus, changed(RECORDS) if looks == 3 else RECORDS)
        return readings()

    before = everything(done)
    opened.readings = changing  # type: ignore[method-assign]
    with pytest.raises(CorpusError, match="has changed since the run began"):
        run(bert, opened, done)
    assert looks == 3
    assert everything(done) == before


def test_a_long_comparison_with_finished_parts_is_told_once(
    bert: Tiny, corpus: Path, done: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(bert, corpus, done)
    assert "finished parts" not in caplog.text
    monkeypatch.setattr("bertfeat.core.extraction.run_folder._SILENT_SECONDS", 0.0)
    run(bert, corpus, done)
    assert caplog.text.count(f"reading the corpus once to compare it with the finished parts of {done}") == 1


def test_update_beside_overwrite(bert: Tiny, corpus: Path, done: Path) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        run(bert, corpus, done, update=True, overwrite=True)


def test_a_change_and_then_the_change_back(bert: Tiny, corpus: Path, done: Path) -> None:
    before = contents(done)
    jsonl_file(corpus, changed(RECORDS)[:20])
    run(bert, corpus, done, update=True)
    jsonl_file(corpus, RECORDS)
    run(bert, corpus, done, update=True)
    assert contents(done) == before


def test_a_set_grown_past_its_end_is_unfinished_until_done(bert: Tiny, corpus: Path, done: Path) -> None:
    jsonl_file(corpus, [*RECORDS, *({"text": text} for text in lines(20, 50)), "broken"])
    with pytest.raises(BertfeatError, match="more than 2"):
        run(bert, corpus, done, max_failures=2)
    assert not (done / ".bertfeat/manifest.json").exists()
    assert not (done / ".bertfeat/failures.jsonl").exists()


def test_another_corpus_is_refused_and_nothing_touched(bert: Tiny, corpus: Path, done: Path, tmp_path: Path) -> None:
    before = everything(done)
    other = text_file(tmp_path / "other.txt", lines(40, 1000))
    with pytest.raises(AnotherCorpusError, match=r"(?s)corpus\.jsonl.*overwrite=True"):
        run(bert, other, done)
    assert everything(done) == before


def test_a_corpus_that_became_empty_is_refused(bert: Tiny, corpus: Path, done: Path) -> None:
    before = everything(done)
    corpus.write_text("")
    with pytest.raises(BertfeatError):
        run(bert, corpus, done)
    assert everything(done) == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"layers": "concat4"}, "layers: "),
        ({"precision": "bf16"}, "precision: 'fp32' → 'bf16'"),
        ({"max_length": 32}, "max_length: 64 → 32"),
        ({"prompt": "query: "}, "prompt: '' → 'query: '"),
        ({"dtype": "float32"}, "dtype: 'float16' → 'float32'"),
        ({"long": "truncate"}, "long: 'window' → 'truncate'"),
        ({"special_tokens": False}, "special_tokens: True → False"),
        ({"batch_tokens": 100}, "batch_tokens: 8192 → 100"),
    ],
)
def test_other_settings_are_refused_with_the_difference(
    bert: Tiny, corpus: Path, done: Path, settings: dict[str, Any], told: str
) -> None:
    before = everything(done)
    with pytest.raises(SettingsDifferError) as error:
        extractor(bert, **{"pooling": "mean,token"} | settings).extract(corpus, done, part_rows=ROWS)
    assert told in str(error.value)
    assert str(error.value).count(" → ") == 2  # the heading's and the one difference
    assert everything(done) == before


def test_options_of_the_run_that_are_settings(bert: Tiny, corpus: Path, done: Path) -> None:
    before = everything(done)
    for options, told in (
        ({"part_rows": 7}, "part_rows: 6 → 7"),
        ({"keep_text": False}, "text: True → False"),
        ({"corpus_settings": CorpusSettings(keep=("all",))}, "keep: "),
    ):
        if told == "keep: ":
            jsonl_file(corpus, [{"text": "a", "n": 1}])
        with pytest.raises(SettingsDifferError, match=told):
            run(bert, corpus, done, **options)
    assert everything(done) == before


def test_another_model(bert: Tiny, corpus: Path, done: Path, tmp_path: Path) -> None:
    before = everything(done)
    other = build("bert", tmp_path / "other", num_hidden_layers=6)
    with pytest.raises(SettingsDifferError, match="model: "):
        extractor(other, pooling="mean,token").extract(corpus, done, part_rows=ROWS)
    assert everything(done) == before


def test_the_same_model_elsewhere_is_the_same(bert: Tiny, corpus: Path, done: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(bert.folder, tmp_path / "moved")
    assert extractor(moved, pooling="mean,token").extract(corpus, done, part_rows=ROWS).nothing_to_do


# ── overwrite, locks, leftovers ─────────────────────────────────────────────────────────────────────────────


def test_overwrite_starts_anew(bert: Tiny, corpus: Path, done: Path, tmp_path: Path) -> None:
    other = text_file(tmp_path / "other.txt", lines(13, 1000))
    report = extractor(bert, layers="concat4").extract(other, done, part_rows=5, overwrite=True)
    extractor(bert, layers="concat4").extract(other, tmp_path / "fresh", part_rows=5)
    assert (report.kept_parts, contents(done)) == (0, contents(tmp_path / "fresh"))


def test_overwrite_that_cannot_read_its_corpus_touches_nothing(bert: Tiny, corpus: Path, done: Path) -> None:
    before = everything(done)
    for wrong in ("missing.txt", memory_corpus([])):
        with pytest.raises(BertfeatError):
            run(bert, wrong, done, overwrite=True)
    assert everything(done) == before


def test_two_runs_at_once(bert: Tiny, corpus: Path, done: Path) -> None:
    before = everything(done)
    with folder_lock(done), pytest.raises(FolderLockedError, match=f"process {os.getpid()}"):
        run(bert, corpus, done, overwrite=True)
    assert everything(done) == before


def test_the_second_of_two_runs_meets_the_first_at_work(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    met: list[BaseException] = []

    def second(_: Any) -> None:
        if not met:
            with pytest.raises(FolderLockedError) as error:
                run(bert, corpus, tmp_path / "out")
            met.append(error.value)

    run(bert, corpus, tmp_path / "out", progress=second)
    assert len(met) == 1
    assert contents(tmp_path / "out") == fresh(bert, corpus, tmp_path / "fresh")


def test_a_dead_runs_lock_is_taken_over(bert: Tiny, corpus: Path, done: Path) -> None:
    with folder_lock(done):
        held = json.loads((done / ".bertfeat/lock").read_text())
    (done / ".bertfeat/lock").write_text(json.dumps({**held, "pid": 2**22 + 1}))
    assert run(bert, corpus, done).nothing_to_do
    assert not (done / ".bertfeat/lock").exists()


def test_leftovers_of_killed_runs_go(bert: Tiny, corpus: Path, done: Path) -> None:
    before = contents(done)
    for name in (".part-00007.parquet.tmp", ".bertfeat/.manifest.json.tmp", ".bertfeat/.failures.jsonl.tmp"):
        (done / name).write_bytes(b"half")
    run(bert, corpus, done)
    assert contents(done) == before


def test_a_foreign_parquet_file_named_like_a_part(bert: Tiny, corpus: Path, done: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), done / "part-00002.parquet")
    before = everything(done)
    with pytest.raises(FeatureSetError, match="not written by bertfeat"):
        run(bert, corpus, done)
    assert everything(done) == before


# ── standard input ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(held: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(held)))

    return give


def test_standard_input_and_going_on_with_it(
    bert: Tiny, corpus: Path, tmp_path: Path, pipe: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = CorpusSettings(format="jsonl")
    for name in ("one", "another place"):
        pipe(corpus.read_bytes())
        run(bert, "-", tmp_path / name, corpus_settings=reading)
    # the folder that the input was spooled to is in nothing that was written
    before = contents(tmp_path / "one")
    assert contents(tmp_path / "another place") == before
    assert ".stdin-spool" not in before
    assert "standard input, line 9" in (tmp_path / "one" / ".bertfeat/failures.jsonl").read_text()
    assert FeatureSet(tmp_path / "one").header.sources == ("-",)
    list_parts(tmp_path / "one")[3].unlink()
    pipe(corpus.read_bytes())
    assert run(bert, "-", tmp_path / "one", corpus_settings=reading).kept_parts == 4
    assert contents(tmp_path / "one") == before
    # and nothing is left behind where another input is refused
    pipe(b'{"text": "quite another text"}\n')
    with pytest.raises(AnotherCorpusError):
        run(bert, "-", tmp_path / "one", corpus_settings=reading)
    assert contents(tmp_path / "one") == before


def test_standard_input_goes_alone(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be mixed"):
        run(bert, ["-", corpus], tmp_path / "out")


# ── errors on the threads ───────────────────────────────────────────────────────────────────────────────────


_OLDER: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def threads_of_other_tests() -> None:
    """Leave out threads that tests before this one still have, in whatever order they run."""
    _OLDER.clear()
    _OLDER.update(threading.enumerate())


def own_threads() -> list[str]:
    """Threads that this test began and that do not end within 5 s."""
    own = [each for each in threading.enumerate() if each.name.startswith("bertfeat") and each not in _OLDER]
    for thread in own:
        thread.join(5)
    return [thread.name for thread in own if thread.is_alive()]


def test_an_input_that_breaks_off_keeps_the_parts_before(bert: Tiny, tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "c.txt.gz"
    texts = [f"{text} {os.urandom(300).hex()}" for text in lines(400)]
    path.write_bytes(gzip.compress("\n".join(texts).encode()))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    wanted = extractor(bert, long="truncate", layers="embeddings")
    with pytest.raises(CorpusError, match=r"c\.txt\.gz"):
        wanted.extract(path, tmp_path / "out", part_rows=20)
    kept = len(list_parts(tmp_path / "out"))
    assert kept > 2
    assert own_threads() == []
    path.write_bytes(whole)
    assert wanted.extract(path, tmp_path / "out", part_rows=20).kept_parts == kept
    wanted.extract(path, tmp_path / "fresh", part_rows=20)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("error", [MemoryError("tokens"), ValueError("a bug"), KeyboardInterrupt()])
def test_an_error_of_the_reading_thread_arrives_as_it_is(
    bert: Tiny, corpus: Path, tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Extractor.tokenize_rows

    def tokenize_rows(self: Extractor, rows: Any) -> Any:
        if rows[0].row == 2 * ROWS:
            raise error
        return original(self, rows)

    monkeypatch.setattr(Extractor, "tokenize_rows", tokenize_rows)
    with pytest.raises(type(error)) as met:
        run(bert, corpus, tmp_path / "out")
    monkeypatch.undo()
    assert met.value is error
    assert own_threads() == []
    assert len(list_parts(tmp_path / "out")) == 2
    run(bert, corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == fresh(bert, corpus, tmp_path / "fresh")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [0, 2, 4])
def test_an_error_of_the_writing_thread_arrives_as_it_is(
    bert: Tiny, corpus: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_part(folder: Path, header: Any, table: Any, **options: Any) -> Any:
        if header.number == number:
            raise FeatureSetError("the disk is full")
        return write(folder, header, table, **options)

    monkeypatch.setattr("bertfeat.core.extraction.worker.write_part", write_part)
    with pytest.raises(FeatureSetError, match="the disk is full"):
        run(bert, corpus, tmp_path / "out")
    monkeypatch.undo()
    assert own_threads() == []
    assert len(list_parts(tmp_path / "out")) == number
    assert not (tmp_path / "out" / ".bertfeat/manifest.json").exists()
    run(bert, corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == fresh(bert, corpus, tmp_path / "fresh")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_an_error_while_computing_keeps_what_is_done(
    bert: Tiny, corpus: Path, tmp_path: Path, error: type[BaseException]
) -> None:
    def progress(told: Any) -> None:
        if told.documents > 2 * ROWS:
            raise error

    with pytest.raises(error):
        run(bert, corpus, tmp_path / "out", progress=progress)
    assert own_threads() == []
    assert 2 <= len(list_parts(tmp_path / "out")) < 5
    assert not (tmp_path / "out" / ".bertfeat/lock").exists()
    run(bert, corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == fresh(bert, corpus, tmp_path / "fresh")
