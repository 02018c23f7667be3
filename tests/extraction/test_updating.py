"""``extract --update``: the bytes of a fresh extraction; killed at any step, the old set is there or the new one."""

import json
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.features import FeatureSet
from bertfeat.errors import FeatureSetError
from bertfeat.io import Address, list_files, read_file
from tests.support.runs import contents, extractor, jsonl_file, lines, text_file
from tests.support.steps import Ended, Stop, preload, start, steps
from tests.support.tiny_models import SENTENCES, Tiny
from tests.support.ways import options

preload("bertfeat.core.extraction", "bertfeat.scale", "bertfeat.core.features", "bertfeat.cli.extract")
preload("bertfeat.core.encoder.packed")

ROWS = 6  # of a part
WHOLE = lines(29)
CORPORA: dict[str, list[str]] = {
    "its end cut off": WHOLE[:15],
    "of all rows two left": WHOLE[14:16],
    "the middle gone, and more at the end": [*WHOLE[:12], *WHOLE[18:], *lines(9, 100)],
    "one put in before": ["put in", *WHOLE],
}
JOIN = ("--join", "--lease", "1")


@pytest.fixture(scope="module")
def old(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished set of the whole corpus, with a file of somebody else's."""
    place = tmp_path_factory.mktemp("old")
    text_file(place / "c.txt", WHOLE)
    assert run(command(tiny("bert")), place).exit_code == 0
    (place / "out" / "notes.txt").write_text("mine")
    return place


def fresh(old: Path, place: Path, name: str) -> Path:
    """A copy of it whose corpus has become another one."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(old, place)
    text_file(place / "c.txt", CORPORA[name])
    return place


def command(bert: Tiny, *more: str) -> list[str]:
    return ["extract", "c.txt", "-o", "out", *options(bert), "--part-rows", str(ROWS), "--update", *more]


def run(arguments: list[str], place: Path) -> Ended:
    with start(arguments, [place / "out"], cwd=place) as running:
        return running.wait()


@pytest.mark.parametrize(
    ("name", "way"), [*((name, ()) for name in CORPORA), ("one put in before", JOIN)], ids=lambda each: "".join(each)
)
def test_killed_and_started_again_it_ends_as_if_undisturbed(
    bert: Tiny, old: Path, tmp_path: Path, name: str, way: tuple[str, ...], every_step: bool
) -> None:
    arguments, place = command(bert, *way), fresh(old, tmp_path / "place", name)
    events = steps(arguments, [place / "out"], cwd=place)
    whole = contents(place / "out")
    shutil.rmtree(place / "out")
    assert run(command(bert), place).exit_code == 0
    assert whole == contents(place / "out") | {"notes.txt": whole["notes.txt"]}
    changing = [at for at, event in enumerate(events, 1) if event.startswith(("os.re", "os.mkdir", "os.rmdir"))]
    for step in changing if every_step else changing[:: max(1, len(changing) // 6)]:
        fresh(old, place, name)
        with start(arguments, [place / "out"], stop=Stop(step, signal.SIGKILL), cwd=place) as killed:
            if killed.wait().exit_code == 0:
                continue  # joined, the number of steps differs from run to run
        there = FeatureSet(place / "out")
        for _ in there.check():
            pass
        assert [each.text for each in there] in (WHOLE, CORPORA[name]), events[step - 1]
        again = run(arguments, place)
        assert (again.exit_code, "Traceback" in again.stderr) == (0, False), (events[step - 1], again.stderr)
        assert contents(place / "out") == whole, events[step - 1]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["some steps", "every step"])
def every_step(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("way", [(), JOIN], ids=["alone", "joined"])
def test_of_two_at_once_one_updates(bert: Tiny, old: Path, tmp_path: Path, way: tuple[str, ...]) -> None:
    arguments, place = command(bert, *way), fresh(old, tmp_path / "place", "one put in before")
    events = steps(arguments, [place / "out"], cwd=place)
    whole = contents(place / "out")
    for step in [at for at, event in enumerate(events, 1) if event.startswith("os.rename")][1::3]:
        fresh(old, place, "one put in before")
        with start(arguments, [place / "out"], stop=Stop(step, signal.SIGSTOP), cwd=place) as first:
            if not first.wait_until_stopped():
                continue
            there = contents(place / "out")
            with start(arguments, [place / "out"], cwd=place) as second:
                if way:  # which waits for the lock
                    time.sleep(1)
                    first.go_on()
                ended = second.wait()
            if not way:
                assert ended.exit_code == 1
                assert "another run is at work on it" in ended.stderr
                assert contents(place / "out") == there
                first.go_on()
            else:
                assert ended.exit_code == 0, ended.stderr
            assert first.wait().exit_code == 0
        assert contents(place / "out") == whole


# ── byte for byte a fresh extraction ────────────────────────────────────────────────────────────────────────

Record = dict[str, Any]
WAYS_TO_STORE: dict[str, tuple[Record, Record, Record]] = {  # of the extractor, of reading, of the run
    "documents": ({"pooling": "mean,cls,max"}, {}, {}),
    "tokens and words in int8": ({"pooling": "token,word,mean", "dtype": "int8"}, {}, {}),
    "chosen words": ({"pooling": "word", "only": ["bank", "river"]}, {}, {}),
    "words in their context": ({"pooling": "word", "context": "left:3"}, {}, {}),
    "windows": ({"pooling": "token,mean", "max_length": 8}, {}, {}),
    "no long texts": ({"pooling": "token,mean", "max_length": 12, "long": "error"}, {}, {}),
    "pairs": ({"pooling": "mean,token"}, {"pair_column": "pair"}, {}),
    "no texts": ({"pooling": "mean"}, {}, {"keep_text": False}),
    "components": ({"pooling": "token"}, {}, {"width": 5}),
}


def draw_records(draw: random.Random, number: int) -> list[Any]:
    """Records with equal texts, blank lines, and some that fail."""
    records: list[Any] = []
    for at in range(number):
        text = f"{draw.choice(SENTENCES)} {draw.randrange(number)}" if draw.random() < 0.8 else draw.choice(SENTENCES)
        records.append({"id": str(at), "text": text, "pair": draw.choice(SENTENCES), "year": draw.randrange(2000)})
    for broken in ("", "no JSON", json.dumps({"id": "x", "text": 3})):
        records[draw.randrange(number)] = broken
    return records


def edit(draw: random.Random, records: list[Any]) -> list[Any]:
    """Records edited, put in, removed, moved, with other ids and kept values; or all of it."""
    edited = [dict(each) if isinstance(each, dict) else each for each in records]
    whole = [at for at, each in enumerate(edited) if isinstance(each, dict)]
    for kind in draw.sample(range(6), draw.randint(1, 6)):
        if kind == 0:
            for at in draw.sample(whole, 3):
                edited[at]["text"] += " edited"
        elif kind == 1:
            for at in draw.sample(whole, 3):
                edited[at] |= {"id": f"new {at}", "year": -1}
        elif kind == 2:
            edited[draw.randrange(len(edited)) : 0] = draw_records(draw, 4)
        elif kind == 3:
            draw.shuffle(edited)
        elif kind == 4:
            del edited[draw.randrange(len(edited) // 2) :][:5]
            del edited[: draw.randrange(8)]
        else:
            edited += draw.sample(edited, 4)
        whole = [at for at, each in enumerate(edited) if isinstance(each, dict)]
    return edited


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 23))])
@pytest.mark.parametrize("name", WAYS_TO_STORE)
def test_after_random_edits_it_has_the_bytes_of_a_fresh_extraction(
    bert: Tiny, tmp_path: Path, name: str, seed: int
) -> None:
    draw = random.Random(f"{name} {seed}")
    settings, reading, options = WAYS_TO_STORE[name]
    records = draw_records(draw, 40)
    corpus = tmp_path / "corpus.jsonl"

    def extract(folder: str, **more: Any) -> Any:
        return extractor(bert, **settings).extract(
            corpus,
            tmp_path / folder,
            corpus_settings=CorpusSettings(keep=("year",), id_column="id", **reading),
            **{"part_rows": 9} | options | more,
        )

    jsonl_file(corpus, records)
    extract("set")
    for step in range(2):
        records = edit(draw, records)
        jsonl_file(corpus, records)
        report = extract("set", update=True)
        basis = {"width": None, "basis": tmp_path / "set"} if "width" in options else {}
        whole = extract(f"fresh {step}", **basis)
        assert contents(tmp_path / "set") == contents(tmp_path / f"fresh {step}")
        assert report.counts == whole.counts
        assert report.computed_tokens <= whole.computed_tokens


def test_nothing_is_computed_where_no_text_is_new(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, records = tmp_path / "c.jsonl", [{"id": str(at), "text": text, "n": at} for at, text in enumerate(WHOLE)]
    reading = CorpusSettings(keep=("n",), id_column="id")
    jsonl_file(corpus, records)
    extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=reading, part_rows=ROWS)
    jsonl_file(corpus, [{**each, "id": "another", "n": 0} for each in reversed(records)])
    monkeypatch.setattr("bertfeat.core.extraction.worker.PartWorker._compute", None)
    report = extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=reading, part_rows=ROWS, update=True)
    monkeypatch.undo()
    assert (report.copied, report.computed_tokens) == (29, 0)
    manifest = FeatureSet(report.folder).manifest
    assert manifest is not None
    assert manifest.times["copied"] == 29
    extractor(bert).extract(corpus, tmp_path / "fresh", corpus_settings=reading, part_rows=ROWS)
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")


def test_words_with_tags_and_their_sentences_around(bert: Tiny, tmp_path: Path) -> None:
    def conll(documents: Sequence[Sequence[str]]) -> None:
        blocks = [sentence for document in documents for sentence in ("-DOCSTART-", *document)]
        tagged = ("\n".join(f"{word} {'B' if word == 'bank' else 'O'}" for word in each.split()) for each in blocks)
        (tmp_path / "c.conll").write_text("\n\n".join(tagged) + "\n")

    def extract(folder: str, **more: Any) -> Any:
        return extractor(bert, pooling="word,mean").extract(
            tmp_path / "c.conll",
            tmp_path / folder,
            corpus_settings=CorpusSettings(document_context=True),
            part_rows=4,
            **more,
        )

    documents = [lines(5, 10 * at) for at in range(4)]
    conll(documents)
    extract("set")
    documents[2] = [documents[2][0], "the river bank", *documents[2][1:]]
    conll([documents[3], *documents[:3]])
    report = extract("set", update=True)
    extract("fresh")
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")
    assert 0 < report.copied < report.counts.documents


def test_a_damaged_part_is_not_copied_from(bert: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = text_file(tmp_path / "c.txt", WHOLE)
    extractor(bert).extract(corpus, tmp_path / "set", part_rows=ROWS)
    part = tmp_path / "set" / "part-00002.parquet"
    held = bytearray(part.read_bytes())
    held[200] ^= 1  # of its pages
    part.write_bytes(held)
    text_file(corpus, ["put in", *WHOLE])
    report = extractor(bert).extract(corpus, tmp_path / "set", part_rows=ROWS, update=True)
    extractor(bert).extract(corpus, tmp_path / "fresh", part_rows=ROWS)
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")
    assert report.copied == len(WHOLE) - ROWS
    assert f"not copied from: {part}" in caplog.text


def test_what_a_killed_update_left_is_used_only_if_it_is_sound_and_planned(
    bert: Tiny, old: Path, tmp_path: Path
) -> None:
    """Damaged and strange parts in the place of the successor take no part's place."""
    place = fresh(old, tmp_path / "place", "the middle gone, and more at the end")  # whose first two parts are kept
    made = place / "out" / ".bertfeat" / "next"
    made.mkdir()
    shutil.copy(place / "out" / "part-00003.parquet", made / "part-00003.parquet")
    for number in (0, 1):
        (made / f"part-0000{number}.parquet").write_bytes(b"PAR1 no part")
    assert run(command(bert), place).exit_code == 0
    updated = contents(place / "out")
    shutil.rmtree(place / "out")
    assert run(command(bert), place).exit_code == 0
    assert updated == contents(place / "out") | {"notes.txt": updated["notes.txt"]}


def test_a_copy_of_a_part_under_another_name_stays(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", WHOLE)
    extractor(bert).extract(corpus, tmp_path / "set", part_rows=ROWS)
    copy = tmp_path / "set" / "part-00002 (copy).parquet"
    shutil.copy(tmp_path / "set" / "part-00002.parquet", copy)
    text_file(corpus, ["put in", *WHOLE])
    with pytest.raises(FeatureSetError, match=r"\(copy\)\.parquet: this copy of a part would be removed; move it"):
        extractor(bert).extract(corpus, tmp_path / "set", part_rows=ROWS, update=True)
    assert copy.exists()


def test_at_an_address_too(bert: Tiny, tmp_path: Path, bucket: Address) -> None:
    corpus = text_file(tmp_path / "c.txt", WHOLE)
    extractor(bert).extract(corpus, bucket / "set", part_rows=ROWS)
    opened = FeatureSet(bucket / "set")
    text_file(corpus, [*WHOLE[:7], "put in", *WHOLE[7:20]])
    report = extractor(bert).extract(corpus, bucket / "set", part_rows=ROWS, update=True)
    extractor(bert).extract(corpus, tmp_path / "fresh", part_rows=ROWS)
    assert (report.kept_parts, report.copied) == (1, 14)
    mine = {file.name for file in list_files(bucket / "set")}
    assert mine == {".bertfeat/kind", ".bertfeat/manifest.json", *(f"part-0000{at}.parquet" for at in range(4))}
    for path in sorted((tmp_path / "fresh").glob("*.parquet")):
        assert read_file(bucket / "set" / path.name) == path.read_bytes()
    with pytest.raises(FeatureSetError, match="replaced while it was open"):
        [each.text for each in opened]


# ── texts of other sets ─────────────────────────────────────────────────────────────────────────────────────


def test_texts_of_other_sets_are_copied(bert: Tiny, tmp_path: Path) -> None:
    def extract(folder: str, records: list[Any], keep: Sequence[str] = (), **more: Any) -> Any:
        corpus = jsonl_file(tmp_path / "c.jsonl", records)
        reading = CorpusSettings(keep=tuple(keep), id_column="id")
        made = extractor(bert, pooling="mean,token")
        return made.extract(corpus, tmp_path / folder, corpus_settings=reading, **{"part_rows": ROWS} | more)

    records = [{"id": str(at), "text": text, "n": at, "m": "x"} for at, text in enumerate(WHOLE)]
    extract("one", records[:12], ["n"], part_rows=4)
    extract("two", records[8:20], ["m"])
    sets = [tmp_path / "one", tmp_path / "two"]
    report = extract("set", records[::-1], ["m", "n"], reuse=sets)
    extract("fresh", records[::-1], ["m", "n"])
    assert report.copied == 20
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")
    extract("set", records[3:], ["m", "n"], reuse=sets[:1], update=True)
    extract("second", records[3:], ["m", "n"])
    assert contents(tmp_path / "set") == contents(tmp_path / "second")


def test_what_cannot_be_reused_is_refused(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", WHOLE)
    extractor(bert).extract(corpus, tmp_path / "without", keep_text=False)
    extractor(bert, layers="last").extract(corpus, tmp_path / "other")
    extractor(bert, pooling="token").extract(corpus, tmp_path / "narrow", width=5)
    for folder, problem, settings in (
        ("without", "it holds no texts", {}),
        ("other", r"it was made with other settings \(layers\)", {}),
        ("narrow", "it was made with other settings", {"pooling": "token"}),
        ("nowhere", "nowhere", {}),
    ):
        with pytest.raises(FeatureSetError, match=problem):
            extractor(bert, **settings).extract(corpus, tmp_path / "set", reuse=[tmp_path / folder])
        assert not (tmp_path / "set").exists()
