"""One configuration as a task for any process: a kernel that can travel, and what comes back, an error included."""

from __future__ import annotations

import linecache
import os
import pickle
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator
from functools import lru_cache
from typing import Any, NamedTuple

from gpusim_des.errors import SimError, SweepError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.thread_kernel import InterpretedWarning
from gpusim_des.results import kernel_row
from gpusim_des.sweeps.configuration import Configuration, measure
from gpusim_des.sweeps.fingerprint import simulator_digest
from gpusim_des.sweeps.reach import reached, with_filename
from gpusim_des.version import VERSION

DIED = "WorkerDied: the process that ran it was killed, as one without enough memory is"
"""Error of a task whose process dies."""

MOST_MISTAKES = 3
"""Mistakes of a kernel that its row tells of."""


class Outcome(NamedTuple):
    """What became of a configuration: a row of figures, or an error."""

    result: dict[str, Any] | None
    error: str = ""
    again: bool = False
    """The error is not the configuration's own (memory, a process that was killed): worth another try."""
    took_s: float = 0.0
    """Time that it took to find out, seconds."""
    notes: tuple[str, ...] = ()
    """What is to be said once of all configurations: that the kernel runs thread by thread."""


Outcomes = Generator[tuple[int, Outcome], None, None]
"""Numbers of tasks, and what became of them, as they end."""


def run_task(kernel: KernelFunction, c: Configuration) -> Outcome:
    """Measure a configuration; whatever goes wrong is its outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InterpretedWarning)
        outcome = _outcome(kernel, c)
    notes = []
    for each in caught:
        if issubclass(each.category, InterpretedWarning):
            notes.append(str(each.message))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return outcome._replace(notes=tuple(notes))


def _outcome(kernel: KernelFunction, c: Configuration) -> Outcome:
    start = time.perf_counter()
    try:
        launch, sim = measure(kernel, c)
    except SimError as error:
        return Outcome(None, f"{type(error).__name__}: {error}", took_s=time.perf_counter() - start)
    except (MemoryError, OSError) as error:
        return Outcome(None, f"{type(error).__name__}: {error}", again=True, took_s=time.perf_counter() - start)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the others go on
        return Outcome(None, f"{type(error).__name__}: {error}", took_s=time.perf_counter() - start)
    row = kernel_row(sim.kernels[0], launch.counters)
    # What was assumed hangs on what was written, and equal configurations may be written differently: see the table.
    for name in ("name", "assumptions"):
        row.pop(name)
    # What was asked for stands in columns of these names, and is not always what was done.
    row["simulated_sms"] = row.pop("sms")
    row["played_engine"] = sim.engine
    row["mistakes"] = "; ".join(str(mistake).partition("\n")[0] for mistake in launch.mistakes[:MOST_MISTAKES])
    return Outcome(row, took_s=time.perf_counter() - start)


def pack(kernel: KernelFunction) -> bytes:
    """Make a kernel travel: its functions by value, with their sources, which vectorization reads.

    The simulator stays where it is; it must be the same there.

    Modules that it imports must be there where it goes.
    """
    import cloudpickle  # noqa: PLC0415 - parallel sweeps only

    function = kernel.function
    module = sys.modules.get(function.__module__)
    mine = module is not None and function.__module__ != "__main__" and not _is_package(function.__module__)
    names = [f.__code__.co_filename for f in reached(function)]  # type: ignore[arg-type]
    files = {name: lines for name in dict.fromkeys(names) if (lines := linecache.getlines(name))}
    if mine:
        cloudpickle.register_pickle_by_value(module)  # its helpers too: the module may be a file that nobody can import
    try:
        inner: bytes = cloudpickle.dumps((type(kernel), function, names, files))
    finally:
        if mine:
            cloudpickle.unregister_pickle_by_value(module)
    return pickle.dumps((simulator_digest(), sys.path, inner))


def _is_package(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "gpusim_des"


@lru_cache(maxsize=8)
def unpack(data: bytes) -> KernelFunction:
    """Make the kernel of it again; once in a process, so that it is compiled once.

    Raises
    ------
    SweepError
        If this process has another simulator than the one that asks: its results would not be the same.
    """
    digest, path, inner = pickle.loads(data)
    if digest != simulator_digest():
        raise SweepError(
            f"the worker on {platform.node()} has another gpusim_des ({VERSION}, in {sys.prefix}) than this sweep: "
            "install the same one there, and start its worker again"
        )
    # A process that waited for work since an earlier sweep does not know where this kernel's neighbours are.
    sys.path += [folder for folder in path if folder not in sys.path]
    kind, function, names, files = pickle.loads(inner)
    for each, name in zip(reached(function), names, strict=True):
        if each.__code__.co_filename != name:  # functions that travel by value forget their files
            each.__code__ = with_filename(each.__code__, name)
    for name, lines in files.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # None: not to be looked for on the disk
    kernel: KernelFunction = kind(function)
    return kernel


def end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed without a word to its children."""
    # Ctrl-C reaches all processes of a terminal; the one that asked ends the others, which have nothing to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_packed(data: bytes, number: int, c: Configuration) -> tuple[int, Outcome]:
    """Run a task in another process; returns its number with its outcome."""
    return number, run_task(unpack(data), c)
