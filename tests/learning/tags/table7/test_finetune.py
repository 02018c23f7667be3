"""Fine-tuning: labels where Hugging Face's own recipe has them, a task that is learned, a model that opens again."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from bertfeat.core.tokens import Tokenizer
from bertfeat.errors import BertfeatError, HeadError, ModelError, UsageError
from bertfeat.learning import (
    PAPER_GRID,
    UNLABELED,
    GridPoint,
    HeadReport,
    HeadSettings,
    Tagger,
    evaluate_head,
    score_tags,
    train_head,
)
from bertfeat.learning.sequences import cut_into_windows
from bertfeat.progress import AnyProgress
from tests.support.tagging_toy import tag_scores, tagged, write_conll
from tests.support.tiny_models import Tiny, rewrite

pytest.importorskip("accelerate")

Sentence = tuple[list[str], list[str]]
WORDS = ("bank", "river", "the", "water", "unbelievable", "walked", "to", "money", "Straße", "mill", ".", "은행에서")
# one word in six for each kind: rarer ones are learned late, at some seeds and on some processors never
KINDS = {"river": "A", "water": "A", "walked": "B", "money": "B"}
POINT = GridPoint(4, 2e-3, 10)


def sentences(count: int, seed: int, length: int = 7) -> list[Sentence]:
    """Words whose tags follow from them."""
    chance = random.Random(seed)
    made = [[chance.choice(WORDS) for _ in range(chance.randint(1, length))] for _ in range(count)]
    return [(words, tags(words)) for words in made]


def tags(words: list[str]) -> list[str]:
    kinds = [KINDS.get(word) for word in words]
    return [f"B-{kind}" if kind else "O" for kind in kinds]


@pytest.fixture(scope="module")
def data() -> dict[str, list[Sentence]]:
    return {"train": sentences(100, 0, length=30), "dev": sentences(30, 1), "test": sentences(30, 2, length=150)}


@pytest.fixture(scope="module")
def files(data: dict[str, list[Sentence]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("sentences")
    return {name: written(home / f"{name}.conll", given) for name, given in data.items()}


@pytest.fixture(scope="module")
def done(tiny: Any, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> HeadReport:
    return tuned(tiny("bert").folder, files, tmp_path_factory.mktemp("finetuned") / "head", seed=3)


def written(path: Path, given: list[Sentence]) -> Path:
    return write_conll(path, [list(zip(words, tags, strict=True)) for words, tags in given])


def tuned(
    model: Path, files: dict[str, Path], folder: Path, *, point: GridPoint = POINT, seed: int = 1, **further: Any
) -> HeadReport:
    return train_head(
        "tag",
        files["train"],
        files["dev"],
        folder,
        settings=HeadSettings(seed=seed),
        fine_tune=point,
        **{"model": model, "device": "cpu", **further},
    )


# ── windows ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_labels_stand_where_hugging_faces_recipe_has_them(tiny: Any, family: str) -> None:
    model = tiny(family).model
    reference = AutoTokenizer.from_pretrained(model.folder)
    for words, _ in sentences(20, 5):
        numbers = list(range(len(words)))
        (window,) = cut_into_windows(Tokenizer(model), model.max_tokens, [words])
        expected = reference(words, is_split_into_words=True)
        owners = expected.word_ids()
        firsts = [
            owner if owner is not None and owners[at - 1] != owner else UNLABELED for at, owner in enumerate(owners)
        ]
        assert window.ids.tolist() == expected["input_ids"]
        assert window.labels(numbers).tolist() == firsts


def test_every_family_has_every_word_once(any_tiny: Tiny) -> None:
    long = [word for words, _ in sentences(30, 6) for word in words]
    given = [long, ["the", "️", "river"], ["x" * 300, "bank"], []]
    windows = cut_into_windows(Tokenizer(any_tiny.model), any_tiny.model.max_tokens, given)
    assert max(len(window) for window in windows) <= any_tiny.model.max_tokens
    assert sum(window.sentence == 0 for window in windows) > 2
    for number in (0, 2):
        seen = np.concatenate([window.words for window in windows if window.sentence == number])
        assert seen.tolist() == list(range(len(given[number])))
    assert [window.sentence for window in windows] == sorted(window.sentence for window in windows)


def test_long_sentences_are_cut_between_words(bert: Tiny) -> None:
    words = [word for words, _ in sentences(30, 6) for word in words]
    windows = cut_into_windows(Tokenizer(bert.model), bert.model.max_tokens, [words])
    ids = [window.ids[1:-1].tolist() for window in windows]
    whole = AutoTokenizer.from_pretrained(bert.folder)(words, is_split_into_words=True, add_special_tokens=False)
    assert [each for piece in ids for each in piece] == whole["input_ids"]
    assert all(window.places[0] == 1 for window in windows)


# ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_tags_that_follow_from_words_are_learned(done: HeadReport, files: dict[str, Path]) -> None:
    dev, test = tag_scores(done), tag_scores(evaluate_head(done.folder, files["test"]))
    assert dev.f1 > 0.9  # at 8 seeds, and rates of 0.001 to 0.003, it was 0.97 at least
    assert test.f1 > 0.9
    assert (dev.sentences, test.sentences) == (30, 30)
    assert done.record.outputs.labels == ("O", "B-A", "B-B")
    assert done.record.score == dev.f1


def test_the_saved_model_is_transformers_own(done: HeadReport, data: dict[str, list[Sentence]]) -> None:
    folder = done.folder / "model"
    module = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    predicted = []
    for words, _ in data["dev"]:
        encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            best = module(**encoded).logits[0].argmax(-1).tolist()
        firsts = {owner: at for at, owner in reversed(list(enumerate(encoded.word_ids()))) if owner is not None}
        predicted.append([module.config.id2label[best[firsts[word]]] for word in range(len(words))])
    assert score_tags([tags for _, tags in data["dev"]], predicted) == done.scores
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_it_tags_texts_and_files(done: HeadReport, files: dict[str, Path], tmp_path: Path) -> None:
    tagger = Tagger(done.folder, device="cpu")
    (text,) = tagger.tag(["the river, the  money."])
    assert text.words == ("the", "river", ",", "the", "money", ".")
    assert text.text is not None
    assert [text.text[start:end] for start, end in zip(text.start, text.end, strict=True)] == list(text.words)
    rows = tagged(tagger, files["dev"], with_gold=True)
    assert score_tags([row.gold or () for row in rows], [row.tags for row in rows]) == done.scores
    (tmp_path / "news.txt").write_text("the river\n\nthe bank\n")
    assert [row.id for row in tagged(tagger, tmp_path / "news.txt")] == ["1", "3"]


@pytest.mark.slow
def test_equal_seeds_give_equal_results_quietly(
    bert: Tiny, files: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    heard: list[AnyProgress] = []
    torch.manual_seed(5)
    before = (torch.get_rng_state(), random.getstate(), repr(np.random.get_state()))
    runs = [
        tuned(
            bert.folder,
            files,
            tmp_path / str(number),
            point=GridPoint(4, 2e-3, 1),
            seed=seed,
            progress=heard.append,
        ).record
        for number, seed in enumerate((1, 1, 2))
    ]
    after = (torch.get_rng_state(), random.getstate(), repr(np.random.get_state()))
    weights = [run.files["model.safetensors"] for run in runs if run.files]
    assert weights[0] == weights[1] != weights[2]
    assert runs[0].score == runs[1].score
    assert list(map(str, heard)) == [f"fine-tuning {step} of 25 steps" for step in range(1, 26)] * 3
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert capfd.readouterr() == ("", "")


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(
    "family", ["roberta", "xlm-roberta", "distilbert", "electra", "modernbert", "mpnet", "albert", "deberta-v2"]
)
def test_other_families(
    tiny: Any, data: dict[str, list[Sentence]], files: dict[str, Path], tmp_path: Path, family: str
) -> None:
    some = {**files, "train": written(tmp_path / "some.conll", data["train"][:16])}
    run = tuned(tiny(family).folder, some, tmp_path / "head", point=GridPoint(4, 2e-3, 1))
    assert tag_scores(run).words == sum(len(words) for words, _ in data["dev"])


def test_words_without_pieces_get_the_most_frequent_label(done: HeadReport, tmp_path: Path) -> None:
    path = written(tmp_path / "odd.conll", [(["river", "\ufe0f", "river"], ["B-A", "O", "B-A"])])
    (row,) = tagged(Tagger(done.folder, device="cpu"), path, with_gold=True)
    assert row.tags[1] == done.record.outputs.labels[done.record.outputs.usual] == "O"


def test_the_papers_grid() -> None:
    assert len(PAPER_GRID) == 18
    assert {point.learning_rate for point in PAPER_GRID} == {5e-5, 3e-5, 2e-5}


# ── what cannot be done ─────────────────────────────────────────────────────────────────────────────────────

GOOD: list[Sentence] = [(["the", "river"], ["O", "B-A"])]


@pytest.mark.parametrize(
    ("train", "dev", "changes", "error", "told"),
    [
        ([(["the"], ["O"])], GOOD, {}, HeadError, "every word of the training sentences has the tag 'O'"),
        (GOOD, [(["the"], ["O"])], {}, HeadError, "the development set has no span"),
        (GOOD, GOOD, {"point": (4, 2e-3, 0)}, UsageError, "give at least 1"),
        (GOOD, GOOD, {"point": (4, 5.0, 1)}, UsageError, "between 0 and 1"),
        (GOOD, GOOD, {"device": "cuda:7"}, UsageError, "not there"),
        (GOOD, GOOD, {"layers": "last"}, UsageError, "layers applies to heads on stored features"),
    ],
)
def test_clear_errors(
    bert: Tiny,
    tmp_path: Path,
    train: list[Sentence],
    dev: list[Sentence],
    changes: dict[str, Any],
    error: type[Exception],
    told: str,
) -> None:
    files = {"train": written(tmp_path / "train.conll", train), "dev": written(tmp_path / "dev.conll", dev)}
    given = {name: value for name, value in changes.items() if name != "point"}
    with pytest.raises(error, match=told):
        tuned(bert.folder, files, tmp_path / "head", point=GridPoint(*changes.get("point", (4, 2e-3, 1))), **given)


def test_incomplete_weights_are_refused(bert_folder: Path, files: dict[str, Path], tmp_path: Path) -> None:
    rewrite(bert_folder, lambda tensors: {name: each for name, each in tensors.items() if "layer.2." not in name})
    with pytest.raises(ModelError, match=r"its weights lack bert\.encoder\.layer\.2\."):
        tuned(bert_folder, files, tmp_path / "head")


@pytest.mark.hostile
def test_a_loss_that_is_no_number_is_an_error(bert_folder: Path, files: dict[str, Path], tmp_path: Path) -> None:
    rewrite(bert_folder, lambda tensors: {name: each * float("nan") for name, each in tensors.items()})
    with pytest.raises(BertfeatError, match="came to no finite loss"):
        tuned(bert_folder, files, tmp_path / "head")
