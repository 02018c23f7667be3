"""Fine-tuning for heads: what is learned, what a plain loop of transformers gives, windows, what is saved."""

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from bertfeat.core.encoder import has_native_bf16
from bertfeat.core.models import Model
from bertfeat.errors import BertfeatError, HeadError, ModelError, UsageError
from bertfeat.learning import Example, GridPoint, Guess, HeadSettings, Task, make_collator, trainer
from bertfeat.learning.fine_tuning import TunedHead, fine_tuned_head, load_tuned_head
from bertfeat.learning.tables import GoldAnswer
from bertfeat.learning.task import HeadTexts
from bertfeat.learning.tasks.answers import NEVER
from bertfeat.learning.trainer import FineTuned
from bertfeat.progress import StepProgress
from tests.support.head_texts import (
    CASES,
    LABELS,
    asked,
    choosable,
    head_texts,
    labeled,
    long_texts,
    made_texts,
    task_of_case,
)
from tests.support.run_squad import best_of
from tests.support.tiny_models import POSITIONS, Tiny, rewrite

pytest.importorskip("accelerate")

POINT = GridPoint(batch_size=8, learning_rate=2e-3, epochs=4)
OTHERS = ("distilbert", "electra", "modernbert", "mpnet", "albert", "deberta-v2")
ONCE = replace(POINT, epochs=1)


@contextmanager
def tuning(
    model: Model, case: str, train: HeadTexts, point: GridPoint = ONCE, *, seed: int = 1, **others: Any
) -> Iterator[tuple[TunedHead, FineTuned]]:
    settings = HeadSettings(seed=seed)
    with fine_tuned_head(model, task_of_case(case), train, point, settings, device="cpu", **others) as made:
        yield made


@dataclass(frozen=True)
class Trained:
    """A head that was tuned and saved, and what it predicted before."""

    case: str
    task: Task
    folder: Path
    guesses: dict[str, list[Guess]]
    given: dict[str, HeadTexts]


