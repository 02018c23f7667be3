"""A run: every row is accounted for, parts hold what Hugging Face computes, and what is computed once is."""

import gc
import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from bertfeat.core.corpus import BlankLine, CorpusSettings, Document, Failure, KeptColumn, Row, memory_corpus
from bertfeat.core.extraction import Progress, verify_features
from bertfeat.core.extraction.cores import held_to_threads, merging_threads, writer_count
from bertfeat.core.extraction.worker import PartWorker
from bertfeat.core.features import FeatureSet, PartContent, PartHeader, check_part, list_parts, read_header, write_part
from bertfeat.core.recipe import Pooling
from bertfeat.errors import BertfeatError, CorpusError, FeatureSetError, RowFailedError, UsageError, WrongColumnsError
from tests.support.runs import accounted, contents, extractor, failed_rows, jsonl_file, lines, text_file
from tests.support.slow_features import slow_text
from tests.support.tiny_models import LONG_TEXT, SENTENCES, Tiny, build, reference_ids, rewrite, text_states


class Rows:
    """A corpus of given rows."""

    kept: tuple[KeptColumn, ...] = ()
    columns: tuple[str, ...] = ()
    has_pairs = has_words = has_tags = False
    split = None
    sources = ("given rows",)
    fraction = 0.5

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [replace(row, row=at) for at, row in enumerate(rows)]

    def rows(self) -> Iterator[Row]:
        return iter(self._rows)


def mix(kinds: str) -> Rows:
    """Give a corpus: D document, d one that is too long, F failure, B blank line."""
    texts = iter(lines(len(kinds)))
    made: dict[str, Any] = {
        "D": lambda: Document(0, "x", next(texts)),
        "d": lambda: Document(0, "x", LONG_TEXT),
        "F": lambda: Failure(0, "x", "it failed"),
        "B": lambda: BlankLine(0),
    }
    return Rows([made[kind]() for kind in kinds])


