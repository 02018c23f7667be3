"""Ray as the engine of a run: actors, each with all that it needs, on all machines of a cluster.

Ray places the actors by the resources that they need, starts them again when they or their nodes die, and lets the
cluster grow for those that do not fit. No data go through Ray: the actors read and write storage by themselves.
"""

import contextlib
import logging
import os
import queue
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic

from bertfeat.arguments import checked
from bertfeat.core import Agenda, Job, TaskKey, TaskT, key_of
from bertfeat.errors import (
    BertfeatError,
    ClusterLostError,
    Spelling,
    UsageError,
    current_spelling,
    needed_library,
    parameter,
    spell_parameters,
)
from bertfeat.io import ContextPool
from bertfeat.scale.dispatch import TASKS_AHEAD, Dispatch, ResultT, serve_tasks, wait_a_moment

if TYPE_CHECKING:
    import ray

_NOTED_SECONDS = 1.0  # most of one wait for results; then the actors are looked at again
_SILENT_SECONDS = 60.0  # of waiting for the first actor before a warning
_SECONDS_TO_START = 120.0  # an actor that has died at each of its starts for this time is given up
_SECONDS_APART = 5.0  # most of a wait for the earlier call of an actor, which may have been lost with the actor
_FORWARDED = ("AWS_", "AZURE_", "GOOGLE_", "BERTFEAT_", "HF_", "OMP_WAIT_", "ONEDNN_", "LRU_CACHE_", "MALLOC_")
_ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}  # actors compute on threads, whose own arenas would return freed memory
_SECONDS_TO_CONNECT = 10.0
_SECONDS_BETWEEN_TRIES = 5.0
_SECONDS_OUT_OF_REACH = 40.0  # of the head, after which the cluster counts as lost
_ATTEMPTS = "RAY_gcs_server_port_wait_time_s"  # environment variable: the number of tries to connect
_log = logging.getLogger("bertfeat")


