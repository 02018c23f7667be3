"""Examples and their targets against NumPy over the feature sets' own documents."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertfeat.core.corpus import CorpusSettings, Document, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.recipe import Pooling
from bertfeat.errors import HeadError
from bertfeat.learning import HeadSettings, Task, parse_input
from bertfeat.learning.examples import HeadExamples, open_examples
from bertfeat.learning.inputs import extraction_of
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.record import HeadInput
from bertfeat.learning.tasks import TASKS, task_of
from tests.support.heads_toy import FP32, choices, pairs, questions, topics

Extract = Callable[..., FeatureSet]
GREAT = 1 << 30


def opened(
    sets: list[FeatureSet], kind: str = "classify", *, layers: str = "last", budget: int = GREAT
) -> HeadExamples:
    pooling = Pooling.TOKEN if kind == "answer" else sets[0].columns[0].pooling
    label = "topic" if "topic" in sets[0].names else "relation" if "relation" in sets[0].names else None
    return open_examples(task_of(kind), sets, read_of(sets, layers, pooling), label=label, budget=budget)


def read_of(sets: list[FeatureSet], layers: str, pooling: Pooling) -> HeadInput:
    layer_input, model = parse_input(layers, 5), sets[0].header.model
    form = PairForm.APART if len(sets) == 2 else PairForm.TOGETHER if "pair" in sets[0].names else None
    return HeadInput(model, extraction_of(sets[0], pooling), pooling, layer_input, form)


def learned(examples: HeadExamples, kind: str = "classify") -> Task:
    """The task as it is learned from examples."""
    return task_of(kind).learned(examples.gold, examples.origin, HeadSettings())


def vectors(examples: HeadExamples) -> tuple[list[list[int]], np.ndarray]:
    """The numbers of the examples of each chunk, and the vectors of all examples in their order."""
    found: dict[int, np.ndarray] = {}
    numbers = []
    for chunk in examples.store.chunks():
        numbers.append(chunk.examples.tolist())
        for at, number in enumerate(chunk.examples.tolist()):
            found[number] = chunk.features[chunk.offsets[at] : chunk.offsets[at + 1]]
    return numbers, np.concatenate([found[number] for number in sorted(found)])


@pytest.fixture(scope="module")
def sides(extracted: Extract) -> list[FeatureSet]:
    keep = ("relation",)
    return [
        extracted("train-pairs.jsonl", text_columns=("a",), keep=keep),
        extracted("train-pairs.jsonl", text_columns=("b",)),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layers", ["concat4", "last", "sum4", "mix4"])
def test_two_sets_stand_side_by_side(sides: list[FeatureSet], tmp_path: Path, layers: str) -> None:
    recipe = layers.replace("mix", "concat")
    for number, features in enumerate(sides):
        features.to_numpy(tmp_path / f"{number}.npy", recipe, "mean")
    right = np.concatenate([np.load(tmp_path / f"{number}.npy") for number in range(2)], 1)
    whole = opened(sides, layers=layers)
    numbers, values = vectors(whole)
    assert numbers == [list(range(120))]
    np.testing.assert_array_equal(values, right)
    small = opened(sides, layers=layers, budget=whole.store.bytes // 6)
    numbers, values = vectors(small)
    assert len(numbers) > 10
    np.testing.assert_array_equal(values, right)
    assert sorted(number for chunk in small.store.chunks((3,)) for number in chunk.examples) == list(range(120))
    assert list(whole.gold) == [record["relation"] for record in pairs(120, 1)]


def test_tokens_of_questions_are_those_of_the_documents(extracted: Extract) -> None:
    features = extracted("train.json", "token", keep=("answers",))
    whole = opened([features], "answer", layers="concat4")
    right = np.concatenate([document.matrix("concat4", "token") for document in features])
    numbers, values = vectors(whole)
    assert numbers == [list(range(60))]
    np.testing.assert_array_equal(values, right)
    assert np.array_equal(vectors(opened([features], "answer", layers="concat4", budget=GREAT // 2**14))[1], right)
    made = [each["context"] for each in questions(60, 1, without=True)["data"][0]["paragraphs"]]
    assert list(whole.passages) == made


def test_sets_of_other_rows_are_refused(extracted: Extract, home: Path, tmp_path: Path) -> None:
    made = [{**record, "b": None} if at == 3 else record for at, record in enumerate(pairs(12, 1))]
    (tmp_path / "gap.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in made))
    sets = []
    for name in ("a", "b"):
        reading = CorpusSettings(text_columns=(name,), keep=("relation",))
        Extractor(home / "model", layers="last", pooling="mean", **FP32).extract(
            tmp_path / "gap.jsonl", tmp_path / name, corpus_settings=reading
        )
        sets.append(FeatureSet(tmp_path / name))
    with pytest.raises(HeadError, match=r"a and .*b do not hold the same rows; a row that failed in one is listed"):
        opened(sets)


# ── targets ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_are_numbered_in_their_order(extracted: Extract) -> None:
    examples = opened([extracted("train.csv", keep=("topic",))])
    task = learned(examples)
    assert task.outputs.labels == ("money", "water")
    right = [("money", "water").index(record["topic"]) for record in topics(120, 1)]
    assert task.make_targets(examples.known).tolist() == right


@pytest.mark.parametrize("kind", [":int64", ":float64", ":string"])
def test_labels_that_are_whole_numbers_are_the_same_in_every_type(home: Path, tmp_path: Path, kind: str) -> None:
    documents = [Document(row, str(row), "the bank", kept=(value,)) for row, value in enumerate((1, 2, -3))]
    if kind == ":float64":
        documents = [replace(document, kept=(float(str(document.kept[0])),)) for document in documents]
    if kind == ":string":
        documents = [replace(document, kept=(str(document.kept[0]),)) for document in documents]
    Extractor(home / "model", layers=["last"], pooling="mean", **FP32).extract(
        memory_corpus(documents, CorpusSettings(keep=(f"topic{kind}",))), tmp_path / "numbers.features"
    )
    assert opened([FeatureSet(tmp_path / "numbers.features")]).gold == ("1", "2", "-3")


def test_numbers_are_standardised(home: Path, tmp_path: Path) -> None:
    given = [3.0, -1.0, 7.5, 1e-3]
    items = [{"text": "the bank", "n": number} for number in given]
    corpus = memory_corpus(items, CorpusSettings(keep=("n",)))
    Extractor(home / "model", layers="last", pooling="mean", **FP32).extract(corpus, tmp_path / "n")
    sets = [FeatureSet(tmp_path / "n")]
    reads = read_of(sets, "last", Pooling.MEAN)
    examples = open_examples(TASKS["numbers"], sets, reads, label="n", budget=GREAT)
    task = TASKS["numbers"].learned(examples.gold, examples.origin, HeadSettings())
    outputs = task.outputs
    assert outputs.labels == ()
    assert (outputs.mean, outputs.spread) == (float(np.mean(given)), float(np.std(given)))
    targets = task.make_targets(examples.known)
    assert targets.dtype == np.float32
    values = np.asarray(targets, np.float64)
    np.testing.assert_allclose(values * outputs.spread + outputs.mean, np.array(given), atol=1e-5)


def test_answers_are_the_tokens_that_have_their_characters(extracted: Extract) -> None:
    features = extracted("train.json", "token", keep=("answers",))
    examples = opened([features], "answer")
    targets = learned(examples, "answer").make_targets(examples.known)
    for document, (first, last) in zip(features, targets, strict=True):
        assert document.tokens is not None
        assert document.tokens.segment is not None
        answers = json.loads(str(document.values["answers"]))
        if not answers:
            assert (first, last) == (0, 0)
            continue
        begin, end = answers[0]["start"], answers[0]["start"] + len(answers[0]["text"])
        right = [
            number
            for number, (at, to, second) in enumerate(
                zip(document.tokens.start, document.tokens.end, document.tokens.segment, strict=True)
            )
            if second == 1 and set(range(at, to)) & set(range(begin, end))
        ]
        assert [first, last] == [right[0], right[-1]]
        assert document.pair is not None
        assert document.pair[document.tokens.start[first] : document.tokens.end[last]] == answers[0]["text"]


def test_choices_are_rows_of_one_question(home: Path, tmp_path: Path) -> None:
    made = choices(8, 1)
    documents = [
        Document(0, f"{record['id']}", record["text"], pair=record[name], kept=(record["id"], at == record["right"]))
        for record in made
        for at, name in enumerate("abc")
    ]
    corpus = memory_corpus(documents, CorpusSettings(keep=("question:string", "right:bool")))
    Extractor(home / "model", layers="last", pooling="cls", **FP32).extract(corpus, tmp_path / "c", part_rows=5)
    sets = [FeatureSet(tmp_path / "c")]
    for budget in (GREAT, 1):
        examples = opened(sets, "choose", budget=budget)
        numbers, values = vectors(examples)
        assert sorted(number for chunk in numbers for number in chunk) == list(range(8))
        np.testing.assert_array_equal(values, np.stack([document.vector("last", "cls") for document in sets[0]]))
    targets = learned(examples, "choose").make_targets(examples.known)
    assert targets.tolist() == [record["right"] for record in made]
