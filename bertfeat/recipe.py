"""The layers grammar: parse, print, width, the layers needed, and one recipe derived from stored others.

Layer ``0`` is the embedding output and ``1..L`` the outputs of the transformer blocks, as in Hugging Face
``hidden_states``; negative numbers count from the end (``-1`` is L). The convention is fixed here, once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import NotDerivableError, RecipeError

GRAMMAR = (
    "embeddings, last, second-to-last, sum4, mean4, concat4, sum-all, mean-all, concat-all, all, cls, "
    "a layer number such as 7 or -2, or sum=, mean=, concat= with layers such as -4..-1 or 1+6+12"
)


class Operation(StrEnum):
    """How the layers of a recipe become one vector."""

    LAYER = "layer"  # one layer as it is
    SUM = "sum"
    MEAN = "mean"
    CONCAT = "concat"  # ascending layers side by side: width is their number times H


class Pooling(StrEnum):
    """Over which tokens of a document a recipe is taken."""

    MEAN = "mean"  # one vector a document: the mean over its tokens
    CLS = "cls"  # one vector a document: its first token
    MAX = "max"  # one vector a document: the largest value of each dimension over its tokens
    TOKEN = "token"  # one vector a subword token
    WORD = "word"  # one vector a word

    @property
    def per_document(self) -> bool:
        """Whether the pooling gives one vector a document (else a matrix)."""
        return self in (Pooling.MEAN, Pooling.CLS, Pooling.MAX)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which layers of a model, and how they are combined.

    ``layers`` are resolved (``0..L``) and ascending. Two recipes are equal when they compute the same thing,
    whatever their names.
    """

    operation: Operation
    layers: tuple[int, ...]
    name: str

    def __post_init__(self) -> None:
        if not self.layers or self.layers[0] < 0 or list(self.layers) != sorted(set(self.layers)):
            raise RecipeError(f"the layers {list(self.layers)} are no recipe: there is one at least, from 0, ascending")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return (self.operation, self.layers) == (other.operation, other.layers)

    def __hash__(self) -> int:
        return hash((self.operation, self.layers))

    def __str__(self) -> str:
        return self.name

    @property
    def spec(self) -> str:
        """A layer specification that gives this recipe in a model of as many layers: ``6``, ``concat=3+4+5+6``."""
        layers = "+".join(map(str, self.layers))
        return layers if self.operation is Operation.LAYER else f"{self.operation}={layers}"

    def width(self, hidden_size: int) -> int:
        """Number of values in one vector of this recipe."""
        return hidden_size * (len(self.layers) if self.operation is Operation.CONCAT else 1)


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """The result of one recipe under one pooling, as it is stored."""

    recipe: Recipe
    pooling: Pooling
    width: int
    dtype: str  # "float32" or "float16"; document vectors are always float32

    @property
    def name(self) -> str:
        """``<recipe>_<pooling>``, for example ``concat4_mean``."""
        return f"{self.recipe.name}_{self.pooling}"

    @property
    def hidden_size(self) -> int:
        """Width H of one layer."""
        return self.width // self.recipe.width(1)


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────────

_LAST_FOUR = re.compile(r"(sum|mean|concat)(?:-last-)?4")
_ALL_LAYERS = re.compile(r"(sum|mean|concat)-all")
_COMBINED = re.compile(r"(sum|mean|concat)=(.+)")
_NUMBER = re.compile(r"-?\d+")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def parse_recipes(specs: str | Sequence[str], num_layers: int) -> tuple[Recipe, ...]:
    """Parse layer specifications against a model of ``num_layers`` transformer blocks; equal recipes are given once.

    ``cls`` is no recipe of its own and is refused here; see :func:`feature_columns`.

    Raises:
        RecipeError: a specification that does not parse, or a layer outside ``0..num_layers``.
    """
    found: dict[Recipe, None] = {}
    for spec in split_specs(specs):
        for recipe in _parse(spec, num_layers):
            found.setdefault(recipe)
    return tuple(found)


def split_specs(specs: str | Sequence[str]) -> tuple[str, ...]:
    """Split repeated and comma-separated specifications into single ones, spaces stripped."""
    listed = [specs] if isinstance(specs, str) else list(specs)
    single = tuple(part.strip() for spec in listed for part in str(spec).split(","))
    if not all(single) or not single:
        raise RecipeError(f"empty layer specification in {','.join(map(str, listed))!r}; known are: {GRAMMAR}")
    return single


