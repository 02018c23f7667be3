"""Parts written behind the encoder, on threads of their own, and the first change to a folder."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Self

import torch

from bertfeat.errors import BertfeatError, StorageError
from bertfeat.extraction.cores import writer_count
from bertfeat.extraction.resume import remove_parts
from bertfeat.features import (
    PartContent,
    PartHeader,
    list_parts,
    part_path,
    read_header,
    remove_manifest,
    write_part,
)
from bertfeat.io import ContextPool, Location, ResultKind, claim_folder, give_back_memory, stage

_TOKENS_BETWEEN = 200_000  # written between two times that freed memory is given back


def _is_written(folder: Location, header: PartHeader) -> bool:
    try:
        return read_header(part_path(folder, header.number)).digest == header.digest
    except (BertfeatError, OSError):
        return False


class ChangedFolder:
    """The folder of a run, whose set is marked as unfinished before the first change to it."""

    def __init__(self, folder: Location, *, overwrite: bool) -> None:
        self._folder, self._overwrite = folder, overwrite
        self.changed = False  # whether anything in the folder was changed

    def begin(self) -> None:
        """Mark the set, once; with ``overwrite`` the parts of earlier runs are removed."""
        if not self.changed:
            claim_folder(self._folder, ResultKind.FEATURES)
            remove_manifest(self._folder)
            if self._overwrite:
                remove_parts(list_parts(self._folder))
            self.changed = True


class PartWriter:
    """Writes the parts of one run; leaving it waits for the last ones.

    ``begin`` is called before each part, ``wait`` waits for a write and raises its error. With
    ``several_writers`` other processes write into the folder too: a part that is there stays.
    """

    def __init__(
        self,
        folder: Location,
        device: torch.device,
        *,
        several_writers: bool,
        begin: Callable[[], None],
        wait: Callable[[Future[None]], None],
    ) -> None:
        self._folder, self._begin, self._wait = folder, begin, wait
        self._if_absent = several_writers
        self._threads = writer_count(device)
        self._pool = ContextPool(self._threads, "bertfeat-writer")
        self._pending: deque[Future[None]] = deque()
        self._unreturned_tokens = 0  # written since freed memory was given back

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

    def write(self, header: PartHeader, content: PartContent, done: Callable[[], None]) -> None:
        """Write a part as soon as a thread is free, and return when one has taken it; ``done`` is called after it."""
        while self._pending and (len(self._pending) == self._threads or self._pending[0].done()):
            self._wait(self._pending.popleft())
        self._begin()
        self._pending.append(self._pool.submit(copy_context().run, self._write, header, content, done))

    def raise_failed(self) -> None:
        """Raise the error of a write that has failed."""
        for write in tuple(self._pending):
            if write.done():
                write.result()

    def _write(self, header: PartHeader, content: PartContent, done: Callable[[], None]) -> None:
        with stage("write"):
            try:
                write_part(self._folder, header, content, if_absent=self._if_absent)
            except StorageError:
                # others who took the part over have finished it, and the set, and removed what was half written
                if not self._if_absent or not _is_written(self._folder, header):
                    raise
        done()
        # after every small part it would cost time, since the encoder's blocks would be new each time
        self._unreturned_tokens += header.counts.tokens
        if self._unreturned_tokens >= _TOKENS_BETWEEN:
            self._unreturned_tokens = 0
            give_back_memory()
