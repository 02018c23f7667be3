"""The derivation of a recipe from stored columns of others: which columns contain it, and the formula that gives it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.recipe import FeatureColumn, Operation, Pooling, Recipe
from bertfeat.errors import NotDerivableError, parameter


@dataclass(frozen=True, slots=True)
class Term:
    """A range of dimensions of a stored column, and its weight."""

    column: str
    start: int
    stop: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Derivation:
    """A formula that computes a recipe from stored columns: ranges of their dimensions, summed or concatenated."""

    terms: tuple[Term, ...]
    concat: bool
    width: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stored columns that are read."""
        return tuple(dict.fromkeys(term.column for term in self.terms))

    def inputs(self, stored: Iterable[FeatureColumn]) -> tuple[FeatureColumn, ...]:
        """The columns among ``stored`` that are read, in their order."""
        return tuple(column for column in stored if column.name in self.columns)

    @property
    def computes(self) -> bool:
        """Whether values are computed, not only copied from what is stored."""
        return (len(self.terms) > 1 and not self.concat) or any(term.weight != 1.0 for term in self.terms)

    def dtype(self, stored: Iterable[FeatureColumn]) -> np.dtype[np.floating]:
        """The type of derived vectors: float16 if all columns are stored so and nothing is computed, else float32."""
        copied = not self.computes and all(column.dtype == "float16" for column in stored)
        return np.dtype(np.float16 if copied else np.float32)

    def apply(self, stored: Mapping[str, NDArray[np.floating]]) -> NDArray[np.float32]:
        """Compute the derived vectors in float32.

        Shape: every stored matrix ``[n, its width]`` → ``[n, width]``.
        """
        values = (_weighted(stored[term.column], term) for term in self.terms)
        if self.concat:
            return np.concatenate(list(values), axis=1)
        total = next(values).copy()
        for value in values:
            total += value
        return total

    def fill(self, into: NDArray[np.floating], stored: Mapping[str, NDArray[np.floating]]) -> None:
        """Write the derived vectors into ``[n, width]``; copied values are not converted to float32 first."""
        if self.computes:
            into[:] = self.apply(stored)
            return
        at = 0
        for term in self.terms:
            width = term.stop - term.start
            into[:, at : at + width] = stored[term.column][:, term.start : term.stop]
            at += width


def _weighted(matrix: NDArray[np.floating], term: Term) -> NDArray[np.float32]:
    dimensions = matrix[:, term.start : term.stop].astype(np.float32, copy=False)
    return dimensions if term.weight == 1.0 else dimensions * np.float32(term.weight)


def derive(
    recipe: Recipe,
    pooling: Pooling,
    stored: Iterable[FeatureColumn],
    *,
    weights: Sequence[float] | None = None,
) -> Derivation:
    """Find how to compute ``recipe`` under ``pooling`` from stored columns.

    ``weights``, one per layer of the recipe, replace the equal weights of a sum or mean. A linear pooling commutes with
    the sum, mean and concatenation of layers. Under any other one only single layers, concatenations, and a mean from
    the stored sum of the same layers (or the sum from the mean) can be derived, all of them without ``weights``. What a
    model's own modules make of its last layer is stored or not there.

    Raises:
        NotDerivableError: the stored columns of that pooling do not contain the recipe.
    """
    columns = [column for column in stored if column.pooling is pooling and column.recipe.site is recipe.site]
    if weights is None:
        for column in columns:
            if column.recipe == recipe:
                return Derivation((Term(column.name, 0, column.width),), False, column.width)
        if pooling is not Pooling.SENTENCE and (rescaled := _rescaled(recipe, columns)):
            return rescaled
    elif len(weights) != len(recipe.layers):
        raise NotDerivableError(f"{len(weights)} weights were given for the {len(recipe.layers)} layers of {recipe}")
    if recipe.projected:
        raise NotDerivableError(
            f"what the model's own modules make of each token is not stored; there are: "
            f"{', '.join(column.name for column in columns) or 'no tokens'}",
            remedy=f"extract it with {parameter('layers', recipe.spec)}",
        )
    return _from_layers(recipe, pooling, [column for column in columns if not column.recipe.projected], weights)


def _rescaled(recipe: Recipe, columns: list[FeatureColumn]) -> Derivation | None:
    """A mean from the stored sum of the same layers, or the sum from the mean.

    The factor is positive, so it commutes with a maximum too; not with a model's own modules.
    """
    factors = {
        (Operation.SUM, Operation.MEAN): 1.0 / len(recipe.layers),
        (Operation.MEAN, Operation.SUM): float(len(recipe.layers)),
    }
    for column in columns:
        operations = (column.recipe.operation, recipe.operation)
        if operations in factors and column.recipe.layers == recipe.layers:
            return Derivation((Term(column.name, 0, column.width, factors[operations]),), False, column.width)
    return None


def _from_layers(
    recipe: Recipe, pooling: Pooling, columns: list[FeatureColumn], weights: Sequence[float] | None
) -> Derivation:
    """Combine the single layers that the columns contain."""
    ranges = _layer_ranges(columns)
    # a weight may be negative, and then even one layer's maximum is not the weighted maximum
    summed = recipe.operation in (Operation.SUM, Operation.MEAN) or weights is not None
    missing = [layer for layer in recipe.layers if layer not in ranges]
    if missing or (summed and not pooling.linear):
        raise _not_derivable(recipe, pooling, columns, missing)
    scale = 1.0 / len(recipe.layers) if recipe.operation is Operation.MEAN else 1.0
    factors = [scale] * len(recipe.layers) if weights is None else [float(weight) for weight in weights]
    terms = tuple(
        Term(ranges[layer].column, ranges[layer].start, ranges[layer].stop, factor)
        for layer, factor in zip(recipe.layers, factors, strict=True)
    )
    return Derivation(terms, recipe.operation is Operation.CONCAT, recipe.width(columns[0].hidden_size))


def _layer_ranges(columns: list[FeatureColumn]) -> dict[int, Term]:
    """Find the stored range of each single layer: in a column of its own, or in a concatenation."""
    ranges: dict[int, Term] = {}
    for column in columns:
        if len(column.recipe.layers) > 1 and column.recipe.operation is not Operation.CONCAT:
            continue
        for position, layer in enumerate(column.recipe.layers):
            start = position * column.hidden_size
            ranges.setdefault(layer, Term(column.name, start, start + column.hidden_size))
    return ranges


def _not_derivable(
    recipe: Recipe, pooling: Pooling, columns: list[FeatureColumn], missing: list[int]
) -> NotDerivableError:
    name = f"{recipe}_{pooling}"
    if not columns:
        kind = f"column of {recipe.site}" if recipe.within_blocks else "column"
        return NotDerivableError(
            f"no {kind} with {pooling} pooling is stored, so {name} cannot be computed from this feature set"
        )
    stored = ", ".join(column.name for column in columns)
    if missing:
        layers = ("layer " if len(missing) == 1 else "layers ") + ", ".join(map(str, missing))
        return NotDerivableError(f"{name} needs {layers}, which the stored columns ({stored}) do not contain")
    return NotDerivableError(
        f"{name} cannot be derived: {pooling} pooling does not commute with a sum of layers; stored are {stored}",
        remedy=f"extract it with {parameter('layers', recipe.spec)} and {parameter('pooling', str(pooling))}",
    )
