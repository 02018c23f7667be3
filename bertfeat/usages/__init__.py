"""The usages of a word in a feature set: in corpus order, nearest in meaning first, or grouped by sense."""

import lazy_loader

# The public names stand in __init__.pyi. A name is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
