"""A connection to a Ray cluster that keeps Ray's logs, signal handler and retries from the process."""

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from bertfeat.errors import BertfeatError, ClusterLostError, needed_library, parameter

_FORWARDED = ("AWS_", "AZURE_", "GOOGLE_", "BERTFEAT_", "HF_", "OMP_WAIT_", "ONEDNN_", "LRU_CACHE_", "MALLOC_")
_ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}  # the arena of a thread, where actors compute, would return freed memory
_SECONDS_TO_CONNECT = 10.0
_SECONDS_BETWEEN_TRIES = 5.0
_SECONDS_OUT_OF_REACH = 40.0
_ATTEMPTS = "RAY_gcs_server_port_wait_time_s"  # environment variable: the number of tries to connect


def take_sigterm_back() -> None:
    """Put back our SIGTERM handler over Ray's native one, which prints a stack trace."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _keep_stdout_clean(module: Any, *, clean: bool) -> None:
    """Keep Ray's logs of dying workers or nodes out of our results on stdout; Ray has no public switch for it."""
    with contextlib.suppress(AttributeError):
        module._private.worker._worker_logs_enabled = not clean


class HeadWatch:
    """Notes when the head of a cluster was last within reach; Ray itself ends the process after 60 seconds."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._reached = self._tried = time.monotonic()

    def check(self) -> None:
        """Check now and then that the head answers.

        Raises:
            ClusterLostError: no answer for 40 seconds, in which a restarted head would be back.
        """
        if self._address is None or time.monotonic() - self._tried < _SECONDS_BETWEEN_TRIES:
            return
        self._tried = time.monotonic()
        try:
            _check_reachable(self._address)
        except OSError as error:
            if time.monotonic() - self._reached > _SECONDS_OUT_OF_REACH:
                raise ClusterLostError(
                    f"the head of the Ray cluster at {self._address} is gone: {error.strerror or error}",
                    remedy="start the cluster again, then the same command, which keeps what is finished",
                ) from error
        else:
            self._reached = time.monotonic()


def _check_reachable(address: str) -> None:
    """Check that a server listens; Ray itself would go on trying.

    Raises:
        OSError: nobody does.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()


@contextlib.contextmanager
def _one_attempt() -> Iterator[None]:
    """Let Ray try once, not ten times, to connect; a try takes 40 seconds if nobody answers."""
    if os.environ.get(_ATTEMPTS):  # the user has set it
        yield
        return
    os.environ[_ATTEMPTS] = "1"
    try:
        yield
    finally:
        del os.environ[_ATTEMPTS]


@contextlib.contextmanager
def connected_ray(address: str | None) -> Iterator[Any]:
    """The ``ray`` module, connected to a cluster, or to a newly started local Ray.

    Raises:
        MissingLibraryError: Ray is not installed.
        BertfeatError: the cluster cannot be reached.
    """
    with needed_library(f"{parameter('engine', 'ray')} needs Ray", "bertfeat[ray]"):
        import ray
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if ray.is_initialized():  # by the program that calls us, whose connection it stays
        yield ray
        return
    handed_on = _ONE_ARENA | {name: value for name, value in os.environ.items() if name.startswith(_FORWARDED)}
    logging.getLogger("ray").setLevel(logging.ERROR)  # it would say that it takes no signals on this thread
    try:
        if address is not None:
            _check_reachable(address)
        with contextlib.nullcontext() if address is None else _one_attempt():
            ray.init(
                # without "local" Ray looks for a cluster, and silently waits for one that has died
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if address is None else None,
                runtime_env={"env_vars": handed_on},
            )
    except (OSError, RuntimeError, ValueError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BertfeatError(
            f"the Ray cluster cannot be reached: {line}",
            where=parameter("address", address or "local"),
            remedy="start one with ray start --head, or leave the address out",
        ) from error
    try:
        _keep_stdout_clean(ray, clean=True)
        yield ray
    finally:
        ray.shutdown()  # prints the logs that it held back
        _keep_stdout_clean(ray, clean=False)
