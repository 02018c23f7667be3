"""The parts shared by all trainings on stored features: its data, its loop, its checkpoints, and transformers' Trainer.

A name is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
