"""Which feature sets share an index: those whose vectors mean the same, at building and at appending alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bertfeat.errors import IndexFolderError
from bertfeat.search import VectorIndex, build_index, update_index
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import RECORD

SETTINGS: Mapping[str, Any] = {
    "prompt": None,
    "document_context": False,
    "long": "window",
    "max_length": 512,
    "special_tokens": True,
    "subword": "first",
    "precision": "fp32",
    "dtype": "float32",
    "batch_tokens": 4096,
    "numerics": 2,
}
# what is other in the second set, the columns that it concerns, and what the message says
REFUSED = [
    ("document_context", True, ("mean", "token", "word"), "document_context off and on"),
    ("prompt", "query: ", ("mean", "token", "word"), "prompt none and 'query: '"),
    ("long", "truncate", ("mean", "token", "word"), "long 'window' and 'truncate'"),
    ("max_length", 128, ("mean", "token", "word"), "max_length 512 and 128"),
    ("special_tokens", False, ("mean", "token"), "special_tokens on and off"),
    ("subword", "mean", ("word",), "subword 'first' and 'mean'"),
]
TAKEN = [
    ("precision", "bf16", ("mean", "word")),
    ("dtype", "float16", ("mean", "word")),
    ("batch_tokens", 64, ("mean",)),
    ("numerics", 1, ("mean",)),
    ("special_tokens", False, ("word", "cls")),
    ("subword", "mean", ("mean", "token", "cls")),
]


def two_sets(folder: Path, name: str, value: object) -> tuple[Path, Path]:
    made = []
    for at, settings in enumerate(({**SETTINGS}, {**SETTINGS, name: value})):
        toy = toy_part(poolings=("mean", "cls", "token", "word"), settings=settings, ids=f"{at}:")
        made.append(toy_set(folder / f"{at}.features", toy))
    return made[0], made[1]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "value", "pooling", "message"),
    [(name, value, pooling, message) for name, value, poolings, message in REFUSED for pooling in poolings],
)
def test_vectors_of_other_meaning_are_refused(
    name: str, value: object, pooling: str, message: str, tmp_path: Path
) -> None:
    one, other = two_sets(tmp_path, name, value)
    with pytest.raises(IndexFolderError, match=rf"1\.features cannot share an index with .*extracted with {message};"):
        build_index([one, other], tmp_path / "toy.index", f"concat4_{pooling}")
    build_index(one, tmp_path / "toy.index", f"concat4_{pooling}")
    before = (tmp_path / "toy.index" / RECORD).read_bytes()
    with pytest.raises(IndexFolderError, match=rf"1\.features cannot be in .*extracted with {message};"):
        update_index(tmp_path / "toy.index", [other])
    assert (tmp_path / "toy.index" / RECORD).read_bytes() == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "value", "pooling"), [(name, value, pooling) for name, value, poolings in TAKEN for pooling in poolings]
)
def test_vectors_that_differ_in_digits_only_share_an_index(
    name: str, value: object, pooling: str, tmp_path: Path
) -> None:
    one, other = two_sets(tmp_path, name, value)
    build_index([one, other], tmp_path / "toy.index", f"concat4_{pooling}")
    build_index(one, tmp_path / "other.index", f"concat4_{pooling}")
    update_index(tmp_path / "other.index", [other])
    assert len(VectorIndex(tmp_path / "toy.index")) == len(VectorIndex(tmp_path / "other.index"))


def test_everything_that_differs_is_named(tmp_path: Path) -> None:
    one, _ = two_sets(tmp_path, "long", "window")
    toy = toy_part(poolings=("mean",), settings={**SETTINGS, "long": "truncate", "max_length": 64, "prompt": "a"})
    with pytest.raises(IndexFolderError, match=r"prompt none and 'a', long 'window' and 'truncate', max_length 512 an"):
        build_index([one, toy_set(tmp_path / "other.features", toy)], tmp_path / "toy.index", "concat4_mean")
