"""Sets at the edge of what can be learned: one sentence or none, ten thousand labels, odd tags, too large networks."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import CorpusError, TrainingError, UsageError
from bertfeat.learning import HeadSettings, LabelSet, Scheme, Tagger, read_spans, verify_head
from bertfeat.learning.crf import allowed_transitions
from bertfeat.learning.networks import refuse_large_crf
from tests.support.tagging_toy import feature_set, scored, tag_scores, tagged, train
from tests.support.tiny_models import Tiny

QUICK = HeadSettings(hidden=4, epochs=1, dropout=0.1, learning_rate=0.01, batch_size=8)


@pytest.fixture(scope="module")
def sets(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureSet, FeatureSet]:
    home = tmp_path_factory.mktemp("edges")
    model = tiny("bert").folder
    return feature_set(model, home / "train", 40, 1), feature_set(model, home / "dev", 20, 2)


def tagged_set(tiny: Tiny, folder: Path, sentences: list[list[tuple[str, str]]]) -> FeatureSet:
    """A set from lists of words and tags, which may be anything that JSON holds."""
    path = folder.with_suffix(".jsonl")
    lines = [{"text": [word for word, _ in each], "tags": [tag for _, tag in each]} for each in sentences]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    reading = CorpusSettings(pretokenized=True, tag_column="tags")
    extractor = Extractor(tiny.folder, layers="last", pooling="word", precision="fp32", device="cpu")
    extractor.extract(path, folder, corpus_settings=reading)
    return FeatureSet(folder)


# ── small ones ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("crf", [False, True])
def test_one_sentence_and_one_hidden_value_are_enough(bert: Tiny, tmp_path: Path, crf: bool) -> None:
    one = tagged_set(bert, tmp_path / "one", [[("the", "O"), ("bank", "B-X")]])
    done = train(one, one, tmp_path / "t", settings=replace(QUICK, hidden=1, crf=crf))
    assert done.scores is not None
    assert verify_head(tmp_path / "t").labels == 2
    assert len(Tagger(tmp_path / "t").tag(["the bank"])[0].tags) == 2


def test_empty_sentences_are_passed_over(bert: Tiny, tmp_path: Path) -> None:
    some = tagged_set(bert, tmp_path / "some", [[], [("the", "O"), ("bank", "B-X")], [], []])
    done = train(some, some, tmp_path / "t", settings=QUICK)
    assert tag_scores(done).sentences == 1
    assert [len(each.tags) for each in tagged(Tagger(tmp_path / "t"), some)] == [0, 2, 0, 0]
    with pytest.raises(TrainingError, match="there is no sentence with words in it"):
        train(tagged_set(bert, tmp_path / "none", [[], []]), some, tmp_path / "u", settings=QUICK)


def test_the_same_set_may_be_both(sets: tuple[FeatureSet, FeatureSet], tmp_path: Path) -> None:
    done = train(sets[1], sets[1], tmp_path / "t", layers="last", settings=QUICK)
    assert done.record.data["train"] == done.record.data["dev"]


# ── tags ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_development_set_of_unknown_tags_alone_is_refused(
    sets: tuple[FeatureSet, FeatureSet], bert: Tiny, tmp_path: Path
) -> None:
    dev = tagged_set(bert, tmp_path / "dev", [[("the", "O"), ("bank", "B-NEW"), ("ran", "I-NEW")]])
    with pytest.raises(TrainingError, match=r"only tags that the training set lacks \(B-NEW, I-NEW\), so no epoch"):
        train(sets[0], dev, tmp_path / "t", layers="last", settings=QUICK)
    assert not (tmp_path / "t").exists()
    plain = tagged_set(bert, tmp_path / "plain", [[("the", "DET"), ("bank", "NOUN")]])
    other = tagged_set(bert, tmp_path / "other", [[("the", "D"), ("bank", "N")]])
    with pytest.raises(TrainingError, match=r"only tags that the training set lacks \(D, N\)"):
        train(plain, other, tmp_path / "t", settings=QUICK)
    with pytest.raises(CorpusError, match=r"plain.*: 'DET' is no tag of a span"):
        train(dev, plain, tmp_path / "t", settings=QUICK)


def test_mixed_tags_name_their_set(sets: tuple[FeatureSet, FeatureSet], bert: Tiny, tmp_path: Path) -> None:
    mixed = tagged_set(bert, tmp_path / "mixed", [[("the", "O"), ("bank", "B-X"), ("ran", "X")]])
    with pytest.raises(CorpusError, match=r"mixed .*: sentence 1: 'X' stands among tags of spans"):
        train(mixed, sets[1], tmp_path / "t", layers="last", settings=QUICK)


@pytest.mark.slow
def test_tags_of_any_characters_are_learned_and_come_back(bert: Tiny, tmp_path: Path) -> None:
    odd = [[("the", "O"), ("bank", "B-a\tb"), ("ran", "I-a\tb"), ("river", "B-\n"), ("mill", "B- "), ("to", "B-é ü")]]
    some = tagged_set(bert, tmp_path / "odd", odd * 8)
    settings = replace(QUICK, hidden=16, epochs=40, patience=40, learning_rate=0.05, dropout=0.0)
    done = train(some, some, tmp_path / "t", settings=settings)
    assert done.record.score == 1.0
    again = Tagger(tmp_path / "t")
    assert list(tagged(again, some)[0].tags) == [tag for _, tag in odd[0]]
    assert scored(again, some).f1 == 1.0
    assert verify_head(tmp_path / "t").labels == 6


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [Scheme.BIO, Scheme.IOBES])
def test_ten_thousand_labels(scheme: Scheme) -> None:
    sentences = [[f"B-L{at}", "O", f"B-L{at}", f"I-L{at}"] for at in range(10_000)]
    begun = time.perf_counter()
    labels = LabelSet.of(sentences, inside=scheme)
    assert len(labels) == 1 + 10_000 * (2 if scheme is Scheme.BIO else 3)
    numbers = list(labels.numbers(sentences))
    assert [labels.tags(each) for each in numbers] == sentences
    assert time.perf_counter() - begun < 20  # it took minutes when each sentence looked through all labels


def test_transitions_of_many_labels_are_quick_and_right() -> None:
    labels = ("O", *(f"{prefix}-L{at}" for at in range(400) for prefix in "BIES"))
    allowed = allowed_transitions(labels)
    chance = np.random.default_rng(1)
    for _ in range(300):
        before, after = chance.integers(len(labels), size=2).tolist()
        goes_on = labels[before][:1] in "BI" and labels[after][:1] in "IE" and labels[before][2:] == labels[after][2:]
        must = labels[after][:1] in "IE" or labels[before][:1] in "BI"
        assert bool(allowed[before, after]) == (goes_on or not must)
    for at in range(1, len(labels)):  # the beginning and the end of a sentence
        assert bool(allowed[-2, at]) == (labels[at][0] in "BS")
        assert bool(allowed[at, -1]) == (labels[at][0] in "ES")
    path = ["B-L3", "I-L3", "E-L3", "O", "S-L7"]
    assert len(read_spans(path)) == 2


# ── too large ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_crf_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a CRF over 20,001 labels and 640 words in a batch takes .* give crf=False"):
        refuse_large_crf(20_001, 640, torch.device("cpu"))
    refuse_large_crf(9, 640, torch.device("cpu"))


def test_overwriting_is_refused_before_anything_is_removed(sets: tuple[FeatureSet, FeatureSet], tmp_path: Path) -> None:
    train(*sets, tmp_path / "t", layers="last", settings=QUICK)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="give a smaller hidden"):
        train(*sets, tmp_path / "t", layers="last", settings=replace(QUICK, hidden=65_536), overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_loss_that_is_no_number_is_told(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertfeat.learning.loop.HeadLoop._learn_epoch", lambda *_: (float("nan"), 5))
    with pytest.raises(
        TrainingError, match=r"the loss of epoch 1 is no finite number at a learning rate of 0\.01; give a"
    ):
        train(*sets, tmp_path / "t", layers="last", settings=QUICK)


# ── features ────────────────────────────────────────────────────────────────────────────────────────────────


def test_features_that_say_nothing_of_their_words_are_refused(
    sets: tuple[FeatureSet, FeatureSet], tmp_path: Path
) -> None:
    from tests.support.features_toy import toy_part, toy_set

    silent = FeatureSet(toy_set(tmp_path / "silent", toy_part(poolings=("word",), tags=True)))
    with pytest.raises(TrainingError, match="its settings do not say how it was extracted"):
        train(silent, silent, tmp_path / "t", settings=QUICK)


def test_features_in_int8_are_learned_and_made_again_for_a_corpus(bert: Tiny, tmp_path: Path) -> None:
    learned, held_out = (feature_set(bert.folder, tmp_path / f"set{seed}", 30, seed, dtype="int8") for seed in (1, 2))
    report = train(learned, held_out, tmp_path / "tagger", layers="concat4", settings=QUICK)
    assert report.record.extraction is not None
    assert report.record.extraction.dtype == "int8"
    tagger = Tagger(tmp_path / "tagger", device="cpu")
    stored, made = (
        [tag for row in tagged(tagger, source) for tag in row.tags] for source in (held_out, tmp_path / "set2.conll")
    )
    assert len(stored) == len(made)
    # a value at the middle of a step may round either way, since batches differ
    assert np.mean([one == other for one, other in zip(stored, made, strict=True)]) > 0.95


def test_features_that_were_replaced_are_told(bert: Tiny, tmp_path: Path) -> None:
    """Between two epochs: what was read before and after must be of one set."""
    features = feature_set(bert.folder, tmp_path / "train", 40, 1)
    dev = feature_set(bert.folder, tmp_path / "dev", 20, 2)
    seen: list[int] = []

    def replaced(epoch: object) -> None:
        seen.append(1)
        extractor = Extractor(bert.folder, layers="last", pooling="word", precision="fp32", device="cpu")
        extractor.extract(tmp_path / "train.conll", tmp_path / "train", overwrite=True)

    with pytest.raises(TrainingError, match="train was changed while it was read; run the same command again"):
        train(features, dev, tmp_path / "t", layers="last", settings=replace(QUICK, epochs=3), progress=replaced)
    assert seen == [1]
    assert not (tmp_path / "t" / "head.json").exists()
