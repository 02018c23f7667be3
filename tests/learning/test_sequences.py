"""Texts as a whole model reads them: as Hugging Face's tokenizers cut them, and windows that hold what is learned."""

import random
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from bertfeat.core.models import Model
from bertfeat.learning.sequences import Sequencer
from bertfeat.learning.tables import Gold, GoldAnswer
from bertfeat.learning.tasks import TASKS
from tests.support.head_texts import asked, head_texts, words
from tests.support.run_squad import most_context
from tests.support.tiny_models import POSITIONS, Tiny, build


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "xlm-roberta", "albert"])
def test_sequences_are_hugging_faces(tiny: Any, family: str) -> None:
    chance = random.Random(4)
    pairs = [(" ".join(words(chance, 0, 25)), (" ".join(words(chance, 1, 25)),)) for _ in range(60)]
    pairs += [(text, (text,)) for text, _ in pairs if len(text) > 120]
    given = head_texts([other for _, other in pairs], [text for text, _ in pairs], [])
    read = Sequencer(tiny(family).model, TASKS["labels"].longest).read_texts(given)
    reference = transformers.AutoTokenizer.from_pretrained(tiny(family).folder)
    whole = 0
    for (text, other), example in zip(pairs, read.examples, strict=True):
        expected = reference(text, other[0], truncation="longest_first", max_length=POSITIONS)
        assert example["input_ids"].tolist() == expected["input_ids"]
        assert example["token_type_ids"].tolist() == expected["token_type_ids"]
        whole += len(reference(text, other[0])["input_ids"]) <= POSITIONS
    assert 0 < read.truncated == len(pairs) - whole < len(pairs)


@pytest.mark.parametrize("positions", [POSITIONS, 512])
def test_windows_are_those_of_run_squad(tmp_path: Path, positions: int) -> None:
    model = Model("bert", build("bert", tmp_path / "bert", max_position_embeddings=positions))
    reference = transformers.AutoTokenizer.from_pretrained(model.folder)
    size = min(positions, 384)
    place = 2 + len(reference("the mill", add_special_tokens=False)["input_ids"])
    capacity = size - place - 1
    passage = " ".join(words(random.Random(2), 900, 900))
    step = min(128, capacity // 2)
    # a last window that is much shorter than the others, of which run_squad.py takes less
    while (len(reference(passage, add_special_tokens=False)["input_ids"]) - capacity) % step != 1:
        passage = passage.rsplit(" ", 1)[0]
    spans = [found.span(1) for found in re.finditer(r"(?=\b(\w+ \w+ \w+)\b)", passage)]
    spans = spans[-60:]
    answers: list[Gold] = [(GoldAnswer(passage[first:last], first),) for first, last in spans]
    given = head_texts([(passage,)] * len(answers), ["the mill"] * len(answers), answers)
    read = Sequencer(model, TASKS["answers"].longest).read_passages(given)
    expected = reference(
        "the mill",
        passage,
        truncation="only_second",
        max_length=size,
        stride=capacity - step,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    offsets = [expected["offset_mapping"][n][place:-1] for n in range(len(expected["input_ids"]))]
    assert len(offsets) > 2
    for at, (example, window) in enumerate(zip(TASKS["answers"].with_targets(given, read), read.windows, strict=True)):
        number, (first, last) = at % len(offsets), spans[window.example]
        assert example["input_ids"].tolist() == expected["input_ids"][number]
        assert example["token_type_ids"].tolist() == expected["token_type_ids"][number]
        if at < len(offsets):
            assert window.own.tolist() == [most_context(offsets, token) == number for token in offsets[number]]
        begins = [place for place, token in enumerate(offsets[number]) if token[0] == first]
        ends = [place for place, token in enumerate(offsets[number]) if token[1] == last]
        target = (begins[0] + window.place, ends[0] + window.place) if begins and ends else (0, 0)
        assert (int(example["start_positions"]), int(example["end_positions"])) == target


def test_answers_are_learned_in_the_windows_that_hold_them(bert: Tiny) -> None:
    given = asked(30, 2, most=120)
    read = Sequencer(bert.model, TASKS["answers"].longest).read_passages(given)
    examples = TASKS["answers"].with_targets(given, read)
    reference = transformers.AutoTokenizer.from_pretrained(bert.folder)
    held = 0
    for example, window in zip(examples, read.windows, strict=True):
        first, last = int(example["start_positions"]), int(example["end_positions"])
        ids = example["input_ids"].tolist()
        held += first > 0
        if first:
            assert reference.decode(ids[first : last + 1]) == "river"
        else:
            assert last == 0
            whole = str(reference.decode(ids[window.place :], skip_special_tokens=True))
            assert "river" not in whole.split() or not given.gold[window.example]
    numbers = [number for number, _ in groupby(window.example for window in read.windows)]
    assert numbers == list(range(30))
    assert len(read.windows) > 60
    assert held >= 24
    for _, group in groupby(read.windows, key=lambda window: window.example):
        windows = list(group)
        own = np.concatenate([window.begin + np.flatnonzero(window.own) for window in windows])
        assert sorted(own.tolist()) == list(range(len(windows[0].spans)))
