"""Ways to work through the plan of an extraction with more than one process: on this machine, on Ray, on many machines.

A name is imported when it is first used, so that what is not used costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
