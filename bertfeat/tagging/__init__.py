"""Tags of words: schemes and scores, and the models that learn them from stored features.

What a name needs is imported when the name is first asked for, so that schemes and scores need no torch.
"""

import lazy_loader

# What is public stands in __init__.pyi. A name is imported when it is first asked for, so this import costs nothing.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
