"""Learning from features: tasks (tags, labels, numbers, answers, choices), heads on stored features, fine-tuned models,
and the comparison of layers that is the paper's Table 7.

A name is imported when it is first used, so that tags and scores need no torch.
"""

import lazy_loader

# The public names are listed in __init__.pyi. Each is imported at its first use, so this import is cheap.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
