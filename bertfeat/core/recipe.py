"""The grammar of layers and poolings: parse and print recipes, their width, the layers that they need.

Layer ``0`` is the embedding output and ``1..L`` the outputs of the transformer blocks, as in Hugging Face
``hidden_states``; negative numbers count from the end (``-1`` is L). The convention is fixed here, once.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from bertfeat.arguments import checked
from bertfeat.errors import RecipeError, UsageError, did_you_mean, parameter

_NAMES = (
    *("embeddings", "last", "second-to-last", "sum4", "mean4", "concat4", "sum-all", "mean-all", "concat-all", "all"),
    *("cls", "sentence"),
)
GRAMMAR = (
    f"{', '.join(_NAMES)}, a layer number such as 7 or -2, or sum=, mean=, concat= with layers such as -4..-1 or 1+6+12"
)

LayerSpec = str | int
"""A specification of layers: the number of one, or text such as ``last``, ``concat4``, ``sum=9..12``."""

TaskName = Literal["search", "usages", "change", "heads"]
BEST_LAYERS: Mapping[TaskName, str] = {"search": "last", "usages": "last", "change": "concat4", "heads": "concat4"}
"""The layers that a task reads where none are named: of those measured the best, or as good as it (docs/layers.md)."""

VectorDtype = Literal["float32", "float16", "int8"]
"""The number type of stored vectors; those of documents are float32."""


class Operation(StrEnum):
    """The operation by which the layers of a recipe become one vector."""

    LAYER = "layer"  # one layer as it is
    SUM = "sum"
    MEAN = "mean"
    CONCAT = "concat"  # ascending layers side by side: width is their number times H
    PROJECTION = "projection"  # the last layer, token by token, through the modules of a model that compares tokens


class Unit(StrEnum):
    """The unit that gets one vector."""

    DOCUMENT = "document"
    TOKEN = "token"
    WORD = "word"


class Pooling(StrEnum):
    """The tokens that a recipe is taken over, and the way their vectors become one.

    A member has these properties: ``unit``, the unit that gets one vector; ``linear``, whether it
    commutes with the sum of layers, so that pooled layers can be summed; ``decided_by``, the settings that decide
    which tokens it takes. It is computed in :mod:`bertfeat.core.extraction.pooling`.
    """

    unit: Unit
    linear: bool
    decided_by: tuple[str, ...]

    if not TYPE_CHECKING:  # type checkers would ask for these arguments in Pooling("mean") too

        def __new__(cls, name, unit, linear, decided_by):  # noqa: D102
            pooling = str.__new__(cls, name)
            pooling._value_ = name
            pooling.unit, pooling.linear, pooling.decided_by = unit, linear, decided_by
            return pooling

    MEAN = "mean", Unit.DOCUMENT, True, ("special_tokens",)
    """The mean over the tokens of a document."""

    CLS = "cls", Unit.DOCUMENT, True, ()
    """The first token of a document."""

    MAX = "max", Unit.DOCUMENT, False, ("special_tokens",)
    """The largest value of each dimension over the tokens of a document."""

    LAST = "last-token", Unit.DOCUMENT, True, ()
    """The last token of a document: in a decoder the only one that sees all others."""

    SENTENCE = "sentence", Unit.DOCUMENT, False, ("special_tokens",)
    """The model's own: what its sentence-transformers modules make of all tokens of the last layer."""

    TOKEN = "token", Unit.TOKEN, True, ("special_tokens",)
    """Every subword token."""

    WORD = "word", Unit.WORD, True, ("subword",)
    """Every word: its first or last token, or the mean of its tokens."""

    @property
    def per_document(self) -> bool:
        """Whether the pooling gives one vector per document, and not a matrix."""
        return self.unit is Unit.DOCUMENT


