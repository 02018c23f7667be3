"""TagScores against seqeval and scikit-learn."""

import random
from collections.abc import Callable

import pytest
from seqeval.metrics import accuracy_score, classification_report, f1_score
from seqeval.scheme import BILOU, IOB2, IOBES, Token
from sklearn.metrics import accuracy_score as plain_accuracy, confusion_matrix, precision_recall_fscore_support

from bertfeat.errors import CorpusError, UsageError
from bertfeat.learning import TagScores, TagSpan, score_tagger, score_tags, to_bio, to_iobes
from tests.learning.tags.test_schemes import REAL, bilou, bio, iob1, random_spans
from tests.test_house import loaded_by

# WNUT 2017's validation data begins so
GOLD = """O O O O O O O O O O O O O O O|B-location I-location I-location O B-location O O O|O O O O O O
B-person O O O B-group I-group O|B-product I-product O B-corporation"""
PREDICTED = """O O O O O O O O O O O O O O O|B-location I-location O O B-location O O O|O O B-person O O O
B-person I-person O O I-group I-group O|B-product I-product O B-location"""


def iobes(spans: list[TagSpan], length: int) -> list[str]:
    return to_iobes(bio(spans, length))


def bilou_of(spans: list[TagSpan], length: int) -> list[str]:
    return bilou(iobes(spans, length))


def sentences(text: str) -> list[list[str]]:
    return [line.split() for line in text.replace("\n", "|").split("|")]


def noisy(tags: list[str], known: list[str], chance: random.Random) -> list[str]:
    return [chance.choice(known) if chance.random() < 0.3 else tag for tag in tags]


def same_as_seqeval(scores: TagScores, gold: list[list[str]], predicted: list[list[str]]) -> None:
    report = classification_report(gold, predicted, output_dict=True, zero_division=0)
    found = {label: report.pop(label) for label in list(report) if not label.endswith(" avg")}
    assert list(scores.by_label) == sorted(found)
    for label, expected in found.items():
        mine = scores.by_label[label]
        assert (mine.precision, mine.recall, mine.f1, mine.gold) == pytest.approx(tuple(expected.values()))
    micro = report["micro avg"]
    assert (scores.precision, scores.recall, scores.f1, scores.gold) == pytest.approx(tuple(micro.values()))
    assert scores.value == scores.f1
    assert scores.macro_f1 == pytest.approx(report["macro avg"]["f1-score"])
    assert scores.is_spans


@pytest.mark.filterwarnings("ignore:.*seqeval.*")
@pytest.mark.parametrize("write", [bio, iob1])
@pytest.mark.parametrize("seed", range(10))
def test_random_tags_score_as_seqeval_says(write: Callable[[list[TagSpan], int], list[str]], seed: int) -> None:
    chance = random.Random(seed)
    gold = [write(random_spans(length, seed + length), length) for length in range(1, 30)]
    known = sorted({tag for tags in gold for tag in tags} | {"B-new", "I-new"})
    predicted = [noisy(tags, known, chance) for tags in gold]
    scores = score_tags(gold, predicted)
    same_as_seqeval(scores, gold, predicted)
    assert scores.accuracy == pytest.approx(accuracy_score(gold, predicted))


@pytest.mark.sampled(15)
@pytest.mark.filterwarnings("ignore:.*seqeval.*")
@pytest.mark.parametrize(("write", "scheme"), [(bio, IOB2), (iobes, IOBES), (bilou_of, BILOU)])
@pytest.mark.parametrize("seed", range(10))
def test_strict_scores_are_those_of_seqeval(
    write: Callable[[list[TagSpan], int], list[str]], scheme: type[Token], seed: int
) -> None:
    """With predicted tags of which a third are random, so that many spans break the rules."""
    chance = random.Random(seed)
    gold = [write(random_spans(length, seed + length), length) for length in range(1, 30)]
    known = sorted({tag for tags in gold for tag in tags})
    predicted = [noisy(tags, known, chance) for tags in gold]
    scores = score_tags(gold, predicted)
    assert scores.strict_f1 == pytest.approx(f1_score(gold, predicted, mode="strict", scheme=scheme))
    assert scores.strict_f1 != scores.f1
    assert score_tags(gold, gold).strict_f1 == 1.0


