"""Opening of buckets, with credentials from the usual places: environment, machine, web identity, profiles of AWS."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore import store

from bertfeat.errors import StorageError, UsageError

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3CredentialProvider

_AWS_KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
"""The variables in which obstore finds credentials itself; otherwise it asks the machine that it runs on."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_QUIET_SECONDS = 20.0  # seconds without a byte after which a request is made again
_RETRIED_SECONDS = 10.0  # seconds for which obstore itself repeats a request, before ask_storage() repeats and warns


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients of one bucket, with different time limits."""

    quick: "store.ObjectStore"  # for all reading, and for small files: soon gives up on a silent connection
    upload: "store.ObjectStore"  # for writing large files: the answer comes only when all bytes are sent


def open_clients(scheme: str, bucket: str, seconds: float) -> Clients:
    """Open a bucket, without a request yet; ``seconds`` is the time for which a request is tried."""
    if scheme == "memory":
        memory = _open_memory(bucket)
        return Clients(memory, memory)
    _check_environment({"s3": "AWS_", "az": "AZURE_", "gs": "GOOGLE_"}[scheme])
    retry: RetryConfig = {
        "max_retries": 1000,
        "retry_timeout": timedelta(seconds=min(_RETRIED_SECONDS, seconds)),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
    }
    quick = _client(seconds)
    quick["timeout"] = timedelta(hours=1)  # for a whole download; read_timeout is the limit between two pieces of it
    quick["read_timeout"] = timedelta(seconds=min(_QUIET_SECONDS, seconds))
    upload = _client(seconds)
    upload["timeout"] = timedelta(seconds=seconds)
    opener = _OPENERS[scheme]
    return Clients(opener(bucket, quick, retry), opener(bucket, upload, retry))


def _check_environment(prefix: str) -> None:
    """Refuse settings that would make obstore panic: endpoints without a host, and keys that no request can carry.

    The error names the variable, and does not show the value of a key.
    """
    for name, value in os.environ.items():
        if not name.startswith(prefix):
            continue
        if prefix != "GOOGLE_" and (_CONTROL.search(value) or not value.isascii()):
            problem = "it holds a line break or another character that no request can carry"
            raise UsageError(problem, where=name, remedy="set it without")
        if name in _ENDPOINTS and value and not _is_endpoint(value):
            remedy = "write it with its scheme, as in http://localhost:9000"
            raise UsageError("this is no address of a server", where=f"{name}={value}", remedy=remedy)


def _is_endpoint(value: str) -> bool:
    try:
        split = urlsplit(value)
        return split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0 and " " not in value
    except ValueError:  # a port that is no number
        return False


def needs_boto3() -> bool:
    """Whether there are profiles of AWS, but boto3, which alone can read them, is not installed."""
    return _has_profile() and not find_spec("boto3")


def _client(seconds: float) -> "ClientConfig":
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=min(_QUIET_SECONDS / 2, seconds)),
        "allow_http": any(os.environ.get(name, "").startswith("http:") for name in _ENDPOINTS),
    }
    certificates = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    if certificates and os.path.isfile(certificates):
        client["root_certificate"] = Path(certificates).read_bytes()
    return client


def _open_s3(bucket: str, client: "ClientConfig", retry: "RetryConfig") -> "store.ObjectStore":
    return store.S3Store(
        bucket,
        client_options=client,
        retry_config=retry,
        credential_provider=_profile_credentials(),
        disable_bulk_delete=True,  # not all S3-compatible storage supports it
    )


def _profile_credentials() -> "S3CredentialProvider | None":
    """Return the provider of a profile's credentials (of single sign-on, for example); None if there are none."""
    if not _has_profile() or not find_spec("boto3"):
        return None
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except ValueError:  # there are none in it
        return None
    except BotoCoreError as error:
        raise StorageError(f"the profile of AWS cannot be used: {error}", remedy="correct AWS_PROFILE") from error


def _has_profile() -> bool:
    """Whether credentials may be in a file of AWS profiles, which obstore itself does not read."""
    if any(os.environ.get(name) for name in _AWS_KEYS):
        return False
    files = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    return "AWS_PROFILE" in os.environ or any(
        Path(os.environ.get(name, usual)).expanduser().is_file() for name, usual in files.items()
    )


def _open_gcs(bucket: str, client: "ClientConfig", retry: "RetryConfig") -> "store.ObjectStore":
    return store.GCSStore(bucket, client_options=client, retry_config=retry)


def _open_azure(bucket: str, client: "ClientConfig", retry: "RetryConfig") -> "store.ObjectStore":
    container, _, host = bucket.partition("@")
    account: AzureConfig = {"account_name": host.partition(".")[0]} if host else {}
    return store.AzureStore(container, config=account, client_options=client, retry_config=retry)


@cache
def _open_memory(bucket: str) -> "store.ObjectStore":
    del bucket  # each has a store of its own
    return store.MemoryStore()


_OPENERS: "Mapping[str, Callable[[str, ClientConfig, RetryConfig], store.ObjectStore]]" = {
    "s3": _open_s3,
    "gs": _open_gcs,
    "az": _open_azure,
}
