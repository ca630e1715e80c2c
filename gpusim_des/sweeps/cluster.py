"""Tasks on a Dask cluster, with outcomes in the order in which they come.

Straight through the cluster's own client: it tells of workers that die task by task, where joblib's backend for Dask
waits for them forever (seen with joblib 1.6 and distributed 2026.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gpusim_des.errors import SweepError
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.task import DIED, Outcome, run_packed

AHEAD = 4
"""Tasks for each thread of the cluster that are handed out at a time: enough that none waits, few for the scheduler."""


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
        return distributed.Client(cluster, timeout="10 s", set_as_default=False), True
    except (OSError, ValueError, TypeError) as error:
        raise SweepError(f"cluster = {cluster!r}: no scheduler answers there ({error})") from None


def on_cluster(data: bytes, tasks: Mapping[int, Configuration], cluster: Any) -> Iterator[tuple[int, Outcome]]:
    """Run a packed kernel's tasks on a cluster; raises as `connect`."""
    client, mine = connect(cluster)
    return _run(client, data, tasks, close=mine)


def _run(client: Any, data: bytes, tasks: Mapping[int, Configuration], *, close: bool) -> Iterator[tuple[int, Outcome]]:
    from distributed import as_completed, wait  # noqa: PLC0415 - as above

    numbers: dict[str, int] = {}
    waiting = iter(list(tasks))

    def submit(number: int) -> Any:
        future = client.submit(run_packed, data, number, tasks[number], pure=False)
        numbers[future.key] = number
        return future

    def submitted(count: int) -> list[Any]:
        return [submit(number) for number in islice(waiting, count)]

    first = submitted(AHEAD * max(1, sum(client.ncores().values())))
    running = as_completed(first, loop=client.loop, raise_errors=False)
    suspects = []
    try:
        for future in running:
            number, outcome = numbers.pop(future.key), _outcome(future)
            if outcome.error == DIED:
                suspects.append(number)
            else:
                yield number, outcome
            running.update(submitted(1))
        # A worker that dies takes with it what else it was given: who killed it shows when each runs alone.
        for number in suspects:
            alone = submit(number)
            wait(alone)
            yield number, _outcome(alone)
    finally:
        client.cancel(list(running.futures), force=True)  # after an interruption; otherwise there are none
        if close:
            client.close()


def _outcome(future: Any) -> Outcome:
    if future.status == "finished":
        _, outcome = future.result()
        return outcome if isinstance(outcome, Outcome) else Outcome(*outcome)
    error = future.exception() if future.status == "error" else None
    if error is None or type(error).__name__ == "KilledWorker":
        return Outcome(None, DIED, again=True)
    return Outcome(None, f"{type(error).__name__}: {error}", again=True)  # of the cluster: a module that is not there