def test_strict_scores_of_iob1() -> None:
    """A span begins with I, and with B where it follows one of its own label; or each side is in its own scheme."""
    gold = [["I-A", "B-A", "I-B", "O", "I-A"], REAL]
    assert score_tags(gold, gold).strict_f1 == 1.0
    assert score_tags(gold, [to_bio(tags) for tags in gold]).strict_f1 == 1.0


def test_spans_that_never_begin_are_none() -> None:
    gold, predicted = [["B-A", "I-A", "O"]], [["I-A", "I-A", "O"]]
    scores = score_tags(gold, predicted)
    assert (scores.f1, scores.strict_f1) == (1.0, 0.0)
    assert f1_score(gold, predicted, mode="strict", scheme=IOB2, zero_division=0) == 0.0
    assert score_tags([["B-A", "E-A", "O"]], predicted).strict_f1 == 0.0


def test_real_tags_score_as_seqeval_says() -> None:
    gold, predicted = sentences(GOLD), sentences(PREDICTED)
    scores = score_tags(gold, predicted)
    same_as_seqeval(scores, gold, predicted)
    assert scores.accuracy == pytest.approx(accuracy_score(gold, predicted))
    assert (scores.sentences, scores.words, scores.gold, scores.predicted, scores.correct) == (5, 40, 6, 7, 3)
    assert scores.confusion["corporation"] == {"location": 1}
    assert scores.confusion["group"] == {"group": 2}


def test_schemes_may_differ() -> None:
    spans = [random_spans(12, seed) for seed in range(9)]
    gold, predicted = [iob1(each, 12) for each in spans], [bio(each, 12) for each in spans]
    for right, tags in ((gold, predicted), (gold, gold), (predicted, gold)):
        scores = score_tags(right, tags)
        assert scores.f1 == 1.0
        assert scores.accuracy == pytest.approx(accuracy_score(right, tags))
        assert scores.accuracy == conlleval(right, tags)[0]
        assert score_tagger(right, predicted).accuracy == 1.0  # whatever scheme the file is in
    assert score_tags([REAL], [bilou(REAL)]).f1 == 1.0


def conlleval(gold: list[list[str]], predicted: list[list[str]]) -> tuple[float, float]:
    """Accuracy and F1 as conlleval.pl counts them, line by line (Tjong Kim Sang and Buchholz 2000)."""
    correct_tags = tokens = found_gold = found_predicted = found_correct = 0
    for rights, guesses in zip(gold, predicted, strict=True):
        in_correct, last = False, [("O", ""), ("O", "")]
        for right, guess in zip([*rights, "O"], [*guesses, "O"], strict=True):
            now = [(tag.partition("-")[0], tag.partition("-")[2]) for tag in (right, guess)]
            ends = [ends_chunk(*before, *tag) for before, tag in zip(last, now, strict=True)]
            begins = [begins_chunk(*before, *tag) for before, tag in zip(last, now, strict=True)]
            if in_correct:
                if all(ends) and last[0][1] == last[1][1]:
                    in_correct, found_correct = False, found_correct + 1
                elif ends[0] != ends[1] or now[0][1] != now[1][1]:
                    in_correct = False
            if all(begins) and now[0][1] == now[1][1]:
                in_correct = True
            found_gold += begins[0]
            found_predicted += begins[1]
            last = now
        correct_tags += sum(right == guess for right, guess in zip(rights, guesses, strict=True))
        tokens += len(rights)
    return correct_tags / tokens, 2 * found_correct / max(1, found_gold + found_predicted)


def ends_chunk(before: str, label: str, tag: str, other: str) -> bool:
    if before == "O":
        return False
    if tag in ("O", "B") or before in ("E", "S") or tag == "S":
        return True
    return label != other


def begins_chunk(before: str, label: str, tag: str, other: str) -> bool:
    if tag == "O":
        return False
    return tag in ("B", "S") or before in ("O", "E", "S") or label != other


