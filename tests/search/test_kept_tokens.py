"""Token vectors that an index keeps: written alike by every way, and nothing wrong in them goes unnoticed."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, NotDerivableError
from bertfeat.io import to_plain
from bertfeat.search import (
    BuildOptions,
    Index,
    VectorIndex,
    build_index,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.search.reranking import kept_tokens
from bertfeat.search.reranking.kept_tokens import encode_directions
from bertfeat.search.settings import (
    TOKEN_ID_OFFSETS_NAME,
    TOKEN_IDS_NAME,
    TOKEN_OFFSETS_NAME,
    TOKENS_NAME,
    VOCABULARY_NAME,
)
from tests.search.test_verify import edit_store, rewritten
from tests.support.features_toy import toy_part, toy_parts, toy_set
from tests.support.index_toy import current_files, files_of, version_of

ARRAYS = (TOKENS_NAME, TOKEN_OFFSETS_NAME, TOKEN_IDS_NAME, TOKEN_ID_OFFSETS_NAME)
FILES = (*ARRAYS, VOCABULARY_NAME)


def kept(**options: Any) -> BuildOptions:
    return BuildOptions(evaluate=False, with_tokens="concat4_token", **options)


@pytest.fixture(params=[1, 2], ids=["all", "pooled"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    toy_set(tmp_path / "toy.features", *toy_parts())
    options = kept(pool_tokens=request.param)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", "concat4_mean", options=options)
    return tmp_path / "toy.index"


def like(folder: Path) -> BuildOptions:
    """The options with which an index was built."""
    tokens = VectorIndex(folder).settings.tokens
    assert tokens is not None
    return kept(pool_tokens=tokens.pooled)


def token_files(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in current_files(folder).items() if name in FILES}


# ── the same files, whoever writes them ─────────────────────────────────────────────────────────────────────


def other_set(folder: Path) -> Path:
    """A set whose ids are not in the toy's."""
    toy = toy_part(0, 0, 9)
    ids = [f"other {name}" for name in toy.content.ids]
    toy_set(folder, replace(toy, content=replace(toy.content, ids=ids)))
    return folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", [1, 1 << 24])
def test_an_appended_set_gives_what_a_build_of_both_gives(
    folder: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_tokens, "_BLOCK_BYTES", block)  # a document at a time, or all
    more, both = other_set(folder.with_name("more.features")), folder.with_name("both.index")
    build_index([folder.with_name("toy.features"), more], both, "concat4_mean", options=like(folder))
    update_index(folder, more)
    assert token_files(folder) == token_files(both)
    assert verify_index(folder).settings.tokens == VectorIndex(both).settings.tokens


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", [1, 1 << 24])
def test_what_is_removed_leaves_no_trace(folder: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_tokens, "_BLOCK_BYTES", block)
    before = token_files(folder)
    update_index(folder, other_set(folder.with_name("more.features")))
    remove_documents(folder, [f"other {number}" for number in range(1, 10)])
    assert token_files(folder) == before
    remove_documents(folder, [str(number) for number in range(1, 30)])
    assert verify_index(folder).documents == 0
    store = VectorIndex(folder).tokens
    assert store is not None
    assert (len(store.vectors.rows), store.vectors.offsets.tolist(), store.vocabulary.strings) == (0, [0], [])


def test_what_was_opened_stays_when_the_index_is_replaced(folder: Path) -> None:
    wanted, opened = VectorIndex(folder).tokens, VectorIndex(folder).tokens
    assert wanted is not None
    assert opened is not None
    strings = wanted.vocabulary.strings
    remove_documents(folder, ["1"])
    assert opened.vocabulary.strings == strings  # read for the first time


# ── directions ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_direction_keeps_its_cosines() -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 32)).astype(np.float32) * 1e4
    vectors[7] = 0
    codes = encode_directions(vectors)
    assert codes.dtype == np.int8
    assert not codes[7].any()
    read = codes.astype(np.float64)
    for true, stored in zip(np.delete(vectors, 7, 0), np.delete(read, 7, 0), strict=True):
        true, stored = true / np.abs(true).max(), stored / np.abs(stored).max()
        np.testing.assert_allclose(stored, true, atol=0.6 / 127)
        assert true @ stored / np.linalg.norm(true) / np.linalg.norm(stored) > 1 - 1e-4


def test_no_tokens_and_no_numbers() -> None:
    assert encode_directions(np.empty((0, 4), np.float32)).shape == (0, 4)
    with pytest.raises(ValueError, match="not finite"):
        encode_directions(np.array([[1, np.nan]], np.float32))


# ── what cannot be kept ─────────────────────────────────────────────────────────────────────────────────────


