"""A process that is forked after an encoder was loaded computes on one thread.

The threads of OpenMP do not live on in a forked process, and its first computation on several would wait for them for
ever.
"""

import logging
import os
from functools import cache

import torch

_log = logging.getLogger(__name__)
_untold = [False]  # whether this process was forked from one with several threads, and nobody has been told yet


@cache
def watch_forks() -> None:
    """From now on, let processes that are forked from this one compute on one thread."""
    os.register_at_fork(after_in_child=_on_one_thread)


def _on_one_thread() -> None:
    _untold[0] = torch.get_num_threads() > 1
    torch.set_num_threads(1)


def tell_of_fork() -> None:
    """Tell once, where it is so, that this process computes on one thread because it was forked."""
    if _untold[0]:
        _untold[0] = False
        _log.warning(
            "this process was forked from one that had loaded a model, so it computes on one thread; start processes "
            "with multiprocessing's 'spawn', or load the model in each of them, for more"
        )
