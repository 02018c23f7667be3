"""An HTTP server over a model, an index, feature sets and a tagger (extra ``[serve]``)."""

import lazy_loader

# The public names stand in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