# ── accounting ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(15)
@pytest.mark.parametrize("part_rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "kinds", ["D", "DDDD", "B", "BBB", "d", "ddd", "DdFB", "BFdD", "DFFFFD", "BBDdBBFDdd", "DB" * 9]
)
def test_rows_in_are_rows_out_failed_and_blank(bert: Tiny, tmp_path: Path, kinds: str, part_rows: int) -> None:
    report = extractor(bert, long="error", pooling="mean,token").extract(mix(kinds), tmp_path, part_rows=part_rows)
    assert accounted(report) == len(kinds)
    assert (report.failed, report.blank) == (kinds.count("F") + kinds.count("d"), kinds.count("B"))
    assert report.parts == len(list_parts(tmp_path)) == -(-len(kinds) // part_rows)
    assert failed_rows(tmp_path) == [at for at, kind in enumerate(kinds) if kind in "Fd"]
    if "D" in kinds:
        assert [document.row for document in FeatureSet(tmp_path).documents()] == [
            at for at, kind in enumerate(kinds) if kind == "D"
        ]
    for path in list_parts(tmp_path):
        check_part(path)


def test_a_corpus_without_rows(bert: Tiny, tmp_path: Path) -> None:
    for corpus in (text_file(tmp_path / "empty.txt", []), memory_corpus([])):
        with pytest.raises(CorpusError, match="no rows"):
            extractor(bert).extract(corpus, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_wrong_columns_are_told_before_anything_is_touched(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", [{"body": text} for text in lines(20)])
    with pytest.raises(WrongColumnsError, match="body"):
        extractor(bert).extract(corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    good = extractor(bert).extract(
        corpus, tmp_path / "out", corpus_settings=CorpusSettings(text_columns=("body",)), part_rows=5
    )
    before = contents(tmp_path / "out")
    with pytest.raises(WrongColumnsError):
        extractor(bert).extract(corpus, tmp_path / "out", overwrite=True)
    assert (good.parts, contents(tmp_path / "out")) == (4, before)


def test_it_stops_at_the_first_and_keeps_the_parts_before(bert: Tiny, tmp_path: Path) -> None:
    corpus = mix("DDDFDDFD")
    with pytest.raises(RowFailedError, match="it failed"):
        extractor(bert).extract(corpus, tmp_path, part_rows=2, max_failures=0)
    assert [path.name for path in list_parts(tmp_path)] == ["part-00000.parquet"]
    extractor(bert).extract(corpus, tmp_path, part_rows=2)
    with pytest.raises(RowFailedError, match="it failed"):  # the parts are there, and their failures, too
        extractor(bert).extract(corpus, tmp_path, part_rows=2, max_failures=0)


def test_texts_that_the_model_refuses_have_failed(bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(RowFailedError, match=r"row 2 \(id x\).*64"):
        extractor(bert, long="error").extract(mix("DDdD"), tmp_path, part_rows=2, max_failures=0)


def test_what_cannot_be_read_needs_no_computing_to_be_told(bert: Tiny, tmp_path: Path) -> None:
    computed: list[Progress] = []
    with pytest.raises(RowFailedError):
        extractor(bert).extract(mix("DDF"), tmp_path, max_failures=0, progress=computed.append)
    assert computed == []


@pytest.mark.parametrize(("most", "parts"), [(0, 1), (1, 2), (2, 2), (3, 4)])
def test_max_failures(bert: Tiny, tmp_path: Path, most: int, parts: int) -> None:
    corpus = mix("DDFDdFDD")
    if parts == 4:
        extractor(bert, long="error").extract(corpus, tmp_path, part_rows=2, max_failures=most)
    else:
        told = f"more than {most} rows?" if most else "a row"
        with pytest.raises(RowFailedError, match=rf"max_failures={most}: {told} failed, the last: "):
            extractor(bert, long="error").extract(corpus, tmp_path, part_rows=2, max_failures=most)
    assert len(list_parts(tmp_path)) == parts


def test_max_failures_counts_those_of_parts_that_were_there(bert: Tiny, tmp_path: Path) -> None:
    corpus = mix("FFDDDD")
    extractor(bert).extract(corpus, tmp_path, part_rows=2)
    list_parts(tmp_path)[-1].unlink()
    with pytest.raises(RowFailedError, match="more than 1 row failed"):
        extractor(bert).extract(corpus, tmp_path, part_rows=2, max_failures=1)


# ── content ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_hold_hugging_faces_hidden_states(bert: Tiny, tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", SENTENCES)
    wanted = extractor(bert, layers="last,concat4,1", pooling="mean,token", dtype="float32")
    wanted.extract(corpus, tmp_path / "out", part_rows=4)
    found = list(FeatureSet(tmp_path / "out").documents())
    assert [document.text for document in found] == list(SENTENCES)
    for document, text in zip(found, SENTENCES, strict=True):
        states = text_states(bert.folder, text)
        assert document.tokens is not None
        assert document.tokens.ids is not None
        assert document.tokens.ids.tolist() == reference_ids(bert.folder, text)[0]
        if states.shape[1] > bert.model.max_tokens:
            continue
        expected = {"last": states[5], "concat4": np.concatenate(states[2:6], axis=-1), "layer1": states[1]}
        for name, matrix in expected.items():
            assert np.abs(document.matrix(f"{name}_token") - matrix).max() < 3e-5
            assert np.abs(document.vector(f"{name}_mean") - matrix.mean(0)).max() < 3e-5


def test_document_token_and_word_columns_at_once_equal_those_alone(bert: Tiny, tmp_path: Path) -> None:
    texts = [*SENTENCES, LONG_TEXT, ""]
    every = {each.row: each for each in documents_of(bert, tmp_path / "all", texts, "mean,max,cls,token,word")}
    for pooling in ("mean", "max", "cls", "token", "word"):
        for alone in documents_of(bert, tmp_path / pooling, texts, pooling):
            name = f"concat4_{pooling}"
            found, wanted = alone.stored[name], every[alone.row].stored[name]
            rounded = 2.0**-10 if found.dtype == np.float16 else 0  # either way, where digits before it differ
            np.testing.assert_allclose(found, wanted, rtol=rounded, atol=3e-5)


def documents_of(bert: Tiny, folder: Path, texts: Sequence[str], pooling: str) -> list[Any]:
    extractor(bert, layers="concat4", pooling=pooling).extract(memory_corpus(texts), folder)
    return list(FeatureSet(folder).documents())


def test_pairs_words_tags_and_kept_columns(bert: Tiny, tmp_path: Path) -> None:
    pairs = jsonl_file(tmp_path / "p.jsonl", [{"text": "a bank", "b": "a river", "year": 1, "id": 'ü\n,"🙂'}])
    wanted = extractor(bert, pooling="mean,token")
    wanted.extract(pairs, tmp_path / "p", corpus_settings=CorpusSettings(pair_column="b", keep=("year",)), part_rows=1)
    (found,) = FeatureSet(tmp_path / "p").documents()
    assert (found.text, found.pair, found.values, found.id) == ("a bank", "a river", {"year": 1}, 'ü\n,"🙂')
    assert found.tokens is not None
    assert found.tokens.segment is not None
    assert set(found.tokens.segment.tolist()) == {0, 1}

    conll = tmp_path / "c.conll"
    conll.write_text("-DOCSTART- O\n\nThe O\nbank B-ORG\n\n-DOCSTART- O\n\nA O\nriver O\n\nIt O\nflows O\n")
    for context in (False, True):
        folder = tmp_path / f"c{context}"
        settings = CorpusSettings(document_context=context)
        extractor(bert, pooling="word", dtype="float32").extract(conll, folder, corpus_settings=settings)
    plain, around = (list(FeatureSet(tmp_path / f"c{context}").documents()) for context in (False, True))
    assert [document.tags for document in plain] == [["O", "B-ORG"], ["O", "O"], ["O", "O"]]
    assert [document.words and list(document.words.strings or ()) for document in around] == [
        ["The", "bank"],
        ["A", "river"],
        ["It", "flows"],
    ]
    # the first document has no neighbors, the others have
    same = [
        np.allclose(a.matrix("last_word"), b.matrix("last_word"), atol=1e-5) for a, b in zip(plain, around, strict=True)
    ]
    assert same == [True, False, False]


def test_no_text_leaves_no_text_anywhere(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(
        tmp_path / "c.jsonl", [{"text": "Xylophones"}, {"text": ["Zeppelins"]}, {"text": "Xylophones bank"}]
    )
    extractor(bert, pooling="mean,token,word").extract(corpus, tmp_path / "out", keep_text=False)
    for path in (tmp_path / "out").rglob("*.*l*"):
        held = path.read_bytes()
        assert not [word for word in (b"Xyloph", b"xylo", b"Zeppel") if word in held]
    names = pq.read_schema(list_parts(tmp_path / "out")[0]).names
    assert not {"text", "tokens", "words"} & set(names)
    assert {"token_start", "word_start", "last_token"} <= set(names)
    assert failed_rows(tmp_path / "out") == [1]


def test_the_report_and_the_manifest_agree_with_the_parts(bert: Tiny, tmp_path: Path) -> None:
    texts = [*SENTENCES, "", "  "]
    report = extractor(bert, long="truncate", pooling="mean,word").extract(memory_corpus(texts), tmp_path, part_rows=4)
    counts = report.counts
    headers = [read_header(path) for path in list_parts(tmp_path)]
    manifest = json.loads((tmp_path / ".bertfeat/manifest.json").read_text())
    for name in (
        "documents",
        "tokens",
        "unknown_tokens",
        "truncated_tokens",
        "words",
        "unaligned_words",
        "empty_texts",
    ):
        assert getattr(counts, name) == sum(getattr(header.counts, name) for header in headers)
        assert getattr(counts, name) == manifest["counts"][name]
    assert counts.empty_texts == 2
    assert counts.tokens == sum(document.n_tokens for document in FeatureSet(tmp_path).documents())
    assert report.bytes == sum(path.stat().st_size for path in list_parts(tmp_path))
    assert report.computed_tokens == counts.tokens


def test_progress_never_goes_back_and_ends_whole(bert: Tiny, tmp_path: Path) -> None:
    told: list[Progress] = []
    corpus = text_file(tmp_path / "c.txt", lines(50))
    report = extractor(bert, batch_tokens=40).extract(corpus, tmp_path / "out", part_rows=8, progress=told.append)
    for name in ("documents", "tokens", "fraction", "seconds"):
        values = [getattr(each, name) for each in told]
        assert values == sorted(values)
    assert (told[-1].documents, told[-1].tokens, told[-1].fraction) == (50, report.computed_tokens, 1.0)
    assert len(told) > 20


def test_warned_once_of_a_language_the_model_does_not_know(
    bert: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strange = [f"ᚠᚢᚦ {'ᚬᚱᚴ ' * (at % 5)}{at}" for at in range(300)]
    report = extractor(bert).extract(memory_corpus(strange), tmp_path, part_rows=50)
    assert len(report.warnings) == len(caplog.messages) == 1
    assert "unknown to the model" in report.warnings[0]


def test_warned_of_a_minority_of_texts_in_another_language(bert: Tiny, tmp_path: Path) -> None:
    """Twenty-two Korean texts of 332 are 3 % of the tokens."""
    texts = [f"{' '.join(['the river bank'] * 12)} {at}" for at in range(310)]
    korean = [" ".join(["어제"] * (3 + at % 11) + ["찾았다"] * (1 + at // 11)) for at in range(22)]
    report = extractor(bert).extract(memory_corpus([*texts, *korean]), tmp_path / "mixed")
    (warning,) = report.warnings
    assert warning.startswith("22 of 332 texts, the first of them '311'")
    assert "paraphrase-multilingual-MiniLM-L12-v2" in warning
    assert warning.endswith("; 한국어 안내: docs/ko/index.md")
    few = [*texts, *korean[:2], "the 😀😀😀😀😀😀", "7 8 9 : ; - 10"]
    assert extractor(bert).extract(memory_corpus(few), tmp_path / "few").warnings == ()


# ── what is computed, and in what company ───────────────────────────────────────────────────────────────────


def test_equal_texts_of_a_part_are_computed_once(bert: Tiny, tmp_path: Path) -> None:
    once = extractor(bert, pooling="mean,token").extract(memory_corpus(["a bank", "river"]), tmp_path / "once")
    texts = ["a bank", "river", "a bank", "a bank", "river"]
    often = extractor(bert, pooling="mean,token").extract(memory_corpus(texts), tmp_path / "often")
    assert often.computed_tokens == once.computed_tokens
    assert often.counts.tokens == sum(document.n_tokens for document in FeatureSet(tmp_path / "often").documents())
    matrices = [document.matrix("last_token") for document in FeatureSet(tmp_path / "often").documents()]
    assert all(np.array_equal(matrices[0], matrices[at]) for at in (2, 3))
    # across parts they are computed again: a part must not depend on another
    parted = extractor(bert).extract(memory_corpus(["a bank"] * 4), tmp_path / "parted", part_rows=2)
    assert (
        parted.computed_tokens
        == 2 * extractor(bert).extract(memory_corpus(["a bank"]), tmp_path / "one").computed_tokens
    )


def test_equal_texts_with_other_pairs_or_words_are_not_equal(bert: Tiny, tmp_path: Path) -> None:
    report = extractor(bert).extract(memory_corpus([("a", "b"), ("a", "c"), ("a", "b")]), tmp_path)
    assert len({tuple(row) for row in FeatureSet(tmp_path).matrix("last_mean").tolist()}) == 2
    assert report.counts.documents == 3


def test_a_failing_text_fails_in_all_its_places(bert: Tiny, tmp_path: Path) -> None:
    report = extractor(bert, long="error").extract(memory_corpus(["a", LONG_TEXT, "b", LONG_TEXT, "a"]), tmp_path)
    assert (report.failed, failed_rows(tmp_path)) == (2, [1, 3])
    assert [document.text for document in FeatureSet(tmp_path).documents()] == ["a", "b", "a"]


def test_batches_never_cross_a_part(bert: Tiny, tmp_path: Path) -> None:
    texts = lines(40)
    wanted = extractor(bert, pooling="mean,token", precision="bf16")  # in which company changes a value most
    wanted.extract(memory_corpus(texts), tmp_path / "all", part_rows=8)
    whole = FeatureSet(tmp_path / "all").matrix("last_mean")
    for number in range(5):
        alone = tmp_path / f"part{number}"
        wanted.extract(memory_corpus(texts[8 * number : 8 * number + 8]), alone, part_rows=8)
        assert np.array_equal(FeatureSet(alone).matrix("last_mean"), whole[8 * number : 8 * number + 8])


def test_two_runs_give_the_same_bytes(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", [{"text": text} for text in lines(30)] + ["broken", {"text": None}])
    for name in ("one", "two"):
        extractor(bert, pooling="mean,token,word").extract(corpus, tmp_path / name, part_rows=9)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_freed_memory_is_given_back_now_and_then_and_at_the_end(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[None] = []
    monkeypatch.setattr("bertfeat.core.extraction.worker.give_back_memory", lambda: given.append(None))
    corpus = text_file(tmp_path / "c.txt", lines(40))
    extractor(bert, pooling="mean").extract(corpus, tmp_path / "few", part_rows=4)
    assert len(given) == 1
    monkeypatch.setattr("bertfeat.core.extraction.worker._TOKENS_BETWEEN", 1)
    extractor(bert, pooling="mean").extract(corpus, tmp_path / "many", part_rows=4)
    assert len(given) == 1 + 10 + 1


def test_several_parts_are_written_at_once_where_a_gpu_computes(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16))
    assert [writer_count(torch.device(name)) for name in ("cpu", "cuda")] == [1, 4]
    corpus = text_file(tmp_path / "c.txt", lines(40))
    extractor(bert, pooling="mean,token").extract(corpus, tmp_path / "one", part_rows=4)
    monkeypatch.setattr("bertfeat.core.extraction.worker.writer_count", lambda _: 3)
    together = threading.Barrier(3, timeout=10)  # broken, unless three writers meet

    def slow(*arguments: Any, **options: Any) -> Any:
        if arguments[1].number < 3:
            together.wait()
        return write_part(*arguments, **options)

    monkeypatch.setattr("bertfeat.core.extraction.worker.write_part", slow)
    extractor(bert, pooling="mean,token").extract(corpus, tmp_path / "three", part_rows=4)
    assert contents(tmp_path / "three") == contents(tmp_path / "one")


def test_a_writer_that_fails_ends_the_run_and_leaves_the_other_parts(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path, header: PartHeader, content: PartContent, **options: Any) -> Any:
        if header.number == 1:
            raise FeatureSetError("no space left")
        return write_part(folder, header, content, **options)

    monkeypatch.setattr("bertfeat.core.extraction.worker.writer_count", lambda _: 3)
    monkeypatch.setattr("bertfeat.core.extraction.worker.write_part", broken)
    with pytest.raises(FeatureSetError, match="no space left"):
        extractor(bert).extract(text_file(tmp_path / "c.txt", lines(40)), tmp_path / "f", part_rows=4)
    names = {path.name for path in list_parts(tmp_path / "f")}
    assert "part-00000.parquet" in names
    assert not {"part-00001.parquet", "part-00009.parquet"} & names


# ── numbers that do not fit, memory ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def loud(tmp_path: Path) -> Path:
    """A tiny BERT whose last hidden states pass what float16 holds in about half of the texts."""
    folder = build("bert", tmp_path / "loud")
    plain = extractor(folder, layers="last", pooling="token", dtype="float32").features(lines(24))
    scale = 65_500 / float(np.median([np.abs(each.matrix("last_token")).max() for each in plain]))

    def change(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors["encoder.layer.4.output.LayerNorm.weight"] *= scale
        return tensors

    rewrite(folder, change)
    return folder


def test_int8_holds_what_float16_cannot(loud: Path, tmp_path: Path) -> None:
    report = extractor(loud, layers="last", pooling="token", dtype="int8").extract(
        memory_corpus(lines(24)), tmp_path / "small", part_rows=5
    )
    assert (report.failed, accounted(report)) == (0, 24)
    assert verify_features(tmp_path / "small").holds


def test_int8_is_hugging_face_rounded(bert: Tiny, tmp_path: Path) -> None:
    """Every token and word of every layer within half a step of its 64 values; on disk, in memory, and after resume."""
    made = extractor(bert, layers="all,concat4", pooling="mean,token,word", dtype="int8")
    texts = [*SENTENCES, LONG_TEXT]
    made.extract(memory_corpus(texts), tmp_path / "set", part_rows=3)
    stored = FeatureSet(tmp_path / "set")
    assert {column.dtype for column in stored.columns} == {"float32", "int8"}
    for document, computed, text in zip(stored, made.features(texts), texts, strict=True):
        slow = slow_text(bert, text)
        for column in stored.columns:
            if column.pooling is Pooling.TOKEN:
                wanted = slow.layer_mix(column.recipe)
                blocks = [wanted[:, at : at + 64] for at in range(0, wanted.shape[1], 64)]
                step = np.concatenate([np.abs(b).max(1, keepdims=True) / 254 + 0 * b for b in blocks], axis=1)
                assert (np.abs(document.stored[column.name] - wanted) <= step + 3e-5).all()
        np.testing.assert_allclose(document.vector("last", "mean"), slow.hidden[-1].mean(0), atol=3e-5)
        for name, matrix in computed.stored.items():
            assert matrix.dtype == np.float32
            np.testing.assert_allclose(matrix, document.stored[name], atol=0.03)
    before = contents(tmp_path / "set")
    list_parts(tmp_path / "set")[1].unlink()
    made.extract(memory_corpus(texts), tmp_path / "set", part_rows=3)
    assert contents(tmp_path / "set") == before
    report = verify_features(tmp_path / "set")
    assert report.holds
    assert 0.9985 < report.bound < 0.9995  # that of fp32, turned by the angle of int8


def test_float16_overflow_is_a_failed_row_not_a_stored_infinity(loud: Path, tmp_path: Path) -> None:
    texts = lines(24)
    exact = extractor(loud, layers="last", pooling="token", dtype="float32")
    exact.extract(memory_corpus(texts), tmp_path / "exact", part_rows=5)
    over = [
        each.row
        for each in FeatureSet(tmp_path / "exact").documents()
        if np.abs(each.matrix("last_token")).max() > 65519
    ]
    assert 0 < len(over) < 24
    report = extractor(loud, layers="last,1", pooling="mean,token").extract(
        memory_corpus(texts), tmp_path / "half", part_rows=5
    )
    assert (report.failed, failed_rows(tmp_path / "half")) == (len(over), over)
    assert accounted(report) == 24
    for document in FeatureSet(tmp_path / "half").documents():
        assert np.isfinite(document.matrix("last_token")).all()
    listed = (tmp_path / "half" / ".bertfeat/failures.jsonl").read_text()
    assert "last_token features are beyond what float16 holds; use --dtype float32" in listed


def test_rows_of_finished_parts_are_let_go(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0
    original = PartWorker._compute

    def compute(self: PartWorker, part: Any, tokenized: Any) -> Any:
        nonlocal most
        content, padded = original(self, part, tokenized)
        alive.append(weakref.ref(content.vectors["last_mean"]))
        alive.append(weakref.ref(tokenized.tokens.layout.ids))
        most = max(most, sum(reference() is not None for reference in alive))
        return content, padded

    monkeypatch.setattr(PartWorker, "_compute", compute)
    extractor(bert).extract(memory_corpus(lines(200)), tmp_path, part_rows=10)
    assert len(alive) == 40
    assert most <= 3  # this part's content and tokens, and the content of the one that is being written
    gc.collect()
    assert not [reference for reference in alive if reference() is not None]


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_run_keeps_old_objects_from_the_garbage_collector(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its second part to its end, also if it fails; what a program keeps itself, it goes on keeping."""
    frozen: list[int] = []

    def write(_: Path, header: PartHeader, *rest: Any, **kwargs: Any) -> None:
        frozen.append(gc.get_freeze_count())
        if header.number == failing:
            raise BertfeatError("no")
        write_part(_, header, *rest, **kwargs)

    monkeypatch.setattr("bertfeat.core.extraction.worker.write_part", write)
    own = extractor(bert, pooling="mean")
    gc.unfreeze()  # what tests/conftest.py has frozen
    failing = -1
    own.extract(Rows([Document(0, "1", "a bank")]), tmp_path / "one")
    assert frozen == [0]
    own.extract(mix("DDDD"), tmp_path / "whole", part_rows=1)
    assert max(frozen) > 1000
    assert gc.get_freeze_count() == 0
    failing = 2
    with pytest.raises(BertfeatError):
        own.extract(mix("DDDD"), tmp_path / "failed", part_rows=1)
    assert gc.get_freeze_count() == 0
    gc.freeze()
    failing = -1
    own.extract(mix("DDDD"), tmp_path / "again", part_rows=1)
    assert gc.get_freeze_count() > 1000


def test_a_kept_column_that_would_hide_a_feature(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", [{"text": "a", "last_mean": 1}])
    with pytest.raises(BertfeatError, match="last_mean"):
        extractor(bert).extract(corpus, tmp_path / "out", corpus_settings=CorpusSettings(keep=("last_mean",)))


def test_part_rows_below_one(bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="part_rows=-1: must be at least 1"):
        extractor(bert).extract(memory_corpus(["a"]), tmp_path, part_rows=-1)


def test_beside_a_gpu_few_threads_put_batches_together(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16))
    monkeypatch.setattr("torch.get_num_threads", lambda: 16)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    documents, tokens = bert.columns("last", Pooling.MEAN), bert.columns("last", Pooling.MEAN, Pooling.TOKEN)
    assert [merging_threads(device, columns) for device in (cpu, cuda) for columns in (documents, tokens)] == [
        16,
        16,
        1,
        4,
    ]


def test_threads_are_as_many_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    seen = []

    def fail() -> None:
        with held_to_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # of our own
        fail()
    assert seen == [before + 1]
    assert torch.get_num_threads() == before
