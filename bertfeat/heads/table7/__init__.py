"""Table 7 of the BERT paper for other tasks: one head on features of different layers, fine-tuning, and baselines.

Other rooms enter through :mod:`bertfeat.heads`. A name is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
