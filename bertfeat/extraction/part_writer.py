"""Parts written behind the encoder, on threads of their own, and the first change to a folder."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Self

import torch

from bertfeat.extraction.resume import remove_parts
from bertfeat.features import PartContent, PartHeader, list_parts, remove_manifest, write_part
from bertfeat.io import ResultKind, claim_folder, give_back_memory, stage

_TOKENS_BETWEEN = 200_000  # written between two times that freed memory is given back


def writer_count(device: torch.device) -> int:
    """How many parts are written at once: one beside an encoder that uses every core, several beside a GPU."""
    return 1 if device.type == "cpu" else max(1, min(4, len(os.sched_getaffinity(0)) // 4))


class PartWriter:
    """Writes the parts of one run; leaving it waits for the last ones.

    ``wait`` waits for a write and raises its error. ``overwrite`` removes the parts of earlier runs first.
    """

    def __init__(
        self, folder: Path, device: torch.device, *, overwrite: bool, wait: Callable[[Future[None]], None]
    ) -> None:
        self._folder, self._overwrite, self._wait = folder, overwrite, wait
        self._threads = writer_count(device)
        self._pool = ThreadPoolExecutor(self._threads, "bertfeat-writer")
        self._pending: deque[Future[None]] = deque()
        self._unreturned_tokens = 0  # written since freed memory was given back
        self.changed = False  # whether anything in the folder was changed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._pool:
            try:
                for write in self._pending:
                    self._wait(write)
            finally:
                self._pending.clear()
                give_back_memory()

    def write(self, header: PartHeader, content: PartContent) -> None:
        """Write a part as soon as a thread is free, and return when one has taken it."""
        while self._pending and (len(self._pending) == self._threads or self._pending[0].done()):
            self._wait(self._pending.popleft())
        self._begin_changes()
        self._pending.append(self._pool.submit(copy_context().run, self._write, header, content))

    def remove(self, parts: Iterable[Path]) -> None:
        """Remove parts that the run does not have."""
        self._begin_changes()
        remove_parts(parts)

    def _begin_changes(self) -> None:
        """Mark the set as unfinished before the first change to it."""
        if not self.changed:
            claim_folder(self._folder, ResultKind.FEATURES)
            remove_manifest(self._folder)
            if self._overwrite:
                remove_parts(list_parts(self._folder))
            self.changed = True

    def _write(self, header: PartHeader, content: PartContent) -> None:
        with stage("write"):
            write_part(self._folder, header, content)
        # after every small part it would cost time, since the encoder's blocks would be new each time
        self._unreturned_tokens += header.counts.tokens
        if self._unreturned_tokens >= _TOKENS_BETWEEN:
            self._unreturned_tokens = 0
            give_back_memory()