class RayCluster:
    """Workers on a Ray cluster, or on a local Ray that is started for the run.

    ``address`` is the cluster's (``auto``: the one that this machine belongs to). ``workers`` defaults to one per
    ``gpus_per_worker`` GPUs (by default 1); without GPUs to one per ``cpus_per_worker`` cores, or else one per node.
    Storage, corpus and model must have the same names on every node; the environment's credentials are handed on.
    """

    @checked
    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        gpus_per_worker: float | None = None,
        cpus_per_worker: float | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise UsageError("a run has at least one worker", where=parameter("workers", workers))
        self.address, self.workers = address, workers
        self.gpus_per_worker, self.cpus_per_worker = gpus_per_worker, cpus_per_worker

    def run(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        """Have every task of the agenda done.

        Raises:
            UsageError: Ray is not installed.
            BertfeatError: the cluster cannot be reached, or no longer; or a worker raised it; or three workers died
                over one part.
        """
        connection, context, stopped = contextlib.ExitStack(), copy_context(), threading.Event()
        # on a thread of its own: what a signal raises would end Ray's native code halfway
        with ContextPool(1, "bertfeat-ray") as pool:
            try:
                module = pool.submit(context.run, connection.enter_context, _connected_ray(self.address)).result()
                _take_sigterm_back()
                pool.submit(context.run, self._work, module, job, Dispatch(job, agenda), stopped).result()
            except ClusterLostError:
                connection.pop_all()  # without closing it, which would wait for a head that is gone
                raise
            finally:
                stopped.set()
                pool.submit(connection.close).result()

    def _work(
        self, module: Any, job: Job[TaskT, ResultT], dispatch: Dispatch[TaskT, ResultT], stopped: threading.Event
    ) -> None:
        crew = _Crew(module, job, *self._resources(module))
        head = HeadWatch(getattr(module.get_runtime_context(), "gcs_address", None))  # None with ray://
        try:
            crew.work(dispatch, stopped, head)
        except ClusterLostError:
            raise
        except BaseException:
            crew.end()
            raise
        crew.end()

    def _resources(self, module: "ray") -> tuple[int, float, float]:
        """Return the number of workers, and the processors and GPUs of each."""
        total: dict[str, float] = module.cluster_resources()
        gpus = self.gpus_per_worker if self.gpus_per_worker is not None else float("GPU" in total)
        if gpus:
            workers = self.workers or max(1, int(total.get("GPU", 0) / gpus))
            return workers, self.cpus_per_worker or 1.0, gpus
        nodes: list[dict[str, Any]] = module.nodes()
        cores = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
        if self.cpus_per_worker:
            workers = sum(int(count / self.cpus_per_worker) for count in cores)
            return self.workers or max(1, workers), self.cpus_per_worker, 0.0
        workers = self.workers or max(1, sum(count > 0 for count in cores))
        # the most cores per worker with which all workers fit; where there are too few cores, the cluster may grow
        sizes = range(max(cores, default=0), 0, -1)
        return workers, next((float(c) for c in sizes if sum(count // c for count in cores) >= workers), 1.0), 0.0


class _Crew(Generic[TaskT, ResultT]):
    """The actors of a run, and the tasks that each has."""

    def __init__(self, module: Any, job: Job[TaskT, ResultT], workers: int, cpus: float, gpus: float) -> None:
        self._ray = module
        actor = module.remote(
            num_cpus=cpus,
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=0,  # a lost task goes to another actor at once
            max_concurrency=TASKS_AHEAD + 1,
        )(_RayWorker)
        self._job = module.put(job)  # kept as long as actors may be started again
        threads = None if gpus else max(1, int(cpus))
        device = "cuda" if gpus else None
        self._actors = [actor.remote() for _ in range(workers)]
        self._start = self._job, device, threads, current_spelling()
        self._tasks: dict[Any, tuple[int, TaskT]] = {}  # by the future of the result
        self._starting: dict[Any, int] = {}  # by the future of its start: actors have no tasks before they run
        self._given_up: set[int] = set()
        self._failing: dict[int, float] = {}  # since when an actor has died at each of its starts

    def work(self, dispatch: Dispatch[TaskT, ResultT], stopped: threading.Event, head: "HeadWatch") -> None:
        """Have all tasks done, unless the run is stopped."""
        for number in range(len(self._actors)):
            self._await_start(number)
        running: set[int] = set()
        begin: float | None = time.monotonic()
        while not dispatch.done and not stopped.is_set():
            head.check()
            self._fill(running, dispatch)
            futures = [*self._tasks, *self._starting]
            if not futures:
                wait_a_moment()
                continue
            ready, _ = self._ray.wait(futures, num_returns=1, timeout=_NOTED_SECONDS)
            for future in ready:
                if future in self._starting:
                    number = self._starting.pop(future)
                    if self._has_started(future, number):
                        running.add(number)
                elif future in self._tasks:
                    number, _ = self._tasks[future]
                    if not self._took_result(future, dispatch):
                        running.discard(number)
                        self._await_start(number)
            begin = None if running else begin
            if begin is not None and time.monotonic() - begin > _SILENT_SECONDS:
                _log.warning("Ray has found no place for a worker yet; ray status tells what the cluster has")
                begin = None

    def _fill(self, running: Iterable[int], dispatch: Dispatch[TaskT, ResultT]) -> None:
        has = Counter(number for number, _ in self._tasks.values())
        for ahead in range(1, TASKS_AHEAD + 1):  # each actor gets a first task before any gets a second
            for number in running:
                if has[number] < ahead and (task := dispatch.take()) is not None:
                    before = [key_of(each) for actor, each in self._tasks.values() if actor == number]
                    future = self._actors[number].do.remote(task, before[-1] if before else None)
                    self._tasks[future] = (number, task)
                    has[number] += 1

    def _await_start(self, number: int) -> None:
        self._starting[self._actors[number].start.remote(*self._start)] = number

    def _has_started(self, future: Any, number: int) -> bool:
        try:
            self._ray.get(future)
        except self._ray.exceptions.RayActorError as error:
            since = self._failing.setdefault(number, time.monotonic())
            if time.monotonic() - since > _SECONDS_TO_START:
                self._give_up(number, error)
                return False
            self._await_start(number)  # Ray starts it again, elsewhere if need be
            wait_a_moment()
            return False
        except self._ray.exceptions.RayTaskError as error:
            raise _cause_of(error) from None
        self._failing.pop(number, None)
        return True

    def _give_up(self, number: int, error: Exception) -> None:
        """End an actor that dies at each of its starts, and do the work with the others."""
        problem = f"a worker died at each of its starts for {_SECONDS_TO_START:.0f} s ({type(error).__name__})"
        with contextlib.suppress(Exception):
            self._ray.kill(self._actors[number])
        self._given_up.add(number)
        if len(self._given_up) == len(self._actors):
            raise BertfeatError(
                f"{problem}, and there is no other",
                remedy="see that every node has bertfeat and its libraries, and memory for it; Ray's logs tell why",
            )
        _log.warning("%s; the others go on without it", problem)

    def _took_result(self, future: Any, dispatch: Dispatch[TaskT, ResultT]) -> bool:
        """Take a result; False if the actor died, whose tasks then go to others."""
        try:
            result = self._ray.get(future)
        except self._ray.exceptions.RayTaskError as error:
            raise _cause_of(error) from None
        except self._ray.exceptions.RayError as error:
            worker, _ = self._tasks[future]
            lost = [each for each, (number, _) in self._tasks.items() if number == worker]
            for place, each in enumerate(lost):
                _, task = self._tasks.pop(each)
                # only the task that it was at can be the cause
                dispatch.lose(task, type(error).__name__) if place == 0 else dispatch.give_back(task)
            return False
        _, task = self._tasks.pop(future)
        dispatch.finish(task, result)
        return True

    def end(self) -> None:
        """End the actors."""
        for actor in self._actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)


def _cause_of(error: Any) -> BaseException:
    """The error that a worker raised; a RuntimeError with Ray's text for one that is a bug."""
    cause = error.cause
    return cause if isinstance(cause, BertfeatError | OSError | MemoryError) else RuntimeError(str(error))


class _RayWorker(Generic[TaskT, ResultT]):
    """An actor. Each call of :meth:`do` waits, on a thread of its own, for the one worker that does all tasks."""

    def __init__(self) -> None:
        self._tasks: queue.Queue[TaskT] = queue.Queue()
        self._results: dict[TaskKey, queue.Queue[ResultT | BaseException]] = {}
        self._failure: BaseException | None = None
        self._has_begun = False
        self._last: TaskKey | None = None
        self._arrived = threading.Condition()

    def start(self, job: Job[TaskT, ResultT], device: str | None, threads: int | None, spelling: Spelling) -> None:
        """Begin to work, after each start of the actor; one that was only out of reach is at work already."""
        if not self._has_begun:
            self._has_begun = True
            threading.Thread(target=self._serve, args=(job, device, threads, spelling), daemon=True).start()

    def do(self, task: TaskT, after: TaskKey | None = None) -> ResultT:
        """Do one task, and give its result.

        ``after`` is the task that was sent before it: calls arrive in any order, and the crew takes the first task of
        an actor that died for the one that killed it.
        """
        result: queue.Queue[ResultT | BaseException] = queue.Queue()
        self._results[key_of(task)] = result
        if self._failure is not None:
            raise self._failure
        with self._arrived:
            self._arrived.wait_for(lambda: after in (None, self._last), _SECONDS_APART)
            self._last = key_of(task)
            self._tasks.put(task)
            self._arrived.notify_all()
        answer = result.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _serve(self, job: Job[TaskT, ResultT], device: str | None, threads: int | None, spelling: Spelling) -> None:
        with spell_parameters(spelling):
            try:
                serve_tasks(job, device=device, threads=threads, receive=self._receive, done=self._answer)
            except BaseException as error:
                self._failure = error
                for result in tuple(self._results.values()):
                    result.put(error)

    def _receive(self, seconds: float) -> TaskT | None:
        try:
            return self._tasks.get(timeout=seconds)
        except queue.Empty:
            return None

    def _answer(self, task: TaskT, result: ResultT) -> None:
        waiting = self._results.pop(key_of(task), None)
        if waiting is not None:  # else it was done twice, since the actor was out of reach
            waiting.put(result)


# ── the connection, which keeps Ray's logs, signal handler and retries from the process ─────────────────────


def _take_sigterm_back() -> None:
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
def _connected_ray(address: str | None) -> Iterator[Any]:
    """The ``ray`` module, connected to a cluster, or to a newly started local Ray."""
    with needed_library(f"{parameter('engine', 'ray')} needs Ray", "bertfeat[ray]"):
        import ray
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of it
    if ray.is_initialized():  # by the program that calls us, whose connection it stays
        yield ray
        return
    handed_on = _ONE_ARENA | {name: value for name, value in os.environ.items() if name.startswith(_FORWARDED)}
    logging.getLogger("ray").setLevel(logging.ERROR)  # Ray would log that it takes no signals on this thread
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
