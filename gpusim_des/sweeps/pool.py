"""Tasks on several processes of this machine, with outcomes in the order in which they come.

A process that is killed (out of memory, a crash) takes its pool with it. The tasks that were under way are then run one
by one, each in a process of its own: the one that kills again is at fault, and the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from gpusim_des.errors import SweepError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.sweeps.cluster import on_cluster
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.task import DIED, Outcome, Outcomes, end_with, pack, run_packed, run_task

Tasks = Mapping[int, Configuration]


def outcomes(kernel: KernelFunction, tasks: Tasks, workers: int | None, cluster: Any = None) -> Outcomes:
    """Run tasks; yields their numbers and outcomes as they end.

    Parameters
    ----------
    kernel, tasks
        What to run.
    workers
        Processes of this machine; ``None``: as many as there are cores. With 1 the tasks run in this process.
    cluster
        Address of a Dask scheduler, or a ``distributed.Client``; ``None``: this machine.

    Raises
    ------
    SweepError
        If `workers` is not positive, distributed is missing, or no scheduler answers.
    """
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise SweepError(f"workers = {workers!r}: a whole number of processes, at least 1; leave it out for all cores")
    if not tasks or (cluster is None and workers == 1):
        return ((number, run_task(kernel, c)) for number, c in tasks.items())
    if cluster is not None:
        return on_cluster(pack(kernel), tasks, cluster)
    return _parallel(pack(kernel), tasks, workers)


def _parallel(data: bytes, tasks: Tasks, workers: int | None) -> Outcomes:
    left = dict(tasks)
    while left:
        handed: list[int] = []
        try:
            for number, outcome in _pool(data, left, workers, handed):
                del left[number]
                yield number, outcome
        except BrokenProcessPool:
            for number in [n for n in handed if n in left]:
                yield number, _alone(data, number, left.pop(number), workers)


def _pool(data: bytes, tasks: Tasks, workers: int | None, handed: list[int]) -> Outcomes:
    """One pool, until it has done all or breaks; `handed` are the tasks that it was given."""
    from joblib import Parallel, cpu_count, delayed, parallel_config  # noqa: PLC0415 - parallel sweeps only

    def jobs() -> Iterator[Any]:
        for number, c in list(tasks.items()):
            handed.append(number)
            yield delayed(run_packed)(data, number, c)

    _start_tracker()
    # With one process joblib would stay in this one, which a task could kill. One thread each: the processes share the
    # cores already.
    wanted = max(2, workers or cpu_count())
    watch = {"initializer": end_with, "initargs": (os.getpid(),)}
    with parallel_config("loky", n_jobs=wanted, inner_max_num_threads=1, **watch):
        # Single tasks, so that each row comes as soon as it is done; few ahead, so that few are in doubt after a death.
        yield from Parallel(batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")(jobs())


def _start_tracker() -> None:
    """Start the process in which joblib cleans up after a sweep that is killed.

    It does so at its end, and warns of it on standard error, where nobody needs to know: all is gone by then.
    """
    from joblib.externals.loky.backend.resource_tracker import ensure_running  # noqa: PLC0415 - parallel sweeps only

    given = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join([*filter(None, [given]), "ignore:resource_tracker:UserWarning"])
    try:
        ensure_running()
    finally:
        os.environ.pop("PYTHONWARNINGS") if given is None else os.environ.update(PYTHONWARNINGS=given)


def _alone(data: bytes, number: int, c: Configuration, workers: int | None) -> Outcome:
    try:
        ((_, outcome),) = _pool(data, {number: c}, workers, [])
    except BrokenProcessPool:
        return Outcome(None, DIED, again=True)
    return outcome
