"""A vocabulary learnt from texts: its size, its form, and that it is the same each time."""

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
print(learn_vocabulary([*SENTENCES, *SENTENCES], 250, cased=False).to_str())
"""


def test_a_vocabulary_has_the_size_that_was_asked_for() -> None:
    vocabulary = learn_vocabulary(TEXTS, 250, cased=False).get_vocab()
    assert len(vocabulary) == 250
    assert sorted(vocabulary.values()) == list(range(250))
    assert [vocabulary[token] for token in SPECIAL] == list(range(5))


def test_equal_texts_give_equal_vocabularies_in_every_process() -> None:
    runs = [subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True) for _ in "ab"]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 1000


@pytest.mark.parametrize("size", [100, 120, 200])
def test_many_characters_leave_room(size: int) -> None:
    assert len(learn_vocabulary(TEXTS, size, cased=True).get_vocab()) == size


def test_capitals_and_accents() -> None:
    cased, uncased = (learn_vocabulary(TEXTS, 250, cased=cased) for cased in (True, False))
    assert uncased.encode("CAFÉ").tokens == uncased.encode("cafe").tokens
    assert cased.encode("CAFÉ").tokens != cased.encode("cafe").tokens
    assert uncased.encode("the river").tokens[0] == "[CLS]"


def test_more_pieces_than_the_text_gives() -> None:
    with pytest.raises(CorpusError, match=r"vocabulary of \d+ pieces, and 30,000 are asked for; give vocabulary=\d+"):
        learn_vocabulary(TEXTS, 30_000, cased=False)
    most = len(learn_vocabulary(TEXTS, 30_000, cased=False, at_most=True).get_vocab())
    assert len(learn_vocabulary(TEXTS, most, cased=False).get_vocab()) == most


@pytest.mark.parametrize("cased", [True, False])
def test_transformers_reads_it_alike(tmp_path: Path, cased: bool) -> None:
    learnt = learn_vocabulary(TEXTS, 250, cased=cased)
    write_vocabulary(tmp_path, learnt, cased=cased, positions=64)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert loaded(text)["input_ids"] == learnt.encode(text).ids
    pair = loaded("The bank", "a river")
    assert pair["token_type_ids"] == learnt.encode("The bank", "a river").type_ids
    assert (loaded.model_max_length, loaded.mask_token_id) == (64, 4)
    lines = (tmp_path / "vocab.txt").read_text("utf-8").splitlines()
    assert {piece: number for number, piece in enumerate(lines)} == learnt.get_vocab()
