"""The features that a head reads: which layers, how they were extracted, and where they are."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.core import (
    BEST_LAYERS,
    Derivation,
    FeatureColumn,
    FeatureSet,
    FeatureSettings,
    LongTextPolicy,
    MemoryFeatures,
    ModelIdentity,
    Pooling,
    Recipe,
    Subword,
    VectorDtype,
    derive,
    find_column,
    parse_recipes,
)
from bertfeat.errors import (
    AnotherCorpusError,
    BertfeatError,
    DamagedError,
    NotDerivableError,
    RecipeError,
    RemovalError,
    SettingsDifferError,
    TrainingError,
    UsageError,
    parameter,
)
from bertfeat.io import Address, JsonError, Location, as_location, from_plain, is_address, real_path, to_plain
from bertfeat.learning.example_store import parts_digest

# ── layers ────────────────────────────────────────────────────────────────────────────────────────────────


_MIX = "mix"
_MIXED = re.compile(r"mix(4|-all|=.*)")


@dataclass(frozen=True, slots=True)
class LayerInput:
    """The layers that are read, side by side if ``mixed``, so that a network can weigh them itself."""

    recipe: Recipe
    mixed: bool = False
    spelling: str = field(default="", compare=False)  # as the user wrote it

    @property
    def name(self) -> str:
        """``concat4``, ``last``, ``mix4``, ``mix_1_6``."""
        return _MIX + self.recipe.name.removeprefix("concat") if self.mixed else self.recipe.name

    @property
    def spec(self) -> str:
        """The specification that :func:`parse_input` reads for a model with as many layers: ``6``, ``mix=3+4+5+6``."""
        return _MIX + self.recipe.spec.removeprefix("concat") if self.mixed else self.recipe.spec

    @property
    def extracted(self) -> str:
        """The layers that a feature set has to hold, as a layer specification."""
        spelling = self.spelling or self.spec
        return "concat" + spelling.removeprefix(_MIX) if self.mixed else spelling

    @property
    def side_by_side(self) -> int:
        """The number of layers side by side in a vector; 1 where they are summed."""
        return self.recipe.width(1)

    @property
    def mixed_layers(self) -> int:
        """The number of mixed layers; 0 for none."""
        return len(self.recipe.layers) if self.mixed else 0


def parse_input(spec: str, num_layers: int) -> LayerInput:
    """Parse a layer specification, or ``mix4``, ``mix-all``, ``mix=1+6`` for a learned weighted sum of layers.

    The weighted sum is the scalar mix of Peters et al. 2018 (arXiv:1802.05365), equation 1.

    Raises:
        RecipeError: it does not parse, does not fit the model, or means several recipes.
    """
    mixed = _MIXED.fullmatch(spec) is not None
    try:
        recipes = parse_recipes("concat" + spec.removeprefix(_MIX) if mixed else spec, num_layers)
    except RecipeError as error:
        if mixed:
            raise error.within(repr(spec)) from error
        also = "a head also reads mix4, mix-all or mix= with layers, of which it learns a weighted sum"
        raise RecipeError(error.problem, remedy=f"{error.remedy}; {also}" if error.remedy else "") from error
    if len(recipes) != 1:
        remedy = "mix-all weighs all layers"
        raise RecipeError(f"a head reads one recipe, and {spec!r} means {len(recipes)}", remedy=remedy)
    if mixed and recipes[0].width(1) == 1:
        remedy = f"write {recipes[0].spec}"
        raise RecipeError(f"{spec!r} names one layer, and there is nothing to mix", remedy=remedy)
    return LayerInput(recipes[0], mixed, spec)


def choose_input(spec: str | None, columns: tuple[FeatureColumn, ...], num_layers: int, pooling: Pooling) -> LayerInput:
    """Parse ``spec``; without one, take concat4 where it can be read, else the only stored column of the pooling."""
    if spec is not None:
        return parse_input(spec, num_layers)
    try:
        recipe = find_column(columns, num_layers, None, pooling, task="heads").recipe
    except NotDerivableError:  # derive_input says how to extract what is lacking
        return parse_input(BEST_LAYERS["heads"], num_layers)
    return LayerInput(recipe, spelling=recipe.spelling)


def derive_input(layer_input: LayerInput, features: FeatureSet | MemoryFeatures, pooling: Pooling) -> Derivation:
    """The derivation of an input from the columns of a feature set that have this pooling."""
    try:
        derivation = derive(layer_input.recipe, pooling, features.columns)
        if isinstance(features, FeatureSet):
            _check_heads_width(layer_input.recipe, derivation.width, features)
        return derivation
    except NotDerivableError as error:
        settings = f"{parameter('pooling', str(pooling))} {parameter('layers', layer_input.extracted)}"
        raise NotDerivableError(
            error.problem, where=features.folder, remedy=f"extract the corpus again, with {settings}"
        ) from error


def _check_heads_width(recipe: Recipe, width: int, features: FeatureSet) -> None:
    """Refuse the outputs of attention's heads where they are not as wide as a layer."""
    hidden_size = features.header.model.hidden_size
    if recipe.of_heads and width != recipe.width(hidden_size):
        raise UsageError(
            f"what is learned reads vectors of a layer's width, {hidden_size}, and the heads of attention give "
            f"{width // recipe.width(1)} values",
            where=features.folder,
            remedy=f"give other {parameter('layers')}",
        )


# ── places ────────────────────────────────────────────────────────────────────────────────────────────────


def record_place(features: Location, folder: Path) -> str:
    """The path of features relative to a folder, so that both may be moved together; an address stays as it is."""
    return str(features) if isinstance(features, Address) else os.path.relpath(real_path(features), real_path(folder))


