"""The grammar of layers and poolings: specifications such as ``concat4`` or ``attn:7`` → recipes and feature columns.

Layer ``0`` is the embedding output and ``1..L`` the outputs of the transformer blocks, as in Hugging Face
``hidden_states``; negative numbers count from the end (``-1`` is L). The convention is fixed here, once. What lies
within a block bears the number of its output: ``attn:7`` goes into layer 7.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, cast

from bertfeat.core.recipe import (
    BlockSite,
    FeatureColumn,
    LayerSpec,
    Operation,
    OwnVector,
    Place,
    Pooling,
    Recipe,
    VectorDtype,
    name_at_site,
    name_layers,
)
from bertfeat.errors import RecipeError, UsageError, did_you_mean, parameter

_NAMES = (
    *("embeddings", "last", "second-to-last", "sum4", "mean4", "concat4", "sum-all", "mean-all", "concat-all", "all"),
    *("cls", "sentence"),
)
_SITES = tuple(site for site in BlockSite if site is not BlockSite.OUTPUT)
GRAMMAR = (
    f"{', '.join(_NAMES)}, a layer number such as 7 or -2, a range such as 1..6, or sum=, mean=, concat= with layers "
    f"such as -4..-1 or 1+6+12; before the numbers also {', '.join(f'{site}:' for site in _SITES)}"
)

_SINGLE: Mapping[str, Callable[[int], int]] = {
    "embeddings": lambda num_layers: 0,
    "last": lambda num_layers: num_layers,
    "second-to-last": lambda num_layers: num_layers - 1,
}
"""Names of single layers, in a model of so many."""
_HOOKS: Mapping[str, Place] = {
    "hook_resid_pre": Place(0),
    "attn.hook_z": Place(1, BlockSite.HEADS),
    "hook_attn_out": Place(1, BlockSite.ATTN),
    "hook_resid_mid": Place(1, BlockSite.MID),
    "mlp.hook_in": Place(1, BlockSite.MLP_IN),
    "hook_mlp_out": Place(1, BlockSite.MLP),
    "hook_resid_post": Place(1, BlockSite.PRE_NORM),
    "hook_normalized_resid_post": Place(1),
}
"""The hooks of TransformerLens's block 0, counted from 0, by the places that they are."""
OF_LAST: Mapping[str, Pooling] = {"cls": Pooling.CLS, "sentence": Pooling.SENTENCE}
"""Layer specifications that stand for the last layer under a pooling of their own."""
_LAST_FOUR = re.compile(r"(sum|mean|concat)(?:-last-)?4")
_ALL_LAYERS = re.compile(r"(sum|mean|concat)-all")
_SITED = f"(?:(?:{'|'.join(_SITES)}):)?"
_COMBINED = re.compile(rf"(sum|mean|concat)=({_SITED}[^:]+)")
_ITEM = r"-?\d+(?:\.\.-?\d+)?"
_ONE_BY_ONE = re.compile(rf"{_ITEM}(?:\+{_ITEM})*|(?:{'|'.join(_SITES)}):[^:]+")
_NAMED_SITES = "|".join(_SITES).replace("-", "_")
_NAME_OF_ONE = re.compile(rf"(layer|{_NAMED_SITES})(\d+)")
_NAME_OF_SEVERAL = re.compile(rf"(sum|mean|concat)_(?:({_NAMED_SITES})_)?(\d+(?:_\d+)*|\d+_plus_\d+)")
_HOOK_NAME = re.compile(r"blocks\.(\d{1,4})\.([\w.]+)")
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


def spec_of_name(name: str) -> str:
    """The layer specification of a recipe, by its name: ``sum=9..12`` of ``sum_9_12``, ``attn:7`` of ``attn7``."""
    if match := _NAME_OF_ONE.fullmatch(name):
        return f"{_site_before(match[1])}{match[2]}"
    if match := _NAME_OF_SEVERAL.fullmatch(name):
        layers = re.findall(r"\d+", match[3])
        ranged = len(layers) == 2 and "plus" not in name  # sum_9_plus_12 is two layers, sum_9_12 is four
        return f"{match[1]}={_site_before(match[2])}{('..' if ranged else '+').join(layers)}"
    return name if _HOOK_NAME.fullmatch(name) else name.replace("_", "-")


