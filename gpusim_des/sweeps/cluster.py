"""Tasks on a Dask cluster, with outcomes in the order in which they come: through joblib and its backend for Dask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from gpusim_des.errors import SweepError
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.task import DIED, Outcome, Outcomes, run_packed

MOST_QUEUED = 10_000
"""Tasks that joblib makes ready at a time: enough for any cluster, and a sweep may have a million."""


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
        if cluster.asynchronous:
            raise SweepError(f"cluster = {cluster!r}: a client of a program with await; give the scheduler's address")
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


def on_cluster(data: bytes, tasks: Mapping[int, Configuration], cluster: Any) -> Outcomes:
    """Run a packed kernel's tasks on a cluster.

    Raises
    ------
    SweepError
        As `connect`; if no worker comes or stays, the scheduler is lost, or a worker has another gpusim_des.
    """
    client, mine = connect(cluster)
    suspects = []
    try:
        with closing(_run(client, data, tasks)) as ended:  # before the client is
            for number, outcome in ended:
                if outcome.error == DIED:
                    suspects.append(number)
                else:
                    yield number, outcome
        # A worker that dies takes with it what else it was given: who killed it shows when each runs alone.
        for number in suspects:
            yield from _run(client, data, {number: tasks[number]})
    finally:
        if mine:
            client.close()


def _run(client: Any, data: bytes, tasks: Mapping[int, Configuration]) -> Outcomes:
    from joblib import Parallel, delayed  # noqa: PLC0415 - parallel sweeps only

    from gpusim_des.sweeps.dask_backend import dask_backend  # noqa: PLC0415 - sweeps on a cluster only

    # In pairs, which travel as they are: of objects that joblib thinks large it makes futures, which can be lost, too.
    jobs = (delayed(run_on_worker)(data, pair) for pair in tasks.items())
    # Single tasks, so that each row comes as soon as it is done.
    asked = {"batch_size": 1, "pre_dispatch": MOST_QUEUED, "return_as": "generator_unordered"}
    with closing(Parallel(backend=dask_backend(client, _lost), **asked)(jobs)) as ended:
        for number, outcome in ended:
            yield number, outcome if isinstance(outcome, Outcome) else Outcome(*outcome)


def run_on_worker(data: bytes, task: tuple[int, Configuration]) -> tuple[int, Outcome]:
    """Run a task on a worker; returns its number with its outcome. Another gpusim_des there ends the whole sweep."""
    number, c = task
    try:
        return run_packed(data, number, c)
    except SweepError:
        raise
    except Exception as error:  # noqa: BLE001 - the worker's: a module of the kernel's that is not there
        return number, Outcome(None, f"{type(error).__name__}: {error}", again=True)


_KILLED = ("KilledWorker", "FutureCancelledError", "CancelledError")
"""Names of distributed's errors of tasks whose worker is gone."""


def _lost(args: tuple[Any, ...], error: BaseException) -> tuple[int, Outcome]:
    """What is said of a task that came to no end: its worker was killed, it was cancelled, it could not be read."""
    _, (number, _) = args
    told = isinstance(error, Exception) and type(error).__name__ not in _KILLED
    return number, Outcome(None, f"{type(error).__name__}: {error}" if told else DIED, again=True)
