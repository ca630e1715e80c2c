"""Tasks on a Dask cluster, with outcomes in the order in which they come.

Straight through the cluster's own client: it tells of workers that die task by task, where joblib's backend for Dask
waits for them forever (seen with joblib 1.6 and distributed 2026.8).
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from gpusim_des.errors import SweepError, SweepWarning
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.task import DIED, Outcome, run_packed

AHEAD = 4
"""Tasks for each thread of the cluster that are handed out at a time: enough that none waits, few for the scheduler."""

LOOK_S = 1.0
"""Between two looks at which workers there are, seconds."""

SILENCE_S = 5.0
"""How long nothing is said about a cluster without any worker, seconds: one that died is started again by then."""

PATIENCE_S = 60.0
"""How long a cluster may be without any worker, seconds: they may still be starting."""


def connect(cluster: Any) -> tuple[Any, bool]:
    """Return the client of a cluster, and whether it is ours to close.

    Parameters
    ----------
    cluster
        Address of a scheduler, or a ``distributed.Client``.

    Raises
    ------
    SweepError
        If distributed is not installed, or no scheduler answers within ten seconds.
    """
    try:
        import distributed  # noqa: PLC0415 - sweeps on a cluster only
    except ModuleNotFoundError:
        raise SweepError(
            "a sweep on a cluster needs distributed, which is not installed: pip install 'gpusim-des[cluster]'"
        ) from None
    if isinstance(cluster, distributed.Client):
        return cluster, False
    try:
        if isinstance(cluster, str):  # a client that is made in vain takes 20 s to go
            distributed.comm.get_address_host(cluster)
        elif isinstance(cluster, int | float | bytes):
            raise TypeError("it is no address")
        return distributed.Client(cluster, timeout="10 s", set_as_default=False), True
    except (OSError, ValueError, TypeError) as error:
        raise SweepError(
            f"cluster = {cluster!r}: no scheduler answers there ({error}); write its address with scheme and port, "
            "tcp://host:8786"
        ) from None


def on_cluster(data: bytes, tasks: Mapping[int, Configuration], cluster: Any) -> Iterator[tuple[int, Outcome]]:
    """Run a packed kernel's tasks on a cluster.

    Raises
    ------
    SweepError
        As `connect`; if no worker comes or stays, or one has another gpusim_des.
    """
    client, mine = connect(cluster)
    try:
        yield from _Run(client, data, tasks).outcomes()
    finally:
        if mine:
            client.close()


class _Run:
    """Tasks of one sweep: as many handed out as keep the workers busy that are there at the moment."""

    def __init__(self, client: Any, data: bytes, tasks: Mapping[int, Configuration]) -> None:
        self._client = client
        self._data = data
        self._tasks = tasks
        self._waiting = deque(tasks)
        self._running: dict[str, tuple[int, Any]] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._threads = 0
        self._looked = 0.0

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        suspects = []
        try:
            for number, outcome in self._all():
                if outcome.error == DIED:
                    suspects.append(number)
                else:
                    yield number, outcome
            # A worker that dies takes with it what else it was given: who killed it shows when each runs alone.
            for number in suspects:
                self._waiting.append(number)
                yield from self._all()
        finally:
            # After an interruption; otherwise there are none.
            self._client.cancel([future for _, future in self._running.values()], force=True)

    def _all(self) -> Iterator[tuple[int, Outcome]]:
        """Run what waits to its end."""
        seen = time.monotonic()
        warned = False
        self._look()
        while self._waiting or self._running:
            # At least one: there are clusters that start a worker only where there is work.
            self._hand_out(max(1, AHEAD * self._threads))
            try:
                future = self._done.get(timeout=LOOK_S)
            except Empty:
                future = None
            if future is not None and (ended := self._running.pop(future.key, None)) is not None:
                yield ended[0], _outcome(future)
            if time.monotonic() - self._looked > LOOK_S:
                self._look()
            if self._threads:
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE_S:
                raise SweepError(
                    f"the cluster at {self._client.scheduler.address} has had no worker for {PATIENCE_S:g} s: start "
                    "one (dask worker ADDRESS) and the sweep again; finished rows are kept where it has a folder"
                )
            elif not warned and time.monotonic() - seen > SILENCE_S:
                warned = True
                warnings.warn(
                    f"the cluster at {self._client.scheduler.address} has no worker: waiting up to {PATIENCE_S:g} s",
                    SweepWarning,
                    stacklevel=2,
                )

    def _look(self) -> None:
        """See which workers there are; they come and go."""
        self._threads = sum(self._client.ncores().values())
        self._looked = time.monotonic()

    def _hand_out(self, most: int) -> None:
        while self._waiting and len(self._running) < most:
            number = self._waiting.popleft()
            future = self._client.submit(run_packed, self._data, number, self._tasks[number], pure=False)
            self._running[future.key] = number, future
            future.add_done_callback(self._done.put)


def _outcome(future: Any) -> Outcome:
    if future.status == "finished":
        _, outcome = future.result()
        return outcome if isinstance(outcome, Outcome) else Outcome(*outcome)
    error = future.exception() if future.status == "error" else None
    if error is None or type(error).__name__ == "KilledWorker":
        return Outcome(None, DIED, again=True)
    if isinstance(error, SweepError):  # the worker's, not the configuration's
        raise error
    return Outcome(None, f"{type(error).__name__}: {error}", again=True)  # of the cluster: a module that is not there
