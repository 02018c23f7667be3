"""The tensors of a model's safetensors files, by name: headers are checked at once, values read when asked for."""

from collections.abc import Mapping
from typing import Any

from safetensors import safe_open
from torch import Tensor

from bertfeat.errors import ModelError
from bertfeat.io import open_regular
from bertfeat.models import Model, wrap_library_errors

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_COUNTERS = ("_ids", "_index", "_mask", "num_batches_tracked")  # ends of names of numbers that are no weights


class StoredTensors:
    """All tensors that a model's files hold.

    Raises:
        ModelError: a file cannot be read, two files hold one name, or weights are no floating-point numbers.
    """

    def __init__(self, model: Model) -> None:
        self._name = model.name
        self._files: dict[str, Any] = {}  # name of a tensor → the open file that holds it
        self._shapes: dict[str, tuple[int, ...]] = {}
        with wrap_library_errors(f"{model.name}: its weights cannot be read"):
            for path in model.weight_files:
                open_regular(path).close()  # safe_open would wait for a pipe's writer
                file: Any = safe_open(path, framework="pt")
                for name in file.keys():  # noqa: SIM118 - not a dict
                    self._add(name, file)

    def _add(self, name: str, file: Any) -> None:
        if not name.isprintable():
            raise ModelError(f"{self._name}: its weight files hold a tensor of the name {name!r}, which none has")
        if name in self._files:
            raise ModelError(f"{self._name}: two of its weight files hold {name}")
        stored = file.get_slice(name)
        if stored.get_dtype() not in _FLOATS and not name.endswith(_COUNTERS):
            raise ModelError(
                f"{self._name}: its weight {name} is stored as {stored.get_dtype()}, not as floating-point numbers; "
                f"quantized models cannot be read"
            )
        self._files[name], self._shapes[name] = file, tuple(stored.get_shape())

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor, by its name."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """Read a tensor, as it is stored.

        Raises:
            ModelError: the file cannot be read.
        """
        with wrap_library_errors(f"{self._name}: its weight {name} cannot be read"):
            tensor: Tensor = self._files[name].get_tensor(name)
        return tensor
