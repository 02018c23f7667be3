"""The centre: corpus → tokens → encoder → layers → feature set on disk, and the names that applications take of it."""

import lazy_loader

# The names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
