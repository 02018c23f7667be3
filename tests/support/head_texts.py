"""Texts for heads to learn from: what is to be predicted follows from one word."""

import random
from dataclasses import replace

from bertfeat.learning import Outputs, Task
from bertfeat.learning.tables import Gold, GoldAnswer
from bertfeat.learning.task import HeadTexts
from bertfeat.learning.tasks import TASKS

WORDS = ("bank", "the", "unbelievable", "walked", "to", "Straße", "mill", ".", "은행에서", "didn't")
LABELS = Outputs(("money", "river"))
CASES = ("labels", "pairs", "multi-labels", "numbers", "answers", "choices")


def words(chance: random.Random, least: int, most: int) -> list[str]:
    return [chance.choice(WORDS) for _ in range(chance.randint(least, most))]


def put(chance: random.Random, into: list[str], word: str) -> str:
    into.insert(chance.randint(0, len(into)), word)
    return " ".join(into)


def head_texts(seconds: list[tuple[str, ...]], firsts: list[str], gold: list[Gold]) -> HeadTexts:
    return HeadTexts(tuple(f"id{n}" for n in range(len(firsts))), tuple(firsts), tuple(seconds), tuple(gold))


def labeled(count: int, seed: int, *, pairs: bool = False, most: int = 6) -> HeadTexts:
    """Texts whose label is a word of theirs, or of the second text."""
    chance = random.Random(seed)
    gold: list[Gold] = [chance.choice(LABELS.labels) for _ in range(count)]
    made = [put(chance, words(chance, 0, most), str(label)) for label in gold]
    if not pairs:
        return head_texts([()] * count, made, gold)
    return head_texts([(text,) for text in made], [chance.choice(WORDS) for _ in gold], gold)


def numbered(count: int, seed: int, *, most: int = 6) -> HeadTexts:
    """Texts with a number that a word of theirs decides."""
    given = labeled(count, seed, most=most)
    return replace(given, gold=tuple(1000.0 + 50.0 * (label == "river") for label in given.gold))


def many_labeled(count: int, seed: int, *, most: int = 6) -> HeadTexts:
    """Texts that have each label whose word is one of theirs: both, one or none."""
    given = labeled(count, seed, most=most)
    texts = [f"{text} {'money river' * (number % 3 == 0)}" for number, text in enumerate(given.texts)]
    texts[1::3] = ["the mill ."] * len(texts[1::3])
    gold = tuple(tuple(label for label in LABELS.labels if label in text.split()) for text in texts)
    return replace(given, texts=tuple(texts), gold=gold)


def asked(count: int, seed: int, *, most: int = 6) -> HeadTexts:
    """Questions whose answer is the only river of the passage; one in five has none."""
    chance = random.Random(seed)
    passages: list[tuple[str, ...]] = []
    gold: list[Gold] = []
    for number in range(count):
        filler = words(chance, 4, most)
        passage = put(chance, filler, "river") if number % 5 else " ".join(filler)
        passages.append((passage,))
        gold.append((GoldAnswer("river", passage.index("river")),) if number % 5 else ())
    return head_texts(passages, [" ".join(words(chance, 1, 3)) for _ in range(count)], gold)


def choosable(count: int, seed: int, *, most: int = 4) -> HeadTexts:
    """Questions with three choices, of which the right one has the river."""
    chance = random.Random(seed)
    right = [chance.randrange(3) for _ in range(count)]
    choices = [
        tuple(put(chance, words(chance, 1, most), "river" if n == number else "money") for n in range(3))
        for number in right
    ]
    return head_texts(list(choices), [" ".join(words(chance, 1, most)) for _ in right], list(right))


def made_texts(case: str, count: int, seed: int) -> HeadTexts:
    makers = {
        "labels": labeled,
        "multi-labels": many_labeled,
        "numbers": numbered,
        "answers": asked,
        "choices": choosable,
    }
    return labeled(count, seed, pairs=True) if case == "pairs" else makers[case](count, seed)


def long_texts(case: str) -> HeadTexts:
    """Texts that are longer than the model reads at once, and one that is not."""
    makers = {"answers": asked, "choices": choosable, "multi-labels": many_labeled}
    if case in makers:
        return makers[case](12, 9, most=150)
    if case == "numbers":
        return numbered(12, 9, most=150)
    return labeled(12, 9, pairs=case == "pairs", most=150)


def task_of_case(case: str) -> Task:
    """The task of a case, with what it learned."""
    outputs = {"labels": LABELS, "pairs": LABELS, "multi-labels": LABELS, "numbers": Outputs((), 1025.0, 25.0)}
    return TASKS["labels" if case == "pairs" else case].with_outputs(outputs.get(case, Outputs()))
