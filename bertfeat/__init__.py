"""Frozen BERT features: any layer, whole corpora, exact and resumable, in Parquet; search over them."""

import lazy_loader

__version__ = "0.1.0"

# What is public stands in __init__.pyi. A name is imported when it is first asked for, so this import costs nothing.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