def hook_name(recipe: Recipe) -> str | None:
    """TransformerLens's name of a recipe: ``blocks.6.hook_mlp_out`` of ``mlp:7``; None for what several layers make."""
    if recipe.operation is not Operation.LAYER:
        return None
    (place,) = recipe.places
    if place == Place(0):
        return "blocks.0.hook_resid_pre"
    (hook,) = (name for name, first in _HOOKS.items() if first == Place(1, place.site))
    return f"blocks.{place.layer - 1}.{hook}"


def _site_before(named: str | None) -> str:
    return "" if named in (None, "layer") else named.replace("_", "-") + ":"


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
    heads_width: int | None = None,
    sentence: Callable[[], OwnVector] | None = None,
) -> tuple[FeatureColumn, ...]:
    """Every recipe under every pooling, ``last_cls`` where ``cls`` stands among the layers, and so with ``sentence``.

    Equal columns are given once. ``dtype`` is that of token and word matrices; document vectors are float32.
    ``heads_width`` is that of all heads of a layer side by side: ``hidden_size`` in most models.
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
                of_one = heads_width if recipe.of_heads else None
                column = FeatureColumn(recipe, pooling, recipe.width(of_one or hidden_size), "float32")
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
        recipe = Recipe(Operation.MEAN, own.layers, f"mean_{name_layers(own.layers)}")
    else:
        recipe = Recipe(Operation.LAYER, own.layers, "last")
    return FeatureColumn(recipe, own.pooling, own.width, "float32")


def _check_is_last(recipe: Recipe, num_layers: int) -> None:
    if recipe.single_layer != num_layers:
        raise RecipeError(
            f"a model's own modules take its last layer, and not {recipe}",
            remedy=f"write sentence among the {parameter('layers')}, and give others another {parameter('pooling')}",
        )


def _parse_spec(spec: str, num_layers: int) -> list[Recipe]:
    if spec in _SINGLE:
        return [Recipe(Operation.LAYER, (_SINGLE[spec](num_layers),), spec.replace("-", "_"))]
    if spec == "all":
        return [_one_layer(layer) for layer in range(num_layers + 1)]
    if match := _LAST_FOUR.fullmatch(spec):
        if num_layers < 4:
            raise RecipeError(f"{spec!r} needs a model of at least 4 layers; this one has {num_layers}")
        layers = tuple(range(num_layers - 3, num_layers + 1))
        return [Recipe(Operation(match[1]), layers, f"{match[1]}4")]
    if match := _ALL_LAYERS.fullmatch(spec):
        operation = Operation(match[1]) if num_layers > 1 else Operation.LAYER
        return [Recipe(operation, tuple(range(1, num_layers + 1)), f"{match[1]}_all")]
    if match := _HOOK_NAME.fullmatch(spec):
        return [_named_hook(int(match[1]), match[2], spec, num_layers)]
    if match := _COMBINED.fullmatch(spec):
        listed = _Listed.parse(match[2], spec, num_layers)
        return [listed.combined(Operation(match[1]))]
    if _ONE_BY_ONE.fullmatch(spec):
        return _Listed.parse(spec, spec, num_layers).one_by_one(spec)
    sited = [f"{site}:{spec.partition(':')[2]}" for site in _SITES] if ":" in spec else []
    meant = did_you_mean(spec, (*_NAMES, *sited))
    raise RecipeError(f"unknown layer specification {spec!r}", remedy=f"{meant}known are: {GRAMMAR}")


def _one_layer(layer: int, site: BlockSite = BlockSite.OUTPUT) -> Recipe:
    if site is BlockSite.OUTPUT:
        return Recipe(Operation.LAYER, (layer,), f"layer{layer}")
    return Recipe(Operation.LAYER, (layer,), name_at_site(Operation.LAYER, (layer,), site), site)


def _named_hook(block: int, hook: str, spec: str, num_layers: int) -> Recipe:
    if hook not in _HOOKS:
        meant = did_you_mean(hook, _HOOKS)
        raise RecipeError(
            f"{spec!r} names a hook that is not known here", remedy=f"{meant}known are: {', '.join(_HOOKS)}"
        )
    if block >= num_layers:
        raise RecipeError(f"block {block} in {spec!r} is outside the model: it has blocks 0 to {num_layers - 1}")
    after, site = _HOOKS[hook]
    return _one_layer(block + after, site)


class _Listed(NamedTuple):
    """Layers as they are listed, ``-4..-1`` or ``1+6+12``, with the site that stands before them."""

    layers: tuple[int, ...]  # ascending
    site: BlockSite

    @classmethod
    def parse(cls, listed: str, spec: str, num_layers: int) -> Self:
        """Parse a list that is part of a specification."""
        before, colon, items = listed.rpartition(":")
        site = BlockSite(before) if colon else BlockSite.OUTPUT
        if colon and items == "all":
            return cls(tuple(range(1, num_layers + 1)), site)
        layers: set[int] = set()
        for item in items.split("+"):
            new = _layers_of_item(item, spec, num_layers)
            if layers & new:
                raise RecipeError(
                    f"{spec!r} names layer {min(layers & new)} twice", remedy="each layer may be named once"
                )
            layers |= new
        if colon and 0 in layers:
            raise RecipeError(
                f"layer 0 in {spec!r} is the embedding output, which has no {before}",
                remedy=f"the layers that have one are 1 to {num_layers}",
            )
        return cls(tuple(sorted(layers)), site)

    def combined(self, operation: Operation) -> Recipe:
        """One recipe of all of them."""
        if len(self.layers) == 1:
            return _one_layer(self.layers[0], self.site)
        if self.site is BlockSite.OUTPUT:
            return Recipe(operation, self.layers, f"{operation}_{name_layers(self.layers)}")
        return Recipe(operation, self.layers, name_at_site(operation, self.layers, self.site), self.site)

    def one_by_one(self, spec: str) -> list[Recipe]:
        """A recipe for each; those of a list with ``+`` would look like their sum."""
        if "+" in spec:
            recipe = self.combined(Operation.SUM)
            each = ",".join(_one_layer(layer, self.site).spec for layer in self.layers)
            raise RecipeError(f"{spec!r} may mean a sum or each", remedy=f"write {recipe.spec}, or {each}")
        return [_one_layer(layer, self.site) for layer in self.layers]


def _layers_of_item(item: str, spec: str, num_layers: int) -> set[int]:
    if item in _SINGLE:
        return {_SINGLE[item](num_layers)}
    if _NUMBER.fullmatch(item):
        return {_resolve_layer(item, spec, num_layers)}
    if match := _RANGE.fullmatch(item):
        first, last = (_resolve_layer(end, spec, num_layers) for end in match.groups())
        if first > last:
            raise RecipeError(f"the range {item!r} in {spec!r} runs backwards", remedy="write the lower layer first")
        return set(range(first, last + 1))
    raise RecipeError(f"cannot read {item!r} in {spec!r}", remedy="layers are written like -4..-1 or 1+6+12")


def _resolve_layer(number: str, spec: str, num_layers: int) -> int:
    layer = int(number)
    resolved = layer + num_layers + 1 if layer < 0 else layer
    if not 0 <= resolved <= num_layers:
        raise RecipeError(
            f"layer {layer} in {spec!r} is outside the model: it has layers 0 (embeddings) to {num_layers}, "
            f"or -{num_layers + 1} to -1 from the end"
        )
    return resolved
