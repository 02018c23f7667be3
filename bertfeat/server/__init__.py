"""An HTTP server over a model, an index, feature sets and a tagger.

Importing it raises a MissingLibraryError where the libraries of the extra ``[serve]`` are missing.
"""

import importlib.util

import lazy_loader

from bertfeat.errors import MissingLibraryError

_LIBRARIES = ("fastapi", "httptools", "orjson", "prometheus_client", "uvicorn")

if _missing := [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]:
    raise MissingLibraryError(f"serving needs {', '.join(_missing)}", remedy="pip install 'bertfeat[serve]'")

# The public names stand in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
