"""Contexts: texts joined into rows of equally many tokens, against a plain loop over transformers' tokenizers."""

import json
import shlex
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from bertfeat import CorpusSettings, FeatureSet, open_corpus
from bertfeat.cli import main
from bertfeat.contexts import ContextJoin, ContextSettings, join, write_contexts
from bertfeat.core.models import Model
from bertfeat.core.tokens import Tokenizer
from bertfeat.errors import CorpusError, ModelError, StorageError, UsageError
from tests.extraction.test_decoders import bare
from tests.support.runs import extractor, jsonl_file, lines, text_file
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny, reference_states, reference_tokenizer

PROGRAM = [sys.executable, "-c", "from bertfeat.cli import run; run()"]
QUESTION = {"id": "q", "question": "b?", "answers": [{"text": "a", "answer_start": 0}]}
CORPUS = [LONG_TEXT, "", *TEXTS, *lines(40), LONG_TEXT]


@dataclass(frozen=True)
class Token:
    """A token of the plain loop: its id, its characters, and the row and id of its document."""

    id: int
    start: int
    end: int
    row: int
    name: str


def plain_rows(
    folder: Path, texts: Sequence[str], size: int, before: Sequence[int], after: Sequence[int]
) -> tuple[list[list[Token]], int]:
    """The rows of texts that are tokenized one by one, and how many tokens fill none."""
    stream: list[Token] = []
    for row, text in enumerate(texts):
        read = reference_tokenizer(folder)(text, add_special_tokens=False, return_offsets_mapping=True)
        if not read["input_ids"]:
            continue
        places = zip(read["input_ids"], read["offset_mapping"], strict=True)
        stream += [Token(number, start, end, row, str(row + 1)) for number, (start, end) in places]
        stream += [Token(number, len(text), len(text), row, str(row + 1)) for number in after]
    body, rows = size - len(before), []
    while len(stream) >= body:
        first = stream[0]
        lead = [Token(number, first.start, first.start, first.row, first.name) for number in before]
        rows.append([*lead, *stream[:body]])
        stream = stream[body:]
    return rows, len(stream)


def specials(folder: Path) -> tuple[list[int], list[int]]:
    """What the tokenizer sets before and after a text; of a tokenizer that sets nothing, what it names."""
    tokenizer = reference_tokenizer(folder)
    around, inside = (tokenizer("a", add_special_tokens=given)["input_ids"] for given in (True, False))
    at = around.index(inside[0])
    before, after = around[:at], around[at + len(inside) :]
    named = [[] if number is None else [number] for number in (tokenizer.bos_token_id, tokenizer.eos_token_id)]
    return before or named[0], after or named[1]


def as_rows(path: Path) -> list[list[Token]]:
    """The tokens of a file of contexts, each with its document by ``documents``."""
    rows = []
    for record in pq.read_table(path).to_pylist():
        assert [piece["first"] for piece in record["documents"]] == [0, *(p["stop"] for p in record["documents"][:-1])]
        of_tokens = [(p["row"], p["id"]) for p in record["documents"] for _ in range(p["first"], p["stop"])]
        columns = (record["token_ids"], record["starts"], record["ends"], of_tokens)
        rows.append([Token(number, start, end, *of) for number, start, end, of in zip(*columns, strict=True)])
        for piece in record["documents"]:
            assert piece["start"] == record["starts"][piece["first"]]
            assert piece["end"] == record["ends"][piece["stop"] - 1]
    return rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("size", [8, 33, None])
