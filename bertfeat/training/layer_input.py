"""The input that is read of each word, token or text: a recipe of layers, or several layers with learned weights."""

import re
from dataclasses import dataclass, field

from bertfeat.derivation import Derivation, derive
from bertfeat.errors import NotDerivableError, RecipeError, parameter
from bertfeat.features import FeatureSet, MemoryFeatures
from bertfeat.recipe import BEST_LAYERS, FeatureColumn, Operation, Pooling, Recipe, parse_recipes

_MIX = "mix"
_MIXED = re.compile(r"mix(4|-all|=.*)")
_CALLED = re.compile(r"embeddings|last|second-to-last|(sum|mean|concat)(4|-all)")  # recipes with names of their own


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
        """The specification that :func:`parse_input` reads in a model of as many layers: ``6``, ``mix=3+4+5+6``."""
        return _MIX + self.recipe.spec.removeprefix("concat") if self.mixed else self.recipe.spec

    @property
    def extracted(self) -> str:
        """The layers that a feature set has to hold, as a layer specification."""
        spelling = self.spelling or self.spec
        return "concat" + spelling.removeprefix(_MIX) if self.mixed else spelling

    @property
    def side_by_side(self) -> int:
        """The number of layers side by side in a vector; 1 where they are summed."""
        return len(self.recipe.layers) if self.recipe.operation is Operation.CONCAT else 1

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
    if mixed and recipes[0].operation is not Operation.CONCAT:
        remedy = f"write {recipes[0].spec}"
        raise RecipeError(f"{spec!r} names one layer, and there is nothing to mix", remedy=remedy)
    return LayerInput(recipes[0], mixed, spec)


def choose_input(spec: str | None, columns: tuple[FeatureColumn, ...], num_layers: int, pooling: Pooling) -> LayerInput:
    """Parse ``spec``; without one, take the only stored column of the pooling, else concat4.

    Raises:
        RecipeError: see :func:`parse_input`.
    """
    pooled = [column for column in columns if column.pooling is pooling]
    if spec is None and len(pooled) == 1:
        recipe = pooled[0].recipe
        name = recipe.name.replace("_", "-")
        known = _CALLED.fullmatch(name) is not None
        return LayerInput(recipe, spelling=name if known else recipe.spec)
    return parse_input(spec or BEST_LAYERS["heads"], num_layers)


def derive_input(layer_input: LayerInput, features: FeatureSet | MemoryFeatures, pooling: Pooling) -> Derivation:
    """The derivation of an input from the columns of a feature set that have this pooling.

    Raises:
        NotDerivableError: it stores none, or not these layers; the message says how to extract them.
    """
    try:
        return derive(layer_input.recipe, pooling, features.columns)
    except NotDerivableError as error:
        settings = f"{parameter('pooling', str(pooling))} {parameter('layers', layer_input.extracted)}"
        raise NotDerivableError(
            error.problem, where=features.folder, remedy=f"extract the corpus again, with {settings}"
        ) from error
