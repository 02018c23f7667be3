"""Documents of token ids: read as they are, from every kind of corpus, and refused where a text is needed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from bertfeat import (
    CorpusSettings,
    Document,
    Extractor,
    FeatureSet,
    StoredEncoder,
    memory_corpus,
    open_corpus,
    verify_features,
)
from bertfeat.errors import CorpusError, FeatureSetError, HeadError, UsageError, WrongColumnsError
from bertfeat.learning.tables import CorpusTable, FeatureTable
from bertfeat.pretraining.corpus import CorpusTexts
from bertfeat.scale import Processes
from tests.extraction.test_decoders import bare
from tests.support.runs import accounted, contents, extractor, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny, reference_ids, reference_states
from tests.support.token_models import save

READING = CorpusSettings(pretokenized=True, text_columns=("token_ids",))
BOUND = 3e-5


def random_rows(size: int, lengths: Sequence[int] = (1, 7, 30, 64), seed: int = 0) -> list[list[int]]:
    """Ids of tokens at random, special ones too."""
    draw = np.random.default_rng(seed)
    return [draw.integers(0, size, length).tolist() for length in lengths]


def parquet(path: Path, rows: Sequence[Sequence[int] | None], **columns: Sequence[object]) -> Path:
    pq.write_table(pa.table({"token_ids": pa.array(rows, pa.list_(pa.int32())), **columns}), path)
    return path


def assert_near(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND * float(np.abs(wanted).max()))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert", "deberta-v2", "gpt2"])
def test_what_the_model_gives_for_just_these_ids(family: str, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Alone and in company, without a special token around them."""
    folder = bare(family, tmp_path / family) if family == "gpt2" else tiny(family).folder
    first = "mean" if family == "gpt2" else "cls"
    made = extractor(folder, layers="all", pooling=["token", "last-token", first], dtype="float32")
    rows = random_rows(made.tokenizer.size)
    for batch in ([row] for row in rows), [rows]:
        found = [each for items in batch for each in made.features([*items], corpus_settings=READING)]
        for document, row in zip(found, rows, strict=True):
            assert document.tokens is not None
            assert document.tokens.strings == tuple(made.tokenizer.strings(np.array(row, np.int32)))
            for layer, states in enumerate(reference_states(folder, row, [0] * len(row), "eager")):
                assert_near(document.stored[f"layer{layer}_token"], states)
                assert_near(document.stored[f"layer{layer}_{first}"], states[0] if first == "cls" else states.mean(0))
                assert_near(document.stored[f"layer{layer}_last-token"], states[-1])


def test_the_ids_of_texts_give_what_the_texts_give(packed_tiny: Tiny) -> None:
    made = extractor(packed_tiny, layers="last,mlp:2", pooling="token,mean")
    texts = lines(6)
    ids = [reference_ids(packed_tiny.folder, text)[0] for text in texts]
    pairs = zip(made.features(texts), made.features(ids, corpus_settings=READING), strict=True)
    for of_text, of_ids in pairs:
        assert of_text.n_tokens == of_ids.n_tokens
        for name, values in of_text.stored.items():
            np.testing.assert_array_equal(of_ids.stored[name], values)


def test_long_rows_are_treated_as_long_texts(bert: Tiny) -> None:
    (row,) = random_rows(bert.tokenizer.size, [70])
    cut = {"truncate": row[:32], "truncate-left": row[-32:]}
    for long, read in cut.items():
        (found,) = extractor(bert, pooling="token", dtype="float32", max_length=32, long=long).features(
            [row], corpus_settings=READING
        )
        wanted = reference_states(bert.folder, read, [0] * 32)[-1]
        assert_near(found.stored["last_token"], wanted)
        assert found.n_truncated == 70 - 32
    # windows of 32 that share 8, the last one moved back; the boundary lies in the middle of what two share
    (found,) = extractor(bert, pooling="token", dtype="float32", max_length=32).features([row], corpus_settings=READING)
    windows = [(0, 32, 0, 28), (24, 56, 28, 47), (38, 70, 47, 70)]
    for start, stop, first, last in windows:
        states = reference_states(bert.folder, row[start:stop], [0] * 32)[-1]
        assert_near(found.stored["last_token"][first:last], states[first - start : last - start])
    with pytest.raises(UsageError, match="it has 70 tokens and the model reads 32"):
        extractor(bert, max_length=32, long="error").features([row], corpus_settings=READING)


