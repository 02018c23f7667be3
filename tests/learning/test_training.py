"""Heads learn a rule, predict by it, and predict what NumPy computes from the features and the saved weights."""

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.models import DEFAULT_MODEL
from bertfeat.errors import HeadError, TrainingError
from bertfeat.learning import (
    AnswerTokens,
    Epoch,
    GridPoint,
    Head,
    HeadKind,
    HeadPrediction,
    answer_text,
    evaluate_head,
    score_answers,
    train_head,
    write_predictions,
)
from bertfeat.learning.loop import HeadLoop
from tests.support.heads_toy import (
    FP32,
    QUICK,
    choices,
    numbers,
    plain_rows,
    questions,
    topics,
    train,
    write_questions,
    write_records,
)
from tests.support.killed_training import Killed, killing_after
from tests.support.tagging_toy import feature_set

Extract = Callable[..., FeatureSet]
PAIRS = CorpusSettings(text_columns=("a",), pair_column="b")
SHORT = replace(QUICK, epochs=3)


def rows(head: Path, source: Any, **options: Any) -> list[HeadPrediction]:
    return plain_rows(Head(head, device="cpu").predict(source, **options))


def told(predictions: list[HeadPrediction]) -> list[tuple[object, ...]]:
    """What predictions say, numbers rounded: a corpus is embedded in other batches than a set was."""
    return [
        (row.id, row.value if not isinstance(row.value, float) else round(row.value, 3), row.start, row.end)
        for row in predictions
    ]


def values_of(predictions: list[HeadPrediction], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in predictions], np.float64)


def standardised(weights: dict[str, torch.Tensor], features: np.ndarray) -> np.ndarray:
    return np.asarray((features - weights["mean"].double().numpy()) * weights["scale"].double().numpy())


def linear(weights: dict[str, torch.Tensor], name: str, values: np.ndarray) -> np.ndarray:
    return np.asarray(values @ weights[f"{name}.weight"].double().numpy().T + weights[f"{name}.bias"].double().numpy())


def network(weights: dict[str, torch.Tensor], inputs: np.ndarray) -> np.ndarray:
    """The scores of standardised inputs, with a hidden layer and a linear head beside it where the head has them."""
    hidden = np.maximum(linear(weights, "hidden", inputs), 0) if "hidden.weight" in weights else inputs
    scores = linear(weights, "out", hidden)
    return (scores + linear(weights, "linear", inputs)) / 2 if "linear.weight" in weights else scores


def compared(u: np.ndarray, v: np.ndarray, layers: int) -> np.ndarray:
    """The inputs of pairs: the cosine of each layer, |u-v|, u·v, u and v of layers at length √H."""
    u, v = (each.astype(np.float64).reshape(len(each), layers, -1) for each in (u, v))
    u, v = (each / np.linalg.norm(each, axis=2, keepdims=True) * np.sqrt(each.shape[2]) for each in (u, v))
    parts = ((u * v).mean(2), np.abs(u - v), u * v, u, v)
    return np.concatenate([part.reshape(len(u), -1) for part in parts], 1)


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_labels_of_a_corpus(home: Path, tmp_path: Path, ending: str) -> None:
    for name, seed in (("train", 1), ("dev", 2)):
        write_records(tmp_path / f"{name}.{ending}", topics(60, seed))
    corpora = (tmp_path / f"train.{ending}", tmp_path / f"dev.{ending}")
    done = train("classify", *corpora, tmp_path / "head", label="topic", model=home / "model", settings=SHORT, **FP32)
    assert done.record.outputs.labels == ("money", "water")
    assert done.record.score > 0.85
    assert done.record.measure == "accuracy"
    assert done.scores is not None
    assert done.record.chosen is not None
    assert done.scores.value == done.record.score == done.record.chosen.score
    assert done.record.candidates[0].score == max(epoch["score"] for epoch in done.record.history)
    assert {candidate.hidden for candidate in done.record.candidates} == {128, 0}
    report = evaluate_head(tmp_path / "head", corpora[1], device="cpu")
    assert report.scores == done.scores
    assert (report.failures, report.unknown) == ((), ())


