"""Worker processes of this machine, each with all that it needs: one a GPU, or several on the cores of a CPU."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic

from bertfeat.distributed.dispatch import TASKS_AHEAD, Dispatch, TaskKey, key_of
from bertfeat.distributed.serving import serve_tasks, wait_a_moment
from bertfeat.engine import Agenda, Job, ResultT, TaskT
from bertfeat.errors import BertfeatError, Spelling, UsageError, current_spelling, parameter, spell_parameters

_Message = tuple[TaskKey, ResultT] | BaseException
_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_SECONDS_TO_END = 5.0


class Processes:
    """Worker processes of this machine: one for each of ``devices``, or so many ``workers`` on one device.

    Each gets an equal share of the cores as threads. A process that dies is replaced, and its parts are done again.
    """

    def __init__(self, workers: int | None = None, *, devices: Sequence[str] = ()) -> None:
        if workers is not None and workers < 1:
            raise UsageError("a run has at least one worker", where=parameter("workers", workers))
        if devices and workers not in (None, len(devices)):
            raise UsageError(
                f"{len(devices)} devices are as many workers",
                where=parameter("workers", workers),
                remedy="leave it out",
            )
        self.devices: tuple[str | None, ...] = tuple(devices) or (None,) * (workers or 1)

    @property
    def workers(self) -> int:
        """How many processes compute."""
        return len(self.devices)

    def run(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        """Have every task of the agenda done.

        Raises:
            BertfeatError: of a worker; or three died over one part.
        """
        dispatch = Dispatch(job, agenda)
        threads = max(1, len(os.sched_getaffinity(0)) // self.workers)
        crew = [_WorkerProcess(job, device, threads) for device in self.devices]
        try:
            while not dispatch.done:
                for worker in crew:
                    worker.fill(dispatch)
                if not dispatch.out:
                    wait_a_moment()
                    continue
                wait([connection for worker in crew for connection in worker.signs_of_life])
                for worker in crew:
                    worker.take_results(dispatch)
            for worker in crew:
                worker.end()
        finally:
            for worker in crew:
                worker.kill()


class _WorkerProcess(Generic[TaskT, ResultT]):
    """A process, and the tasks that it has."""

    def __init__(self, job: Job[TaskT, ResultT], device: str | None, threads: int) -> None:
        self._job, self._device, self._threads = job, device, threads
        self._tasks: dict[TaskKey, TaskT] = {}
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._job, self._device, self._threads, current_spelling(), os.getpid())
        self._process: BaseProcess = context.Process(target=_serve, args=arguments, name="bertfeat-worker", daemon=True)
        self._process.start()
        theirs.close()

    @property
    def signs_of_life(self) -> tuple[Connection, int]:
        """What becomes ready when there is a result, or the process has ended."""
        return self._connection, self._process.sentinel

    def fill(self, dispatch: Dispatch[TaskT, ResultT]) -> None:
        """Give it as many tasks as it should have."""
        while len(self._tasks) < TASKS_AHEAD and (task := dispatch.take()) is not None:
            self._tasks[key_of(task)] = task
            with contextlib.suppress(OSError):  # it died, as is seen soon
                self._connection.send(task)

    def take_results(self, dispatch: Dispatch[TaskT, ResultT]) -> None:
        """Take the results that it has sent; if it died, start another one."""
        ended = not self._process.is_alive()  # asked first: what it sent before is still in the pipe
        try:
            while self._connection.poll():
                message: _Message[ResultT] = self._connection.recv()
                if isinstance(message, BaseException):
                    raise message
                key, result = message
                dispatch.finish(self._tasks.pop(key), result)
        except (EOFError, OSError):
            self._process.join(_SECONDS_TO_END)
            ended = True
        if ended:
            self._replace(dispatch)

    def _replace(self, dispatch: Dispatch[TaskT, ResultT]) -> None:
        code = self._process.exitcode or 0
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        lost, self._tasks = list(self._tasks.values()), {}
        self.kill()
        for place, task in enumerate(lost):
            # only the task that it was at can be the cause
            dispatch.lose(task, reason) if place == 0 else dispatch.give_back(task)
        self._start()

    def end(self) -> None:
        """Let it end by itself: there are no more tasks."""
        self._connection.close()
        self._process.join(_SECONDS_TO_END)

    def kill(self) -> None:
        """End it now."""
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def _serve(
    connection: Connection,
    job: Job[TaskT, ResultT],
    device: str | None,
    threads: int,
    spelling: Spelling,
    parent: int,
) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; the run's process ends it
    _die_with(parent)
    sending = threading.Lock()

    def send(message: _Message[ResultT]) -> None:
        with sending, contextlib.suppress(OSError):  # the run has ended
            connection.send(message)

    def receive(seconds: float) -> TaskT | None:
        task: TaskT | None = connection.recv() if connection.poll(seconds) else None
        return task

    with spell_parameters(spelling):
        try:
            serve_tasks(
                job,
                device=device,
                threads=threads,
                receive=receive,
                done=lambda task, result: send((key_of(task), result)),
            )
        except OSError:
            return  # the run has ended
        except Exception as error:  # told in the run's process
            send(error if isinstance(error, BertfeatError) else RuntimeError(f"{type(error).__name__}: {error}"))


def _die_with(parent: int) -> None:
    """End this process with the one that started it, also if that one is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