def test_places_and_special_tokens(bert: Tiny, tmp_path: Path) -> None:
    """Offsets are those of the numbers in the text that stands for them, of special tokens without width."""
    cls, sep = bert.tokenizer.single.ids
    row = [cls, 9, 10, 11, sep, 100, sep]
    (found,) = extractor(bert, pooling="token").features([row], corpus_settings=READING)
    assert found.text == " ".join(map(str, row))
    assert found.tokens is not None
    places = [*zip(found.tokens.start.tolist(), found.tokens.end.tolist(), strict=True)]
    texts = ["" if number in (cls, sep) else str(number) for number in row]
    assert [found.text[start:end] for start, end in places] == texts
    assert [found.text[start:].split(" ")[0] for start, _ in places] == [*map(str, row)]
    (without,) = extractor(bert, pooling="token,mean", special_tokens=False).features([row], corpus_settings=READING)
    kept = [at for at, text in enumerate(texts) if text]
    np.testing.assert_array_equal(without.stored["last_token"], found.stored["last_token"][kept])
    corpus = parquet(tmp_path / "ids.parquet", [row, row[:3]])
    extractor(bert, pooling="token").extract(corpus, tmp_path / "set", corpus_settings=READING)
    features = FeatureSet(tmp_path / "set")
    assert features.to_arrow(["token_ids"])["token_ids"].to_pylist() == [row, row[:3]]
    assert features.vectors("last", "token", drop_special=True).vectors == len(kept) + 2


