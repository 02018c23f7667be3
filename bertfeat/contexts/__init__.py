"""Contexts: the documents of a corpus joined into rows of equally many token ids, which models read without gaps."""

import lazy_loader

# The public names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
