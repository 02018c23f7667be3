"""From texts to features: an extractor for texts in memory and corpora on disk, estimates and verification.

A name is imported when it is first used, so that what is not used costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