def test_a_set_without_such_tokens_is_refused_and_nothing_changes(folder: Path) -> None:
    before = files_of(folder)
    toy = toy_part(0, 0, 4, poolings=("mean", "word"))
    with pytest.raises(NotDerivableError, match="no column with token pooling is stored"):
        update_index(folder, toy_set(folder.with_name("words.features"), toy))
    with pytest.raises(IndexFolderError, match=r"it keeps no texts, and the index keeps tokens"):
        update_index(folder, toy_set(folder.with_name("bare.features"), toy_part(0, 0, 4, text=False, ids="b")))
    assert files_of(folder) == before


def test_options_of_a_build(tmp_path: Path) -> None:
    toy_set(tmp_path / "toy.features", *toy_parts())
    options = BuildOptions(with_tokens="layer0_token")
    with pytest.raises(NotDerivableError, match="needs layer 0"):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index", "concat4_mean", options=options)
    assert not (tmp_path / "toy.index").exists()


# ── damage that digests do not tell: what a bug of ours would leave ─────────────────────────────────────────


def edit_array(name: str, change: Callable[[NDArray[Any]], NDArray[Any] | None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = version_of(folder) / name
        array = np.load(path)
        np.save(path, array if (new := change(array)) is None else new)

    return edit


def swap(array: NDArray[Any]) -> None:
    array[[1, 2]] = array[[2, 1]]


def put(at: int, value: int) -> Callable[[NDArray[Any]], None]:
    def change(array: NDArray[Any]) -> None:
        array[at] = value

    return change


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [TOKEN_OFFSETS_NAME, TOKEN_ID_OFFSETS_NAME])
@pytest.mark.parametrize("edit", [swap, put(-1, 1)])
def test_documents_that_do_not_follow_one_another_are_told(
    edit: Callable[[NDArray[Any]], None], name: str, folder: Path, tmp_path: Path
) -> None:
    edit_array(name, edit)(folder)
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=rf"{name}: cannot be read \(documents do not follow"):
        update_index(folder, other_set(tmp_path / "more.features"))


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (
            lambda folder: edit_store(folder, VOCABULARY_NAME, token=lambda names: [names[1], *names[1:]]),
            r"vocabulary\.arrow: cannot be read \(a token is in it twice",
        ),
        (
            lambda folder: edit_store(folder, VOCABULARY_NAME, documents=lambda counts: [-1, *counts[1:]]),
            r"vocabulary\.arrow: cannot be read \('documents' -1 is in it",
        ),
    ],
)
def test_a_vocabulary_that_is_none_is_told(edit: Callable[[Path], None], problem: str, folder: Path) -> None:
    edit(folder)
    rewritten(folder)
    tokens = VectorIndex(folder).tokens
    assert tokens is not None
    with pytest.raises(IndexFolderError, match=problem):
        _ = tokens.vocabulary


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("change", [lambda array: array[:-1], lambda array: array.astype(np.float64)])
def test_another_shape_or_type_is_told_at_opening(
    name: str, change: Callable[[NDArray[Any]], NDArray[Any]], folder: Path
) -> None:
    edit_array(name, change)(folder)
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=rf"{name}: cannot be read \(.*is expected\)"):
        VectorIndex(folder)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_or_missing_is_told(name: str, folder: Path) -> None:
    path = version_of(folder) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IndexFolderError, match=rf"{name} has .* it was cut off or replaced"):
        VectorIndex(folder)
    path.unlink()
    with pytest.raises(IndexFolderError, match=rf"{name} is missing"):
        VectorIndex(folder)


def test_a_header_that_promises_more_than_there_is(folder: Path) -> None:
    path = version_of(folder) / TOKENS_NAME
    path.write_bytes(path.read_bytes()[:200])
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=r"tokens\.npy: cannot be read"):
        VectorIndex(folder)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 60000))
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=r"tokens\.npy: cannot be read"):
        VectorIndex(folder)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "change",
    [
        lambda tokens: {**to_plain(tokens), "column": {**to_plain(tokens.column), "dtype": "float16"}},
        lambda tokens: {**to_plain(tokens), "column": {**to_plain(tokens.column), "dtype": "O"}},
        lambda tokens: replace(tokens, column=replace(tokens.column, width=8)),
        lambda tokens: replace(tokens, count=2**40),
        lambda tokens: replace(tokens, count=0),
        lambda tokens: replace(tokens, distinct=0),
        lambda tokens: replace(tokens, distinct=None),
        lambda tokens: replace(tokens, pooled=0),
    ],
)
def test_settings_that_do_not_fit_are_told(change: Callable[[Any], Any], folder: Path) -> None:
    rewritten(folder, tokens=change(VectorIndex(folder).settings.tokens))
    with pytest.raises(IndexFolderError, match="cannot be read"):
        Index(folder)
