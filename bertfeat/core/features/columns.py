"""The columns that a name can mean: stored ones, and ones that are derived from stored ones at read time."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bertfeat.core.derivation import Derivation, derive
from bertfeat.core.grammar import OF_LAST, parse_recipes, spec_of_name
from bertfeat.core.recipe import BEST_LAYERS, FeatureColumn, LayerSpec, Operation, Pooling, Recipe, TaskName
from bertfeat.errors import NotDerivableError, RecipeError, did_you_mean, parameter


@dataclass(frozen=True, slots=True)
class ReadableColumn:
    """A feature column that can be read from a feature set: it is stored, or derived from stored columns."""

    recipe: Recipe
    pooling: Pooling
    derivation: Derivation

    @property
    def name(self) -> str:
        """``<recipe>_<pooling>``, for example ``sum4_mean``."""
        return f"{self.recipe.name}_{self.pooling}"

    @property
    def width(self) -> int:
        """Number of values in one vector."""
        return self.derivation.width


def find_column(
    stored: Sequence[FeatureColumn],
    num_layers: int,
    name: LayerSpec | None = None,
    pooling: str | None = None,
    *,
    weights: Sequence[float] | None = None,
    task: TaskName | None = None,
) -> ReadableColumn:
    """Find a column by name (``concat4_mean``), or by recipe (``sum4``, ``-2``, ``sum=9..12``) and pooling.

    A number is a layer.

    ``name`` and ``pooling`` may be left out where there is only one candidate; document columns are preferred. With a
    ``task``, the layers that are best for it (:data:`bertfeat.core.recipe.BEST_LAYERS`) are preferred, if they can be
    read.
    ``weights`` replace the weights 1 in a sum: one for each of its layers, in ascending order.

    Raises:
        NotDerivableError: the stored columns do not contain it, or there are several candidates, which are listed.
    """
    if name is None:
        best = [] if task is None else _best_columns(stored, num_layers, pooling, task)
        if len(best) == 1:
            return best[0]
        column = _only_column(stored, pooling, best)
        return ReadableColumn(column.recipe, column.pooling, derive(column.recipe, column.pooling, stored))
    name = str(name)
    recipe, named_pooling = _parse_name(name, stored, num_layers)
    if pooling is not None and named_pooling not in (None, pooling):
        raise NotDerivableError(f"'{name}' already names its pooling", remedy=f"leave out '{pooling}'")
    if weights is not None and recipe.operation is not Operation.SUM:
        raise NotDerivableError(f"weights go with a sum of layers such as sum4 or sum=9..12, not with {recipe}")
    columns, problems = [], []
    for candidate in _candidate_poolings(named_pooling or pooling, stored):
        try:
            columns.append(ReadableColumn(recipe, candidate, derive(recipe, candidate, stored, weights=weights)))
        except NotDerivableError as error:
            problems.append(error)
    if len(columns) > 1:
        names = " or ".join(column.name for column in columns)
        remedy = f"choose one, for example with {parameter('column', columns[0].name)}"
        raise NotDerivableError(f"{name!r} may mean {names}", remedy=remedy)
    if not columns:
        raise problems[0]
    return columns[0]


def column_names(stored: Sequence[FeatureColumn]) -> str:
    """Names of the columns, for messages."""
    return ", ".join(column.name for column in stored) or "none"


def _best_columns(
    stored: Sequence[FeatureColumn], num_layers: int, pooling: str | None, task: TaskName
) -> list[ReadableColumn]:
    """The columns of the best layers for a task, one for each pooling that may be meant, if they can be read.

    What a model was trained to give for search is better than any of them.
    """
    if task == "search":
        for column in stored:
            if column.by_own_modules and pooling in (None, column.pooling):
                return [find_column(stored, num_layers, column.name)]
    columns = []
    for candidate in _candidate_poolings(pooling, stored):
        with suppress(NotDerivableError):
            columns.append(find_column(stored, num_layers, BEST_LAYERS[task], candidate))
    return columns


def _only_column(stored: Sequence[FeatureColumn], pooling: str | None, best: Sequence[ReadableColumn]) -> FeatureColumn:
    columns = _meant_columns(stored, pooling)
    if len(columns) == 1:
        return columns[0]
    fitting = columns if pooling else stored
    if not fitting:
        raise NotDerivableError(
            f"there is no column of {pooling or 'a kind that fits'}", remedy=f"stored are: {column_names(stored)}"
        )
    remedy = f"choose one, for example with {parameter('column', (best or fitting)[0].name)}"
    raise NotDerivableError(f"several columns fit: {column_names(fitting)}", remedy=remedy)


def _meant_columns(stored: Sequence[FeatureColumn], pooling: str | None) -> Sequence[FeatureColumn]:
    """The columns of a pooling; without one the preferred ones."""
    return [column for column in stored if column.pooling == pooling] if pooling else _preferred_columns(stored)


def _preferred_columns(stored: Sequence[FeatureColumn]) -> Sequence[FeatureColumn]:
    """The document columns; where there are none, all."""
    return [column for column in stored if column.pooling.per_document] or stored


def _parse_name(name: str, stored: Sequence[FeatureColumn], num_layers: int) -> tuple[Recipe, str | None]:
    for column in stored:
        if column.name == name or (column.by_own_modules and name == Pooling.SENTENCE):
            return column.recipe, column.pooling
    if name in OF_LAST:
        name = f"last_{name}"
    recipe, _, pooling = name.rpartition("_")
    if pooling not in list(Pooling):
        recipe, pooling = name, ""
    if (recipe, pooling) == (Pooling.SENTENCE, Pooling.TOKEN):
        return Recipe(Operation.PROJECTION, (num_layers,), recipe), pooling
    try:
        (parsed,) = parse_recipes(spec_of_name(recipe), num_layers)
    except RecipeError as error:
        meant = did_you_mean(name, _known_names(stored, num_layers), alike=0.8)
        why = "" if meant else f" ({error})"
        raise NotDerivableError(
            f"there is no column {name!r}", remedy=f"{meant}stored are: {column_names(stored)}{why}"
        ) from error
    except ValueError as error:
        raise NotDerivableError(f"{name!r} means several columns", remedy="name one of them") from error
    return parsed, pooling or None


def _known_names(stored: Sequence[FeatureColumn], num_layers: int) -> list[str]:
    """The names of stored columns, and of the usual layers that can be derived from them."""
    names = [column.name for column in stored]
    for spec in ("last", "second-to-last", "sum4", "mean4", "concat4"):
        for pooling in {column.pooling for column in stored}:
            with suppress(NotDerivableError):
                names.append(find_column(stored, num_layers, spec, pooling).name)
    return names


def _candidate_poolings(name: str | None, stored: Sequence[FeatureColumn]) -> list[Pooling]:
    """The named pooling; without a name those of the stored document columns, else of all stored columns."""
    if name is None:
        candidates = dict.fromkeys(column.pooling for column in _preferred_columns(stored))
        return list(candidates) or [Pooling.MEAN]
    poolings = [pooling for pooling in Pooling if pooling == name]
    if not poolings:
        raise NotDerivableError(f"unknown pooling '{name}'", remedy=f"there are: {', '.join(Pooling)}")
    return poolings
