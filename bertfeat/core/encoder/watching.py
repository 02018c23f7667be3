"""Values within the blocks of a transformers module, caught by hooks while it runs."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from bertfeat.core.models import BLOCK_MODULES, Model
from bertfeat.core.recipe import BlockSite, Place
from bertfeat.errors import ModelError


class BlockWatcher:
    """The modules of one model at whose inputs and outputs the sites within its blocks lie."""

    def __init__(self, model: Model, module: nn.Module, blocks: nn.ModuleList | None) -> None:
        self._name, self._module, self._blocks = model.name, module, blocks
        self._family = BLOCK_MODULES.get(model.config.model_type)
        self._num_layers = model.num_layers

    def as_layer(self, place: Place) -> Place:
        """The place itself, or, where no norm follows its sum before the next block, that layer."""
        before_norms = self._family is not None and bool(self._family.final_norm)
        if place.site is BlockSite.PRE_NORM and before_norms and place.layer < self._num_layers:
            return Place(place.layer)
        return place

    @contextmanager
    def catching(self, places: Collection[Place]) -> Iterator[dict[Place, Tensor]]:
        """Catch values while the module runs in the block; they are all there at its end.

        Shape: ``[sequences, tokens, width]`` each.
        """
        caught: dict[Place, Tensor] = {}
        with ExitStack() as hooks:
            for place in places:
                hooks.enter_context(self._hooked(place, caught))
            yield caught

    @contextmanager
    def _hooked(self, place: Place, caught: dict[Place, Tensor]) -> Iterator[None]:
        watched, of_output = self._find(place)

        def keep_output(_: nn.Module, args: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            caught[place] = output if isinstance(output, Tensor) else output[0]

        def keep_input(_: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
            caught[place] = args[0] if args else kwargs["hidden_states"]

        if of_output:
            handle = watched.register_forward_hook(keep_output)
        else:
            handle = watched.register_forward_pre_hook(keep_input, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _find(self, place: Place) -> tuple[nn.Module, bool]:
        """The module of a place as it is now, and whether its output is meant."""
        if self._family is None or self._blocks is None or place.site not in self._family.sites:
            raise ModelError(f"it has no {place.site} that is known", where=self._name)
        name, of_output = self._family.watched(place.site)
        of_block = place.site is not BlockSite.PRE_NORM or bool(self._family.out_norm)
        inside = self._blocks[place.layer - 1] if of_block else self._module
        try:
            return inside.get_submodule(name), of_output
        except AttributeError:
            problem = f"its configuration has no {name} in layer {place.layer}, and so no {place.site}"
            raise ModelError(problem, where=self._name) from None