def feature_columns(
    layers: str | Sequence[str],
    poolings: Sequence[Pooling],
    *,
    num_layers: int,
    hidden_size: int,
    dtype: str,
) -> tuple[FeatureColumn, ...]:
    """Every recipe under every pooling, and ``last_cls`` where ``cls`` stands among the layers.

    Equal columns are given once. ``dtype`` is that of token and word matrices; document vectors are float32.

    Raises:
        RecipeError: see :func:`parse_recipes`.
    """
    columns: dict[tuple[Recipe, Pooling], FeatureColumn] = {}
    for spec in split_specs(layers):
        names, wanted = ("last", [Pooling.CLS]) if spec == "cls" else (spec, list(poolings))
        for recipe in _parse(names, num_layers):
            for pooling in wanted:
                kind = "float32" if pooling.per_document else dtype
                columns.setdefault((recipe, pooling), FeatureColumn(recipe, pooling, recipe.width(hidden_size), kind))
    return tuple(columns.values())


def needed_layers(columns: Iterable[FeatureColumn]) -> tuple[int, ...]:
    """The layers that the columns are made of, ascending."""
    return tuple(sorted({layer for column in columns for layer in column.recipe.layers}))


def _parse(spec: str, num_layers: int) -> list[Recipe]:
    if spec == "embeddings":
        return [Recipe(Operation.LAYER, (0,), "embeddings")]
    if spec == "last":
        return [Recipe(Operation.LAYER, (num_layers,), "last")]
    if spec == "second-to-last":
        return [Recipe(Operation.LAYER, (num_layers - 1,), "second_to_last")]
    if spec == "all":
        return [_single(layer) for layer in range(num_layers + 1)]
    if _NUMBER.fullmatch(spec):
        return [_single(_resolve(spec, spec, num_layers))]
    if match := _LAST_FOUR.fullmatch(spec):
        if num_layers < 4:
            raise RecipeError(f"{spec!r} needs a model of at least 4 layers; this one has {num_layers}")
        layers = tuple(range(num_layers - 3, num_layers + 1))
        return [Recipe(Operation(match[1]), layers, f"{match[1]}4")]
    if match := _ALL_LAYERS.fullmatch(spec):
        operation = Operation(match[1]) if num_layers > 1 else Operation.LAYER
        return [Recipe(operation, tuple(range(1, num_layers + 1)), f"{match[1]}_all")]
    if match := _COMBINED.fullmatch(spec):
        return [_combined(Operation(match[1]), match[2], spec, num_layers)]
    raise RecipeError(f"unknown layer specification {spec!r}; known are: {GRAMMAR}")


def _single(layer: int) -> Recipe:
    return Recipe(Operation.LAYER, (layer,), f"layer{layer}")


def _combined(operation: Operation, items: str, spec: str, num_layers: int) -> Recipe:
    layers: set[int] = set()
    for item in items.split("+"):
        if match := _RANGE.fullmatch(item):
            first, last = (_resolve(end, spec, num_layers) for end in match.groups())
            if first > last:
                raise RecipeError(f"the range {item!r} in {spec!r} runs backwards; write the lower layer first")
            new = set(range(first, last + 1))
        elif _NUMBER.fullmatch(item):
            new = {_resolve(item, spec, num_layers)}
        else:
            raise RecipeError(f"cannot read {item!r} in {spec!r}; layers are written like -4..-1 or 1+6+12")
        if layers & new:
            raise RecipeError(f"{spec!r} names layer {min(layers & new)} twice; each layer may be named once")
        layers |= new
    if len(layers) == 1:
        return _single(layers.pop())
    return Recipe(operation, tuple(sorted(layers)), f"{operation}_{_layer_names(sorted(layers))}")


def _layer_names(layers: list[int]) -> str:
    contiguous = layers[-1] - layers[0] == len(layers) - 1
    if contiguous and len(layers) > 1:
        return f"{layers[0]}_{layers[-1]}"
    # 9+12 must not print as the range 9..12 does
    return "_plus_".join(map(str, layers)) if len(layers) == 2 else "_".join(map(str, layers))


def _resolve(number: str, spec: str, num_layers: int) -> int:
    layer = int(number)
    resolved = layer + num_layers + 1 if layer < 0 else layer
    if not 0 <= resolved <= num_layers:
        raise RecipeError(
            f"layer {layer} in {spec!r} is outside the model: it has layers 0 (embeddings) to {num_layers}, "
            f"or -{num_layers + 1} to -1 from the end"
        )
    return resolved