@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "decoder", "decoder with a beginning"])
def test_a_plain_loop(family: str, size: int | None, bos: bool, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    if family.startswith("decoder"):
        named = {"eos_token": "</s>"} | ({"bos_token": "<s>"} if family != "decoder" else {})
        folder = bare("qwen3", tmp_path / "model", **named)
    else:
        folder = tiny(family).folder
    corpus, out = text_file(tmp_path / "c.txt", CORPUS), tmp_path / "c.parquet"
    report = write_contexts(corpus, out, ContextSettings(size=size, bos=bos), model=folder)
    before, after = specials(folder)
    wanted, left_over = plain_rows(folder, CORPUS, report.size, before if bos else [], after)
    assert as_rows(out) == wanted
    assert (report.rows, report.left_over, report.failed) == (len(wanted), left_over, 0)
    assert report.size == size or size is None
    assert report.documents == len([text for text in CORPUS if text])


def test_rows_do_not_depend_on_how_texts_are_read(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = text_file(tmp_path / "c.txt", CORPUS)
    write_contexts(corpus, tmp_path / "one.parquet", ContextSettings(size=16), model=bert.folder)
    monkeypatch.setattr(join, "_CHARACTERS", 1)
    write_contexts(corpus, tmp_path / "many.parquet", ContextSettings(size=16), model=bert.folder)
    assert pq.read_table(tmp_path / "one.parquet") == pq.read_table(tmp_path / "many.parquet")


def test_several_files_and_columns(bert: Tiny, tmp_path: Path) -> None:
    """Documents keep their ids; rows of a corpus that cannot be read are told, and in no context."""
    records = [{"id": f"d{at}", "title": text, "body": "of it"} for at, text in enumerate(lines(9))]
    one = jsonl_file(tmp_path / "one.jsonl", [*records[:4], "{", *records[4:6]])
    two = jsonl_file(tmp_path / "two.jsonl", records[6:])
    reading = CorpusSettings(text_columns=("title", "body"))
    report = write_contexts(
        [one, two], tmp_path / "c.parquet", ContextSettings(size=10), model=bert.folder, corpus_settings=reading
    )
    assert (report.documents, report.failed, len(report.failures)) == (9, 1, 1)
    rows = as_rows(tmp_path / "c.parquet")
    named = {token.row: token.name for row in rows for token in row}
    assert named == {at + (at > 3): f"d{at}" for at in range(9)}
    made_by = json.loads(pq.read_metadata(tmp_path / "c.parquet").metadata[b"bertfeat.contexts"])
    assert (made_by["size"], made_by["rows"], made_by["sources"]) == (10, len(rows), [str(one), str(two)])


def test_lists_of_words_are_texts(bert: Tiny, tmp_path: Path) -> None:
    texts = text_file(tmp_path / "t.txt", lines(9))
    words = jsonl_file(tmp_path / "w.jsonl", [{"text": text.split()} for text in lines(9)])
    reading = CorpusSettings(pretokenized=True)
    write_contexts(texts, tmp_path / "t.parquet", ContextSettings(size=8), model=bert.folder)
    write_contexts(words, tmp_path / "w.parquet", ContextSettings(size=8), model=bert.folder, corpus_settings=reading)
    assert as_rows(tmp_path / "w.parquet") == as_rows(tmp_path / "t.parquet")


def test_features_of_contexts(bert: Tiny, tmp_path: Path) -> None:
    """The vectors are those that the model gives each row, and each leads to its characters."""
    corpus, contexts = text_file(tmp_path / "c.txt", CORPUS), tmp_path / "c.parquet"
    write_contexts(corpus, contexts, ContextSettings(size=32), model=bert.folder)
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",), keep=("documents",))
    made = extractor(bert, layers="3", pooling="token", dtype="float32")
    made.extract(contexts, tmp_path / "set", corpus_settings=reading, part_rows=5)
    features, rows = FeatureSet(tmp_path / "set"), as_rows(contexts)
    texts = {document.row: document.text for document in open_corpus(corpus).rows() if hasattr(document, "text")}
    for document, row in zip(features, rows, strict=True):
        states = reference_states(bert.folder, [token.id for token in row], [0] * 32)[3]
        np.testing.assert_allclose(document.stored["layer3_token"], states, rtol=0, atol=3e-5 * np.abs(states).max())
        assert document.tokens is not None
        kept = json.loads(features.to_arrow(["documents"])["documents"][document.row].as_py())
        assert [piece["row"] for piece in kept] == [*dict.fromkeys(token.row for token in row)]
        for token, string in zip(row, document.tokens.strings or (), strict=True):
            spelled = unicodedata.normalize("NFD", texts[token.row][token.start : token.end].lower())
            letters = "".join(letter for letter in spelled if unicodedata.category(letter) not in ("Mn", "Cf"))
            assert letters == string.removeprefix("##") or string == "[UNK]" or token.start == token.end
    without = sum(token.start == token.end for row in rows for token in row)
    assert features.vectors("3", "token", drop_special=True).left_out == without


def test_what_cannot_be_joined(bert: Tiny, tmp_path: Path) -> None:
    corpus, out = text_file(tmp_path / "c.txt", CORPUS), tmp_path / "c.parquet"

    def refused(error: type[Exception], says: str, size: int | None = 8, source: Any = corpus, **more: Any) -> None:
        with pytest.raises(error, match=says):
            write_contexts(source, out, ContextSettings(size=size), **{"model": bert.folder} | more)
        assert [*tmp_path.glob("*.parquet*")] == []

    refused(UsageError, "reads 64 tokens at once; choose fewer", size=65)
    refused(UsageError, "must be from 2 to ", size=1)
    refused(UsageError, "keep means nothing where texts are joined", corpus_settings=CorpusSettings(keep=("all",)))
    refused(UsageError, "means nothing where", corpus_settings=CorpusSettings(pairs=True))
    few = text_file(tmp_path / "few.txt", ["a", "b"])
    refused(CorpusError, "its texts have 4 tokens, and a row has 8; choose a smaller size", source=few)
    ids = jsonl_file(tmp_path / "ids.jsonl", [{"text": [5, 6]}])
    reading = CorpusSettings(pretokenized=True)
    refused(UsageError, "contexts are joined from texts, and row 0 is token ids", source=ids, corpus_settings=reading)
    pairs = jsonl_file(tmp_path / "pairs.jsonl", [{"text": "a", "other": "b"}])
    reading = CorpusSettings(pair_column="other")
    refused(UsageError, "pair_column means nothing where texts are joined", source=pairs, corpus_settings=reading)
    squad = tmp_path / "squad.json"
    squad.write_text(json.dumps({"version": "1", "data": [{"paragraphs": [{"context": "a", "qas": [QUESTION]}]}]}))
    refused(UsageError, "squad.json: its documents are pairs, and texts are joined; name the column", source=squad)
    named = CorpusSettings(text_columns=("context",))
    refused(CorpusError, "its texts have 2 tokens, and a row has 8", source=squad, corpus_settings=named)  # the remedy
    ids = jsonl_file(tmp_path / "ids.jsonl", [{"text": [5, 6]}] * 2)
    split = CorpusSettings(pretokenized=True)
    refused(
        UsageError,
        "contexts are joined from texts, and row 0 is token ids; extract reads",
        source=ids,
        corpus_settings=split,
    )
    blank = jsonl_file(tmp_path / "blank.jsonl", [{"text": ""}] * 3)
    refused(CorpusError, "its texts have no tokens, and a row has 8", source=blank)
    bare("qwen3", tmp_path / "model")
    refused(ModelError, "its tokenizer has no token that ends a text", model=tmp_path / "model")
    out.write_text("mine")
    with pytest.raises(StorageError, match="this file is there already; choose another name or overwrite it"):
        write_contexts(corpus, out, ContextSettings(size=8), model=bert.folder)
    assert out.read_text() == "mine"
    write_contexts(corpus, out, ContextSettings(size=8), model=bert.folder, overwrite=True)
    assert len(as_rows(out)) > 10


def test_no_room_beside_what_stands_before_a_text(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("bert", bert.folder)
    assert ContextJoin(model, ContextSettings()).size == model.max_tokens
    template = Tokenizer(model).single
    monkeypatch.setattr(Tokenizer, "_template", lambda *_, **__: replace(template, before=(2, 2), before_types=(0, 0)))
    with pytest.raises(UsageError, match="size=2: bert sets 2 tokens before a text; choose more, or bos=False"):
        ContextJoin(model, ContextSettings(size=2))
    assert ContextJoin(model, ContextSettings(size=2, bos=False)).size == 2


# ── in the shell ────────────────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_the_command_and_what_it_prints(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that it names reads the file."""
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path / "my corpus.txt", CORPUS)
    done = run("contexts", "my corpus.txt", "--model", bert.folder, "--size", "17", "--no-bos")
    assert done.exit_code == 0, done.output
    assert "my corpus.contexts.parquet: " in done.stdout
    assert "tokens at the end fill no row, and are left out" in done.stderr
    (printed,) = [line for line in done.stderr.splitlines() if line.startswith("to read it: ")]
    program, *arguments = shlex.split(printed.removeprefix("to read it: "))
    assert program == "bertfeat"
    assert arguments[-1] == "documents"
    again = run(*arguments, "--layers", "mlp:3")
    assert again.exit_code == 0, again.output
    as_json = json.loads(
        run("contexts", "my corpus.txt", "--model", bert.folder, "--size", "16", "--overwrite", "--json").stdout
    )
    assert (as_json["size"], as_json["failed"]) == (16, 0)
    jsonl_file(tmp_path / "bad.jsonl", [*({"text": text} for text in CORPUS), "{"])
    failed = run("contexts", "bad.jsonl", "--model", bert.folder, "--size", "16")
    assert failed.exit_code == 3
    assert "1 row failed, and went into no context; the first:\n  bad.jsonl, line" in failed.stderr


@pytest.mark.slow
def test_killed_and_run_again(bert: Tiny, tmp_path: Path) -> None:
    """A run that is killed leaves no file of that name; the next one leaves nothing else."""
    corpus, out = text_file(tmp_path / "c.txt", CORPUS * 2000), tmp_path / "c.parquet"
    command = [*PROGRAM, "contexts", corpus, "--model", bert.folder, "--size", "16"]
    with subprocess.Popen([*map(str, command), "-o", str(out)], stderr=subprocess.DEVNULL) as process:
        while not [*tmp_path.glob(".c.parquet.*")]:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    few = text_file(tmp_path / "c.txt", CORPUS)
    write_contexts(few, out, ContextSettings(size=16), model=bert.folder)
    assert {path.name for path in tmp_path.iterdir()} == {"c.txt", "c.parquet"}
