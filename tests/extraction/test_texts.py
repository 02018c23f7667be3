"""What encode() is given: texts in whatever holds them in order, and nothing that only looks like it."""

import io
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from datasets import Dataset

from bertfeat.core.corpus import Document
from bertfeat.core.extraction import Extractor
from bertfeat.core.extraction.sentence_transformers import extractor as module
from bertfeat.errors import UsageError
from tests.support.runs import extractor
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny


def one(bert: Tiny, **settings: Any) -> Extractor:
    return extractor(bert, **{"layers": "last"} | settings)


@pytest.mark.parametrize("wrong", [[1], [None], [["a", "b"]], [b"a"]])
def test_what_is_no_text(bert: Tiny, wrong: Any) -> None:
    for call in (one(bert).encode, one(bert).features):
        with pytest.raises(UsageError, match="item 1"):
            call(wrong)


@pytest.mark.parametrize(
    "give",
    [
        tuple,
        iter,
        np.array,
        lambda texts: np.array(texts, dtype=object),
        lambda texts: np.array(texts, dtype=np.dtypes.StringDType()),
        pd.Series,
        lambda texts: pd.Series(texts, index=[9, 3, 5], dtype="category"),
        pd.Index,
        pl.Series,
        pa.array,
        lambda texts: pa.chunked_array([texts]),
        lambda texts: Dataset.from_dict({"text": texts})["text"],
        lambda texts: dict.fromkeys(texts).keys(),
        lambda texts: (text for text in texts),
        lambda texts: io.StringIO("\n".join(texts)),
    ],
)
def test_texts_in_anything_that_holds_them_in_order(bert: Tiny, give: Any) -> None:
    texts = ["a bank", "은행", "The river."]
    made = one(bert)
    assert np.array_equal(made.encode(give(texts)), made.encode(texts))


def test_a_single_text_of_numpy(bert: Tiny) -> None:
    for text in (np.str_("a bank"), np.array("a bank")):
        assert np.array_equal(one(bert).encode(text), one(bert).encode("a bank"))
    assert one(bert).encode(np.array([])).shape == (0, 32)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"text": "a"}, "a mapping .* keys"),
        (UserDict(text="a"), "a mapping .* keys"),
        ({"a", "b"}, "no order"),
        (frozenset("ab"), "no order"),
        (pd.DataFrame({"text": ["a"]}), r"a table \(DataFrame of shape \(1, 1\)\)"),
        (pl.DataFrame({"text": ["a"]}), "one column"),
        (pa.table({"text": ["a"]}), "one column"),
        (Dataset.from_dict({"text": ["a"]}), "one column"),
        (np.array([["a", "b"]]), r"shape \(1, 2\)"),
        (torch.zeros(2, 3), "one column"),
        (np.arange(3), "ndarray of int64"),
        (np.zeros(3), "holds no texts"),
        (np.array([b"a"]), "holds no texts"),
        (pd.Series([1, 2]), "holds no texts"),
        (torch.arange(3), "item 1 is of type Tensor"),
        (b"a bank", "decode"),
        (bytearray(b"a"), "decode"),
        (3, "one int"),
        (2.5, "one float"),
        (None, "needs texts"),
        (Path("corpus.txt"), "one PosixPath"),
        (Document(0, "0", "a"), "one Document"),
        (["a", None], "item 2 is missing"),
        (pd.Series(["a", None]), "item 2 is missing"),
        (["a", float("nan")], "item 2 is missing"),
        (["a", pd.NA], "item 2 is missing"),
        ([101, 2023], "item 1 is of type int"),
        ([b"a"], "decoded"),
        ([["a", "b"]], "item 1 is of type list"),
        ([[["a"]]], "item 1 is of type list"),
        ([("a", "b", "c")], "item 1 is of type tuple"),
        (["a", ("b", "c")], "item 1"),
    ],
)
def test_what_holds_no_texts_in_order(bert: Tiny, wrong: Any, told: str) -> None:
    """Above all: no keys and no column names are embedded in place of texts."""
    for call in (one(bert).encode, one(bert).encode_query):
        with pytest.raises(UsageError, match=told):
            call(wrong)
    if wrong is not None:
        with pytest.raises(UsageError, match=told):
            one(bert).features(wrong)


def test_items_are_numbered_over_all_texts(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    with pytest.raises(UsageError, match="item 8 is"):
        one(bert).encode([*TEXTS, 8])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="first: row 7 "):
        one(bert, long="error").encode([*TEXTS, LONG_TEXT])


def test_encode_without_texts(bert: Tiny) -> None:
    with pytest.raises(UsageError, match="adapters"):
        one(bert).encode()
