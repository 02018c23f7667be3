"""The signatures of what ``bertfeat.options.takes`` decorates, for mkdocstrings, which does not run the code."""

import importlib
import inspect
import re
from functools import reduce
from typing import Any

import griffe


class TakenSettings(griffe.Extension):
    """Shows the fields of a settings class as the keywords that they are."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace the parameters of a function that takes settings."""
        if any(str(decorator.value).startswith("takes(") for decorator in func.decorators):
            within = func.path.removeprefix(f"{func.module.path}.").split(".")
            function = reduce(getattr, within, importlib.import_module(func.module.path))
            func.parameters = griffe.Parameters(*map(_shown, inspect.signature(function).parameters.values()))


def _shown(parameter: inspect.Parameter) -> griffe.Parameter:
    kind = griffe.ParameterKind[parameter.kind.name.lower()]
    default = None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
    annotation = inspect.formatannotation(parameter.annotation, "typing")
    plain = re.sub(r"\b(?:bertfeat|collections|pathlib)(?:\.\w+)*\.(\w+)", r"\1", annotation)
    return griffe.Parameter(parameter.name, annotation=plain, kind=kind, default=default)