@pytest.fixture(
    scope="module",
    params=[
        case if case in ("labels", "answers", "choices") else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def trained(request: pytest.FixtureRequest, tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    case, folder = request.param, tmp_path_factory.mktemp("tuned") / "model"
    train = made_texts(case, 96, 0)
    given = {"dev": made_texts(case, 30, 1), "long": long_texts(case)}
    model = tiny("bert").model
    with tuning(model, case, train, POINT, seed=3) as (head, tuned):
        tuned.save(model, folder)
        assert tuned.steps == 12 * POINT.epochs
        assert tuned.seconds > 0
        assert head.truncated == 0
        guesses = {name: head.guesses(each) for name, each in given.items()}
        return Trained(case, task_of_case(case), folder, guesses, given)


def load(trained: Trained) -> TunedHead:
    return load_tuned_head(trained.folder, trained.task, device="cpu")


# ── learning ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_follows_from_the_texts_is_learned(trained: Trained) -> None:
    dev, guesses = trained.given["dev"], trained.guesses["dev"]
    right = []
    for guess, gold, other in zip(guesses, dev.gold, dev.others, strict=True):
        if trained.case == "answers":
            right += [other[0][guess.start : guess.end] == "river"] if gold else []
        elif trained.case == "numbers":
            right.append(abs(float(guess.value) - float(gold)) < 25)  # type: ignore[arg-type]
        elif trained.case == "multi-labels":
            sides = zip(LABELS.labels, guess.scores, strict=True)
            right += [(share > 0.5) == (label in gold) for label, share in sides]  # type: ignore[operator]
        else:
            right.append(guess.value == gold)
    assert np.mean(right) > (
        0.7 if trained.case in ("pairs", "multi-labels") else 0.9
    )  # at 3 seeds 0.8 and 1.0 at least


def test_questions_without_an_answer_have_higher_scores(trained: Trained) -> None:
    if trained.case == "answers":
        none = [guess.no_answer for guess in trained.guesses["dev"][::5]]
        some = [guess.no_answer for number, guess in enumerate(trained.guesses["dev"]) if number % 5]
        assert np.mean(none) > np.mean(some)


def test_a_model_that_lowercases_does_so_when_it_is_saved(tiny: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny("distilbert").folder, tmp_path / "model")
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]', "utf-8")
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}', "utf-8")
    train, dev = made_texts("labels", 16, 0), made_texts("labels", 4, 1)
    capitals = replace(dev, texts=tuple(text.upper() for text in dev.texts))
    model = Model("x", folder)
    with tuning(model, "labels", train, seed=3) as (head, tuned):
        tuned.save(model, tmp_path / "tuned")
        expected = head.guesses(dev)
        assert head.guesses(capitals) == expected
    saved = load_tuned_head(tmp_path / "tuned", task_of_case("labels"), device="cpu")
    assert saved.guesses(dev) == expected
    assert saved.guesses(capitals) == expected
    theirs, plain = (transformers.AutoTokenizer.from_pretrained(at) for at in (tmp_path / "tuned", folder))
    for text in capitals.texts:
        assert theirs(text).input_ids == plain(text.lower()).input_ids != plain(text).input_ids


@pytest.mark.slow
@pytest.mark.parametrize("case", ["labels", "answers", "choices"])
def test_equal_seeds_give_equal_guesses_quietly(bert: Tiny, case: str, capfd: pytest.CaptureFixture[str]) -> None:
    train, dev = made_texts(case, 16, 0), made_texts(case, 4, 1)
    heard: list[StepProgress] = []
    torch.manual_seed(5)
    before = (torch.get_rng_state(), random.getstate(), repr(np.random.get_state()))
    runs = []
    for seed in (1, 1, 2):
        with tuning(bert.model, case, train, seed=seed, tell=heard.append) as (head, tuned):
            runs.append((tuned.loss, head.guesses(dev)))
    after = (torch.get_rng_state(), random.getstate(), repr(np.random.get_state()))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert list(map(str, heard)) == ["fine-tuning 1 of 2 steps", "fine-tuning 2 of 2 steps"] * 3
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert capfd.readouterr() == ("", "")


def test_texts_of_a_batch_are_of_similar_length(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[dict[str, torch.Tensor]] = []

    def noting(config: Any) -> Any:
        collate = make_collator(config)

        def noted(examples: Sequence[Example]) -> dict[str, torch.Tensor]:
            batches.append(collate(examples))
            return dict(batches[-1])

        return noted

    monkeypatch.setattr(trainer, "make_collator", noting)
    texts = [" ".join(["river"] * (1 + 19 * (number % 2))) for number in range(64)]
    train = head_texts([()] * 64, texts, ["money", "river"] * 32)
    with tuning(bert.model, "labels", train):
        pass
    masks = [batch["attention_mask"] for batch in batches]
    assert sum(int(mask.sum()) for mask in masks) > 0.8 * sum(mask.numel() for mask in masks)


@pytest.mark.slow
def test_precision_of_fine_tuning(bert: Tiny) -> None:
    train, dev = made_texts("labels", 32, 0), made_texts("labels", 8, 1)
    losses = {}
    for precision in ("fp32", "bf16", "auto"):
        with tuning(bert.model, "labels", train, precision=precision) as (head, tuned):
            losses[precision] = tuned.loss
            assert {weight.dtype for weight in head.module.parameters()} == {torch.float32}
            assert len(head.guesses(dev)) == 8
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses["auto"] == losses["bf16" if has_native_bf16(torch.device("cpu")) else "fp32"]
    with pytest.raises(UsageError, match="fp16"), tuning(bert.model, "labels", train, precision="fp16"):
        pass


@pytest.mark.sampled(1, 4)
@pytest.mark.parametrize("family", ["roberta", *(pytest.param(family, marks=pytest.mark.slow) for family in OTHERS)])
@pytest.mark.parametrize("case", ["pairs", "answers", "choices"])
def test_other_families(tiny: Any, case: str, family: str, tmp_path: Path) -> None:
    given, model = made_texts(case, 8, 0), tiny(family).model
    with tuning(model, case, given) as (head, tuned):
        guesses = head.guesses(given)
        tuned.save(model, tmp_path / "model")
    assert np.isfinite(tuned.loss)
    loaded = load_tuned_head(tmp_path / "model", task_of_case(case), device="cpu")
    for guess, before in zip(loaded.guesses(given), guesses, strict=True):
        assert numbers_of(guess) == pytest.approx(numbers_of(before), rel=1e-6, abs=1e-5)


# ── transformers' own loop ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Reference:
    """Transformers' own model and tokenizer, an example at a time."""

    module: Any
    tokenizer: Any

    @classmethod
    def of(cls, trained: Trained) -> "Reference":
        module = getattr(transformers, str(trained.task.architecture)).from_pretrained(trained.folder).eval()
        return cls(module, transformers.AutoTokenizer.from_pretrained(trained.folder))

    @torch.no_grad()
    def logits(self, text: str, others: tuple[str, ...]) -> NDArray[np.float32]:
        """The scores of a text, a pair, or a question's choices, one by one."""
        longest: dict[str, Any] = {"truncation": "longest_first", "max_length": POSITIONS, "return_tensors": "pt"}
        if len(others) < 2:
            return self.module(**self.tokenizer(text, *others, **longest)).logits[0].numpy()  # type: ignore[no-any-return]
        encoded = [self.tokenizer(text, other, **longest) for other in others]
        scores = [self.module(**{name: each[name][None] for name in each}).logits[0, 0] for each in encoded]
        return np.array(scores)

    @torch.no_grad()
    def guess(self, question: str, passage: str, max_answer: int) -> tuple[Guess, int]:
        """The best span of all windows, as run_squad.py has it, and the number of windows."""
        pieces = len(self.tokenizer(question, add_special_tokens=False)["input_ids"])
        assert pieces < 30
        capacity = POSITIONS - 3 - pieces
        encoded = self.tokenizer(
            question,
            passage,
            truncation="only_second",
            max_length=POSITIONS,
            stride=capacity - capacity // 2,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        windows = []
        for number, ids in enumerate(encoded["input_ids"]):
            types = encoded["token_type_ids"][number]
            output = self.module(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))
            own = [at for at, whose in enumerate(encoded.sequence_ids(number)) if whose == 1]
            offsets = [encoded["offset_mapping"][number][at] for at in own]
            starts, ends = output.start_logits[0], output.end_logits[0]
            windows.append((float(starts[0] + ends[0]), offsets, starts[own].tolist(), ends[own].tolist()))
        return best_of(windows, max_answer), len(windows)


@pytest.mark.sampled(1)
def test_guesses_are_those_of_a_plain_loop(trained: Trained) -> None:
    reference = Reference.of(trained)
    for name, given in trained.given.items():
        for number, guess in enumerate(trained.guesses[name][:6]):
            text, others = given.texts[number], given.others[number]
            if trained.case == "answers":
                expected, windows = reference.guess(text, others[0], 30)
                assert (guess.start, guess.end) == (expected.start, expected.end)
                assert guess.no_answer == pytest.approx(expected.no_answer, abs=1e-4)
                assert (windows > 2) == (name == "long" and len(others[0]) > 300)
                continue
            scores = reference.logits(text, others)
            if trained.case == "numbers":
                assert guess.value == pytest.approx(scores[0] * 25.0 + 1025.0, abs=1e-3)
            elif trained.case == "multi-labels":
                np.testing.assert_allclose(guess.scores, 1 / (1 + np.exp(-scores)), atol=1e-5)
            else:
                np.testing.assert_allclose(guess.scores, np.exp(scores) / np.exp(scores).sum(), atol=1e-5)
                assert guess.value == (LABELS.labels if trained.task.kind == "classify" else range(3))[scores.argmax()]


def numbers_of(guess: Guess) -> list[float]:
    value = LABELS.labels.index(guess.value) if guess.value in LABELS.labels else float(cast("float", guess.value or 0))
    return [value, *guess.scores, guess.start, guess.end, guess.no_answer]


def test_guesses_are_the_same_after_saving(trained: Trained) -> None:
    state = torch.get_rng_state()
    head = load(trained)
    for name, given in trained.given.items():
        for guess, before in zip(head.guesses(given), trained.guesses[name], strict=True):
            # weights lie elsewhere in memory, which changes the last bits
            assert numbers_of(guess) == pytest.approx(numbers_of(before), rel=1e-6, abs=1e-5)
    assert torch.equal(torch.get_rng_state(), state)
    assert head.guesses(replace(trained.given["dev"], ids=(), texts=(), others=(), gold=())) == []
    assert {path.suffix for path in trained.folder.iterdir()} == {".json", ".safetensors"}


def test_long_texts_are_counted(trained: Trained) -> None:
    reference = Reference.of(trained).tokenizer
    expected = sum(
        max(len(reference(text, other)["input_ids"]) for other in others or (None,)) > POSITIONS
        for text, others in zip(trained.given["long"].texts, trained.given["long"].others, strict=True)
    )
    assert expected > 2
    read = trained.task.sequences(load(trained).sequencer, trained.given["long"])
    assert read.truncated == (0 if trained.case == "answers" else expected)


def test_long_questions_and_empty_passages(bert: Tiny) -> None:
    given = head_texts([("the river",), ("",)], ["bank " * 100, "bank"], [(GoldAnswer("river", 4),), ()])
    with tuning(bert.model, "answers", given) as (head, _):
        guesses = head.guesses(given)
    assert head.truncated == 1
    assert guesses[0].end > 0
    assert guesses[1] == Guess("", no_answer=NEVER)


# ── what cannot be done ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("case", "given", "told"),
    [
        (
            "labels",
            replace(labeled(2, 0), gold=("money", "mill")),
            "id1: its label .mill. is none",
        ),
        ("choices", replace(choosable(2, 0), gold=(0, -1)), "question id1: it has no right choice"),
        (
            "choices",
            replace(choosable(2, 0), others=(("a", "b"), ("a",))),
            "id1: it has fewer than two",
        ),
        ("answers", replace(asked(1, 0), others=((),)), "question id0: it has no passage"),
        (
            "answers",
            replace(asked(1, 0), gold=((GoldAnswer("river", 400),),)),
            "id0: the answer does not",
        ),
    ],
)
def test_clear_errors(bert: Tiny, case: str, given: HeadTexts, told: str) -> None:
    with pytest.raises(HeadError, match=told), tuning(bert.model, case, given):
        pass


def test_folders_of_other_models_are_refused(trained: Trained, bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its weights lack"):  # a plain encoder has no head
        load_tuned_head(bert.folder, trained.task)
    copy = shutil.copytree(trained.folder, tmp_path / "copy")
    rewrite(copy, lambda tensors: {name: each for name, each in tensors.items() if "layer.2." not in name})
    with pytest.raises(ModelError, match="its weights lack"):
        load_tuned_head(copy, trained.task)


def test_weights_of_another_shape_are_refused(bert_folder: Path) -> None:
    config = json.loads((bert_folder / "config.json").read_text())
    (bert_folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 40}))
    with (
        pytest.raises(BertfeatError, match="its weights lack"),
        tuning(Model("odd", bert_folder), "labels", labeled(2, 0)),
    ):
        pass
