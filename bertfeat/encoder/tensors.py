"""The tensors of a model's safetensors files, by name: headers are checked at once, values are read on request."""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from bertfeat.errors import ModelError
from bertfeat.models import Model, open_weights, wrap_library_errors

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_COUNTERS = ("_ids", "_index", "_mask", "num_batches_tracked")  # endings of the names of buffers, which are no weights


class _StoredTensor(Protocol):
    """A tensor of an open file, not read yet."""

    def get_dtype(self) -> str: ...

    def get_shape(self) -> list[int]: ...


class _WeightFile(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]: ...

    def get_slice(self, name: str) -> _StoredTensor: ...

    def get_tensor(self, name: str) -> Tensor: ...


class StoredTensors:
    """All tensors that a model's files hold.

    Raises:
        ModelError: a file cannot be read, two files hold one name, or weights are no floating-point numbers.
    """

    def __init__(self, model: Model) -> None:
        self._name = model.name
        self._files: dict[str, _WeightFile] = {}  # name of a tensor → the open file that holds it
        self._shapes: dict[str, tuple[int, ...]] = {}
        with wrap_library_errors("its weights cannot be read", where=model.name):
            for path in model.weight_files:
                file: _WeightFile = open_weights(model.name, path, "pt")
                for name in file.keys():  # noqa: SIM118 - not a dict
                    self._add(name, file)

    def _add(self, name: str, file: _WeightFile) -> None:
        if not name.isprintable():
            raise ModelError(f"its weight files hold a tensor of the name {name!r}, which none has", where=self._name)
        if name in self._files:
            raise ModelError(f"two of its weight files hold {name}", where=self._name)
        stored = file.get_slice(name)
        if stored.get_dtype() not in _FLOATS and not name.endswith(_COUNTERS):
            raise ModelError(
                f"its weight {name} is stored as {stored.get_dtype()}, not as floating-point numbers; quantized models "
                f"cannot be read",
                where=self._name,
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
        with wrap_library_errors(f"its weight {name} cannot be read", where=self._name):
            return self._files[name].get_tensor(name)