def test_every_corpus_gives_the_same(bert: Tiny, tmp_path: Path) -> None:
    """Parquet, JSONL, mappings, lists and Documents; of several columns the lists are joined."""
    rows = random_rows(bert.tokenizer.size)
    made = extractor(bert, pooling="token,mean")
    wanted = made.features(rows, corpus_settings=READING)
    halves = [{"a": row[: len(row) // 2], "b": row[len(row) // 2 :]} for row in rows]
    documents = [Document(0, str(n + 1), " ".join(map(str, row)), ids=tuple(row)) for n, row in enumerate(rows)]
    joined = CorpusSettings(pretokenized=True, text_columns=("a", "b"))
    corpora: list[tuple[Any, CorpusSettings]] = [
        (parquet(tmp_path / "i.parquet", rows), READING),
        (jsonl_file(tmp_path / "i.jsonl", [{"token_ids": row} for row in rows]), READING),
        (memory_corpus([{"token_ids": row} for row in rows], READING), READING),
        (memory_corpus(rows, READING), READING),
        (memory_corpus(halves[1:], joined), joined),
        (memory_corpus(documents), CorpusSettings()),
    ]
    for number, (corpus, reading) in enumerate(corpora):
        made.extract(corpus, tmp_path / f"{number}", corpus_settings=reading)
        found = [*FeatureSet(tmp_path / f"{number}")]
        for one, other in zip(found, wanted[-len(found) :], strict=True):
            assert one.text == other.text
            np.testing.assert_array_equal(one.stored["last_token"], other.stored["last_token"].astype(np.float16))
            np.testing.assert_array_equal(one.stored["last_mean"], other.stored["last_mean"])


def test_runs_resume_and_update(bert: Tiny, tmp_path: Path) -> None:
    rows = random_rows(bert.tokenizer.size, [9] * 20)
    made = extractor(bert, pooling="mean,token")
    corpus = parquet(tmp_path / "ids.parquet", rows, n=[*range(20)])
    options: dict[str, Any] = {
        "corpus_settings": CorpusSettings(**{**_fields(READING), "keep": ("n",)}),
        "part_rows": 6,
    }
    made.extract(corpus, tmp_path / "set", **options)
    before = contents(tmp_path / "set")
    (tmp_path / "set" / "part-00001.parquet").unlink()
    assert made.extract(corpus, tmp_path / "set", **options).kept_parts == 3
    assert contents(tmp_path / "set") == before
    made.extract(corpus, tmp_path / "two", **options, engine=Processes(2))
    assert contents(tmp_path / "two") == before
    parquet(corpus, [rows[3], *rows[:10], [5, 6], *rows[10:]], n=[*range(22)])
    report = made.extract(corpus, tmp_path / "set", **options, update=True)
    assert report.copied == 21
    assert verify_features(tmp_path / "set").holds


def _fields(settings: CorpusSettings) -> dict[str, Any]:
    return {"pretokenized": settings.pretokenized, "text_columns": settings.text_columns}


def test_verified_from_the_set_alone(bert: Tiny, tmp_path: Path) -> None:
    """Its digest tells a row of ids from a text of numbers."""
    rows = random_rows(bert.tokenizer.size, [5, 80])
    made = extractor(bert)
    made.extract(parquet(tmp_path / "ids.parquet", rows), tmp_path / "ids", corpus_settings=READING)
    made.extract(text_file(tmp_path / "n.txt", [" ".join(map(str, row)) for row in rows]), tmp_path / "texts")
    ids, texts = (FeatureSet(tmp_path / name) for name in ("ids", "texts"))
    assert ids.to_arrow(["text"]) == texts.to_arrow(["text"])
    assert not np.allclose(ids.matrix("last", "mean"), texts.matrix("last", "mean"))
    for name in ("ids", "texts"):
        report = verify_features(tmp_path / name)
        assert (report.sampled, report.holds) == (2, True)
    assert verify_features(tmp_path / "ids", corpus=tmp_path / "ids.parquet", corpus_settings=READING).holds


def test_beside_texts(bert: Tiny) -> None:
    """Each as if it were alone, and equal strings of both kinds are told apart."""
    made = extractor(bert)
    ids = Document(0, "1", "7 8 9", ids=(7, 8, 9))
    found = made.features([ids, "The bank.", "7 8 9", ids])
    alone = [made.features([item])[0] for item in (ids, "The bank.", "7 8 9", ids)]
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one.stored["last_mean"], other.stored["last_mean"])
    assert not np.allclose(found[0].stored["last_mean"], found[2].stored["last_mean"])


BAD_ROWS: list[tuple[object, str]] = [
    ([5, -100], "item 2 of 'token_ids' is -100, and token ids are numbers from 0 to 2,147,483,647"),
    ([5, 2**31], "item 2 of 'token_ids' is 2147483648"),
    ([5, True], "item 2 of 'token_ids' is true"),
    ([5, 7.0], "item 2 of 'token_ids' is 7.0"),
    ([5, None], "item 2 of 'token_ids' is null"),
    ([5, "a"], "item 2 of 'token_ids' is \"a\", and"),
    ([5, 1_000_000], "the model has the tokens 0 to "),
    ([1.5], "item 1 of 'token_ids' is 1.5, and"),
    ([-100, 5], "item 1 of 'token_ids' is -100"),
    ([None, 5], "item 1 of 'token_ids' is null"),
    (None, "field 'token_ids' is null"),
]


def test_rows_that_cannot_be_ids_fail_one_by_one(bert: Tiny, tmp_path: Path) -> None:
    records = [{"token_ids": value} for value, _ in BAD_ROWS]
    corpus = jsonl_file(tmp_path / "ids.jsonl", [{"token_ids": [5, 6]}, *records, {"token_ids": [7]}])
    report = extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=READING)
    features = FeatureSet(tmp_path / "set")
    assert (len(features), accounted(report)) == (2, len(records) + 2)
    for failure, (_, reason) in zip(features.failures(), BAD_ROWS, strict=True):
        assert reason in failure.reason


def test_what_needs_a_text_is_refused(bert: Tiny, tmp_path: Path) -> None:
    corpus = parquet(tmp_path / "ids.parquet", [[5, 6]])
    for settings, says in (
        ({"pooling": "word"}, "has token ids, and pooling='word' needs a text; leave that out"),
        ({"prompt": "query: "}, "has token ids, and prompt='query: ' needs a text"),
        ({"pooling": "word", "context": "left:2"}, "has token ids, and context='left:2' needs a text"),
    ):
        with pytest.raises(UsageError, match=says):
            extractor(bert, **settings).extract(corpus, tmp_path / "set", corpus_settings=READING)
        with pytest.raises(UsageError, match="it is token ids, and "):
            extractor(bert, **settings).features([[5, 6]], corpus_settings=READING)
    assert not (tmp_path / "set").exists()
    with pytest.raises(WrongColumnsError, match="--pretokenized takes lists of words or of token ids"):
        extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=CorpusSettings(text_columns=("token_ids",)))
    tagged = jsonl_file(tmp_path / "t.jsonl", [{"token_ids": [5], "tags": ["A"]}])
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",), tag_column="tags")
    with pytest.raises(WrongColumnsError, match="'token_ids' has token ids, and tags in 'tags' are of words"):
        extractor(bert).extract(tagged, tmp_path / "set", corpus_settings=reading)
    with pytest.raises(UsageError, match="a Document whose text is not its ids, joined by spaces"):
        memory_corpus([Document(0, "1", "5 7", ids=(5, 6))])
    with pytest.raises(UsageError, match="not a list of words that are strings and not empty, or of token ids"):
        memory_corpus([[5, -1]], READING)


