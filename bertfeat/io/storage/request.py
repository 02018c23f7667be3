"""Requests to object storage: repeated while only the network fails, with failures turned into errors of one line.

Each request runs on a thread of its own, so that signals end the wait at once. A request that waited in native code
could not be interrupted: Ctrl-C would take effect when the last retry is over, minutes later. obstore's asynchronous
calls do not solve this: threads of Rust deliver their answers by calling into Python, and may still be inside such a
call when the interpreter ends, which then unwinds them through Rust's frames and aborts the process (exit code 134).
A blocking call returns its answer on the thread that made it.
"""

import errno
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from obstore import exceptions

from bertfeat.errors import BertfeatError, StorageError, UsageError

_TIMEOUT_VARIABLE = "BERTFEAT_STORAGE_TIMEOUT"
"""The environment variable with the number of seconds for which a request is tried; 180 if it is not set."""

ANSWERS = (exceptions.BaseError, OSError, ValueError)
"""The errors that obstore raises."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_REFUSED = (
    *("401 Unauthorized", "403 Forbidden", "AuthenticationFailed", "AuthorizationFailure"),
    *("ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"),
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
# parts of messages that show that obstore asked the cloud machine for credentials, since none were set
_MACHINE_CREDENTIALS = ("http://169.254.", "http://[fd00:ec2", "http://metadata", "IDENTITY_ENDPOINT")
_STATUS = re.compile(r"status code: (\d{3}[^:\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_GONE = re.compile(r"error: Object at location .+ not found")
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
_ENDED = ("IncompleteMessage", "IncompleteBody", "ConnectionReset", "BrokenPipe", "UnexpectedEof")

_log = logging.getLogger("bertfeat")
_process = 0  # id of the process that made the first request; 0 before that
_MOST_PAUSE = 15.0  # seconds between two attempts, at most
_SILENT = 5.0  # seconds without an answer before a warning is logged

T = TypeVar("T")


def patience() -> float:
    """The number of seconds for which a request is tried, from the environment variable.

    Raises:
        UsageError: the variable is no positive number.
    """
    text = os.environ.get(_TIMEOUT_VARIABLE) or "180"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError("is no positive number of seconds", where=f"{_TIMEOUT_VARIABLE}={text}")
    return seconds


def ask_storage(place: str, seconds: float, request: Callable[[], T], *, profile: bool = False) -> T:
    """Make a request and return its answer; it is repeated for ``seconds`` while only the network fails.

    The request must be safe to repeat. A missing object is a ``FileNotFoundError``.
    """
    start, pause, warned = time.monotonic(), 0.1, False
    while True:
        try:
            return _wait(request)
        except ANSWERS as error:
            left = start + seconds - time.monotonic()
            if left <= 0 or not is_passing(error):
                raise explain_error(error, place, profile=profile) from error
            if not warned and left < seconds - _SILENT:
                _log.warning("%s does not answer (%s); trying for another %.0f s", place, _reason_of_error(error), left)
                warned = True
        time.sleep(min(left, pause * random.uniform(0.5, 1)))
        pause = min(2 * pause, _MOST_PAUSE)


def _wait(request: Callable[[], T]) -> T:
    _refuse_fork()
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:
            # a panic in obstore's Rust code is not an Exception; settings that cause one are refused earlier
            is_panic = type(error).__name__ == "PanicException"
            answer.set_exception(StorageError(f"obstore failed: {error}") if is_panic else error)

    threading.Thread(target=ask, name="object-storage", daemon=True).start()
    return answer.result()


def _refuse_fork() -> None:
    """Refuse a forked process, which lacks obstore's threads, so that a request would wait forever."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise StorageError(
            "object storage cannot be used in a process that was forked from one that used it",
            remedy="start processes with multiprocessing's 'spawn'",
        )


# ── answers that are failures ─────────────────────────────────────────────────────────────────────────────────


def is_passing(error: BaseException) -> bool:
    """Whether an error may be gone when the request is repeated: one of the network, or status 5xx, 408 or 429."""
    text = str(error)
    if isinstance(error, OSError | ValueError) or any(host in text for host in _MACHINE_CREDENTIALS):
        return False
    status = _STATUS.search(text)
    if status:
        return status[1][:3] in ("408", "429") or status[1].startswith("5")
    return ("HTTP error" in text or "body" in text) and "builder error" not in text


def explain_error(error: BaseException, place: str, *, profile: bool = False) -> BertfeatError | FileNotFoundError:
    """The error to raise for obstore's; ``profile``: credentials may be in a file of AWS that only boto3 reads."""
    text = str(error)
    if any(word in text for word in _NO_BUCKET):
        return StorageError("there is no such bucket", where=place, remedy="create it, or correct its name")
    # _GONE: the object was removed while it was read, before the rest of it was requested again
    if isinstance(error, exceptions.NotFoundError | FileNotFoundError) or _GONE.search(text):
        return FileNotFoundError(errno.ENOENT, "there is no such object", place)
    if any(host in text for host in _MACHINE_CREDENTIALS) or "MissingAccount" in text:
        return StorageError("there are no credentials for it", where=place, remedy=_credentials(place, profile=profile))
    if "RequestTimeTooSkewed" in text:
        return StorageError("the storage refuses the time of this machine", where=place, remedy="set its clock")
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError) or any(
        word in text for word in _REFUSED
    ):
        return StorageError(
            f"the storage refuses the credentials, or what is asked ({_reason_of_error(error)})",
            where=place,
            remedy=f"check {_credentials(place)[4:]}, and the rights that they give",
        )
    if "region" in text and ("redirect" in text.lower() or "AuthorizationHeaderMalformed" in text):
        return StorageError("the bucket is in another region", where=place, remedy="set AWS_REGION to its region")
    if isinstance(error, exceptions.UnknownConfigurationKeyError | exceptions.InvalidPathError | ValueError):
        return UsageError(_first_line(text), where=place)
    return StorageError(
        f"the storage does not answer as it should: {_reason_of_error(error)}",
        where=place,
        remedy=f"see that it can be reached, then run it again ({_TIMEOUT_VARIABLE}: seconds that it is tried)",
    )


def _reason_of_error(error: BaseException) -> str:
    """The status and code of an answer, or why there is none: ``503 Service Unavailable, SlowDown``."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        return ", ".join([status[1].strip(), *(code.groups() if code else ())])
    if "kind: Timeout" in text:
        return "no answer in time"
    if any(word in text for word in _ENDED):
        return "the connection ended early"
    causes = _CAUSE.findall(text)
    return causes[-1] if causes else _first_line(text) or type(error).__name__


def _credentials(place: str, *, profile: bool = False) -> str:
    kind = place.partition("://")[0]
    remedy = f"set {_CREDENTIALS.get(kind, 'the credentials')}"
    if kind != "s3":
        return remedy
    return f"{remedy}, or {'pip install boto3, which reads the profiles of ~/.aws' if profile else 'AWS_PROFILE'}"


def _first_line(text: str) -> str:
    """The first line of a message, without the Rust structures that follow it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]