@pytest.mark.parametrize(
    "writers",
    [(bio, iob1), (iob1, bio), (bio, bio), (iob1, iob1)],
    ids=["BIO-IOB1", "IOB1-BIO", "BIO-BIO", "IOB1-IOB1"],
)
@pytest.mark.parametrize("seed", range(5))
def test_random_tags_score_as_conlleval_says(
    writers: tuple[Callable[[list[TagSpan], int], list[str]], ...], seed: int
) -> None:
    chance = random.Random(seed)
    spans = [random_spans(length, seed + length) for length in range(1, 30)]
    gold, other = ([write(each, at) for at, each in enumerate(spans, 1)] for write in writers)
    predicted = [noisy(tags, sorted({tag for tags in other for tag in tags}), chance) for tags in other]
    scores = score_tags(gold, predicted)
    assert (scores.accuracy, scores.f1) == pytest.approx(conlleval(gold, predicted))


def test_tags_in_another_scheme_count_as_written() -> None:
    """As a BIO gold file and one of IOB1 predictions do."""
    gold, predicted = [["B-A", "I-A", "O", "B-B"]], [["I-A", "I-A", "O", "I-B"]]
    assert (score_tags(gold, predicted).f1, score_tags(gold, predicted).accuracy) == (1.0, 0.5)
    assert conlleval(gold, predicted) == (0.5, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_plain_tags_score_as_scikit_learn_says(seed: int) -> None:
    chance = random.Random(seed)
    gold = [[chance.choice(("NN", "VB", "O", "-LRB-")) for _ in range(length)] for length in range(20)]
    predicted = [noisy(tags, ["NN", "VB", "JJ"], chance) for tags in gold]
    scores = score_tags(gold, predicted)
    flat = [[tag for tags in each for tag in tags] for each in (gold, predicted)]
    labels = sorted({tag for tags in flat for tag in tags})
    assert not scores.is_spans
    assert scores.value == scores.accuracy == scores.f1 == pytest.approx(plain_accuracy(*flat))
    expected = precision_recall_fscore_support(*flat, labels=labels, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "gold"), expected, strict=True):
        assert [getattr(scores.by_label[label], name) for label in labels] == pytest.approx(list(values))
    table = confusion_matrix(*flat, labels=labels)
    assert [[scores.confusion.get(row, {}).get(at, 0) for at in labels] for row in labels] == table.tolist()


def test_confusion_of_spans_counts_words_by_label() -> None:
    scores = score_tags([["B-A", "I-A", "O", "B-B"]], [["B-A", "B-A", "B-B", "O"]])
    assert scores.confusion == {"A": {"A": 2}, "B": {"O": 1}, "O": {"B": 1}}


def test_nothing_found() -> None:
    scores = score_tags([["O", "O"]], [["O", "O"]])
    assert (scores.f1, scores.accuracy, scores.gold, scores.is_spans) == (0.0, 1.0, 0, True)


@pytest.mark.parametrize(
    ("gold", "predicted", "told"),
    [
        ([["O"]], [], "1 sentences have gold tags, but 0 predicted ones"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "sentence 2 has 2 gold tags, but 1 predicted ones"),
        ([[]], [[]], "no tags to score"),
        ([], [], "no tags to score"),
    ],
)
def test_what_cannot_be_compared(gold: list[list[str]], predicted: list[list[str]], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        score_tags(gold, predicted)


def test_spans_cannot_be_compared_with_plain_tags() -> None:
    with pytest.raises(
        CorpusError, match="the gold tags stand for spans, such as 'B-A', but not the others, such as 'NN'"
    ):
        score_tags([["O", "B-A"]], [["O", "NN"]])
    with pytest.raises(CorpusError, match="the predicted tags stand for spans, such as 'I-A', but not the others"):
        score_tags([["O", "NN"]], [["O", "I-A"]])
    assert not score_tags([["O", "NN"]], [["O", "O"]]).is_spans


def test_scores_need_no_torch() -> None:
    assert (
        loaded_by("from bertfeat.learning import score_tags, read_spans") & {"torch", "transformers", "numpy"} == set()
    )