def test_labels_from_features_are_what_numpy_computes(extracted: Extract, home: Path, tmp_path: Path) -> None:
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    done = train("classify", *sets, tmp_path / "head", label="topic", layers="sum4")
    assert done.record.score > 0.9
    weights = load_file(tmp_path / "head" / "head.safetensors")
    features = np.stack([document.vector("sum4", "mean") for document in sets[1]])
    shares = softmax(network(weights, standardised(weights, features)))
    predicted = rows(tmp_path / "head", sets[1])
    assert [row.value for row in predicted] == [("money", "water")[number] for number in shares.argmax(1)]
    np.testing.assert_allclose(values_of(predicted, "probability"), shares.max(1), atol=1e-5)
    assert [row.gold for row in predicted] == [record["topic"] for record in topics(40, 2)]
    assert told(rows(tmp_path / "head", home / "dev.csv")) == told(predicted)


@pytest.mark.slow
def test_pairs_apart_and_together(extracted: Extract, home: Path, tmp_path: Path) -> None:
    sources = [home / f"{name}-pairs.jsonl" for name in ("train", "dev")]
    given = {"label": "wet", "corpus_settings": PAIRS, "model": home / "model", "settings": SHORT, **FP32}
    apart = train("classify", *sources, tmp_path / "apart", **given)
    together = train("classify", *sources, tmp_path / "together", embed_pairs="together", **given)
    assert (apart.record.pairs, together.record.pairs) == ("apart", "together")
    assert min(apart.record.score, together.record.score) > 0.6  # of three labels
    kept = {"keep": ("wet",)}
    sides = extracted("dev-pairs.jsonl", text_columns=("a",), **kept), extracted("dev-pairs.jsonl", text_columns=("b",))
    weights = load_file(tmp_path / "apart" / "head.safetensors")
    u, v = (np.stack([each.vector("concat4", "mean") for each in side]) for side in sides)
    shares = softmax(network(weights, standardised(weights, compared(u, v, 4))))
    predicted = rows(tmp_path / "apart", sides)
    np.testing.assert_allclose(values_of(predicted, "probability"), shares.max(1), atol=1e-4)
    joined = f"{sides[0].folder},{sides[1].folder}"
    assert told(rows(tmp_path / "apart", joined)) == told(predicted)
    assert told(rows(tmp_path / "apart", sources[1])) == told(predicted)  # the columns are recorded
    one = extracted("dev-pairs.jsonl", text_columns=("a",), pair_column="b", **kept)
    weights = load_file(tmp_path / "together" / "head.safetensors")
    features = np.stack([document.vector("concat4", "mean") for document in one])
    shares = softmax(network(weights, standardised(weights, features)))
    predicted = rows(tmp_path / "together", one)
    np.testing.assert_allclose(values_of(predicted, "probability"), shares.max(1), atol=1e-4)
    assert told(rows(tmp_path / "together", sources[1])) == told(predicted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_a_model_tuned_on_stored_pairs_reads_pairs(extracted: Extract, home: Path, tmp_path: Path, apart: bool) -> None:
    def stored(name: str) -> Any:
        if not apart:
            return extracted(name, text_columns=("a",), pair_column="b", keep=("wet",))
        return extracted(name, text_columns=("a",), keep=("wet",)), extracted(name, text_columns=("b",))

    learned, dev = stored("train-pairs.jsonl"), stored("dev-pairs.jsonl")
    tuning: dict[str, Any] = {"label": "wet", "fine_tune": GridPoint(8, 1e-4, 1), "device": "cpu"}
    done = train_head("classify", learned, dev, tmp_path / "head", **tuning)
    assert done.record.pairs == "together"
    assert done.record.model.name == str(home / "model")
    predicted = told(rows(tmp_path / "head", dev))
    assert predicted == told(rows(tmp_path / "head", home / "dev-pairs.jsonl", corpus_settings=PAIRS))
    with pytest.raises(HeadError, match="of pairs reads no single texts"):
        Head(tmp_path / "head", device="cpu").predict_texts(["The bank."])
    other = tmp_path / "other"
    with pytest.raises(TrainingError, match="is not the model that made the features"):
        train_head("classify", learned, dev, other, model=DEFAULT_MODEL, **tuning)
    assert not other.exists() or not list(other.glob("*.safetensors"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tuned", [False, True], ids=["frozen", "tuned"])
def test_pairs_and_single_texts_are_not_taken_for_each_other(
    extracted: Extract, home: Path, tmp_path: Path, tuned: bool
) -> None:
    """By no kind of head, in files and sets; a set without texts does not say which it holds."""
    stored = {"text_columns": ("a",), "keep": ("wet",)}
    single, pair = (extracted("dev-pairs.jsonl", **stored, **second) for second in ({}, {"pair_column": "b"}))
    bare = tmp_path / "bare"
    settings = CorpusSettings(text_columns=("a",), keep=("wet",))
    extractor = Extractor(home / "model", layers="concat4", pooling="mean", **FP32)
    extractor.extract(home / "dev-pairs.jsonl", bare, keep_text=False, corpus_settings=settings)
    way = {"fine_tune": GridPoint(8, 1e-4, 1)} if tuned else {"settings": replace(SHORT, epochs=1), "picture": False}
    learning: dict[str, Any] = {"label": "wet", "device": "cpu", **way}
    for name, learned, other in (("pairs", pair, single), ("single", single, pair)):
        done = train_head("classify", learned, learned, tmp_path / name, **learning)
        assert (done.record.pairs is None) == (name == "single")
        refusal = "single texts, and the head .* is of pairs" if name == "pairs" else "pairs, and the head .* of single"
        reading = CorpusSettings(text_columns=("a",)) if name == "pairs" else PAIRS
        head = Head(tmp_path / name, device="cpu")
        with pytest.raises(HeadError, match=refusal):
            head.predict(other)
        with pytest.raises(HeadError, match=refusal):
            head.predict(home / "dev-pairs.jsonl", corpus_settings=reading)
        with pytest.raises(HeadError, match=refusal):
            list(head.stream(home / "dev-pairs.jsonl", corpus_settings=reading))
        assert len(head.predict(learned).rows) == 40
        if not tuned:
            assert len(head.predict(bare).rows) == 40
        with pytest.raises(HeadError, match=r"these are (pairs|single texts), and .* is of"):
            train_head("classify", learned, other, tmp_path / "mixed", **learning)
    with pytest.raises(HeadError, match=r"pairs, and the head .* of single texts"):
        head.predict_texts([("one", "two")])


@pytest.mark.slow
def test_taggers_and_choosers_refuse_sets_of_the_other_kind(extracted: Extract, home: Path, tmp_path: Path) -> None:
    sources = [write_records(tmp_path / f"{seed}.csv", choices(20, seed)) for seed in (1, 2)]
    given: dict[str, Any] = {"label": "right", "choices": ("a", "b", "c"), "model": home / "model", **FP32}
    train("choose", *sources, tmp_path / "head", embed_pairs="together", settings=replace(SHORT, epochs=1), **given)
    with pytest.raises(HeadError, match=r"single texts, and the head .* is of pairs"):
        Head(tmp_path / "head").predict(extracted("dev-pairs.jsonl", text_columns=("a",)))
    tags = [feature_set(home / "model", tmp_path / f"tags{seed}", 12, seed, layers="concat4") for seed in (1, 2)]
    train("tag", *tags, tmp_path / "tagger", settings=replace(SHORT, epochs=1))
    with pytest.raises(HeadError, match=r"pairs, and the head .* of single texts"):
        Head(tmp_path / "tagger").predict(extracted("dev-pairs.jsonl", "word", text_columns=("a",), pair_column="b"))


def test_numbers(home: Path, tmp_path: Path) -> None:
    sources = [write_records(tmp_path / f"{seed}.jsonl", numbers(80, seed)) for seed in (1, 2)]
    settings = replace(SHORT, task="numbers")
    done = train("classify", *sources, tmp_path / "head", label="wet", model=home / "model", settings=settings, **FP32)
    assert done.record.measure == "Spearman"
    assert done.record.score > 0.8
    features = FeatureSet(tmp_path / "head" / "features" / "dev.features")
    weights = load_file(tmp_path / "head" / "head.safetensors")
    values = network(weights, standardised(weights, np.stack([each.vector("concat4", "mean") for each in features])))
    expected = values[:, 0] * done.record.outputs.spread + done.record.outputs.mean
    predicted = rows(tmp_path / "head", features)
    np.testing.assert_allclose(values_of(predicted, "value"), expected, atol=1e-4)
    gold = [record["wet"] for record in numbers(80, 2)]
    scores = evaluate_head(tmp_path / "head", sources[1], device="cpu").scores
    assert scores.pearson == pytest.approx(np.corrcoef(gold, expected)[0, 1], abs=1e-4)  # type: ignore[union-attr]


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def token_scores(weights: dict[str, torch.Tensor], features: np.ndarray) -> np.ndarray:
    """Start and end scores of the tokens of one question, by torch's own LSTM over it alone: ``[T, 2]``."""
    values = torch.from_numpy((features - weights["mean"].numpy()) * weights["scale"].numpy()).float()
    hidden = weights["out.weight"].shape[1] // 2
    lstm = nn.LSTM(values.shape[1], hidden, bidirectional=True)
    own = {name.removeprefix("lstm."): tensor for name, tensor in weights.items() if name.startswith("lstm.")}
    for direction, suffix in ((0, ""), (1, "_reverse")):
        getattr(lstm, f"weight_ih_l0{suffix}").copy_(own["layers.0.w_ih"][direction])
        getattr(lstm, f"weight_hh_l0{suffix}").copy_(own["layers.0.w_hh"][direction])
        getattr(lstm, f"bias_ih_l0{suffix}").copy_(own["layers.0.bias"][direction])
        getattr(lstm, f"bias_hh_l0{suffix}").zero_()
    return linear(weights, "out", lstm(values)[0].double().numpy())


def test_answers(extracted: Extract, home: Path, tmp_path: Path) -> None:
    """And the threshold of questions without answer is the best one of the development set."""
    sets = [extracted(f"{name}.json", "token", keep=("answers",)) for name in ("train", "dev")]
    settings = replace(QUICK, hidden=12)
    done = train("answer", *sets, tmp_path / "head", settings=settings)
    assert done.record.measure == "F1"
    assert done.record.score > 0.8
    weights = load_file(tmp_path / "head" / "head.safetensors")
    made = questions(20, 2, without=True)["data"][0]["paragraphs"]
    gold = [[answer["text"] for answer in each["qas"][0]["answers"]] for each in made]
    texts, absent = [], []
    for document in sets[1]:
        tokens = document.tokens
        assert tokens is not None
        assert tokens.segment is not None
        scores = token_scores(weights, document.matrix("concat4", "token"))
        inside = [at for at, second in enumerate(tokens.segment) if second == 1 and tokens.end[at] > tokens.start[at]]
        best = max(
            (scores[a, 0] + scores[b, 1], -a, -b) for a in inside for b in inside if a <= b < a + settings.max_answer
        )
        span = AnswerTokens(-best[1], -best[2])
        texts.append(answer_text(document.pair or "", tokens.start, tokens.end, span))
        absent.append(float(scores[0].sum() - best[0]))
    right = score_answers(gold, texts, absent)
    assert done.scores is not None
    assert right.best_f1 is not None
    assert done.scores.value == right.best_f1.score == done.record.score
    assert done.record.threshold == pytest.approx(right.best_f1.threshold, abs=0.02)  # bf16 where there is AMX
    predicted = rows(tmp_path / "head", sets[1])
    np.testing.assert_allclose(values_of(predicted, "no_answer"), np.array(absent), atol=0.02)
    threshold = done.record.threshold
    assert isinstance(threshold, float)
    assert [row.value for row in predicted] == [
        "" if row.no_answer > threshold else text
        for text, row in zip(texts, predicted, strict=True)
        if row.no_answer is not None
    ]
    for row, each in zip(predicted, made, strict=True):
        if row.value:
            assert each["context"][row.start : row.end] == row.value
        else:
            assert (row.start, row.end) == (None, None)
    assert told(rows(tmp_path / "head", home / "dev.json")) == told(predicted)


def test_answers_without_questions_that_have_none(home: Path, tmp_path: Path) -> None:
    sources = [write_questions(tmp_path / f"{seed}.json", questions(30, seed)) for seed in (1, 2)]
    done = train("answer", *sources, tmp_path / "head", model=home / "model", settings=replace(SHORT, hidden=8), **FP32)
    assert done.record.threshold is None
    assert all(row.value for row in rows(tmp_path / "head", sources[1]))


# ── choices ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["apart", "together"])
@pytest.mark.parametrize("named", [False, True])
def test_choices(home: Path, tmp_path: Path, form: str, named: bool) -> None:
    sources = []
    for seed in (1, 2):
        made = choices(30, seed)
        if named:
            made = [{**record, "right": "abc"[record["right"]]} for record in made]
        sources.append(write_records(tmp_path / f"{seed}.csv", made))
    given = {"label": "right", "choices": ("a", "b", "c"), "embed_pairs": form, "model": home / "model", **FP32}
    done = train("choose", *sources, tmp_path / "head", settings=replace(SHORT, hidden=8), **given)
    assert done.record.score > 0.8
    weights = load_file(tmp_path / "head" / "head.safetensors")
    folder = tmp_path / "head" / "features"
    sides = [FeatureSet(folder / f"dev{suffix}.features") for suffix in (["", ".second"] if form == "apart" else [""])]
    vectors = [np.stack([each.vector("concat4", "mean") for each in side]) for side in sides]
    inputs = compared(vectors[0], vectors[1], 4) if form == "apart" else vectors[0]
    shares = softmax(network(weights, standardised(weights, inputs))[:, 0].reshape(30, 3))
    predicted = rows(tmp_path / "head", sources[1])
    assert [row.id for row in predicted] == [f"q{at}" for at in range(30)]
    assert [row.value for row in predicted] == shares.argmax(1).tolist()
    np.testing.assert_allclose(values_of(predicted, "probability"), shares.max(1), atol=1e-4)
    assert [row.gold for row in predicted] == [record["right"] for record in choices(30, 2)]
    lines: list[str] = []
    write_predictions(tmp_path / "head", sources[1], lines.append, device="cpu")
    assert [json.loads(line)["column"] for line in lines] == ["abc"[at] for at in shares.argmax(1)]


@pytest.mark.slow
def test_choices_of_which_none_is_known_to_be_right(home: Path, tmp_path: Path) -> None:
    """The label is no column of what is predicted, and nothing is scored; other columns may hold the choices."""
    sources = [write_records(tmp_path / f"{seed}.csv", choices(20, seed)) for seed in (1, 2)]
    given = {"label": "right", "choices": ("a", "b", "c"), "model": home / "model", **FP32}
    train("choose", *sources, tmp_path / "head", settings=replace(SHORT, epochs=1), **given)
    plain = [{key: record[key] for key in ("id", "text", "a", "b", "c")} for record in choices(20, 2)]
    unknown = Head(tmp_path / "head").predict(write_records(tmp_path / "plain.csv", plain))
    assert unknown.scores is None
    assert {row.gold for row in unknown.rows} == {None}
    assert told(plain_rows(unknown)) == told(rows(tmp_path / "head", sources[1]))
    others = [{"id": r["id"], "text": r["text"], "w": r["a"], "x": r["b"], "y": r["c"], "z": r["a"]} for r in plain]
    lines: list[str] = []
    write_predictions(
        tmp_path / "head", write_records(tmp_path / "o.csv", others), lines.append, choices=("w", "x", "y", "z")
    )
    values = [json.loads(line) for line in lines]
    assert [value["column"] for value in values] == ["wxyz"[value["choice"]] for value in values]
    given = {"choices": ("w", "x", "y", "z")}
    (tmp_path / "link").symlink_to("there.jsonl")
    write_predictions(tmp_path / "head", tmp_path / "o.csv", tmp_path / "link", **given)
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "there.jsonl").read_text().splitlines()) == (True, lines)
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:  # what reads the pipe
        read = pool.submit((tmp_path / "pipe").read_text)
        write_predictions(tmp_path / "head", tmp_path / "o.csv", tmp_path / "pipe", **given)
        assert read.result(20).splitlines() == lines
    assert stat.S_ISFIFO(os.lstat(tmp_path / "pipe").st_mode)


# ── the same again, and going on ────────────────────────────────────────────────────────────────────────────


def timeless(head: Path) -> dict[str, Any]:
    """A record without times, and without the digest that covers them."""
    record: dict[str, Any] = json.loads((head / "head.json").read_text())
    for epoch in record["history"]:
        del epoch["seconds"]
    return {key: value for key, value in record.items() if key not in ("seconds", "digest")}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["classify", "answer"])
