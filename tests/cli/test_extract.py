"""``bertfeat extract``, in this process and in processes of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from tests.support.terminal import on_a_terminal
from tests.support.tiny_models import Tiny

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from bertfeat.cli import run; run()"]
RECORDS = '{"text": "The bank raised its rate.", "year": 1900}\n{"text": 3}\n{"text": "A river bank.", "year": null}\n'


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def extract(*arguments: str | Path, **settings: Any) -> Result:
    return CliRunner().invoke(main, ["extract", *map(str, arguments)], **settings)


def rows(folder: str) -> list[dict[str, Any]]:
    """What another reader of Parquet finds."""
    found: list[dict[str, Any]] = (
        ds.dataset(sorted(map(str, Path(folder).glob("part-*.parquet")))).to_table().to_pylist()
    )
    return found


def manifest(folder: str) -> Any:
    return json.loads((Path(folder) / ".bertfeat/manifest.json").read_text())


# ── what is read and written ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_a_folder_of_paragraphs_with_a_table_of_metadata(options: list[str]) -> None:
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("The bank\nraised its rate.\n\nIt rained.\n")
    Path("texts/b.txt").write_text("A river\nbank.")
    Path("texts/metadata.csv").write_text("file,year\nb,1900\na.txt,1850\n")
    arguments = ["texts", "--format", "paragraphs", "--metadata", "texts/metadata.csv", "--part-rows", "1", *options]
    result = extract(*arguments)
    assert result.exit_code == 0, result.stderr
    assert [(row["id"], row["text"], row["file"], row["year"]) for row in rows("texts.features")] == [
        ("texts/a.txt:1", "The bank raised its rate.", "a.txt", 1850),
        ("texts/a.txt:2", "It rained.", "a.txt", 1850),
        ("texts/b.txt:1", "A river bank.", "b", 1900),
    ]
    if options:
        return
    Path("texts/metadata.csv").write_text("file,year\nb,1901\na.txt,1850\n")
    changed = extract(*arguments)
    assert changed.exit_code == 1
    assert "would remove 1 (part-00002.parquet)" in changed.stderr
    assert extract(*arguments, "--update").exit_code == 0
    assert [row["year"] for row in rows("texts.features")] == [1850, 1850, 1901]


def test_a_text_file() -> None:
    Path("corpus.txt").write_text("The bank raised its rate.\n\nA river bank.\n")
    result = extract("corpus.txt", "--layers", "-1,-2", "--pooling", "mean")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("corpus.features: 2 documents, ")
    assert result.stderr == "1 blank line skipped\n"
    found = rows("corpus.features")
    assert [(row["row"], row["id"], row["text"]) for row in found] == [
        (0, "1", "The bank raised its rate."),
        (2, "3", "A river bank."),
    ]
    assert np.shape([row["layer6_mean"] for row in found]) == (2, 384)
    assert np.shape([row["layer5_mean"] for row in found]) == (2, 384)


def test_json_report() -> None:
    Path("corpus.txt").write_text("one\ntwo\n")
    report = json.loads(extract("corpus.txt", "--json").stdout)
    assert (report["folder"], report["parts"], report["failed"], report["blank"]) == ("corpus.features", 1, 0, 0)
    # [CLS] word [SEP]
    assert (report["counts"]["documents"], report["counts"]["tokens"], report["computed_tokens"]) == (2, 6, 6)
    assert report["bytes"] == Path("corpus.features/part-00000.parquet").stat().st_size
    assert report["padding_share"] == 0.0


def test_the_result_is_one_line_without_padding_and_waiting(tiny: Callable[[str], Tiny]) -> None:
    Path("corpus.txt").write_text("one\nthe river ran below the old mill\n")
    model = ("--model", tiny("deberta-v2").folder)  # its batches are padded
    line = r"corpus\.features: 2 documents, \d+ tokens, [\d.]+ kB in 1 part; [\d,]+ tokens/s, \d+ s\n"
    assert re.fullmatch(line, extract("corpus.txt", *model).stdout)
    assert json.loads(extract("corpus.txt", *model, "--overwrite", "--json").stdout)["padding_share"] > 0


def test_every_option_arrives() -> None:
    Path("c.jsonl").write_text(
        '{"title": "Banks", "body": "of rivers", "year": 1900, "key": "a"}\n'
        '{"title": "Of", "body": "money", "year": 1901, "key": "b"}\n'
        '{"title": "Blood", "body": "bank", "year": 1902, "key": "c"}\n'
    )
    reading = ["--format", "jsonl", "--encoding", "utf-8", "--text-column", "title,body", "--id-column", "key"]
    computing = ["--precision", "fp32", "--device", "cpu", "--batch-tokens", "600", "--layers", "concat4", "--layers=2"]
    meaning = [
        "--long",
        "truncate",
        "--max-length",
        "64",
        "--prompt",
        "query: ",
        "--no-special-tokens",
        "--subword=last",
    ]
    storing = ["--dtype", "float32", "--pooling", "max,word", "--keep", "year", "--no-text", "--part-rows", "2"]
    result = extract("c.jsonl", "-o", "out", *reading, *computing, *meaning, *storing)
    assert result.exit_code == 0, result.stderr
    settings = manifest("out")["settings"]
    names = ["precision", "batch_tokens", "long", "max_length", "prompt", "special_tokens", "subword", "dtype", "text"]
    assert [settings[name] for name in names] == [
        "fp32",
        600,
        "truncate",
        64,
        "query: ",
        False,
        "last",
        "float32",
        False,
    ]
    assert (settings["keep"], settings["part_rows"]) == (["year:int64"], 2)
    assert len(manifest("out")["parts"]) == 2
    found = rows("out")
    assert [(row["id"], row["year"]) for row in found] == [("a", 1900), ("b", 1901), ("c", 1902)]
    columns = {"concat4_max", "concat4_word", "layer2_max", "layer2_word"}
    assert columns <= set(found[0])
    assert not {"text", "words"} & set(found[0])


def test_options_come_from_the_environment() -> None:
    Path("corpus.txt").write_text("one\n")
    extract("corpus.txt", env={"BERTFEAT_EXTRACT_LAYERS": "cls", "BERTFEAT_EXTRACT_OUTPUT": "there"})
    assert "last_cls" in rows("there")[0]


@pytest.mark.slow
def test_several_files_a_folder_and_standard_input() -> None:
    Path("texts").mkdir()
    Path("texts/b.txt").write_text("two\n")
    Path("texts/a.txt").write_text("one\n")
    assert extract("texts").exit_code == 0
    assert [row["id"] for row in rows("texts.features")] == ["texts/a.txt:1", "texts/b.txt:1"]
    assert extract("texts/b.txt", "texts/a.txt", "-o", "both").exit_code == 0
    assert [row["text"] for row in rows("both")] == ["two", "one"]
    run = subprocess.run([*PROGRAM, "extract", "-", "-o", "piped"], input=b"three\nfour\n", capture_output=True)
    assert run.returncode == 0, run.stderr
    assert [row["text"] for row in rows("piped")] == ["three", "four"]


def test_pairs() -> None:
    Path("pairs.txt").write_text("Who? ||| The queen.\n")
    assert extract("pairs.txt", "--pairs").exit_code == 0
    assert [(row["text"], row["pair"]) for row in rows("pairs.features")] == [("Who?", "The queen.")]


def test_words_of_second_texts_count_for_the_warning() -> None:
    second = "The queen of the river banks, the old mill and all of the bridges over it."
    Path("pairs.txt").write_text("".join(f"Who was it, {n}? ||| {second}\n" for n in range(9)))
    assert "pieces" not in extract("pairs.txt", "--pairs").stderr


def test_korean_earns_a_warning_for_the_default_model() -> None:
    result = extract(ROOT / "examples" / "korean.txt")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: ")
    assert "multilingual" in result.stderr
    assert result.stderr.endswith("docs/ko/index.md\n")
    assert (ROOT / "docs" / "ko" / "index.md").is_file()
    assert result.stderr.count("\n") == 1


# ── failures, wrong uses, going on ──────────────────────────────────────────────────────────────────────────


def test_failed_rows_are_listed_and_the_exit_code_is_3() -> None:
    Path("c.jsonl").write_text(RECORDS)
    result = extract("c.jsonl")
    assert result.exit_code == 3
    assert "1 row failed" in result.stderr
    assert "record 2" in result.stderr
    assert json.loads(Path("c.features/.bertfeat/failures.jsonl").read_text())["row"] == 1
    again = extract("c.jsonl", "--allow-failures")
    assert again.exit_code == 0
    assert "nothing to do" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["c.jsonl", "--max-failures", "0"], 1, "record 2"),
        (["c.jsonl", "--max-failures", "0"], 1, "--max-failures"),
        (["c.jsonl", "--text-column", "body"], 2, "'year'"),
        (["c.jsonl", "--layers", "7"], 2, "0 (embeddings) to 6"),
        (["c.jsonl", "--layers", "sum5"], 2, "concat4"),
        (["c.jsonl", "--pooling", "median"], 2, "median"),
        (["c.jsonl", "--long", "cut"], 2, "window"),
        (["c.jsonl", "--max-length", "5000"], 2, "512"),
        (["c.jsonl", "--model", "./nowhere"], 1, "nowhere"),
        (["c.jsonl", "--device", "cuda:99"], 2, "cuda"),
        (["c.jsonl", "--pairs"], 2, "--pairs"),
        (["nowhere.txt"], 1, "nowhere.txt"),
        (["c.jsonl", "nowhere.txt"], 2, "no file or folder 'nowhere.txt'"),
        (["-"], 2, "-o"),
        ([], 2, "CORPUS"),
        (["c.jsonl", "-o", "c.jsonl"], 1, "c.jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_uses(arguments: list[str], exit_code: int, word: str) -> None:
    Path("c.jsonl").write_text(RECORDS)
    result = extract(*arguments)
    assert result.exit_code == exit_code, result.stderr
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not list(Path().glob("*/part-*"))


def test_other_settings_are_refused_and_overwriting_starts_anew() -> None:
    Path("corpus.txt").write_text("one\ntwo\n")
    extract("corpus.txt")
    before = Path("corpus.features/part-00000.parquet").read_bytes()
    refused = extract("corpus.txt", "--layers", "concat4")
    assert refused.exit_code == 1
    assert "last_mean" in refused.stderr
    assert "concat4_mean" in refused.stderr
    assert Path("corpus.features/part-00000.parquet").read_bytes() == before
    assert extract("corpus.txt", "--layers", "concat4", "--overwrite").exit_code == 0
    assert "concat4_mean" in rows("corpus.features")[0]


# ── progress and interruption ───────────────────────────────────────────────────────────────────────────────


def test_quiet_says_nothing_on_stderr() -> None:
    Path("corpus.txt").write_text("one\n\n")
    result = extract("corpus.txt", "--quiet")
    assert result.stderr == ""
    assert result.stdout.startswith("corpus.features: 1 document, ")


@pytest.mark.slow
def test_progress_bar_on_a_terminal() -> None:
    Path("corpus.txt").write_text("one\ntwo\n")
    run = on_a_terminal([*PROGRAM, "extract", "corpus.txt"], os.environ | {"TERM": "xterm"}, stream="stderr")
    assert run.exit_code == 0
    assert b"2 documents, " in run.terminal
    assert b"tokens/s" in run.terminal
    assert b"\x1b" not in run.piped


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_and_gone_on(number: signal.Signals, exit_code: int) -> None:
    Path("corpus.txt").write_text("".join(f"sentence number {at} about a river\n" for at in range(2400)))
    command = [*PROGRAM, "extract", "corpus.txt", "--part-rows", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not Path("corpus.features/part-00000.parquet").exists():
            time.sleep(0.01)
        process.send_signal(number)
        sent = time.monotonic()
        out, err = process.communicate(timeout=20)
    assert time.monotonic() - sent < 5
    assert (process.returncode, out) == (exit_code, "")
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert not Path("corpus.features/.bertfeat/manifest.json").exists()
    finished = json.loads(extract("corpus.txt", "--part-rows", "200", "--json").stdout)
    assert (finished["parts"], finished["counts"]["documents"]) == (12, 2400)
    assert finished["kept_parts"] >= 1


def test_an_update_is_foreseen_and_done() -> None:
    texts = [f"A river bank, the {number}th." for number in range(12)]
    Path("corpus.txt").write_text("\n".join(texts))
    assert extract("corpus.txt", "--part-rows", "5").exit_code == 0
    Path("corpus.txt").write_text("\n".join(["Rain.", *texts[2:], "Snow."]))
    refused = extract("corpus.txt", "--part-rows", "5")
    told = "2 texts edited or new (about 8 tokens to compute), 2 gone, 10 moved"
    assert (refused.exit_code, told in refused.stderr) == (1, True), refused.stderr
    assert "--update makes the set what the corpus is now, --overwrite starts anew" in refused.stderr
    before = sorted(path.stat().st_mtime_ns for path in Path("corpus.features").rglob("*"))
    assert told in extract("corpus.txt", "--dry-run", "--update").stdout
    foreseen = json.loads(extract("corpus.txt", "--dry-run", "--update", "--json").stdout)
    assert foreseen["change"] == {"new": 2, "gone": 2, "moved": 10, "tokens": 8}
    assert json.loads(extract("corpus.txt", "--dry-run", "--json").stdout)["change"] is None
    assert sorted(path.stat().st_mtime_ns for path in Path("corpus.features").rglob("*")) == before
    done = extract("corpus.txt", "--part-rows", "5", "--update")
    assert (done.exit_code, "in 3 parts, 10 texts copied; 8 tokens computed" in done.stdout) == (0, True), done.output
    assert [row["text"] for row in rows("corpus.features")] == ["Rain.", *texts[2:], "Snow."]
    assert "nothing to do" in extract("corpus.txt", "--update").stdout


def test_dry_run_says_what_it_would_take_and_writes_nothing() -> None:
    Path("corpus.txt").write_text("one\n\ntwo\n")
    result = extract("corpus.txt", "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["rows"], told["documents"], told["blank"], told["tokens"]) == (3, 2, 1, 6)
    assert "corpus.features" in extract("corpus.txt", "--dry-run").stdout
    assert os.listdir() == ["corpus.txt"]
    assert extract("-", "-o", "out", "--dry-run").exit_code == 2
