"""The limit of one thread for processes that are forked after an encoder was loaded.

OpenMP's threads do not exist in a forked process, and its first computation on several threads would wait forever.
"""

import logging
import os
from functools import cache

import torch

_log = logging.getLogger(__name__)
_warning_is_due = [False]  # whether this process was forked from one with several threads, and has not warned yet


@cache
def watch_forks() -> None:
    """Make processes that are forked from this one, from now on, compute on one thread."""
    os.register_at_fork(after_in_child=_on_one_thread)


def _on_one_thread() -> None:
    _warning_is_due[0] = torch.get_num_threads() > 1
    torch.set_num_threads(1)


def tell_of_fork() -> None:
    """Warn once if this process computes on one thread because it was forked."""
    if _warning_is_due[0]:
        _warning_is_due[0] = False
        _log.warning(
            "this process was forked from one that had loaded a model, so it computes on one thread; start processes "
            "with multiprocessing's 'spawn', or load the model in each of them, for more"
        )
