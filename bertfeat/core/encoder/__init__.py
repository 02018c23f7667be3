"""The frozen encoder: a packed forward pass of our own, and any other Hugging Face encoder by transformers.

A name is imported when it is first used, so that code without torch does not load it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