KINDS = {
    "int64": pa.list_(pa.int64()),
    "uint16": pa.list_(pa.uint16()),
    "large": pa.large_list(pa.uint32()),
    "fixed": pa.list_(pa.int32(), 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_list_in_parquet(kind: str, bert: Tiny, tmp_path: Path) -> None:
    last = bert.tokenizer.size - 1
    table = pa.table({"token_ids": pa.array([[0, last], [5, 6]], KINDS[kind])})
    pq.write_table(table, tmp_path / "ids.parquet")
    extractor(bert, pooling="token").extract(tmp_path / "ids.parquet", tmp_path / "set", corpus_settings=READING)
    assert FeatureSet(tmp_path / "set").to_arrow(["token_ids"])["token_ids"].to_pylist() == [[0, last], [5, 6]]


def test_numbers_of_numpy(bert: Tiny) -> None:
    made = extractor(bert)
    (wanted,) = made.features([[5, 6, 7]], corpus_settings=READING)
    items: list[Any] = [[np.int64(5), 6, np.uint16(7)], {"token_ids": np.array([5, 6, 7])}, {"token_ids": (5, 6, 7)}]
    items.append({"token_ids": list(np.array([5, 6, 7]))})
    for item in items:
        (found,) = made.features([item], corpus_settings=READING)
        assert found.text == "5 6 7"
        np.testing.assert_array_equal(found.stored["last_mean"], wanted.stored["last_mean"])
    (failed,) = memory_corpus([{"token_ids": [5, np.float32(2)]}], READING).rows()
    assert "item 2 of 'token_ids' is" in getattr(failed, "reason", "")


def test_every_column_has_a_list(bert: Tiny) -> None:
    reading = CorpusSettings(pretokenized=True, text_columns=("a", "b"))
    for other in ({"b": "the bank"}, {"b": None}, {}):
        (failed,) = memory_corpus([{"a": [5, 6], **other}], reading).rows()
        assert "field 'b'" in getattr(failed, "reason", "") or "no field 'b'" in getattr(failed, "reason", "")


def test_documents_of_ids_are_checked() -> None:
    for ids, text in (((10**30,), str(10**30)), ((-1,), "-1"), ((), ""), ((5, 6), " 5 6"), ((5, 6), "5  6")):
        with pytest.raises(UsageError, match=r"a Document whose (ids are no tuple of token ids|text is not its ids)"):
            memory_corpus([Document(0, "1", text, ids=ids)])
    with pytest.raises(UsageError, match="a Document of token ids with a pair, words or tags"):
        memory_corpus([Document(0, "1", "5 6", pair="x", ids=(5, 6)), Document(1, "2", "a", pair="b")])
    document = Document(0, "1", "7 8 9", ids=(7, 8, 9))
    with pytest.raises(UsageError, match="these items bring their words or token ids"):
        memory_corpus([document], CorpusSettings(split="words:2"))
    assert len([*memory_corpus([[5, 6], document, ["a", "b"]], CorpusSettings(pretokenized=True)).rows()]) == 3


def test_an_unknown_token_that_ends_texts_is_special(tmp_path: Path) -> None:
    """As in GPT-2, whose one special token is both."""
    folder = bare("gpt2", tmp_path / "gpt2", unk_token="</s>", eos_token="</s>")
    made = extractor(folder, pooling="token")
    end = made.tokenizer.unknown_id
    assert end is not None
    assert end in made.tokenizer.special_ids
    (found,) = made.features([[end, 9, end]], corpus_settings=READING)
    assert found.tokens is not None
    assert (found.tokens.start == found.tokens.end).tolist() == [True, False, True]
    assert found.n_unk == 0


def test_texts_of_numbers_are_verified_as_texts(bert: Tiny, tmp_path: Path) -> None:
    """Even of more digits than Python reads as a number."""
    extractor(bert).extract(text_file(tmp_path / "pi.txt", ["31415926" * 700, "5 6"]), tmp_path / "set")
    assert verify_features(tmp_path / "set").sampled == 2


def test_what_reads_texts_refuses_sets_of_ids(bert: Tiny, tmp_path: Path) -> None:
    corpus = parquet(tmp_path / "ids.parquet", [[], [5, 6], [7]], label=["a", "b", "a"])
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",), keep=("label",))
    extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=reading)
    assert FeatureSet(tmp_path / "set").holds_ids
    with pytest.raises(FeatureSetError, match="its documents are token ids, which have no texts"):
        StoredEncoder(tmp_path / "set")
    with pytest.raises(HeadError, match="its documents are token ids, and texts are needed"):
        list(FeatureTable([FeatureSet(tmp_path / "set")]).texts())
    with pytest.raises(HeadError, match="its documents are token ids, and texts are needed"):
        CorpusTable(open_corpus(corpus, reading))
    texts = CorpusTexts(corpus, CorpusSettings(pretokenized=True, text_columns=("token_ids",)), None)
    with pytest.raises(CorpusError, match="its rows are token ids, and texts are needed"):
        list(texts)


def test_a_model_that_marks_texts(bert: Tiny, tmp_path: Path) -> None:
    folder = save(bert.folder, tmp_path / "model")
    made = Extractor(folder, precision="fp32", layers="sentence", prompt="[Q] ")
    with pytest.raises(UsageError, match="it is token ids, and "):
        made.features([[5, 6]], corpus_settings=READING)


def test_an_empty_row_is_an_empty_text(bert: Tiny, tmp_path: Path) -> None:
    corpus = parquet(tmp_path / "ids.parquet", [[5, 6], []])
    report = extractor(bert).extract(corpus, tmp_path / "set", corpus_settings=READING)
    assert (report.counts.documents, report.counts.empty_texts) == (2, 1)