def test_equal_seeds_give_equal_bytes_and_a_killed_training_goes_on_to_them(
    extracted: Extract, tmp_path: Path, kind: str
) -> None:
    if kind == "classify":
        sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
        given: dict[str, Any] = {"label": "topic", "layers": "mix4", "settings": replace(QUICK, dropout=0.2, hidden=5)}
    else:
        sets = [extracted(f"{name}.json", "token", keep=("answers",)) for name in ("train", "dev")]
        given = {"settings": replace(QUICK, dropout=0.2, hidden=5, epochs=4, memory=40_000)}  # read in chunks
    for name, seed in (("whole", 1), ("other", 2)):
        state = torch.random.get_rng_state()
        train(kind, *sets, tmp_path / name, **given | {"settings": replace(given["settings"], seed=seed)})
        assert torch.equal(torch.random.get_rng_state(), state), "a caller's random numbers are not touched"
    for number in (1, 3):
        with pytest.raises(Killed):
            train(kind, *sets, tmp_path / "killed", progress=killing_after(number), **given)
    assert not (tmp_path / "killed" / "head.json").exists()
    assert train(kind, *sets, tmp_path / "killed", **given).resumed == 3
    whole, other, killed = (
        (tmp_path / name / "head.safetensors").read_bytes() for name in ("whole", "other", "killed")
    )
    assert whole == killed != other
    assert timeless(tmp_path / "whole") == timeless(tmp_path / "killed")
    names = sorted(path.name for path in (tmp_path / "killed").iterdir())
    assert names == [".bertfeat", "head.json", "head.safetensors"]
    before = (tmp_path / "killed" / "head.json").read_bytes()
    (tmp_path / "killed" / "checkpoint-3.safetensors").write_bytes(b"of a run that was killed at its end")
    assert train(kind, *sets, tmp_path / "killed", **given).scores is None
    assert (tmp_path / "killed" / "head.json").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == names


