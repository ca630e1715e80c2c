"""joblib's backend for Dask, mended where it leaves `Parallel` waiting forever (joblib 1.6, distributed 2026.8).

* Its ``_collect`` calls a task's callback for results only. The exception of a future that ends in an error of the
  cluster (its worker was killed) is put where nobody looks, so that `Parallel` waits for one more result without end;
  that of a cancelled one is passed on as though it were the list of results. Here both become a result.
* What is lost on the way, with a scheduler that is gone while it is asked, ends in no queue at all. Here a thread looks
  after all tasks, and after the workers: while there are none nobody else says a word.
* It counts workers once, and runs everything in this process where it counts a single thread. Here as many tasks are
  handed out as keep those busy that are there at the moment.
* Tasks of a call that was given up run on. Here they are cancelled.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpusim_des.errors import SweepError, SweepWarning

AHEAD = 4
"""Tasks for each thread of the cluster that are handed out at a time: enough that none waits, few for the scheduler."""

LOOK_S = 1.0
"""Between two looks at tasks and workers, seconds."""

ANSWER_S = 5.0
"""How long an answer of the scheduler is waited for, seconds; a busy one takes a while."""

SILENCE_S = 5.0
"""How long nothing is said about a cluster without any worker, seconds: one that died is started again by then."""

PATIENCE_S = 60.0
"""How long a cluster may be without any worker, or a scheduler without an answer, seconds."""

_REMEDY = "start {} and the sweep again; finished rows are kept where it has a folder"


_UNANSWERED = (OSError, asyncio.TimeoutError, asyncio.CancelledError, AttributeError, RuntimeError)
"""What a question to the scheduler ends in where it does not answer; the last three, where the client is ending."""


class _Task:
    """One call that joblib waits for."""

    def __init__(self, calls: Any, tell: Callable[[Any], None]) -> None:
        self.calls = calls
        self.tell = tell
        """joblib's callback."""
        self.looks = 0
        """How often it was found in no state in which anybody would tell of it."""


