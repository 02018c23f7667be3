"""What a tagger can be trained on: layers, sets that are alike, tags; and what it cannot."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.recipe import Pooling
from bertfeat.errors import BertfeatError, NotDerivableError, TrainingError, UsageError
from bertfeat.learning import HeadSettings, parse_input
from bertfeat.learning.inputs import choose_input, derive_input
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny

QUICK = HeadSettings(hidden=16, epochs=4, dropout=0.1, learning_rate=0.01, batch_size=8)


@pytest.fixture(scope="module")
def sets(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureSet, FeatureSet]:
    home = tmp_path_factory.mktemp("tagging")
    model = tiny("bert").folder
    return feature_set(model, home / "train", 150, 1), feature_set(model, home / "dev", 40, 2)


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_inputs() -> None:
    assert parse_input("mix4", 6) == parse_input("mix=-4..-1", 6)
    assert parse_input("mix4", 6) != parse_input("concat4", 6)
    for spec in ("mix4", "mix-all", "mix=1+6", "concat4", "sum-all", "-2"):
        wanted = parse_input(spec, 6)
        assert parse_input(wanted.spec, 6) == wanted
    assert parse_input("mix=0..6", 6).mixed_layers == 7


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("mix=3", "there is nothing to mix; write 3"),
        ("all", "a head reads one recipe"),
        ("mixed", "also reads mix4"),
        ("9", "outside the model"),
        ("mix=1..9", r"'mix=1\.\.9': layer 9 in .* is outside"),
    ],
)
def test_inputs_that_cannot_be(spec: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_input(spec, 6)


def test_the_only_stored_column_is_what_is_meant(
    sets: tuple[FeatureSet, FeatureSet], tiny: Callable[[str], Tiny], tmp_path: Path
) -> None:
    assert choose_input(None, sets[0].columns, 5, Pooling.WORD).name == "concat4"
    single = feature_set(tiny("bert").folder, tmp_path / "one", 5, 3, layers="second-to-last", pooling="word,mean")
    assert choose_input(None, single.columns, 5, Pooling.WORD).name == "second_to_last"
    with pytest.raises(NotDerivableError, match="pooling='word' layers='concat4'"):
        derive_input(parse_input("mix4", 5), single, Pooling.WORD)


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changes",
    [{"hidden": -2}, {"dropout": 1.0}, {"learning_rate": 0.0}, {"epochs": 0}, {"seed": -1}, {"scheme": "IOB1"}],
    ids=str,
)
def test_settings_that_cannot_be(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"{str(*changes)}=.*: must be "):
        replace(QUICK, **changes)  # type: ignore[arg-type]


def test_a_tagger_has_a_hidden_layer(sets: tuple[FeatureSet, FeatureSet], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hidden=0: a tagger has a hidden layer; give at least 1"):
        train(*sets, tmp_path / "a", layers="last", settings=replace(QUICK, hidden=0))


def conll_set(tiny: Tiny, folder: Path, text: str, **settings: object) -> FeatureSet:
    path = folder.with_suffix(".conll")
    path.write_text(text, "utf-8")
    arguments = {"layers": "all", "pooling": "word", "precision": "fp32", "device": "cpu"} | settings
    Extractor(tiny.folder, **arguments).extract(path, folder)  # type: ignore[arg-type]
    return FeatureSet(folder)


@pytest.mark.parametrize(
    ("text", "settings", "problem"),
    [
        ("the O\nbank O\n", {}, "every word of the training sentences has the tag 'O'"),
        ("the O\nbank B-PER\n", {"pooling": "mean"}, "extract the corpus again, with pooling='word'"),
        ("the O\nbank B-PER\n", {"layers": "0"}, "extract the corpus again"),
        ("the O\nbank B-PER\n", {"subword": "mean"}, "subword is 'first', not 'mean'"),
        ("the O\nbank B-PER\nran V\n", {}, "'V'"),
    ],
)
def test_training_sets_that_cannot_be(
    sets: tuple[FeatureSet, FeatureSet],
    bert: Tiny,
    tmp_path: Path,
    text: str,
    settings: dict[str, object],
    problem: str,
) -> None:
    given = conll_set(bert, tmp_path / "train", text, **settings)
    with pytest.raises(BertfeatError, match=problem):
        train(given, sets[1], tmp_path / "a", layers="last", settings=QUICK)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [("the O\nbank O\n", "the development set has no span"), ("the DET\nbank N\n", "'DET'")],
)
def test_development_sets_that_cannot_be(
    sets: tuple[FeatureSet, FeatureSet], bert: Tiny, tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(BertfeatError, match=problem):
        train(sets[0], conll_set(bert, tmp_path / "dev", text), tmp_path / "a", layers="last", settings=QUICK)


def test_tags_that_only_the_development_set_has_are_told(
    sets: tuple[FeatureSet, FeatureSet], bert: Tiny, tmp_path: Path
) -> None:
    dev = conll_set(bert, tmp_path / "dev", "the O\nbank B-PER\nmill B-ORG\n")
    done = train(sets[0], dev, tmp_path / "a", layers="last", settings=replace(QUICK, epochs=1))
    assert "B-ORG" in done.warnings[0]


def test_sets_of_two_models_are_not_mixed(
    sets: tuple[FeatureSet, FeatureSet], tiny: Callable[[str], Tiny], tmp_path: Path
) -> None:
    other = feature_set(tiny("roberta").folder, tmp_path / "dev", 10, 2)
    with pytest.raises(TrainingError, match="extract it again with model="):
        train(sets[0], other, tmp_path / "a", layers="last", settings=QUICK)


def test_texts_without_tags(sets: tuple[FeatureSet, FeatureSet], bert: Tiny, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the bank\n")
    Extractor(bert.folder, pooling="word", layers="all", device="cpu", precision="fp32").extract(
        tmp_path / "a.txt", tmp_path / "a.features"
    )
    with pytest.raises(TrainingError, match="its words have no tags"):
        train(FeatureSet(tmp_path / "a.features"), sets[1], tmp_path / "a", layers="last", settings=QUICK)