def test_another_training_is_not_mixed_in(extracted: Extract, tmp_path: Path) -> None:
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    given: dict[str, Any] = {"label": "topic", "layers": "last", "settings": SHORT}
    with pytest.raises(Killed):
        train("classify", *sets, tmp_path / "a", progress=killing_after(1), **given)
    with pytest.raises(TrainingError, match=r"begun in another way \(they differ in: layers, hidden\).*overwrite=True"):
        train("classify", *sets, tmp_path / "a", label="topic", layers="-2", settings=replace(SHORT, hidden=8))
    train("classify", *sets, tmp_path / "a", **given)
    with pytest.raises(TrainingError, match=r"a head that was trained in another way \(they differ in: seed\)"):
        train("classify", *sets, tmp_path / "a", **given | {"settings": replace(SHORT, seed=9)})
    with pytest.raises(TrainingError, match="they differ in: data, patience"):
        train("classify", sets[1], sets[0], tmp_path / "a", **given)
    done = train("classify", *sets, tmp_path / "a", overwrite=True, **given | {"settings": replace(SHORT, seed=9)})
    assert done.record.training.seed == 9


def test_scores_below_zero_choose_the_weights_that_the_record_names(
    extracted: Extract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spearman's correlation may be negative, and is exactly 0 where every prediction is the same."""
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    told = [0.0, 0.0, -0.2, -0.1, -0.3, -0.2]
    scores, kept = iter(told), []
    monkeypatch.setattr(HeadLoop, "dev_score", lambda loop: next(scores))

    def on_epoch(epoch: Epoch) -> None:
        kept.append(epoch.best)

    given: dict[str, Any] = {"label": "topic", "layers": "last", "settings": replace(QUICK, epochs=6)}
    given["settings"] = replace(given["settings"], hidden=5)  # so that nothing is solved
    record = train("classify", *sets, tmp_path / "a", progress=on_epoch, **given).record
    assert kept == [1, 2, 2, 2, 2, 2]
    assert (record.best_epoch, record.score) == (2, 0.0)
    scores = iter(told[:2])
    train("classify", *sets, tmp_path / "b", **given | {"settings": replace(QUICK, epochs=2, hidden=5)})
    weights = [(tmp_path / name / "head.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]


def test_kinds_have_nouns() -> None:
    assert {kind.noun for kind in HeadKind} == {"a tagger", "a classifier", "a span reader", "a chooser"}
