"""Search over stored features by FAISS indexes: build, update, verify, search by text or vectors, evaluate.

A name is imported when it is first used, so that importing this package needs neither FAISS nor torch.
"""

import lazy_loader

# The public names stand in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
