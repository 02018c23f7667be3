"""Values within a transformers module, caught by hooks while it runs: what goes into its blocks, and sites within them.

Hooks stay where they are once set, since several threads may run one module at once: a hook keeps a value only for the
thread that is catching, and only what that thread wants.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from torch import Tensor, nn

from bertfeat.core.models import Model, find_block_modules
from bertfeat.core.recipe import BlockSite, Place
from bertfeat.errors import ModelError


class DeepestReached(Exception):
    """The deepest wanted layer has been caught; nothing after it need be computed."""


@dataclass(frozen=True, slots=True)
class _Catch:
    """The places that are wanted of one forward pass, and their values so far."""

    places: frozenset[Place]
    deepest: int | None  # the layer at which the pass ends; None: it goes on to the end
    values: dict[Place, Tensor] = field(default_factory=dict)


_catching: ContextVar[_Catch | None] = ContextVar("values within a module", default=None)


class ModuleWatcher:
    """The hooks of one module."""

    def __init__(self, model: Model, module: nn.Module) -> None:
        self._name, self._module, self._num_layers = model.name, module, model.num_layers
        self._family = find_block_modules(model)
        self._blocks = _block_list(module, model.num_layers)
        self._hooked: dict[Place, nn.Module] = {}
        self._lock = threading.Lock()
        for layer, block in enumerate(self._blocks or ()):
            block.register_forward_pre_hook(_layer_keeper(layer), with_kwargs=True)

    @property
    def has_blocks(self) -> bool:
        """Whether the transformer blocks were found, so that layers can be caught between them."""
        return self._blocks is not None

    def as_layer(self, place: Place) -> Place:
        """The place itself, or, where no norm follows its sum before the next block, that layer."""
        before_norms = self._family is not None and bool(self._family.final_norm)
        if place.site is BlockSite.PRE_NORM and before_norms and place.layer < self._num_layers:
            return Place(place.layer)
        return place

    @contextmanager
    def catching(self, places: Collection[Place], deepest: int | None = None) -> Iterator[dict[Place, Tensor]]:
        """Catch values while the module runs in the block: sites within blocks, and layers as they go into blocks.

        With ``deepest`` the pass ends with :class:`DeepestReached` where that layer goes into a block.

        Shape: ``[sequences, tokens, width]`` each.
        """
        for place in places:
            if place.site is not BlockSite.OUTPUT:
                self._hook(place)
        catch = _Catch(frozenset(places), deepest)
        before = _catching.set(catch)
        try:
            yield catch.values
        finally:
            _catching.reset(before)

    def _hook(self, place: Place) -> None:
        """Watch the module of a place, which may be another one since the last time."""
        watched, of_output = self._find(place)
        with self._lock:
            if self._hooked.get(place) is watched:
                return
            self._hooked[place] = watched
            if of_output:
                watched.register_forward_hook(_output_keeper(place))
            else:
                watched.register_forward_pre_hook(_input_keeper(place), with_kwargs=True)

    def _find(self, place: Place) -> tuple[nn.Module, bool]:
        """The module of a place as it is now, and whether its output is meant."""
        if self._blocks is None:
            raise ModelError(f"its blocks were not found, and so no {place.site}", where=self._name)
        if self._family is None or place.site not in self._family.sites:
            raise ModelError(f"it has no {place.site} that is known", where=self._name)
        name, of_output = self._family.watched(place.site)
        of_block = place.site is not BlockSite.PRE_NORM or bool(self._family.out_norm)
        inside = self._blocks[place.layer - 1] if of_block else self._module
        return inside.get_submodule(name), of_output


def _block_list(module: nn.Module, number: int) -> nn.ModuleList | None:
    """The list of transformer blocks, where there is exactly one list of that length."""
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList) and len(part) == number]
    uniform = [blocks for blocks in lists if all(type(block) is type(blocks[0]) for block in blocks)]
    return uniform[0] if len(uniform) == 1 and number > 1 else None


# ── hooks ───────────────────────────────────────────────────────────────────────────────────────────────────

_Arguments = tuple[Tensor, ...]
_PreHook = Callable[[nn.Module, _Arguments, dict[str, Tensor]], None]
_Hook = Callable[[nn.Module, _Arguments, Tensor | _Arguments], None]


def _keep(place: Place, value: Tensor) -> None:
    catch = _catching.get()
    if catch is not None and place in catch.places:
        catch.values[place] = value


def _input_keeper(place: Place) -> _PreHook:
    return lambda _, args, kwargs: _keep(place, args[0] if args else kwargs["hidden_states"])


def _output_keeper(place: Place) -> _Hook:
    return lambda _, args, output: _keep(place, output if isinstance(output, Tensor) else output[0])


def _layer_keeper(layer: int) -> _PreHook:
    """Keep what goes into block k (from 0), which is layer k, and end the pass at the deepest one."""
    keep = _input_keeper(Place(layer))

    def keep_or_end(module: nn.Module, args: _Arguments, kwargs: dict[str, Tensor]) -> None:
        keep(module, args, kwargs)
        catch = _catching.get()
        if catch is not None and catch.deepest == layer:
            raise DeepestReached

    return keep_or_end