def find_place(folder: Path, recorded: str) -> Location:
    """The location of features that a folder records as :func:`record_place` gave it."""
    if "\0" in recorded:
        raise TrainingError(f"it records {recorded!r} as the place of its features", where=folder)
    return as_location(recorded) if is_address(recorded) else folder / recorded


# ── extraction ────────────────────────────────────────────────────────────────────────────────────────────


FOLDER_REFUSALS = (AnotherCorpusError, RemovalError, SettingsDifferError)
"""Errors of an extraction that refuses to continue in its folder; their remedies name options of ``extract`` itself."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The settings that decide the features, for a given model; named as in a feature set's settings."""

    long: LongTextPolicy
    max_length: Annotated[int, Meta(ge=1)]
    prompt: str
    document_context: bool
    subword: Subword | None  # how a word's vector is made of its pieces; not None where words are read
    precision: Literal["fp32", "bf16", "fp16", "int8"]
    dtype: VectorDtype
    special_tokens: bool
    context: str | None
    stored: tuple[FeatureColumn, ...] = ()  # the columns that the input is read from, where layers do not make them

    @property
    def settings(self) -> FeatureSettings:
        """The same settings in the form that a feature set has them."""
        return from_plain(to_plain(self), FeatureSettings)


def extraction_of(features: FeatureSet, pooling: Pooling) -> Extraction:
    """The settings of a feature set that decide its features with that pooling."""
    recorded = features.header.settings.plain
    try:
        values = {field.name: recorded[field.name] for field in fields(Extraction) if field.name != "stored"}
        extraction = replace(from_plain(values, Extraction), stored=_columns_as_stored(features, pooling))
        if pooling is Pooling.WORD and extraction.subword is None:
            raise JsonError("they lack subword")
        return extraction
    except JsonError as error:
        problem = f"its settings do not say how it was extracted ({error})"
        raise TrainingError(problem, where=features.folder, remedy="extract it again") from error


def _columns_as_stored(features: FeatureSet, pooling: Pooling) -> tuple[FeatureColumn, ...]:
    """The columns of a pooling that do not follow from a model's layers alone: with bases, or of its own modules."""
    return tuple(
        column
        for column in features.columns
        if column.pooling is pooling and (column.basis is not None or pooling is Pooling.SENTENCE)
    )


def count_failed_rows(sources: Mapping[str, object], sets: Mapping[str, tuple[FeatureSet, ...]]) -> int:
    """The number of rows that failed in the corpora (paths) among the sources, whose feature sets are ``sets``."""
    corpora = [name for name, source in sources.items() if isinstance(source, Path)]
    failed = {(name, failure.row) for name in corpora for features in sets[name] for failure in features.failures()}
    return len(failed)


def check_same_features(
    ours: FeatureSet, model: ModelIdentity, extraction: Extraction, what: str, pooling: Pooling
) -> None:
    """Refuse features that were made by another model or in another way than those of ``what``."""
    header = ours.header
    if header.model.fingerprint != model.fingerprint:
        raise TrainingError(
            f"{ours.folder} was made by {header.model.name} (fingerprint {header.model.fingerprint[:12]}…), and {what} "
            f"by {model.name} ({model.fingerprint[:12]}…)",
            remedy=f"extract it again with {parameter('model', model.name)}",
        )
    if (header.model.num_layers, header.model.hidden_size) != (model.num_layers, model.hidden_size):
        raise TrainingError(
            f"{ours.folder} says that {model.name} has {header.model.num_layers} layers of width "
            f"{header.model.hidden_size}, and {what} that it has {model.num_layers} of width {model.hidden_size}",
            remedy="make again what was changed",
        )
    if problem := model.canary_problem(header.model):
        raise TrainingError(
            f"the model gave {ours.folder} other vectors than {what}: {problem}", remedy="extract it again"
        )
    theirs = replace(extraction.settings, model=header.settings.model)  # models were compared above
    differences = header.settings.incomparable_with(theirs, pooling)
    if differences:
        listed = ", ".join(
            f"{difference.name} is {difference.ours!r}, not {difference.theirs!r}" for difference in differences
        )
        problem = f"{ours.folder} was extracted in another way than {what}: {listed}"
        raise TrainingError(problem, remedy="extract it again as that")
    if _columns_as_stored(ours, pooling) != extraction.stored:
        raise TrainingError(
            f"the vectors of {ours.folder} are stored by other components than those of {what}",
            remedy=f"extract it again with {parameter('basis')}, and name the set whose components it is to have",
        )
    extraction_of(ours, pooling)  # refuses incomplete settings


# ── verification ──────────────────────────────────────────────────────────────────────────────────────────────


class FeaturesState(StrEnum):
    """The state of features that something was trained on."""

    SAME = "the same"
    CHANGED = "changed since"
    ABSENT = "not there"


def features_state(folder: Path, places: Sequence[str], digest: str) -> FeaturesState:
    """The state of the features that a folder records: one set, or several that were read together."""
    if not places:
        return FeaturesState.ABSENT
    try:
        sets = [FeatureSet(find_place(folder, place)) for place in places]
    except DamagedError:
        return FeaturesState.CHANGED
    except BertfeatError:
        return FeaturesState.ABSENT
    return FeaturesState.SAME if join_digests(sets) == digest else FeaturesState.CHANGED


def join_digests(sets: Sequence[FeatureSet]) -> str:
    """The digest that identifies the features of one set, or of several that are read together."""
    return "+".join(map(parts_digest, sets))
