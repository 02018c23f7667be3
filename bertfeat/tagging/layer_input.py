"""What a tagger sees of each word: a recipe of layers, or several layers whose mixture it learns."""

import re
from dataclasses import dataclass, field

from bertfeat.derivation import Derivation, derive
from bertfeat.errors import NotDerivableError, RecipeError
from bertfeat.features import FeatureSet
from bertfeat.recipe import FeatureColumn, Operation, Pooling, Recipe, parse_recipes

DEFAULT_LAYERS = "concat4"
_MIX = "mix"
_CALLED = re.compile(r"embeddings|last|second-to-last|(sum|mean|concat)(4|-all)")  # recipes with names of their own


@dataclass(frozen=True, slots=True)
class TaggerInput:
    """The layers that a tagger reads, side by side if ``mixed``, so that it can weigh them itself."""

    recipe: Recipe
    mixed: bool = False
    given: str = field(default="", compare=False)  # as it was written

    @property
    def name(self) -> str:
        """``concat4``, ``last``, ``mix4``, ``mix_1_6``."""
        return _MIX + self.recipe.name.removeprefix("concat") if self.mixed else self.recipe.name

    @property
    def spec(self) -> str:
        """What :func:`parse_input` reads back in a model of as many layers: ``6``, ``mix=3+4+5+6``."""
        return _MIX + self.recipe.spec.removeprefix("concat") if self.mixed else self.recipe.spec

    @property
    def extracted(self) -> str:
        """What a feature set has to hold, as a layer specification."""
        given = self.given or self.spec
        return "concat" + given.removeprefix(_MIX) if self.mixed else given

    @property
    def mixed_layers(self) -> int:
        """How many layers are mixed; 0 for none."""
        return len(self.recipe.layers) if self.mixed else 0


def parse_input(spec: str, num_layers: int) -> TaggerInput:
    """Parse a layer specification, or ``mix4``, ``mix-all``, ``mix=1+6`` for a learned weighted sum of layers.

    The weighted sum is the scalar mix of Peters et al. 2018 (arXiv:1802.05365), equation 1.

    Raises:
        RecipeError: it does not parse, does not fit the model, or means several recipes.
    """
    mixed = spec.startswith(_MIX)
    try:
        extracted = "concat" + spec.removeprefix(_MIX) if mixed else spec
        recipes = parse_recipes(extracted, num_layers)
    except RecipeError as error:
        also = "; a tagger also reads mix4, mix-all or mix= with layers, of which it learns a weighted sum"
        told = str(error).replace(repr(extracted), repr(spec))
        raise RecipeError(f"{told}{also}" if "unknown" in told else told) from error
    if len(recipes) != 1:
        raise RecipeError(f"a tagger reads one recipe, and {spec!r} means {len(recipes)}; mix-all weighs all layers")
    if mixed and recipes[0].operation is not Operation.CONCAT:
        raise RecipeError(f"{spec!r} names one layer, and there is nothing to mix; write {recipes[0].spec}")
    return TaggerInput(recipes[0], mixed, spec)


def choose_input(spec: str | None, columns: tuple[FeatureColumn, ...], num_layers: int) -> TaggerInput:
    """Parse ``spec``; without one, take the only stored word column, else concat4.

    Raises:
        RecipeError: see :func:`parse_input`.
    """
    words = [column for column in columns if column.pooling is Pooling.WORD]
    if spec is None and len(words) == 1:
        recipe = words[0].recipe
        given = recipe.name.replace("_", "-")
        known = _CALLED.fullmatch(given) is not None
        return TaggerInput(recipe, given=given if known else recipe.spec)
    return parse_input(spec or DEFAULT_LAYERS, num_layers)


def derive_input(wanted: TaggerInput, features: FeatureSet) -> Derivation:
    """How the tagger's input is had from what a feature set stores of its words.

    Raises:
        NotDerivable: it stores no words, or not these layers; the message says how to extract them.
    """
    try:
        return derive(wanted.recipe, Pooling.WORD, features.columns)
    except NotDerivableError as error:
        raise NotDerivableError(
            f"{features.folder}: {error}; extract the corpus again, with --pooling word --layers {wanted.extracted}"
        ) from error
