"""What is left open in settings, and how it is decided."""

from dataclasses import replace
from typing import Any

import pytest

from bertfeat.errors import UsageError
from bertfeat.pretraining import SHAPES, ModelShape, Objective, PretrainingSettings
from bertfeat.pretraining.settings import MaskShares, default_rate, parse_mask, parse_shape


def test_a_new_model_is_mini_and_learns_both() -> None:
    settings = PretrainingSettings().resolved(from_scratch=True)
    assert (settings.shape, settings.vocabulary, settings.goal) == ("mini", 30_000, Objective.MLM_NSP)
    assert (settings.positions, settings.epochs, settings.steps) == (128, 1, None)
    assert settings.model_shape == ModelShape(4, 256, 4)
    assert settings.resolved(from_scratch=True) == settings


def test_a_model_that_goes_on_learns_words_alone() -> None:
    settings = PretrainingSettings(steps=5).resolved(from_scratch=False)
    assert (settings.goal, settings.rate, settings.epochs, settings.shape) == (Objective.MLM, 5e-5, None, None)


def test_a_shape_has_one_name() -> None:
    spelled = [
        PretrainingSettings(shape=shape).resolved(from_scratch=True)
        for shape in ("tiny", "L=2,H=128,A=2", "a=2, l=2, h=128")
    ]
    assert spelled[0] == spelled[1] == spelled[2]
    assert PretrainingSettings(shape="H=64,A=4,L=3").resolved(from_scratch=True).shape == "L=3,H=64,A=4"


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_are_those_of_the_papers(name: str) -> None:
    # Devlin et al. 2019, section 3; Turc et al. 2019, table 1
    layers, width = {
        "tiny": (2, 128),
        "mini": (4, 256),
        "small": (4, 512),
        "medium": (8, 512),
        "base": (12, 768),
        "large": (24, 1024),
    }[name]
    assert parse_shape(name) == ModelShape(layers, width, width // 64)


def test_rates_fall_with_the_width_to_that_of_the_paper() -> None:
    assert [default_rate(width) for width in (16, 128, 256, 2048)] == [1e-3, 1e-3, 5e-4, 1e-4]
    assert default_rate(768) == pytest.approx(1e-3 / 6)


@pytest.mark.parametrize("text", ["", "L=2", "L=2,H=64", "L=2,H=64,A=2,A=2", "L=x,H=64,A=2", "2,64,2", "L=2,L=2,A=2"])
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(UsageError, match="no shape of a model"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "shares"), [("80:10:10", (80, 10, 10)), ("0:0:100", (0, 0, 100)), ("99.5:.5:0", (99.5, 0.5, 0))]
)
def test_shares_of_masks(text: str, shares: tuple[float, float, float]) -> None:
    assert parse_mask(text) == MaskShares(*shares)


@pytest.mark.parametrize("text", ["", "80", "80:10:10:0", "a:b:c", "80:10:9", "110:-5:-5", "inf:0:0"])
def test_what_are_no_shares(text: str) -> None:
    with pytest.raises(UsageError):
        PretrainingSettings(mask=text)


def test_a_model_that_reads_from_left_to_right_masks_nothing() -> None:
    with pytest.raises(UsageError, match="whole_words says how pieces are masked"):
        PretrainingSettings(objective=Objective.LTR, whole_words=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("steps", 0), ("epochs", 0), ("vocabulary", 5), ("batch_size", 0), ("max_length", 7), ("seed", -1)),
        *(("mask_rate", 1.0), ("held_out", 0.6), ("anchor", 0.0), ("learning_rate", 0.0), ("minutes", 0.0)),
        *(("precision", "fp16"), ("objective", "nsp"), ("mask_rate", float("nan")), ("held_out", float("nan"))),
    ],
)
def test_values_that_cannot_be_right(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        PretrainingSettings(**{name: value})


def test_settings_of_one_kind_of_training_only() -> None:
    with pytest.raises(UsageError, match="a new one has none"):
        PretrainingSettings(anchor=1.0).resolved(from_scratch=True)
    for more in ({"shape": "tiny"}, {"vocabulary": 500}, {"cased": True}, {"positions": 512}):
        with pytest.raises(UsageError, match="is for a new model"):
            replace(PretrainingSettings(), **more).resolved(from_scratch=False)
