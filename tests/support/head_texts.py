"""Texts for heads to learn from: what is to be predicted follows from one word."""

import random
from dataclasses import replace

from bertfeat.heads.gold import Gold, GoldAnswer
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.settings import Outputs
from bertfeat.heads.texts import HeadTexts

WORDS = ("bank", "the", "unbelievable", "walked", "to", "Straße", "mill", ".", "은행에서", "didn't")
LABELS = Outputs(("money", "river"))
CASES = ("labels", "pairs", "numbers", "answers", "choices")


def words(chance: random.Random, least: int, most: int) -> list[str]:
    return [chance.choice(WORDS) for _ in range(chance.randint(least, most))]


def put(chance: random.Random, into: list[str], word: str) -> str:
    into.insert(chance.randint(0, len(into)), word)
    return " ".join(into)


def head_texts(kind: HeadKind, seconds: list[tuple[str, ...]], firsts: list[str], gold: list[Gold]) -> HeadTexts:
    return HeadTexts(kind, tuple(f"id{n}" for n in range(len(firsts))), tuple(firsts), tuple(seconds), tuple(gold))


def labelled(count: int, seed: int, *, pairs: bool = False, most: int = 6) -> HeadTexts:
    """Texts whose label is a word of theirs, or of the second text."""
    chance = random.Random(seed)
    gold: list[Gold] = [chance.choice(LABELS.labels) for _ in range(count)]
    made = [put(chance, words(chance, 0, most), str(label)) for label in gold]
    if not pairs:
        return head_texts(HeadKind.CLASSIFY, [()] * count, made, gold)
    return head_texts(HeadKind.CLASSIFY, [(text,) for text in made], [chance.choice(WORDS) for _ in gold], gold)


def numbered(count: int, seed: int) -> HeadTexts:
    """Texts with a number that a word of theirs decides."""
    given = labelled(count, seed)
    return replace(given, gold=tuple(1000.0 + 50.0 * (label == "river") for label in given.gold))


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
    return head_texts(HeadKind.ANSWER, passages, [" ".join(words(chance, 1, 3)) for _ in range(count)], gold)


def choosable(count: int, seed: int, *, most: int = 4) -> HeadTexts:
    """Questions with three choices, of which the right one has the river."""
    chance = random.Random(seed)
    right = [chance.randrange(3) for _ in range(count)]
    choices = [
        tuple(put(chance, words(chance, 1, most), "river" if n == number else "money") for n in range(3))
        for number in right
    ]
    return head_texts(HeadKind.CHOOSE, list(choices), [" ".join(words(chance, 1, most)) for _ in right], list(right))


def made_texts(case: str, count: int, seed: int) -> HeadTexts:
    makers = {"labels": labelled, "numbers": numbered, "answers": asked, "choices": choosable}
    return labelled(count, seed, pairs=True) if case == "pairs" else makers[case](count, seed)


def long_texts(case: str) -> HeadTexts:
    """Texts that are longer than the model reads at once, and one that is not."""
    makers = {"answers": asked, "choices": choosable}
    if case in makers:
        return makers[case](12, 9, most=150)
    return labelled(12, 9, pairs=case == "pairs", most=150)


def outputs_of(case: str) -> Outputs:
    return {"labels": LABELS, "pairs": LABELS, "numbers": Outputs((), 1025.0, 25.0)}.get(case, Outputs())
