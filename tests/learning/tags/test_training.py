"""Training: it learns, goes on after a kill to the same result, and holds no more features than it may."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.recipe import Pooling
from bertfeat.errors import StorageError, UsageError
from bertfeat.learning import HeadSettings, Tagger, parse_input
from bertfeat.learning.example_store import batches_by_length, pack_examples, shuffled_batches
from bertfeat.learning.examples import HeadExamples, open_examples
from bertfeat.learning.inputs import extraction_of
from bertfeat.learning.loop import HeadLoop
from bertfeat.learning.networks import feature_scale
from bertfeat.learning.record import HeadInput
from bertfeat.learning.tasks import TASKS
from tests.support.killed_training import Killed, killing_after
from tests.support.tagging_toy import feature_set, scored, tag_scores, train, write_conll
from tests.support.tiny_models import Tiny

QUICK = HeadSettings(hidden=16, epochs=4, dropout=0.1, learning_rate=0.01, batch_size=8)


@pytest.fixture(scope="module")
def sets(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureSet, FeatureSet]:
    home = tmp_path_factory.mktemp("tagging")
    model = tiny("bert").folder
    return feature_set(model, home / "train", 150, 1), feature_set(model, home / "dev", 40, 2)


# ── learning ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("layers", "changes"),
    [
        pytest.param("concat4", {}, id="softmax"),
        pytest.param("mix-all", {"crf": True, "scheme": "IOBES"}, id="mixed layers, CRF", marks=pytest.mark.slow),
    ],
)
def test_it_learns(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path, layers: str, changes: dict[str, object]
) -> None:
    done = train(*sets, tmp_path / "a", layers=layers, settings=replace(QUICK, epochs=16, **changes))  # type: ignore[arg-type]
    scores = tag_scores(done)
    assert scores.is_spans
    assert done.record.score == scores.f1 > 0.6  # by whatever hardware the features are made
    assert done.record.score == max(epoch["score"] for epoch in done.record.history)
    tagger = Tagger(tmp_path / "a")
    assert scored(tagger, sets[1]) == scores
    weights = tagger.mix_weights
    assert (weights is None) == (layers == "concat4")
    if weights is not None:
        assert list(weights) == [1, 2, 3, 4, 5]
        assert sum(weights.values()) == pytest.approx(1.0)


def test_plain_tags(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    words = [[("the", "DET"), ("bank", "NOUN"), ("ran", "VERB")], [("water", "NOUN"), ("ran", "VERB")]] * 30
    corpus = write_conll(tmp_path / "pos.conll", words)
    extractor = Extractor(tiny("bert").folder, pooling="word", device="cpu", precision="fp32")
    extractor.extract(corpus, tmp_path / "pos.features")
    features = FeatureSet(tmp_path / "pos.features")
    done = train(features, features, tmp_path / "pos", settings=QUICK)
    assert not tag_scores(done).is_spans
    assert set(done.record.outputs.labels) == {"DET", "NOUN", "VERB"}
    assert done.record.score == 1.0


# ── resuming ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("crf", [False, True])
def test_a_killed_training_goes_on_to_the_same_result(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path, crf: bool
) -> None:
    settings = replace(QUICK, crf=crf, epochs=6, patience=2)
    train(*sets, tmp_path / "whole", layers="mix4", settings=settings)
    for number in (1, 3):
        with pytest.raises(Killed):
            train(*sets, tmp_path / "killed", layers="mix4", settings=settings, progress=killing_after(number))
    assert not (tmp_path / "killed" / "head.json").exists()
    done = train(*sets, tmp_path / "killed", layers="mix4", settings=settings)
    assert done.resumed == 3
    whole, killed = (load_file(tmp_path / name / "head.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    histories = [json.loads((tmp_path / name / "head.json").read_text())["history"] for name in ("whole", "killed")]
    for history in histories:
        for epoch in history:
            del epoch["seconds"]
    assert histories[0] == histories[1]
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        ".bertfeat",
        "head.json",
        "head.safetensors",
    ]
    before = (tmp_path / "killed" / "head.json").read_bytes()
    again = train(*sets, tmp_path / "killed", layers="mix4", settings=settings)
    assert again.scores is None
    assert (tmp_path / "killed" / "head.json").read_bytes() == before


@pytest.mark.parametrize("rows", [1, 512, 1300])
def test_mean_and_spread_are_numpys(rows: int) -> None:
    values = (np.random.default_rng(rows).standard_normal((rows, 7)) * 3 + 40).astype(np.float16)
    mean, spread = feature_scale(values)
    np.testing.assert_allclose(mean, values.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(spread, values.astype(np.float64).std(0), rtol=1e-6)


@pytest.mark.hostile
def test_patience_and_the_learning_rate_go_by_the_best_epoch(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And epochs in which nothing was found yet do not count."""
    told = iter([0.0, 0.0, 0.0, 0.0, 0.5, 0.4, 0.5, 0.6, 0.1, 0.1, 0.1, 0.1, 0.1])
    monkeypatch.setattr(HeadLoop, "dev_score", lambda _: next(told))
    settings = replace(QUICK, epochs=40, patience=4, learning_rate=0.008)
    done = train(*sets, tmp_path / "a", layers="last", settings=settings).record
    assert [epoch["rate"] for epoch in done.history] == [0.008] * 7 + [0.004] * 3 + [0.002] * 2
    assert [epoch["score"] for epoch in done.history][-5:] == [0.6, 0.1, 0.1, 0.1, 0.1]
    assert done.best_epoch == 8


