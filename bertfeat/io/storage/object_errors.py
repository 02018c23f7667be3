"""The answers of object storage as errors of one line: what failed, and what to do."""

import errno
import re

from obstore import exceptions

from bertfeat.errors import BertfeatError, StorageError, UsageError

TIMEOUT_VARIABLE = "BERTFEAT_STORAGE_TIMEOUT"
"""In the environment: for how many seconds a request is tried, 180 if it is not set."""

ANSWERS = (exceptions.BaseError, OSError, ValueError)
"""All that obstore raises."""

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
_MACHINE_CREDENTIALS = ("http://169.254.", "http://[fd00:ec2", "http://metadata", "IDENTITY_ENDPOINT")
_STATUS = re.compile(r"status code: (\d{3}[^:\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_GONE = re.compile(r"error: Object at location .+ not found")
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
_ENDED = ("IncompleteMessage", "IncompleteBody", "ConnectionReset", "BrokenPipe", "UnexpectedEof")


def is_passing(error: BaseException) -> bool:
    """Whether an error may be over when the same is asked again: the network's, or 5xx and 429 of the storage."""
    text = str(error)
    if isinstance(error, OSError | ValueError) or any(host in text for host in _MACHINE_CREDENTIALS):
        return False
    status = _STATUS.search(text)
    if status:
        return status[1][:3] in ("408", "429") or status[1].startswith("5")
    return ("HTTP error" in text or "body" in text) and "builder error" not in text


def explain_error(error: BaseException, place: str, *, profile: bool = False) -> BertfeatError | FileNotFoundError:
    """The error to be raised for an answer; ``profile``: credentials may be in a file that only boto3 reads."""
    text = str(error)
    if any(word in text for word in _NO_BUCKET):
        return StorageError("there is no such bucket", where=place, remedy="create it, or correct its name")
    # the second kind: it was removed while it was read, and the rest was asked for again
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
            f"the storage refuses the credentials, or what is asked ({reason_of_error(error)})",
            where=place,
            remedy=f"check {_credentials(place)[4:]}, and the rights that they give",
        )
    if "region" in text and ("redirect" in text.lower() or "AuthorizationHeaderMalformed" in text):
        return StorageError("the bucket is in another region", where=place, remedy="set AWS_REGION to its region")
    if isinstance(error, exceptions.UnknownConfigurationKeyError | exceptions.InvalidPathError | ValueError):
        return UsageError(_first_line(text), where=place)
    return StorageError(
        f"the storage does not answer as it should: {reason_of_error(error)}",
        where=place,
        remedy=f"see that it can be reached, then run it again ({TIMEOUT_VARIABLE}: seconds that it is tried)",
    )


def reason_of_error(error: BaseException) -> str:
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
