"""Many configurations of one kernel, in parallel, with rows that stay whatever happens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from gpusim_des.errors import SweepError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.thread_kernel import InterpretedWarning
from gpusim_des.sweeps.axes import Planned, plan
from gpusim_des.sweeps.configuration import check_arguments
from gpusim_des.sweeps.fingerprint import Fingerprints
from gpusim_des.sweeps.pool import outcomes
from gpusim_des.sweeps.store import Record, RowStore
from gpusim_des.sweeps.table import SweepTable, table_of
from gpusim_des.sweeps.task import Outcome


def sweep(
    kernel: KernelFunction,
    *,
    args: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    folder: str | PathLike[str] | None = None,
    workers: int | None = None,
    cluster: Any = None,
    progress: Callable[[int, int], None] | None = None,
    **axes: Any,
) -> SweepTable:
    """Measure a kernel in many configurations: a list, a range or an array is an axis, and all axes are combined.

    Each configuration is run and timed alone, with cold caches, on a device of its own; equal ones are measured once.

    Parameters
    ----------
    kernel
        A function marked with `kernel` or `block_kernel`.
    args
        Its arguments by name: numbers, NumPy arrays, texts such as ``"f32[n]:random"`` (see ``gpusim-des run --help``),
        or lists of them.
    parameters
        Parameters of the GPU that are changed, by the names that `GPU.replace` takes: ``{"dram_bandwidth": ["2 TB/s",
        "3 TB/s"], "fp32_latency_cycles": range(4, 8)}``. They are those of the whole GPU; `sms` takes a share of it.
    folder
        Where finished rows are kept, each as soon as it is done. A sweep that was killed goes on from there, and a
        larger one measures only what is not there. Rows are found again as long as the kernel and all that it uses by
        name (helpers, neighbour files, constants, classes), arguments, GPU model and simulator are the same. Without
        it nothing is written.
    workers
        Processes; all cores where not given, 1 for this process alone, which a kernel that crashes takes with it.
    cluster
        Address of a Dask scheduler or a ``distributed.Client``, to run there instead (``pip install
        'gpusim-des[cluster]'``).
    progress
        Called with configurations done and configurations in all, first with those that lie finished in the folder.
    axes
        ``grid`` and ``block`` (numbers, tuples, or texts such as ``"cdiv(n, block)"``), ``gpu``, ``sms`` (of a slice),
        ``registers`` (per thread), ``shared`` (dynamic, bytes per block), ``policy`` (of warp schedulers: ``"gto"``,
        ``"lrr"`` or ``"oldest"``), ``caches``, ``engine`` and ``sample``.

    Returns
    -------
    SweepTable
        A row for each combination, in the order ``gpu``, ``sms``, ``grid``, ``block``, ``registers``, ``shared``,
        ``policy``, ``caches``, ``engine``, ``sample``, parameters (columns ``gpu_…``), arguments (``arg_…``), the last
        varying fastest. A configuration that fails has its ``error``.

    Raises
    ------
    SweepError
        For an axis that is unknown or empty, a folder that another sweep uses, a disk that is full, a kernel that uses
        an object of which nothing tells whether it is the same next time (a lock, an open file).
    UsageError, ModelError
        For arguments or GPUs that cannot be read, names that are no arguments of the kernel, and missing ones.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def scale(blk, x, n):
    ...     i = blk.bx * blk.bdx + blk.tx
    ...     m = i < n
    ...     blk.store(x, i, 2 * blk.load(x, i, mask=m), mask=m)
    >>> table = gs.sweep(scale, gpu="tiny", grid="cdiv(n, block)", block=[32, 2048], args={"n": 100, "x": "f32[n]"},
    ...                  workers=1)
    >>> [(row["block"], row["blocks"], row["error"][:27]) for row in table]
    [(32, 4, ''), (2048, None, 'LaunchError: block.x = 2,04')]
    """
    if not isinstance(kernel, KernelFunction):
        raise TypeError(f"{kernel!r} is no kernel: mark the function with @gs.kernel or @gs.block_kernel")
    planned = plan(axes, args or {}, parameters)
    check_arguments(kernel, args or {})
    return run_planned(kernel, planned, folder=folder, workers=workers, cluster=cluster, progress=progress)


def run_planned(
    kernel: KernelFunction,
    planned: Sequence[Planned],
    *,
    folder: str | PathLike[str] | None = None,
    workers: int | None = None,
    cluster: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepTable:
    """Measure what was planned, as `sweep` does."""
    fingerprints = Fingerprints(kernel)
    keys = [fingerprints.key(p.configuration) for p in planned]
    store = nullcontext(None) if folder is None else RowStore(Path(folder))
    with store as kept, warnings.catch_warnings():
        # Of a sweep that is interrupted: what was under way is measured again, which is as it should be.
        warnings.filterwarnings("ignore", r"\d+ tasks (which were still being|have been successfully)", UserWarning)
        records: dict[str, Record] = {} if kept is None else kept.rows
        wanted = {key: number for number, key in reversed(list(enumerate(keys)))}  # the first of equal ones
        tasks = {
            number: planned[number].configuration
            for key, number in sorted(wanted.items(), key=lambda item: item[1])
            if key not in records or records[key].get("again")
        }
        done = len(wanted) - len(tasks)
        if progress is not None:
            progress(done, len(wanted))
        noticed: set[str] = set()
        with closing(outcomes(kernel, tasks, workers, cluster)) as ended:
            for number, outcome in ended:
                for note in dict.fromkeys(outcome.notes):
                    if note not in noticed:
                        noticed.add(note)
                        warnings.warn(note, InterpretedWarning, stacklevel=3)
                record = _record(keys[number], kernel.name, planned[number].columns, outcome)
                if kept is None:
                    records[keys[number]] = record
                else:
                    kept.append(record)
                done += 1
                if progress is not None:
                    progress(done, len(wanted))
        missing = next((number for key, number in wanted.items() if key not in records), None)
        if missing is not None:
            raise SweepError(f"no outcome of configuration {planned[missing].columns}: start the sweep again")
        return table_of([p.columns for p in planned], [records[key] for key in keys], len(tasks))


def _record(key: str, kernel: str, columns: Mapping[str, Any], outcome: Outcome) -> Record:
    record: Record = {"key": key, "kernel": kernel, "config": dict(columns), "took_s": round(outcome.took_s, 6)}
    if outcome.result is not None:
        return {**record, "result": outcome.result}
    return {**record, "error": outcome.error, **({"again": True} if outcome.again else {})}
