"""Pickling of objects that were opened from a folder: a pickle holds the place, and loading opens the folder again."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Protocol

from bertfeat.errors import BertfeatError
from bertfeat.io.json_file import canonical_json
from bertfeat.io.storage.address import Location


class _Opened(Protocol):
    @property
    def folder(self) -> Location: ...


def pickle_by_folder(
    opened: _Opened, options: Mapping[str, object], content: object, error: type[BertfeatError]
) -> tuple[object, ...]:
    """The value of ``__reduce__`` for an object that was opened from a folder, with ``options`` as keywords.

    ``content`` identifies the content of the folder, such as its digests. Where the pickle is loaded, in another
    process or on another machine that sees the same place, the content has to be the same, or ``error`` is raised.
    Copies are made in the same way.
    """
    digest = sha256(canonical_json(content)).hexdigest()
    return _open_again, (type(opened), opened.folder.absolute(), dict(options), digest, error)


def _open_again(
    kind: Callable[..., object],
    folder: Location,
    options: Mapping[str, object],
    digest: str,
    error: type[BertfeatError],
) -> object:
    opened = kind(folder, **options)
    again = opened.__reduce__()
    assert isinstance(again, tuple)
    if again[1][3] != digest:
        raise error("it was replaced after this was pickled", where=folder, remedy="open it again by its folder")
    return opened