@pytest.mark.slow
def test_a_linear_schedule_learns_every_epoch_and_keeps_the_last(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([0.5, 0.9, 0.1, 0.0, 0.0])
    monkeypatch.setattr(HeadLoop, "dev_score", lambda _: next(told))
    settings = replace(QUICK, epochs=4, schedule="linear", learning_rate=0.008)
    with pytest.raises(Killed):
        train(*sets, tmp_path / "a", layers="last", settings=settings, progress=killing_after(2))
    done = train(*sets, tmp_path / "a", layers="last", settings=settings).record
    assert [epoch["rate"] for epoch in done.history] == pytest.approx([0.008, 0.006, 0.004, 0.002])
    assert (done.best_epoch, done.score) == (4, 0.0)


def test_patience_beside_a_linear_schedule_and_an_unknown_one() -> None:
    with pytest.raises(UsageError, match="patience=9 has no effect: all epochs are learned"):
        replace(QUICK, schedule="linear", patience=9)
    with pytest.raises(UsageError, match="schedule='cosine': must be one of 'plateau', 'linear'"):
        replace(QUICK, schedule="cosine")  # type: ignore[arg-type]


def test_a_folder_with_files_of_others_is_left_alone(sets: tuple[FeatureSet, FeatureSet], tmp_path: Path) -> None:
    """Hugging Face's own trainings leave such files, and this one would remove them."""
    for name in ("checkpoint.json", "checkpoint-7.safetensors", "curves.png"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        for overwrite in (False, True):
            with pytest.raises(StorageError, match=f"holds '{name}' and is not a head; name another folder"):
                train(*sets, folder, layers="last", settings=QUICK, overwrite=overwrite)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "mine")]
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / ".gitignore").write_text("*")
    train(*sets, hidden, layers="last", settings=replace(QUICK, epochs=1))


# ── features in memory, or not ──────────────────────────────────────────────────────────────────────────────


def opened(features: FeatureSet, spec: str, budget: int) -> HeadExamples:
    """The tagged sentences of a set, of whose features so many bytes are held."""
    extraction, layers = extraction_of(features, Pooling.WORD), parse_input(spec, 5)
    reads = HeadInput(features.header.model, extraction, Pooling.WORD, layers, None)
    return open_examples(TASKS["tags"], [features], reads, budget=budget)