@checked
@dataclass(frozen=True, slots=True)
class Recipe:
    """A choice of layers of a model, and the operation that combines them.

    ``layers`` are resolved (``0..L``) and ascending. Two recipes are equal when they compute the same thing,
    whatever their names.
    """

    operation: Operation
    layers: tuple[int, ...]
    name: str

    def __post_init__(self) -> None:
        if not self.layers or self.layers[0] < 0 or list(self.layers) != sorted(set(self.layers)):
            raise RecipeError(
                f"the layers {list(self.layers)} are not a recipe", remedy="give at least one layer, ascending, from 0"
            )
        if self.name not in self._possible_names:
            raise RecipeError(
                f"{self.name!r} is no name of {self.spec}", remedy=f"it is {self._possible_names[0]} in every model"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return (self.operation, self.layers) == (other.operation, other.layers)

    def __hash__(self) -> int:
        return hash((self.operation, self.layers))

    def __str__(self) -> str:
        return self.name

    @property
    def _possible_names(self) -> tuple[str, ...]:
        """The names that the recipe can have, depending on the model's number of layers; the first fits any model."""
        if self.operation is Operation.LAYER:
            only = tuple(f"{operation}_all" for operation in Operation) if self.layers == (1,) else ()
            return f"layer{self.layers[0]}", "embeddings", "last", "second_to_last", *only
        if self.operation is Operation.PROJECTION:
            return ("sentence",)
        names = (f"{_name_layers(list(self.layers))}", "4", "all")
        return tuple(f"{self.operation}{name if name == '4' else '_' + name}" for name in names)

    @property
    def spec(self) -> str:
        """A layer specification by numbers, right for any model that has the layers: ``6``, ``concat=3+4+5+6``."""
        layers = "+".join(map(str, self.layers))
        if self.operation is Operation.PROJECTION:
            return self.name
        return layers if self.operation is Operation.LAYER else f"{self.operation}={layers}"

    @property
    def spelling(self) -> str:
        """A layer specification that gives this recipe under its own name: ``last`` where :attr:`spec` is ``6``."""
        known = self.name.replace("_", "-")
        return known if known in _NAMED or _LAST_FOUR.fullmatch(known) or _ALL_LAYERS.fullmatch(known) else self.spec

    @property
    def projected(self) -> bool:
        """Whether a model's own modules make it of each token, so that no stored layer gives it."""
        return self.operation is Operation.PROJECTION

    def width(self, hidden_size: int) -> int:
        """Number of values in one vector of this recipe; of a projection that of a vector that goes in."""
        return hidden_size * (len(self.layers) if self.operation is Operation.CONCAT else 1)


@dataclass(frozen=True, slots=True)
class Basis:
    """Orthonormal directions by which the vectors of a column are stored: the first principal components of a sample.

    They are those of the vectors as they are, not of their differences from a mean, so that zero vectors stay zero.
    """

    width: int  # number of directions
    kept: float  # share of the squared lengths of the sample that lies in these directions: 0 to 1
    values: bytes = field(repr=False)  # [width of the column, width] float16, row by row, little-endian


@checked
@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """The result of one recipe under one pooling, as it is stored."""

    recipe: Recipe
    pooling: Pooling
    width: int  # of a vector: that of the model's own modules is theirs; with a basis fewer values are stored
    dtype: VectorDtype  # of the stored values
    basis: Basis | None = None  # None: the vectors themselves are stored

    @property
    def name(self) -> str:
        """``<recipe>_<pooling>``, for example ``concat4_mean``."""
        return f"{self.recipe.name}_{self.pooling}"

    @property
    def hidden_size(self) -> int:
        """Width H of one layer."""
        return self.width // self.recipe.width(1)

    @property
    def by_own_modules(self) -> bool:
        """Whether the model's modules after its encoder make it."""
        return self.recipe.projected or self.pooling is Pooling.SENTENCE

    def fits(self, hidden_size: int) -> bool:
        """Whether it is as wide as the layers of a model make it."""
        return self.by_own_modules or self.width == self.recipe.width(hidden_size)

    @property
    def described(self) -> str:
        """The column as settings name it: ``concat4_mean=concat:9+10+11+12``.

        One with a basis of 128 directions ends in ``@128:`` and the beginning of the sha256 of their values.
        """
        described = f"{self.name}={self.recipe.operation}:{'+'.join(map(str, self.recipe.layers))}"
        if self.basis is None:
            return described
        import hashlib  # here, because the help of the shell imports this module

        return f"{described}@{self.basis.width}:{hashlib.sha256(self.basis.values).hexdigest()[:16]}"


class OwnVector(NamedTuple):
    """The vector that a model's own modules make of a text, or of each token."""

    pooling: Pooling
    width: int
    layers: tuple[int, ...]  # that go in: the last one, or those of which a mean with weights of its own stands for it


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────────

_NAMED = ("embeddings", "last", "second-to-last")  # single layers
OF_LAST: Mapping[str, Pooling] = {"cls": Pooling.CLS, "sentence": Pooling.SENTENCE}
"""Layer specifications that stand for the last layer under a pooling of their own."""
_LAST_FOUR = re.compile(r"(sum|mean|concat)(?:-last-)?4")
_ALL_LAYERS = re.compile(r"(sum|mean|concat)-all")
_COMBINED = re.compile(r"(sum|mean|concat)=(.+)")
_NUMBER = re.compile(r"-?\d+")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def parse_recipes(specs: LayerSpec | Sequence[LayerSpec], num_layers: int) -> tuple[Recipe, ...]:
    """Parse layer specifications against a model of ``num_layers`` transformer blocks; equal recipes are given once.

    ``cls`` and ``sentence`` are no recipes of their own and are refused here; see :func:`feature_columns`.

    Raises:
        RecipeError: a specification that does not parse, or a layer outside ``0..num_layers``.
    """
    return tuple(dict.fromkeys(recipe for spec in split_specs(specs) for recipe in _parse_spec(spec, num_layers)))


def split_specs(specs: LayerSpec | Sequence[LayerSpec]) -> tuple[str, ...]:
    """Split repeated and comma-separated specifications into single ones, spaces stripped."""
    single = _split_commas(specs)
    if not all(single) or not single:
        whole = specs if isinstance(specs, str | int) else ",".join(map(str, specs))
        raise RecipeError(f"empty layer specification in {whole!r}", remedy=f"known are: {GRAMMAR}")
    return single


def list_poolings(*, documents: bool = True) -> str:
    """The names of the poolings that give one vector per document, or of all others, as help and messages list them."""
    return ", ".join(pooling for pooling in Pooling if pooling.per_document is documents)


def parse_poolings(poolings: str | Sequence[str] | None, default: Callable[[], Pooling]) -> tuple[Pooling, ...]:
    """Parse repeated and comma-separated poolings; equal ones are given once. None means ``default()``.

    Raises:
        UsageError: an unknown pooling.
    """
    if poolings is None:
        return (default(),)
    names = _split_commas(poolings)
    unknown = [name for name in names if name not in list(Pooling)]
    if unknown or not names:
        meant = did_you_mean("".join(unknown[:1]), Pooling)
        raise UsageError(f"unknown pooling {','.join(unknown)!r}", remedy=f"{meant}known are {', '.join(Pooling)}")
    return tuple(dict.fromkeys(map(Pooling, names)))


def _split_commas(specs: LayerSpec | Sequence[LayerSpec]) -> tuple[str, ...]:
    listed = [specs] if isinstance(specs, str | int) else specs
    return tuple(part.strip() for spec in listed for part in str(spec).split(","))


def feature_columns(
    layers: LayerSpec | Sequence[LayerSpec],
    poolings: Sequence[Pooling],
    *,
    num_layers: int,
    hidden_size: int,
    dtype: str,
    sentence: Callable[[], OwnVector] | None = None,
) -> tuple[FeatureColumn, ...]:
    """Every recipe under every pooling, ``last_cls`` where ``cls`` stands among the layers, and so with ``sentence``.

    Equal columns are given once. ``dtype`` is that of token and word matrices; document vectors are float32.
    ``sentence`` gives what the pooling of that name is in the model, which may be one of the others; it is asked where
    there is one. If it is that of tokens, the model projects each of them: ``sentence_token``.

    Raises:
        RecipeError: see :func:`parse_recipes`; or ``sentence`` of other layers than the last.
    """
    columns: dict[tuple[Recipe, Pooling], FeatureColumn] = {}
    for spec in split_specs(layers):
        layers_spec, spec_poolings = ("last", [OF_LAST[spec]]) if spec in OF_LAST else (spec, poolings)
        for recipe in _parse_spec(layers_spec, num_layers):
            for pooling in spec_poolings:
                column = FeatureColumn(recipe, pooling, recipe.width(hidden_size), "float32")
                if pooling is Pooling.SENTENCE and sentence is not None:
                    _check_is_last(recipe, num_layers)
                    column = _own_column(sentence())
                if not column.pooling.per_document:
                    column = replace(column, dtype=cast(VectorDtype, dtype))  # checked by the class
                columns.setdefault((column.recipe, column.pooling), column)
    return tuple(columns.values())


def _own_column(own: OwnVector) -> FeatureColumn:
    """The column of what a model's own modules make."""
    if own.pooling is Pooling.TOKEN:
        recipe = Recipe(Operation.PROJECTION, own.layers, "sentence")
    elif len(own.layers) > 1:
        recipe = Recipe(Operation.MEAN, own.layers, f"mean_{_name_layers([*own.layers])}")
    else:
        recipe = Recipe(Operation.LAYER, own.layers, "last")
    return FeatureColumn(recipe, own.pooling, own.width, "float32")


def _check_is_last(recipe: Recipe, num_layers: int) -> None:
    if (recipe.operation, recipe.layers) != (Operation.LAYER, (num_layers,)):
        raise RecipeError(
            f"a model's own modules take its last layer, and not {recipe}",
            remedy=f"write sentence among the {parameter('layers')}, and give others another {parameter('pooling')}",
        )


def needed_layers(columns: Iterable[FeatureColumn]) -> tuple[int, ...]:
    """The layers that the columns are made of, ascending."""
    return tuple(sorted({layer for column in columns for layer in column.recipe.layers}))


def _parse_spec(spec: str, num_layers: int) -> list[Recipe]:
    if spec == "embeddings":
        return [Recipe(Operation.LAYER, (0,), "embeddings")]
    if spec == "last":
        return [Recipe(Operation.LAYER, (num_layers,), "last")]
    if spec == "second-to-last":
        return [Recipe(Operation.LAYER, (num_layers - 1,), "second_to_last")]
    if spec == "all":
        return [_single_layer(layer) for layer in range(num_layers + 1)]
    if _NUMBER.fullmatch(spec):
        return [_single_layer(_resolve_layer(spec, spec, num_layers))]
    if match := _LAST_FOUR.fullmatch(spec):
        if num_layers < 4:
            raise RecipeError(f"{spec!r} needs a model of at least 4 layers; this one has {num_layers}")
        layers = tuple(range(num_layers - 3, num_layers + 1))
        return [Recipe(Operation(match[1]), layers, f"{match[1]}4")]
    if match := _ALL_LAYERS.fullmatch(spec):
        operation = Operation(match[1]) if num_layers > 1 else Operation.LAYER
        return [Recipe(operation, tuple(range(1, num_layers + 1)), f"{match[1]}_all")]
    if match := _COMBINED.fullmatch(spec):
        return [_combined_layers(Operation(match[1]), match[2], spec, num_layers)]
    raise RecipeError(
        f"unknown layer specification {spec!r}", remedy=f"{did_you_mean(spec, _NAMES)}known are: {GRAMMAR}"
    )


def _single_layer(layer: int) -> Recipe:
    return Recipe(Operation.LAYER, (layer,), f"layer{layer}")


def _combined_layers(operation: Operation, items: str, spec: str, num_layers: int) -> Recipe:
    layers: set[int] = set()
    for item in items.split("+"):
        if match := _RANGE.fullmatch(item):
            first, last = (_resolve_layer(end, spec, num_layers) for end in match.groups())
            if first > last:
                raise RecipeError(
                    f"the range {item!r} in {spec!r} runs backwards", remedy="write the lower layer first"
                )
            new = set(range(first, last + 1))
        elif _NUMBER.fullmatch(item):
            new = {_resolve_layer(item, spec, num_layers)}
        else:
            raise RecipeError(f"cannot read {item!r} in {spec!r}", remedy="layers are written like -4..-1 or 1+6+12")
        if layers & new:
            raise RecipeError(f"{spec!r} names layer {min(layers & new)} twice", remedy="each layer may be named once")
        layers |= new
    if len(layers) == 1:
        return _single_layer(layers.pop())
    return Recipe(operation, tuple(sorted(layers)), f"{operation}_{_name_layers(sorted(layers))}")


def _name_layers(layers: list[int]) -> str:
    contiguous = layers[-1] - layers[0] == len(layers) - 1
    if contiguous and len(layers) > 1:
        return f"{layers[0]}_{layers[-1]}"
    # 9+12 must not be printed like the range 9..12
    return "_plus_".join(map(str, layers)) if len(layers) == 2 else "_".join(map(str, layers))


def _resolve_layer(number: str, spec: str, num_layers: int) -> int:
    layer = int(number)
    resolved = layer + num_layers + 1 if layer < 0 else layer
    if not 0 <= resolved <= num_layers:
        raise RecipeError(
            f"layer {layer} in {spec!r} is outside the model: it has layers 0 (embeddings) to {num_layers}, "
            f"or -{num_layers + 1} to -1 from the end"
        )
    return resolved
