"""Tokenizers that do not belong to their model, or fail: refused when they are loaded, or told as the model's error."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.models import Model
from bertfeat.core.tokens import Tokenizer
from bertfeat.errors import ModelError
from tests.support.crafted import added_token, changed, template


def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(Model("x", folder))


def rebuilt(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    return changed(folder, "tokenizer.json", change)


def test_more_ids_than_embeddings(bert_folder: Path) -> None:
    size = len(json.loads((bert_folder / "tokenizer.json").read_text())["model"]["vocab"])
    changed(bert_folder, "config.json", lambda config: config.update(vocab_size=size))
    assert max(tokenizer(bert_folder)._vocabulary) == size - 1
    rebuilt(bert_folder, lambda made: made["added_tokens"].append(added_token("riverboat", size)))
    with pytest.raises(ModelError, match=rf"gives ids up to {size}, and the model has embeddings for {size} tokens"):
        tokenizer(bert_folder)


def test_special_tokens_without_embeddings(bert_folder: Path) -> None:
    rebuilt(bert_folder, lambda made: made.update(post_processor=template("[CLS]", cls=99_999)))
    with pytest.raises(ModelError, match="gives ids up to 99,999"):
        tokenizer(bert_folder)


def test_too_many_special_tokens(bert_folder: Path) -> None:
    rebuilt(bert_folder, lambda made: made.update(post_processor=template(*["[CLS]"] * 8)))
    with pytest.raises(ModelError, match="sets 8 special tokens around texts, and at most 7 are possible"):
        tokenizer(bert_folder)
    rebuilt(bert_folder, lambda made: made.update(post_processor=template(*["[CLS]"] * 7)))
    assert tokenizer(bert_folder).single.size == 7


def test_segments_beyond_what_a_byte_holds(bert_folder: Path) -> None:
    rebuilt(bert_folder, lambda made: made.update(post_processor=template("[CLS]", segment=200)))
    with pytest.raises(ModelError, match="of segment 200, and there are two"):
        tokenizer(bert_folder)


def test_a_tokenizer_that_panics(bert_folder: Path) -> None:
    rebuilt(bert_folder, lambda made: made.update(pre_tokenizer={"type": "FixedLength", "length": 0}))
    with pytest.raises(ModelError, match="its tokenizer fails: chunk size must be non-zero"):
        tokenizer(bert_folder)


@pytest.mark.parametrize("offsets", [True, False])
def test_a_tokenizer_that_fails_on_one_text(bert_folder: Path, offsets: bool) -> None:
    rebuilt(bert_folder, lambda made: made["model"].update(vocab={"a": 5, "[CLS]": 2, "[SEP]": 3}))
    made = tokenizer(bert_folder)
    assert made.pieces(["a"], offsets=offsets).ids.tolist() == [5]
    with pytest.raises(ModelError, match=r"its tokenizer fails: WordPiece error: Missing \[UNK\] token"):
        made.pieces(["b"], offsets=offsets)


@pytest.mark.parametrize("file", ["../tokenizer.json", "/etc/passwd", "a/../../b.json", "a\\b.json", "a\0b.json"])
def test_files_outside_of_the_folder(bert_folder: Path, file: str) -> None:
    changed(bert_folder, "tokenizer_config.json", lambda config: config.update(fast_tokenizer_files=[file]))
    with pytest.raises(ModelError, match="which is outside of the model's folder"):
        tokenizer(bert_folder)