def everything(examples: HeadExamples, seed: tuple[int, ...] | None) -> list[tuple[bytes, object]]:
    """Every sentence of a pass, its features and tags, the order left out."""
    found, tags = [], examples.gold
    for chunk in examples.store.chunks(seed):
        for at in range(len(chunk)):
            rows = chunk.features[chunk.offsets[at] : chunk.offsets[at + 1]]
            found.append((rows.astype(np.float32).tobytes(), tags[chunk.examples[at]]))
    return sorted(found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spec", ["concat4", "sum4", "3"])
def test_chunks_hold_everything_once_and_no_more_than_they_may(sets: tuple[FeatureSet, FeatureSet], spec: str) -> None:
    features = sets[0]
    whole = opened(features, spec, 1 << 30)
    assert whole.store.fits
    right = sorted(
        (document.matrix(spec, "word").tobytes(), tuple(document.tags or ())) for document in features.documents()
    )
    assert everything(whole, None) == right
    budget = whole.store.bytes // 5
    small = opened(features, spec, budget)
    assert not small.store.fits
    orders = []
    for seed in (None, (1, 1), (1, 2)):
        assert everything(small, seed) == right
        chunks = list(small.store.chunks(seed))
        assert len(chunks) >= 10
        assert max(chunk.features.nbytes for chunk in chunks) <= budget // 2
        orders.append([chunk.examples.tolist() for chunk in chunks])
    assert orders[0] != orders[1] != orders[2]
    assert everything(opened(features, spec, 1), (3,)) == right, "a sentence at a time, if need be"


@pytest.mark.hostile
def test_training_from_chunks(sets: tuple[FeatureSet, FeatureSet], tmp_path: Path) -> None:
    settings = replace(QUICK, memory=opened(sets[0], "concat4", 1).store.bytes // 4, epochs=12)
    done = train(*sets, tmp_path / "a", layers="concat4", settings=settings)
    assert done.record.score > 0.6
    with pytest.raises(Killed):
        train(*sets, tmp_path / "b", layers="concat4", settings=settings, progress=killing_after(2))
    train(*sets, tmp_path / "b", layers="concat4", settings=settings)
    weights = [(tmp_path / name / "head.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_batches_hold_every_word_once(sets: tuple[FeatureSet, FeatureSet]) -> None:
    (chunk,) = opened(sets[0], "last", 1 << 30).store.chunks()
    for batches in (list(shuffled_batches(chunk.offsets, 7, (1,))), list(batches_by_length(chunk.offsets, 7))):
        words = np.concatenate([packed.vectors for packed in batches])
        assert sorted(words) == list(range(len(chunk.features)))
        assert max(packed.sizes[0] for packed in batches) <= 7
    orders = [
        [packed.vectors.tolist() for packed in shuffled_batches(chunk.offsets, 7, seed)] for seed in ((1,), (1,), (2,))
    ]
    assert orders[0] == orders[1] != orders[2]


def test_words_are_packed_time_by_time() -> None:
    packed = pack_examples(np.array([0, 1, 4, 6]), np.array([0, 1, 2]))
    assert packed.examples.tolist() == [1, 2, 0]
    assert packed.sizes == (3, 2, 1)
    assert packed.vectors.tolist() == [1, 4, 0, 2, 5, 3]


def test_the_vectors_of_a_batch_are_found_in_the_store(sets: tuple[FeatureSet, FeatureSet]) -> None:
    store = opened(sets[0], "last", 1 << 30).store
    (whole,) = store.chunks()
    small = opened(sets[0], "last", store.bytes // 5).store
    for chunk in small.chunks((1,)):
        for packed in shuffled_batches(chunk.offsets, 7, (2,)):
            assert np.array_equal(whole.features[small.vectors_of(chunk, packed)], chunk.features[packed.vectors])
            sizes = [np.arange(size) for size in packed.sizes]
            assert packed.owners.tolist() == np.concatenate(sizes).tolist()


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(("batch_size", "patience", "rate_halved_after"), [(150, 100, 33), (9, 6, 2), (4, 6, 2)])
def test_epochs_of_few_updates_are_waited_for_longer(
    sets: tuple[FeatureSet, FeatureSet],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_size: int,
    patience: int,
    rate_halved_after: int,
) -> None:
    """A span of luck in the first epoch does not end a training on few sentences."""
    monkeypatch.setattr(HeadLoop, "dev_score", lambda loop: 0.0 if loop.history else 0.1)
    settings = HeadSettings(hidden=4, epochs=40, batch_size=batch_size)
    done = train(*sets, tmp_path / "a", layers="last", settings=settings).record
    assert (done.training.patience, len(done.history)) == (patience, min(40, 1 + patience))
    halved = [number for number, epoch in enumerate(done.history, 1) if epoch["rate"] < 1e-3]
    assert halved[0] == 1 + 1 + rate_halved_after
    again = train(*sets, tmp_path / "a", layers="last", settings=settings)
    assert again.scores is None  # nothing was learned anew
