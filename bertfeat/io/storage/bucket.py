"""A bucket of object storage as a store: S3 and compatible storage, Google Cloud Storage, Azure, memory.

obstore (the Rust crate object_store) signs, repeats and makes the requests, conditional ones too. An object of up to
:data:`MOST_OBJECT` bytes is written by one request, a larger one by a multipart upload. In both cases it appears whole,
so there are no half-written objects to clean up.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore import exceptions

from bertfeat.errors import StorageError, UsageError
from bertfeat.io.storage.object_file import READ_AHEAD, ObjectFile
from bertfeat.io.storage.opening import Clients, needs_boto3, open_clients
from bertfeat.io.storage.request import ANSWERS, ask_storage, explain_error, is_passing, patience
from bertfeat.io.storage.store import MOST_BYTES, Stamp, StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from obstore import Bytes, GetOptions, ObjectMeta, PutMode, UpdateVersion

MOST_OBJECT = 5 * 10**9
"""Bytes of the largest object that is uploaded in one request: S3 takes no more."""

_PIECE = 64 << 20  # bytes of each piece of a multipart upload
_MOST_PIECES = 9_000  # pieces of an upload at most; S3 allows 10,000
_TAIL = 1 << 16  # bytes at the end of a file that are fetched with its size: most footers fit into them
_LARGE = 1 << 20  # bytes; the upload of a larger file gets the whole time that a request is tried for
_COMPARED = 1 << 23  # bytes of two files that are compared at once
_ATTEMPTS = 8  # attempts to write a file that others write and remove at the same time
_REFUSED = (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError)

T = TypeVar("T")


class Bucket:
    """One bucket as a :class:`~bertfeat.io.storage.store.Store`; names are keys."""

    def __init__(self, clients: Clients, address: str, seconds: float) -> None:
        self._clients, self._address, self._seconds = clients, address, seconds

    @classmethod
    def open_bucket(cls, scheme: str, bucket: str) -> "Bucket":
        """Open a bucket with the credentials of the environment; nothing is asked of it yet."""
        address, seconds = f"{scheme}://{bucket}", patience()
        try:
            return cls(open_clients(scheme, bucket, seconds), address, seconds)
        except UsageError:
            raise
        except ANSWERS as error:
            raise explain_error(error, address) from error

    def open(self, name: str) -> BufferedReader:
        """Open an object; its end is fetched at once, with its size."""
        meta, tail = self._fetch_tail(name)
        changed = StorageError("was replaced while it was read", where=self._place(name), remedy="run it again")
        options: GetOptions = {"if_match": meta["e_tag"]} if meta["e_tag"] else {}

        def fetch(start: int, stop: int) -> "Bytes":
            def content() -> "Bytes":
                try:
                    ranged: GetOptions = {**options, "range": (start, stop)}
                    return obstore.get(self._clients.quick, name, options=ranged).bytes()
                except exceptions.PreconditionError as error:
                    raise changed from error

            return self._ask(name, content)

        return BufferedReader(ObjectFile(int(meta["size"]), tail, fetch, meta["e_tag"] or ""), READ_AHEAD)

    def read(self, name: str) -> bytes:
        """Read an object."""

        def content() -> bytes:
            result = obstore.get(self._clients.quick, name)
            if result.meta["size"] > MOST_BYTES:
                raise _TooLargeError
            return bytes(result.bytes())

        try:
            return self._ask(name, content)
        except _TooLargeError:
            problem = f"{self._place(name)} has more than {MOST_BYTES:,} bytes, which is no file of this kind"
            raise OSError(problem) from None

    def stamp(self, name: str) -> Stamp:
        """Size and tag of an object."""

        return _stamp_of(self._ask(name, lambda: obstore.head(self._clients.quick, name)))

    def list(self, folder: str, prefix: str = "") -> Iterator[StoredFile]:
        """The objects below a folder, a thousand per request."""
        head = prefix.rpartition("/")[0]
        above = f"{folder}/" if folder else ""
        former: StoredFile | None = None
        for meta in self._list_objects(f"{above}{head}".rstrip("/")):
            name = meta["path"].removeprefix(above)
            # an empty object whose name is that of a folder, as web consoles make them, is not a file
            if former and (former.stamp.size or not name.startswith(f"{former.name}/")):
                yield former
            former = StoredFile(name, _stamp_of(meta)) if name.startswith(prefix) and meta["path"] != folder else None
        if former:
            yield former

    def put(self, name: str, content: bytes | Path, *, if_absent: bool = False) -> Stamp | None:
        """Write an object, in one request where it is not too large for that."""
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        if size > MOST_OBJECT and if_absent:
            problem = f"{size / 1e9:.1f} GB are more than the {MOST_OBJECT / 1e9:.0f} GB that one request may bring"
            raise StorageError(problem, where=self._place(name), remedy="write smaller parts, or fewer layers")
        for _ in range(_ATTEMPTS):
            stamp = self._put(name, content, size, "create" if if_absent else "overwrite")
            with suppress(FileNotFoundError):  # the existing object was removed since
                return stamp or self._stamp_if_equal(name, content, size)
        return None

    def replace(self, name: str, content: bytes, stamp: Stamp) -> Stamp | None:
        """Replace an object if it still has that stamp; see :meth:`Store.replace`."""
        try:
            if self._address.startswith("gs:") and not stamp.version:
                there = self.stamp(name)  # has the version, which listings lack
                stamp = there if there == stamp else stamp
            version: UpdateVersion = {"version": stamp.version} if stamp.version else {}
            written = self._put(name, content, len(content), {**version, "e_tag": stamp.tag})
            return written or self._stamp_if_equal(name, content, len(content))
        except FileNotFoundError:
            return None

    def move(self, name: str, target: str) -> None:
        """Copy an object inside of the bucket, and remove it."""
        self._ask(name, lambda: obstore.copy(self._clients.upload, name, target))
        self.remove(name)

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""

        def removed() -> None:
            try:
                obstore.delete(self._clients.quick, name)
            except FileNotFoundError as error:
                if not isinstance(explain_error(error, ""), FileNotFoundError):
                    raise  # there is no such bucket

        self._ask(name, removed)

    def _put(self, name: str, content: bytes | Path, size: int, mode: "PutMode") -> Stamp | None:
        """Write an object; None if the mode forbids it, which an earlier attempt without an answer may have caused."""
        client = self._clients.upload if size > _LARGE else self._clients.quick
        piece = max(_PIECE, -(-size // _MOST_PIECES))

        def written() -> Stamp | None:
            try:
                put = obstore.put(
                    client,
                    name,
                    content,
                    mode=mode,
                    use_multipart=size > MOST_OBJECT,
                    chunk_size=piece,
                    max_concurrency=4,
                )
            except _REFUSED:
                return None
            return Stamp(size, put["e_tag"] or put["version"] or "", put["version"] or "")

        return self._ask(name, written)

    def _stamp_if_equal(self, name: str, content: bytes | Path, size: int) -> Stamp | None:
        """The stamp of the existing object if its content is equal: by its size, and its MD5 or its bytes."""
        there = self.stamp(name)
        if there.size != size:
            return None
        digest = hashlib.md5(usedforsecurity=False)
        for block in _blocks(content):
            digest.update(block)
        if there.tag.strip('"') == digest.hexdigest():
            return there
        with self.open(name) as file:
            return there if all(file.read(len(block)) == block for block in _blocks(content)) else None

    def _fetch_tail(self, name: str) -> "tuple[ObjectMeta, Bytes | bytes]":
        def tail() -> "tuple[ObjectMeta, Bytes | bytes]":
            try:
                result = obstore.get(self._clients.quick, name, options={"range": {"suffix": _TAIL}})
                return result.meta, result.bytes()
            except exceptions.GenericError as error:
                if is_passing(error):
                    raise
                meta = obstore.head(self._clients.quick, name)
                if meta["size"]:
                    raise
                return meta, b""  # an empty object has no range

        return self._ask(name, tail)

    def _list_objects(self, folder: str) -> "Iterator[ObjectMeta]":
        last: str | None = None
        stream: Iterator[Sequence[ObjectMeta]] | None = None

        def page() -> "Sequence[ObjectMeta] | None":
            nonlocal stream
            try:
                if stream is None:
                    stream = iter(obstore.list(self._clients.quick, folder or None, offset=last, chunk_size=1000))
                return next(stream, None)
            except BaseException:
                stream = None  # the next attempt continues after the last object that was listed
                raise

        while objects := self._ask(folder, page):
            yield from objects
            last = objects[-1]["path"]

    def _ask(self, name: str, request: "Callable[[], T]") -> T:
        return ask_storage(self._place(name), self._seconds, request, profile=needs_boto3())

    def _place(self, name: str) -> str:
        return f"{self._address}/{name}" if name else self._address


class _TooLargeError(Exception):
    """An object is too large to be read into memory."""


def _blocks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while block := file.read(_COMPARED):
            yield block


def _stamp_of(meta: "ObjectMeta") -> Stamp:
    return Stamp(int(meta["size"]), meta["e_tag"] or meta["version"] or "", meta["version"] or "")