# ── deriving one recipe from stored columns ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Term:
    """A stretch of a stored column's vectors, and the weight it is given."""

    column: str
    start: int
    stop: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a recipe is had from stored columns: stretches of them, summed or set side by side."""

    terms: tuple[Term, ...]
    concat: bool
    width: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stored columns that are read."""
        return tuple(dict.fromkeys(term.column for term in self.terms))

    def apply(self, stored: Mapping[str, NDArray[np.floating]]) -> NDArray[np.float32]:
        """Compute the derived vectors in float32.

        Shape: every stored matrix ``[n, its width]`` → ``[n, width]``.
        """
        parts = (self._stretch(stored, term) for term in self.terms)
        if self.concat:
            return np.concatenate(list(parts), axis=1)
        total = next(parts).copy()
        for part in parts:
            total += part
        return total

    def _stretch(self, stored: Mapping[str, NDArray[np.floating]], term: Term) -> NDArray[np.float32]:
        stretch = stored[term.column][:, term.start : term.stop].astype(np.float32, copy=False)
        return stretch if term.weight == 1.0 else stretch * np.float32(term.weight)


def derive(
    wanted: Recipe,
    pooling: Pooling,
    stored: Iterable[FeatureColumn],
    *,
    weights: Sequence[float] | None = None,
) -> Derivation:
    """Find how ``wanted`` under ``pooling`` is had from stored columns; ``weights`` replaces a sum's ones.

    Mean, cls, token and word pooling are linear, so they commute with sum, mean and concat of layers; max is not,
    so only single layers and concatenations can be taken out of its columns.

    Raises:
        NotDerivable: the stored columns of that pooling do not contain the recipe.
    """
    columns = [column for column in stored if column.pooling is pooling]
    size = columns[0].hidden_size if columns else 0
    if weights is None:
        for column in columns:
            if column.recipe == wanted:
                return Derivation((Term(column.name, 0, column.width),), False, column.width)
        if scaled := _scaled(wanted, pooling, columns):
            return scaled
    elif len(weights) != len(wanted.layers):
        raise NotDerivableError(f"{len(weights)} weights were given for the {len(wanted.layers)} layers of {wanted}")
    single = _single_layers(columns)
    # a weight may be negative, and the maximum of what is turned round is not the maximum turned round
    summed = wanted.operation in (Operation.SUM, Operation.MEAN) or weights is not None
    missing = [layer for layer in wanted.layers if layer not in single]
    if missing or (summed and pooling is Pooling.MAX):
        raise NotDerivableError(_why_not(wanted, pooling, columns, missing))
    scale = 1.0 / len(wanted.layers) if wanted.operation is Operation.MEAN else 1.0
    factors = [scale] * len(wanted.layers) if weights is None else [float(weight) for weight in weights]
    terms = tuple(
        Term(single[layer].column, single[layer].start, single[layer].stop, factor)
        for layer, factor in zip(wanted.layers, factors, strict=True)
    )
    return Derivation(terms, wanted.operation is Operation.CONCAT, wanted.width(size))


def _scaled(wanted: Recipe, pooling: Pooling, columns: list[FeatureColumn]) -> Derivation | None:
    """A mean from the stored sum of the same layers, or the sum from the mean (max commutes with scaling too)."""
    factor = {
        (Operation.SUM, Operation.MEAN): 1.0 / len(wanted.layers),
        (Operation.MEAN, Operation.SUM): float(len(wanted.layers)),
    }
    for column in columns:
        kinds = (column.recipe.operation, wanted.operation)
        if kinds in factor and column.recipe.layers == wanted.layers:
            return Derivation((Term(column.name, 0, column.width, factor[kinds]),), False, column.width)
    return None


def _single_layers(columns: list[FeatureColumn]) -> dict[int, Term]:
    single: dict[int, Term] = {}
    for column in columns:
        one_layer = len(column.recipe.layers) == 1
        if not one_layer and column.recipe.operation is not Operation.CONCAT:
            continue
        for at, layer in enumerate(column.recipe.layers):
            start = at * column.hidden_size
            single.setdefault(layer, Term(column.name, start, start + column.hidden_size))
    return single


def _why_not(wanted: Recipe, pooling: Pooling, columns: list[FeatureColumn], missing: list[int]) -> str:
    if not columns:
        return f"no column with {pooling} pooling is stored, so {wanted}_{pooling} cannot be had from this feature set"
    names = ", ".join(column.name for column in columns)
    if missing:
        listed = ("layer " if len(missing) == 1 else "layers ") + ", ".join(map(str, missing))
        return f"{wanted}_{pooling} needs {listed}, which the stored columns ({names}) do not contain"
    return (
        f"{wanted}_{pooling} cannot be derived: the maximum of a sum is not the sum of maxima; stored are {names}. "
        f"Extract it with --layers {wanted} --pooling max"
    )
