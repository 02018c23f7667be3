"""Pre-training: a BERT from scratch, or a model that goes on, on a corpus of one's own.

A name is imported when it is first used, so that the settings need no torch.
"""

import lazy_loader

# The public names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
