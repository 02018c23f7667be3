"""Table 7 of the BERT paper on other data: the same tagger on features of different layers, and fine-tuning.

Other rooms enter through :mod:`bertfeat.tagging`. A name is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
