"""Tags of words: schemes and scores, and the models that learn them from stored features.

A name is imported when it is first used, so that schemes and scores need no torch.
"""

import lazy_loader

# The public names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
