"""Feature sets on disk: parts that describe themselves, the manifest, the reader, exports.

Nothing here needs torch or transformers, so that reading features is light.

A name is imported when it is first used, so that what is not used costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
