"""Table 7 of the BERT paper on other data: the same tagger on features of different layers, and fine-tuning.

Other rooms enter through :mod:`bertfeat.tagging`. What a name needs is imported when the name is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