class _GivenUp:
    """Told instead of a result: the whole call ends with this error."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Mended:
    """What differs from joblib's class, which stands behind this one: see the beginning of the file.

    Locks are taken in one order, joblib's before ours: nothing of joblib's is called while ours is held.
    """

    # `type: ignore[misc]` below: joblib has no types, so what `super()` calls here is not known to mypy.

    client: Any
    waiting_futures: Any
    _send: Callable[[Any, _Task], Any]
    _continue: bool
    _callbacks: dict[Any, Any]
    _results: dict[Any, Any]

    def prepare(self, lost: Callable[[tuple[Any, ...], BaseException], Any]) -> None:
        """Say what the result of a call is that the cluster could not end, from its arguments and the error."""
        self._lost = lost
        if self._is_closed():
            raise SweepError(f"the scheduler of the cluster is gone: {_REMEDY.format('it')}")
        self._address = self.client.scheduler.address
        self._ours = threading.Lock()
        self._queue: deque[_Task] = deque()
        self._open: set[_Task] = set()  # handed out, and not told of
        self._threads = 0
        self._said: set[str] = set()
        self._ended = threading.Event()
        self._collecting: asyncio.Task[None] | None = None

    # Tasks go out ----------------------------------------------------------------------------------------------------

    def effective_n_jobs(self, n_jobs: int) -> int:  # noqa: ARG002 - joblib's name for it
        """At least two: with one joblib would stay in this process. Workers may come later."""
        self._count()
        return max(2, self._threads)

    def submit(self, func: Any, callback: Callable[[Any], None]) -> _Task:
        """Take a task, and hand out what the workers need."""
        task = _Task(func, callback)
        with self._ours:
            self._queue.append(task)
        self._hand_out()
        return task

    def _hand_out(self) -> None:
        while True:
            with self._ours:
                # At least one: there are clusters that start a worker only where there is work.
                if not self._queue or self._is_closed() or len(self._open) >= max(1, AHEAD * self._threads):
                    return
                task = self._queue.popleft()
                self._open.add(task)
            self._send(task.calls, task)

    # Outcomes come in ------------------------------------------------------------------------------------------------

    async def _collect(self) -> None:
        """As joblib's own, but that futures without a result are told of as well."""
        self._collecting = asyncio.current_task()
        with suppress(asyncio.CancelledError):
            while self._continue:
                async for future, result in self.waiting_futures:
                    self._results.pop(future, None)
                    task = self._callbacks.pop(future, None)
                    if task is not None and future.status in ("error", "cancelled"):
                        self._lose(task, result[1] if future.status == "error" else result)
                    elif task is not None:
                        self._end(task, result)
                await asyncio.sleep(0.01)

    def _lose(self, task: _Task, error: BaseException) -> None:
        _, args, _ = task.calls.items[0]
        self._end(task, [self._lost(args, error)])

    def _end(self, task: _Task, out: Any) -> None:
        """Tell joblib what became of a task, once."""
        with self._ours:
            if task not in self._open:
                return
            self._open.remove(task)
        task.tell(out)
        self._hand_out()

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a task, or raise what ends them all."""
        if isinstance(out, _GivenUp):
            raise out.error
        return super().retrieve_result_callback(out)  # type: ignore[misc]

    # The whole call --------------------------------------------------------------------------------------------------

    def start_call(self) -> None:
        """Begin to collect, and to look after everything."""
        super().start_call()  # type: ignore[misc]
        threading.Thread(target=self._watch, name="sweep watch", daemon=True).start()

    def stop_call(self) -> None:
        """End both."""
        self._ended.set()
        super().stop_call()  # type: ignore[misc]
        if self._collecting is not None:  # it waits without end where futures were lost
            self.client.loop.add_callback(self._collecting.cancel)

    def abort_everything(self, *, ensure_ready: bool = True) -> None:  # noqa: ARG002 - joblib's name for it
        """Cancel what was handed out."""
        with self._ours:
            self._queue.clear()
            self._open.clear()
        self.client.loop.add_callback(self._cancel)

    async def _cancel(self) -> None:
        with suppress(Exception):  # a scheduler that is gone has nothing to cancel
            await self.client.cancel(list(self._callbacks), asynchronous=True, force=True)

    # Looking after it ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._answered = self._manned = time.monotonic()
        try:
            while not self._ended.wait(LOOK_S):
                there = self._count()
                now = time.monotonic()
                self._answered = now if there else self._answered
                self._manned = now if self._threads or not there else self._manned
                if self._is_closed():
                    raise SweepError(f"the scheduler at {self._address} is gone: {_REMEDY.format('it')}")
                self._judge(self._answered, f"the scheduler at {self._address} has not answered", "it")
                self._judge(
                    self._manned, f"the cluster at {self._address} has had no worker", "one, dask worker ADDRESS,"
                )
                self.client.loop.add_callback(self._look)
                self._hand_out()  # to workers that have come
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the thread that waits for results
            self._give_up(error)

    def _is_closed(self) -> bool:
        return self.client.status in ("closing", "closed")

    def _judge(self, since: float, what: str, start: str) -> None:
        """Warn of what has been missing for a while, and end the call when it has been so for too long."""
        missing = time.monotonic() - since
        if missing > PATIENCE_S:
            raise SweepError(f"{what} for {PATIENCE_S:g} s: {_REMEDY.format(start)}")
        if missing > SILENCE_S and what not in self._said:
            self._said.add(what)
            warnings.warn(f"{what} for {SILENCE_S:g} s: waiting up to {PATIENCE_S:g} s", SweepWarning, stacklevel=1)

    def _count(self) -> bool:
        """Count threads; they come and go. Returns whether the scheduler answered."""
        try:
            # Not `ncores`: it waits for an answer as long as it takes.
            cores = self.client.sync(self.client.scheduler.ncores, workers=None, callback_timeout=f"{ANSWER_S} s")
        except _UNANSWERED:
            return False
        self._threads = sum(cores.values())
        return True

    async def _look(self) -> None:
        """Tell of what is lost, found so at two looks: a future whose end nobody heard of, a task without a future."""
        futures = {task: future for future, task in self._callbacks.items()}
        with self._ours:
            tasks = list(self._open)
        for task in tasks:
            future = futures.get(task)
            lost = future is None or future.status in ("error", "cancelled")
            task.looks = task.looks + 1 if lost else 0
            if task.looks == 2:
                self._lose(task, RuntimeError("the cluster lost it") if future is None else asyncio.CancelledError())

    def _give_up(self, error: Exception) -> None:
        """End the call with an error."""
        with self._ours:
            task = next(iter((*self._open, *self._queue)), None)
        if task is not None:
            task.tell(_GivenUp(error))


def dask_backend(client: Any, lost: Callable[[tuple[Any, ...], BaseException], Any]) -> Any:
    """Make a backend for ``joblib.Parallel(backend=…)`` of a ``distributed.Client``, for one call of it.

    Parameters
    ----------
    client
        Of the cluster.
    lost
        Makes the result of a call that the cluster could not end, from the call's arguments and the error.
    """
    from joblib._dask import DaskDistributedBackend  # noqa: PLC0415 - sweeps on a cluster only

    # joblib has no types; where dask is not installed, there is nothing to ignore.
    class Backend(_Mended, DaskDistributedBackend):  # type: ignore[misc, unused-ignore]
        """joblib's, mended."""

        # What hands out a task had another name before joblib 1.6.
        _send = vars(DaskDistributedBackend).get("submit") or DaskDistributedBackend.apply_async

    backend = Backend(client=client)
    backend.prepare(lost)
    return backend
