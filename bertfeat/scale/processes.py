"""Worker processes on this machine, each with all that it needs: one per GPU, or several on the cores of a CPU."""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic

from bertfeat.arguments import checked
from bertfeat.core import Agenda, Job, TaskKey, TaskT, key_of
from bertfeat.errors import BertfeatError, Spelling, UsageError, current_spelling, parameter, spell_parameters
from bertfeat.scale.dispatch import PATIENCE, TASKS_AHEAD, Dispatch, ResultT, serve_tasks

_Message = tuple[TaskKey, ResultT] | BaseException
_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_SECONDS_TO_END = 5.0


class Processes:
    """Worker processes on this machine: one for each of ``devices``, or a number of ``workers`` on one device.

    Each gets an equal share of the cores as threads. A process that dies is replaced, and its parts are done again.
    The processes import the program's main module, so a script must begin its work under ``if __name__ ==
    "__main__":``, as multiprocessing requires.
    """

    @checked
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
        """The number of processes that compute."""
        return len(self.devices)

    def run(self, job: Job[TaskT, ResultT], agenda: Agenda[TaskT, ResultT]) -> None:
        """Have every task of the agenda done.

        Raises:
            BertfeatError: a worker raised it, or three workers died over one part.
        """
        dispatch = Dispatch(job, agenda)
        threads = max(1, job.threads_in_use() // self.workers)
        crew: list[_WorkerProcess[TaskT, ResultT]] = []
        try:
            for device in self.devices:
                crew.append(_WorkerProcess(job, device, threads))  # one by one: those that have started must be ended
            while not dispatch.done:
                for ahead in range(1, TASKS_AHEAD + 1):  # each worker gets a first task before any gets a second
                    for worker in crew:
                        worker.fill(dispatch, ahead)
                # while a worker has too few tasks, look for more again and again: they may also come from elsewhere
                patience = None if all(worker.is_full for worker in crew) else PATIENCE
                wait([sign for worker in crew for sign in worker.signs_of_life], patience)
                for worker in crew:
                    worker.take_results(dispatch)
            for worker in crew:
                worker.say_goodbye()
            for worker in crew:
                worker.wait_for_end()
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
        connection, theirs = context.Pipe()
        arguments = (theirs, self._job, self._device, self._threads, current_spelling(), os.getpid())
        process: BaseProcess = context.Process(target=_serve, args=arguments, name="bertfeat-worker", daemon=True)
        with _without_interrupts():
            process.start()
        theirs.close()
        self._connection, self._process, self._died = connection, process, False

    @property
    def signs_of_life(self) -> tuple[Connection | int, ...]:
        """The handles to wait for: one becomes ready when there is a result, or the process has ended."""
        return () if self._died else (self._connection, self._process.sentinel)

    @property
    def is_full(self) -> bool:
        """Whether it has :data:`TASKS_AHEAD` tasks, the most at a time."""
        return len(self._tasks) >= TASKS_AHEAD

    def fill(self, dispatch: Dispatch[TaskT, ResultT], most: int) -> None:
        """Give it tasks until it has ``most``, if there are so many; start it again first if it died."""
        while len(self._tasks) < most and (task := dispatch.take()) is not None:
            if self._died:  # started anew only now, when there is something to do
                self._start()
            self._tasks[key_of(task)] = task
            with contextlib.suppress(OSError):  # it died: take_results notices, and its tasks are done again
                self._connection.send(task)

    def take_results(self, dispatch: Dispatch[TaskT, ResultT]) -> None:
        """Take the results that it has sent; if it died, its tasks go to others."""
        if self._died:
            return
        ended = not self._process.is_alive()  # asked first: what it sent before is still in the pipe
        for message in self._messages():
            if message is None:
                ended = True
            elif isinstance(message, BaseException):
                raise message
            else:
                key, result = message
                dispatch.finish(self._tasks.pop(key), result)
        if ended:
            self._give_up(dispatch)

    def _messages(self) -> Iterator[_Message[ResultT] | None]:
        """Yield the messages that it has sent; None at the end where it has closed the connection."""
        while True:
            try:
                message: _Message[ResultT] | None = self._connection.recv() if self._connection.poll() else None
            except (EOFError, OSError):
                yield None
                return
            if message is None:
                return
            yield message

    def _give_up(self, dispatch: Dispatch[TaskT, ResultT]) -> None:
        self._process.join(_SECONDS_TO_END)
        code = self._process.exitcode
        reason = "it hung" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        lost, self._tasks, self._died = list(self._tasks.values()), {}, True
        self.kill()
        for place, task in enumerate(lost):
            # only the task that it was at can be the cause
            dispatch.lose(task, reason) if place == 0 else dispatch.give_back(task)

    def say_goodbye(self) -> None:
        """Let it end by itself: there are no more tasks."""
        self._connection.close()

    def wait_for_end(self) -> None:
        """Wait for its end, for a few seconds."""
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
    """Run a worker process: do the tasks from the connection, and send back the results, or an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    sending = threading.Lock()

    def send(message: _Message[ResultT]) -> None:
        with sending, contextlib.suppress(OSError):  # the run has ended
            connection.send(message)

    def receive(seconds: float) -> TaskT | None:
        try:
            task: TaskT | None = connection.recv() if connection.poll(seconds) else None
        except OSError as error:
            raise EOFError from error
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
        except Exception as error:  # raised again in the run's process
            send(_as_message(error))


def _as_message(error: Exception) -> Exception:
    """An error in a form that can be sent; one that is a bug has a note with its traceback."""
    if not isinstance(error, BertfeatError):
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from ending processes that are started here, which it reaches too: the run's process ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _die_with(parent: int) -> None:
    """End this process with the one that started it, also if that one is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
