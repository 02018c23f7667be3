"""A vocabulary learned from texts: its size, its form, and that it is the same each time."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from bertfeat.errors import CorpusError
from bertfeat.pretraining.vocabulary import SPECIAL, learn_vocabulary, write_vocabulary
from tests.support.tiny_tokenizers import SENTENCES

TEXTS = [*SENTENCES, *SENTENCES, "Café CAFÉ cafe", "Über den Fluß, über"]
PROGRAM = """
from bertfeat.pretraining.vocabulary import learn_vocabulary
from tests.support.tiny_tokenizers import SENTENCES
print(learn_vocabulary(lambda: [*SENTENCES, *SENTENCES], 250, cased=False).to_str())
"""


def test_a_vocabulary_has_the_size_that_was_asked_for() -> None:
    vocabulary = learn_vocabulary(lambda: TEXTS, 250, cased=False).get_vocab()
    assert len(vocabulary) == 250
    assert sorted(vocabulary.values()) == list(range(250))
    assert [vocabulary[token] for token in SPECIAL] == list(range(5))


@pytest.mark.slow
def test_equal_texts_give_equal_vocabularies_in_every_process() -> None:
    runs = [subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True) for _ in "ab"]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 1000


@pytest.mark.parametrize("size", [100, 120, 200])
def test_many_characters_leave_room(size: int) -> None:
    assert len(learn_vocabulary(lambda: TEXTS, size, cased=True).get_vocab()) == size


def test_capitals_and_accents() -> None:
    cased, uncased = (learn_vocabulary(lambda: TEXTS, 250, cased=cased) for cased in (True, False))
    assert uncased.encode("CAFÉ").tokens == uncased.encode("cafe").tokens
    assert cased.encode("CAFÉ").tokens != cased.encode("cafe").tokens
    assert uncased.encode("the river").tokens[0] == "[CLS]"


def test_more_pieces_than_the_text_gives() -> None:
    most = len(learn_vocabulary(lambda: TEXTS, 30_000, cased=False).get_vocab())
    assert 5 < most < 1000
    assert (
        learn_vocabulary(lambda: TEXTS, most, cased=False).to_str()
        == learn_vocabulary(lambda: TEXTS, 30_000, cased=False).to_str()
    )


@pytest.mark.slow
def test_endless_words_teach_nothing() -> None:
    """WordPiece takes a word of more than 100 characters for unknown, so a vocabulary without them is as good."""
    draw = random.Random(1)
    endless = ["".join(draw.choices("abcdefghijklmnop", k=length)) for length in (101, 200_000)]
    texts = [f"{text} {endless[at % 2]}." for at, text in enumerate(TEXTS)]
    without = [f"{text} ." for text in TEXTS]
    assert (
        learn_vocabulary(lambda: texts, 250, cased=False).to_str()
        == learn_vocabulary(lambda: without, 250, cased=False).to_str()
    )
    kept = learn_vocabulary(lambda: [*without, "ab" * 50, "ab" * 50], 250, cased=False)
    assert kept.get_vocab().keys() - learn_vocabulary(lambda: without, 250, cased=False).get_vocab().keys()


@pytest.mark.parametrize("texts", [[], ["", " \t "]])
def test_texts_without_a_word(texts: list[str]) -> None:
    with pytest.raises(CorpusError, match="the corpus is empty: none of its rows has a word"):
        learn_vocabulary(lambda: texts, 30_000, cased=False)


@pytest.mark.parametrize("cased", [True, False])
def test_transformers_reads_it_alike(tmp_path: Path, cased: bool) -> None:
    learned = learn_vocabulary(lambda: TEXTS, 250, cased=cased)
    write_vocabulary(tmp_path, learned, cased=cased, positions=64)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert loaded(text)["input_ids"] == learned.encode(text).ids
    pair = loaded("The bank", "a river")
    assert pair["token_type_ids"] == learned.encode("The bank", "a river").type_ids
    assert (loaded.model_max_length, loaded.mask_token_id) == (64, 4)
    lines = (tmp_path / "vocab.txt").read_text("utf-8").splitlines()
    assert {piece: number for number, piece in enumerate(lines)} == learned.get_vocab()
