"""Threads whose work sees the context of whoever gave it: how parameters are spelled in messages, among others."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor  # noqa: TID251  # its only home
from contextvars import copy_context
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class ContextPool(ThreadPoolExecutor):
    """A pool of threads that runs each call in a copy of its caller's context (PEP 567)."""

    def submit(self, call: Callable[_Given, _Made], /, *given: _Given.args, **named: _Given.kwargs) -> Future[_Made]:
        """Have a thread make a call."""
        return super().submit(copy_context().run, call, *given, **named)  # type: ignore[arg-type]
