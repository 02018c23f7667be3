"""Vectors of spans, against the mean of what Hugging Face's model gives for the tokens in them."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import CorpusSettings, Extractor, FeatureSet
from bertfeat.core.features import SpanBatch
from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError
from tests.support.slow_features import slow_text
from tests.support.tiny_models import Tiny

STORY = (
    "The river rose. They didn't see it, naïve as they were! Who'd have thought?\n\nThe bank was unbelievably steep. "
)
TEXTS = [STORY.strip(), "One sentence only", STORY * 4, "?!", "나는 강가의 은행에 갔다. 물이 많았다."]

Maker = Callable[..., FeatureSet]


@pytest.fixture
def extract(tmp_path: Path) -> Maker:
    def made(tiny: Tiny, texts: list[Any] = TEXTS, **settings: Any) -> FeatureSet:
        file = tmp_path / "texts.jsonl"
        rows = [text if isinstance(text, dict) else {"text": text} for text in texts]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {name: settings.pop(name) for name in ("keep_text",) if name in settings}
        kept = tuple(name for name in rows[0] if name not in ("text", "pair"))
        pairs = CorpusSettings(pair_column="pair" if "pair" in rows[0] else None, keep=kept)
        extractor = Extractor(
            str(tiny.folder), **{"precision": "fp32", "dtype": "float32", "pooling": "token", **settings}
        )
        extractor.extract(file, tmp_path / "texts.features", corpus_settings=pairs, overwrite=True, **options)
        return FeatureSet(tmp_path / "texts.features")

    return made


def found_in(batches: Any) -> list[tuple[int, int, int, np.ndarray[Any, Any]]]:
    """The row, start, end and vector of each span."""
    return [
        (row, start, end, vector)
        for each in batches
        for row, start, end, vector in zip(each.rows, each.start, each.end, each.matrix, strict=True)
    ]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("spans", ["sentences", "paragraphs", "words:3:1"])
def test_a_span_is_the_mean_of_its_tokens(any_tiny: Tiny, extract: Maker, spans: str) -> None:
    features = extract(any_tiny, layers="last,1")
    found = found_in(features.spans(spans, "last"))
    strings = list(chain.from_iterable(batch.strings for batch in features.spans(spans, "last")))
    slow = [slow_text(any_tiny, text) for text in TEXTS]
    assert len(found) >= 10
    for (row, start, end, vector), string in zip(found, strings, strict=True):
        assert TEXTS[row][start:end] == string
        text = slow[row]
        inside = [at for at, (a, b) in enumerate(text.spans) if a < b and b > start and a < end]
        expected = text.hidden[-1][inside].mean(axis=0)
        np.testing.assert_allclose(vector, expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize(("pool", "slow"), [("max", lambda rows: rows.max(axis=0)), ("first", lambda rows: rows[0])])
def test_other_ways_to_pool(bert: Tiny, extract: Maker, pool: Any, slow: Callable[..., Any]) -> None:
    features = extract(bert)
    documents = {document.row: document for document in features}
    for row, start, end, vector in found_in(features.spans("sentences", pool=pool)):
        tokens = documents[row].tokens
        assert tokens is not None
        inside = (tokens.end > tokens.start) & (tokens.end > start) & (tokens.start < end)
        np.testing.assert_array_equal(vector, slow(documents[row].matrix()[inside]))


def test_derived_layers_and_words(bert: Tiny, extract: Maker) -> None:
    features = extract(bert, layers="concat=1..2", pooling="word,token")
    words = {document.row: document for document in features}
    for row, start, end, vector in found_in(features.spans("words:4", "sum=1..2", "word")):
        pieces = words[row].words
        assert pieces is not None
        assert pieces.aligned is not None
        inside = pieces.aligned & (pieces.start >= start) & (pieces.end <= end)
        expected = words[row].matrix("sum=1..2", "word")[inside].mean(axis=0)
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-5)
    named = next(iter(features.spans("words:4", "sum=1..2_word")))
    np.testing.assert_array_equal(named.matrix, next(iter(features.spans("words:4", "sum=1..2", "word"))).matrix)
    tokens = next(iter(features.spans("words:4", "sum=1..2")))  # tokens come first
    assert (tokens.pieces >= next(iter(features.spans("words:4", "sum=1..2", "word"))).pieces).all()


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 2e-3), ("int8", 3e-2)])
def test_smaller_types_are_read_with_their_rounding(bert: Tiny, extract: Maker, dtype: str, bound: float) -> None:
    exact = found_in(extract(bert).spans("sentences"))
    found = found_in(extract(bert, dtype=dtype).spans("sentences"))
    for (*place, vector), (*other, expected) in zip(found, exact, strict=True):
        assert place == other
        np.testing.assert_allclose(vector, expected, rtol=0, atol=bound)


def test_batches_of_any_size_give_the_same(bert: Tiny, extract: Maker) -> None:
    features = extract(bert)
    (whole,) = features.spans("sentences")
    small = list(features.spans("sentences", batch_rows=1))
    assert [len(batch) for batch in small] == [sum(whole.rows == row) for row in range(len(TEXTS))]
    joined = {name: np.concatenate([getattr(batch, name) for batch in small]) for name in SpanBatch.__slots__}
    for name, values in joined.items():
        np.testing.assert_array_equal(values, getattr(whole, name), err_msg=name)
    (part,) = features.spans("sentences", start=1, stop=3)
    assert sorted({*part.rows.tolist()}) == [1, 2]


def test_spans_are_of_the_first_text_of_a_pair(bert: Tiny, extract: Maker) -> None:
    first = "The river rose. They saw it."
    features = extract(bert, [{"text": first, "pair": "Another text. Of two sentences."}])
    (batch,) = features.spans("sentences")
    slow = slow_text(bert, first, "Another text. Of two sentences.")
    for start, end, vector in zip(batch.start, batch.end, batch.matrix, strict=True):
        inside = [
            at
            for at, ((a, b), segment) in enumerate(zip(slow.spans, slow.segments, strict=True))
            if segment == 0 and a < b and b > start and a < end
        ]
        np.testing.assert_allclose(vector, slow.hidden[-1][inside].mean(axis=0), rtol=0, atol=3e-5)


def test_a_span_that_was_cut_off_has_no_tokens_and_a_zero_vector(bert: Tiny, extract: Maker) -> None:
    features = extract(bert, long="truncate", max_length=16)
    (batch,) = features.spans("sentences")
    cut = (batch.rows == 2) & (batch.start > 200)
    assert cut.any()
    assert (batch.pieces[cut] == 0).all()
    assert (batch.matrix[cut] == 0).all()
    assert (batch.pieces[batch.start == 0] > 0).all()


def test_spans_of_a_kept_column(bert: Tiny, extract: Maker) -> None:
    text = "The river rose. They saw it in Ulm, naïve as ever."
    places = [[31, 34, "LOC"], [0, 9, "NAT"], [4, 14]]
    rows = [
        {"text": text, "entities": places},
        {"text": "No entity.", "entities": []},
        {"text": "None at all."},
        {"text": text, "entities": [{"start": 36, "end": 41}]},
    ]
    (batch,) = extract(bert, rows).spans("column:entities")
    assert list(zip(batch.rows, batch.strings, strict=True)) == [
        (0, "The river"),
        (0, "river rose"),
        (0, "Ulm"),
        (3, "naïve"),
    ]
    slow = slow_text(bert, text)
    for start, end, vector in zip(batch.start, batch.end, batch.matrix, strict=True):
        inside = [at for at, (a, b) in enumerate(slow.spans) if a < b and b > start and a < end]
        np.testing.assert_allclose(vector, slow.hidden[-1][inside].mean(axis=0), rtol=0, atol=3e-5)


def test_what_a_kept_column_may_not_list(bert: Tiny, extract: Maker) -> None:
    rows = [
        {"text": "Ann saw it.", "entities": [[0, 3]], "size": 3},
        {"text": "Bo too.", "entities": [[0, 30]], "size": 3},
    ]
    features = extract(bert, rows)
    with pytest.raises(FeatureSetError) as raised:
        list(features.spans("column:entities"))
    assert f"{features.folder}, row 1, column entities: the span [0, 30) is outside the text of 7" in str(raised.value)
    with pytest.raises(UsageError, match=r"no column 'entity' of texts was kept.*did you mean entities"):
        next(features.spans("column:entity"))
    with pytest.raises(UsageError, match="no column 'size' of texts was kept"):
        next(features.spans("column:size"))


def test_what_has_no_spans(bert: Tiny, extract: Maker) -> None:
    features = extract(bert)
    with pytest.raises(UsageError, match="spans='phrases': these spans are unknown"):
        next(features.spans("phrases"))
    with pytest.raises(NotDerivableError):
        next(features.spans("sentences", "layer1"))
    with pytest.raises(NotDerivableError, match="no vectors of tokens or words, and spans are pooled"):
        next(extract(bert, pooling="mean").spans("sentences"))
    with pytest.raises(NotDerivableError, match="vectors of some words only"):
        next(extract(bert, pooling="word", only="river").spans("sentences"))
    with pytest.raises(FeatureSetError, match="the set holds no texts, which are cut into spans"):
        next(extract(bert, keep_text=False).spans("sentences"))


def test_a_sentence_without_an_end_is_told_once(bert: Tiny, extract: Maker, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["The river.", "water " * 1500 + "and " * 500, "bank " * 2100]
    features = extract(bert, texts, layers="last")
    assert len(list(features.spans("paragraphs", "last"))) == 1
    assert not caplog.messages
    list(features.spans("sentences", "last"))
    assert caplog.messages == [
        f"{features.folder}, row 1: a sentence of 10,999 characters, so that hardly one ends there; "
        "spans='words:200' cuts texts without marks"
    ]
