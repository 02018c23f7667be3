"""Pieces of two tokenizers matched by their characters, against a search by hand."""

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from bertfeat.core.features import PiecePositions
from bertfeat.study.matched_items import match_characters, without_blanks

TEXTS = ("Hello world  two", "  a\u3000b\n", "", "🙂 x", "\0 y")
PAIRS = ("one", " two three", "x  y", "", " ")


def cut(pre_tokenizer: pre_tokenizers.PreTokenizer) -> PiecePositions:
    """The pieces of all texts and pairs as a tokenizer that takes every word whole gives them."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizer
    spans, segments, counts = [], [], []
    for each in zip(TEXTS, PAIRS, strict=True):
        found = [tokenizer.encode(text, add_special_tokens=False).offsets for text in each]
        spans += [span for offsets in found for span in offsets]
        segments += [number for number, offsets in enumerate(found) for _ in offsets]
        counts.append(sum(map(len, found)))
    flat = np.array(spans, np.int32)
    offsets = np.cumsum([0, *counts], dtype=np.int64)
    return PiecePositions(offsets, flat[:, 0], flat[:, 1], np.array(segments, np.int8), None)


def characters(positions: PiecePositions, numbers: np.ndarray) -> list[tuple[int, int, str]]:
    """Document, segment and characters of those pieces."""
    assert positions.segment is not None
    told = []
    for number in numbers.tolist():
        owner, segment = int(positions.owners[number]), int(positions.segment[number])
        text = (TEXTS, PAIRS)[segment][owner]
        told.append((owner, segment, text[positions.start[number] : positions.end[number]]))
    return told


@pytest.fixture
def batch() -> pa.RecordBatch:
    return pa.record_batch({"text": list(TEXTS), "pair": list(PAIRS)})


def test_white_space_before_words_does_not_matter(batch: pa.RecordBatch) -> None:
    plain, spaced = cut(pre_tokenizers.WhitespaceSplit()), cut(pre_tokenizers.Metaspace(prepend_scheme="never"))
    wanted = [
        (at, segment, word)
        for at, texts in enumerate(zip(TEXTS, PAIRS, strict=True))
        for segment, text in enumerate(texts)
        for word in text.split(" ")
        if word.strip() and word == word.strip() and "\u3000" not in word
    ]
    few = match_characters([plain, spaced])
    assert len(few[0]) < len(wanted)
    trimmed = [without_blanks(batch, each) for each in (plain, spaced)]
    found = match_characters(trimmed)
    for positions, numbers in zip(trimmed, found, strict=True):
        assert characters(positions, numbers) == wanted
    assert np.array_equal(trimmed[0].start, plain.start)
    blank = [text.strip() == "" for _, _, text in characters(spaced, np.arange(len(spaced.start)))]
    assert (trimmed[1].usable == ~np.array(blank)).all()


def test_without_texts_tokens_stay_as_they_are(batch: pa.RecordBatch) -> None:
    spaced = cut(pre_tokenizers.Metaspace(prepend_scheme="never"))
    assert np.array_equal(without_blanks(batch.select([]), spaced).start, spaced.start)
