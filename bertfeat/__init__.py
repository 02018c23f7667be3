"""Frozen BERT features: any layer, whole corpora, exact and resumable, in Parquet; search over them."""

import lazy_loader

__version__ = "0.1.0"

# The public names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
