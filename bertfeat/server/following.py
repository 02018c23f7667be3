"""Folders that a server keeps up with: what is new in one is opened beside what is open, and takes its place at once.

A request works with what was open when it began. What was open before is given back when the last such request ends.
"""

import logging
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from bertfeat.errors import BertfeatError
from bertfeat.io import Address, Location

LOOK_SECONDS = 2.0
"""The time between two looks at what is in a folder."""

_FAR_SECONDS = 20.0  # at an address, where each look is a request
_log = logging.getLogger("bertfeat.server")

T = TypeVar("T")


class Followed(Generic[T]):
    """A folder, and what the server has open of it.

    ``version`` says which version of the folder is open, ``newest`` which one is there; ``reopen`` opens and checks it.
    """

    def __init__(
        self,
        folder: Location,
        opened: T,
        *,
        version: Callable[[T], object],
        newest: Callable[[], object],
        reopen: Callable[[], T],
        describe: Callable[[T], str],
    ) -> None:
        self.folder, self.value = folder, opened
        self.problem: str | None = None
        """Why the version that is there is not the one that is open; None if it is."""
        self.opened_again = 0
        """The number of times that a new version took the place of the one before."""
        self._version, self._newest, self._reopen, self._describe = version, newest, reopen, describe
        self._between = _FAR_SECONDS if isinstance(folder, Address) else LOOK_SECONDS
        self._looked = time.monotonic()

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def look(self, *, at_once: bool) -> None:
        """Open the version that is there, if it is another one; what was open goes on where that fails."""
        if not at_once and time.monotonic() - self._looked < self._between:
            return
        try:
            if self._newest() != self._version(self.value):
                self.value = self._reopen()
                self.opened_again += 1
                _log.info("%s has changed, and its new version is served: %s", self.folder, self._describe(self.value))
            self.problem = None
        except BertfeatError as error:
            if str(error) != self.problem:  # once, not at every look
                self.problem = str(error)
                _log.warning("the version of %s that was opened before is served: %s", self.folder, self.problem)
        finally:
            self._looked = time.monotonic()
