"""Recipes and feature columns: layers, the place within a block, operation and pooling; their names and widths.

How they are written is in :mod:`bertfeat.core.grammar`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from bertfeat.arguments import checked
from bertfeat.errors import RecipeError

LayerSpec = str | int
"""A specification of layers: the number of one, or text such as ``last``, ``concat4``, ``sum=9..12``, ``attn:7``."""

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


class BlockSite(StrEnum):
    """The site within a transformer block whose values are taken; hook points, in the words of interpretability.

    In post-norm blocks (BERT) a norm follows each sum, in pre-norm blocks (GPT-2, ModernBERT) it precedes attention and
    feed-forward part, and the last block's output goes through one more.
    """

    OUTPUT = "output"
    """The block's output: a layer, as in Hugging Face's ``hidden_states``."""

    ATTN = "attn"
    """The output of attention, before it is added to the residual stream."""

    MLP = "mlp"
    """The output of the feed-forward part, before it is added."""

    MLP_IN = "mlp-in"
    """The input of the feed-forward part."""

    HEADS = "heads"
    """The outputs of attention's heads side by side, before the output projection."""

    MID = "mid"
    """The residual stream after attention was added, before any norm."""

    PRE_NORM = "pre-norm"
    """The residual stream after the feed-forward part was added, before any norm."""


