"""The defaults that options show are those of the library, which the help is too light to import."""

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import click
import pytest

from bertfeat import Extractor, Index
from bertfeat.cli.option_types import CommaList
from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.encoder import Precision
from bertfeat.core.extraction import PART_ROWS, verify_features
from bertfeat.core.extraction.speed import measure_speed
from bertfeat.core.features import EXPORT_FORMATS, export_features
from bertfeat.core.features.exports import FOLDERS
from bertfeat.core.tokens import LongTextPolicy, Subword
from bertfeat.core.words import WordRule
from bertfeat.learning import Head, HeadKind, HeadSettings
from bertfeat.plots import draw_layers, draw_map
from bertfeat.pretraining import SHAPES, Objective, PretrainingSettings, pretrain_model
from bertfeat.search import (
    BuildOptions,
    Metric,
    OwnIds,
    evaluate_beir,
    evaluate_layers,
    evaluate_run,
    export_to_lance,
    export_to_qdrant,
)
from bertfeat.study import ChangeMeasure, ChangeSettings, ComparisonSettings, ProbeSettings
from bertfeat.usages import (
    Association,
    Attribute,
    Keyness,
    count_words,
    find_collocates,
    find_keywords,
    find_senses,
    find_usages,
    find_usages_by,
)
from tests.support.commands import find_command

# command → where the library keeps the defaults of its options
OWNERS: dict[tuple[str, ...], tuple[Callable[..., Any], ...]] = {
    ("extract",): (Extractor, Extractor.extract, CorpusSettings),
    ("bench",): (Extractor, measure_speed, CorpusSettings),
    ("verify",): (verify_features, CorpusSettings),
    ("export",): (export_features, export_to_lance, export_to_qdrant),
    ("index",): (BuildOptions,),
    ("search",): (Index.search,),
    ("usages",): (find_usages, find_senses, find_usages_by),
    ("collocates",): (find_collocates,),
    ("words",): (count_words, find_keywords),
    ("evaluate",): (evaluate_beir, evaluate_layers, evaluate_run),
    ("probe",): (ProbeSettings,),
    ("change",): (ChangeSettings,),
    ("compare",): (ComparisonSettings,),
    ("plot", "map"): (draw_map,),
    ("plot", "layers"): (draw_layers,),
    ("tag", "table7"): (HeadSettings, Extractor, CorpusSettings),
    **{(kind.value, "train"): (HeadSettings, Extractor, CorpusSettings) for kind in HeadKind},
    **{(kind.value, verb): (CorpusSettings, Head) for kind in HeadKind for verb in ("predict", "evaluate")},
    ("pretrain",): (PretrainingSettings, pretrain_model, CorpusSettings),
}

DECIDED_LATER: dict[tuple[str, ...], str] = {
    ("tag", "predict", "to"): "by whether stdout is a terminal",
    ("tag", "table7", "hidden"): "by the kind of head",
    **{(kind.value, "train", "layers"): "by the feature set, where one is given" for kind in HeadKind},
    **{(kind.value, "train", "hidden"): "by the kind of head" for kind in HeadKind},
}
"""Options whose default depends on what the command meets."""

ABSENT = (None, (), False)


def library_defaults(owners: tuple[Callable[..., Any], ...]) -> dict[str, list[object]]:
    """The defaults of each parameter of the owners."""
    defaults: dict[str, list[object]] = {}
    for owner in owners:
        for name, parameter in inspect.signature(owner).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                value = parameter.default
                defaults.setdefault(name, []).append(value.value if isinstance(value, enum.Enum) else value)
    return defaults


def default_of(option: click.Option, context: click.Context) -> object:
    """What the command gets where the option is absent."""
    default = option.get_default(context)
    unset = type(default).__name__ == "Sentinel"  # newer clicks' word for None
    return None if unset else option.type_cast_value(context, default)


@pytest.mark.parametrize("words", OWNERS, ids=" ".join)
def test_defaults_are_those_of_the_library(words: tuple[str, ...]) -> None:
    library, context = library_defaults(OWNERS[words]), click.Context(find_command(words))
    options = [
        option
        for option in find_command(words).params
        if isinstance(option, click.Option) and option.name in library and (*words, option.name) not in DECIDED_LATER
    ]
    assert options, "no option has a parameter of its name: are these the owners?"
    for option in options:
        ours, theirs = default_of(option, context), library[str(option.name)]
        if ours not in ABSENT:
            assert {ours} == set(theirs), option.name
        else:
            # what is absent is not passed on, and the help says in words what the library does then
            unsaid = [value for value in theirs if value not in ABSENT and str(value) not in str(option.show_default)]
            assert unsaid == [], option.name


def test_part_rows() -> None:
    part_rows = next(option for option in find_command(("extract",)).params if option.name == "part_rows")
    assert isinstance(part_rows, click.Option)
    assert f"{PART_ROWS:,}" in str(part_rows.show_default)


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (("extract",), "precision", ("auto", *Precision)),
        (("extract",), "long", LongTextPolicy),
        (("extract",), "subword", Subword),
        (("extract",), "words", WordRule),
        (("index",), "metric", Metric),
        (("collocates",), "measure", Association),
        (("words",), "measure", Keyness),
        (("words",), "attribute", Attribute),
        (("change",), "measure", ChangeMeasure),
        (("evaluate",), "own_ids", OwnIds),
        (("pretrain",), "objective", Objective),
        (("export",), "to", (*EXPORT_FORMATS, *FOLDERS, "lance", "qdrant")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_choices_are_those_of_the_library(words: tuple[str, ...], name: str, values: Iterable[str]) -> None:
    option = next(option for option in find_command(words).params if option.name == name)
    assert isinstance(option.type, click.Choice)
    assert sorted(option.type.choices) == sorted(values)


def test_precisions_are_those_of_the_library() -> None:
    option = next(option for option in find_command(("bench",)).params if option.name == "precisions")
    assert isinstance(option.type, CommaList)
    assert option.type.choices == tuple(Precision)


def test_shapes_are_those_of_the_library() -> None:
    shape = next(option for option in find_command(("pretrain",)).params if option.name == "shape")
    assert isinstance(shape, click.Option)
    assert f"{', '.join(SHAPES)}, or" in str(shape.help)
