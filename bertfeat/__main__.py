"""The command line as ``python -m bertfeat``: in a clone, that of the clone, whatever is installed."""

import importlib.util
import sys
from pathlib import Path

_NAME = "bertfeat.cli"


def _load_own() -> None:
    """Load the command line that stands beside this package in a clone, where it has no name of its own."""
    clone = Path(__file__).resolve().parents[1]
    if not (clone / "pyproject.toml").is_file():
        return
    beginning = clone / "cli" / "__init__.py"
    spec = importlib.util.spec_from_file_location(_NAME, beginning, submodule_search_locations=[str(beginning.parent)])
    if spec is not None and spec.loader is not None:
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])


if __name__ == "__main__":
    _load_own()
    from bertfeat.cli import run

    run()