class Place(NamedTuple):
    """A place of a network at which every token has a vector: a site of a block, or layer 0, the embedding output."""

    layer: int
    site: BlockSite = BlockSite.OUTPUT


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
    """A choice of layers of a model, the site of each, and the operation that combines them.

    ``layers`` are resolved (``0..L``) and ascending. Two recipes are equal when they compute the same thing,
    whatever their names.
    """

    operation: Operation
    layers: tuple[int, ...]
    name: str
    site: BlockSite = BlockSite.OUTPUT  # of all of them

    def __post_init__(self) -> None:
        first = 1 if self.within_blocks else 0
        if not self.layers or self.layers[0] < first or list(self.layers) != sorted(set(self.layers)):
            raise RecipeError(
                f"the layers {list(self.layers)} are not a recipe",
                remedy=f"give at least one layer, ascending, from {first}",
            )
        if self.projected and self.within_blocks:
            raise RecipeError(f"a model's own modules take its last layer, and not {self.site}")
        if self.name not in self._possible_names:
            raise RecipeError(
                f"{self.name!r} is no name of {self.spec}", remedy=f"it is {self._possible_names[0]} in every model"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return (self.operation, self.layers, self.site) == (other.operation, other.layers, other.site)

    def __hash__(self) -> int:
        return hash((self.operation, self.layers, self.site))

    def __str__(self) -> str:
        return self.name

    @property
    def _possible_names(self) -> tuple[str, ...]:
        """The names that the recipe can have, depending on the model's number of layers; the first fits any model."""
        if self.within_blocks:
            return (name_at_site(self.operation, self.layers, self.site),)
        if self.operation is Operation.LAYER:
            only = tuple(f"{operation}_all" for operation in Operation) if self.layers == (1,) else ()
            return f"layer{self.layers[0]}", "embeddings", "last", "second_to_last", *only
        if self.operation is Operation.PROJECTION:
            return ("sentence",)
        names = (name_layers(self.layers), "4", "all")
        return tuple(f"{self.operation}{name if name == '4' else '_' + name}" for name in names)

    @property
    def spec(self) -> str:
        """A layer specification by numbers, right for any model that has the layers: ``6``, ``concat=3+4+5+6``."""
        layers = self.listed
        if self.operation is Operation.PROJECTION:
            return self.name
        return layers if self.operation is Operation.LAYER else f"{self.operation}={layers}"

    @property
    def spelling(self) -> str:
        """A layer specification that gives this recipe under its own name: ``last`` where :attr:`spec` is ``6``."""
        known = self.name.replace("_", "-")
        return known if _IN_ANY_MODEL.fullmatch(known) else self.spec

    @property
    def listed(self) -> str:
        """Its layers as specifications list them, after the site: ``9+10``, ``attn:9+10``."""
        return (f"{self.site}:" if self.within_blocks else "") + "+".join(map(str, self.layers))

    @property
    def within_blocks(self) -> bool:
        """Whether it takes values within blocks, and not their outputs."""
        return self.site is not BlockSite.OUTPUT

    @property
    def of_heads(self) -> bool:
        """Whether it takes the outputs of heads, whose width need not be that of a layer."""
        return self.site is BlockSite.HEADS

    @property
    def places(self) -> tuple[Place, ...]:
        """The places whose values it combines."""
        return tuple(Place(layer, self.site) for layer in self.layers)

    @property
    def single_layer(self) -> int | None:
        """The layer that it is as ``hidden_states`` has it; None where it is made of several, or of anything else."""
        return self.layers[0] if self.operation is Operation.LAYER and not self.within_blocks else None

    @property
    def projected(self) -> bool:
        """Whether a model's own modules make it of each token, so that no stored layer gives it."""
        return self.operation is Operation.PROJECTION

    def width(self, hidden_size: int) -> int:
        """Number of values in one vector, where one layer has ``hidden_size``; of a projection that which goes in."""
        return hidden_size * (len(self.layers) if self.operation is Operation.CONCAT else 1)


_IN_ANY_MODEL = re.compile(r"embeddings|last|second-to-last|(sum|mean|concat)(4|-all)")


def name_at_site(operation: Operation, layers: Sequence[int], site: BlockSite) -> str:
    """The name of a recipe within blocks: ``mlp_in7``, ``concat_attn_1_6``."""
    named = site.replace("-", "_")
    return f"{named}{layers[0]}" if operation is Operation.LAYER else f"{operation}_{named}_{name_layers(layers)}"


def name_layers(layers: Sequence[int]) -> str:
    """The layers of a recipe as its name has them: ``9_12`` for a range, ``1_6_12`` for a list."""
    contiguous = layers[-1] - layers[0] == len(layers) - 1
    if contiguous and len(layers) > 1:
        return f"{layers[0]}_{layers[-1]}"
    # 9+12 must not be printed like the range 9..12
    return "_plus_".join(map(str, layers)) if len(layers) == 2 else "_".join(map(str, layers))


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
        """Width of one layer: H, or that of all heads side by side."""
        return self.width // self.recipe.width(1)

    @property
    def by_own_modules(self) -> bool:
        """Whether the model's modules after its encoder make it."""
        return self.recipe.projected or self.pooling is Pooling.SENTENCE

    def fits(self, hidden_size: int) -> bool:
        """Whether it is as wide as the layers of a model make it; heads may be wider or narrower."""
        if self.recipe.of_heads:
            return self.width % self.recipe.width(1) == 0
        return self.by_own_modules or self.width == self.recipe.width(hidden_size)

    @property
    def described(self) -> str:
        """The column as settings name it: ``concat4_mean=concat:9+10+11+12``.

        One with a basis of 128 directions ends in ``@128:`` and the beginning of the sha256 of their values.
        """
        described = f"{self.name}={self.recipe.operation}:{self.recipe.listed}"
        if self.basis is None:
            return described
        import hashlib  # here, because the help of the shell imports this module

        return f"{described}@{self.basis.width}:{hashlib.sha256(self.basis.values).hexdigest()[:16]}"


class OwnVector(NamedTuple):
    """The vector that a model's own modules make of a text, or of each token."""

    pooling: Pooling
    width: int
    layers: tuple[int, ...]  # that go in: the last one, or those of which a mean with weights of its own stands for it


def needed_layers(columns: Iterable[FeatureColumn]) -> tuple[int, ...]:
    """The layers that the columns are made of, or of whose blocks they take something, ascending."""
    return tuple(sorted({layer for column in columns for layer in column.recipe.layers}))


def needed_places(columns: Iterable[FeatureColumn]) -> tuple[Place, ...]:
    """The places whose values the columns are made of, layer by layer."""
    return tuple(sorted({place for column in columns for place in column.recipe.places}))


def outputs_of(layers: Iterable[int]) -> tuple[Place, ...]:
    """The places of whole layers."""
    return tuple(Place(layer) for layer in layers)
