"""What recording, reports, traces and the import cost, as figures; nothing here passes or fails.

    python tests/benchmarks/seeing.py [--quick]

Recording is measured against a run whose probe hears of nothing: ratios of CPU time, the ways taking turns, medians
compared. What is left in it then is one comparison for each instruction, some ten nanoseconds of its tens of
microseconds in the SimPy engine.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script sees its own folder only

import gpusim_des as gs  # noqa: E402
from gpusim_des.simulation import Simulation  # noqa: E402
from gpusim_des.timing.probe import Detail, Probe  # noqa: E402
from gpusim_des.timing.simulate import simulate  # noqa: E402
from tests.benchmarks.kernels import add_vectors  # noqa: E402

GPU = "t4"
MIB = 2**20
RUNS = 7


def cpu(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


@contextmanager
def deaf() -> Iterator[None]:
    """A probe that hears of nothing."""

    def hear(_probe: Probe, _span: object) -> None: ...

    with mock.patch.object(Probe, "block", hear):
        yield


def recording(threads: int) -> None:
    """Cost of every level of detail in the SimPy engine."""
    dev = gs.Device(gs.load_gpu(GPU).slice(sms=4))
    trace = add_vectors(dev, threads)().trace
    times: dict[str, list[float]] = {"nothing": [], "kernel": [], "sm": [], "warp": []}
    details: tuple[Detail, ...] = ("kernel", "sm", "warp")
    for _ in range(RUNS):
        with deaf():
            times["nothing"].append(cpu(partial(simulate, dev.gpu, [trace], engine="simpy", detail="kernel")))
        for detail in details:
            times[detail].append(cpu(partial(simulate, dev.gpu, [trace], engine="simpy", detail=detail)))
    base = median(times["nothing"])
    for detail in details:
        print(f'detail="{detail}": {100 * (median(times[detail]) / base - 1):+.1f} % of {base:.2f} s')


def bars(threads: int) -> Simulation:
    """A run with the states of all warps."""
    dev = gs.Device(GPU)
    add_vectors(dev, threads)()
    return dev.simulate(engine="compiled", detail="warp")


def files(threads: int, what: str) -> None:
    """Time and memory of a report or a trace, in a process of its own."""
    sim = bars(threads)
    spans = sum(len(warp.states) for warp in sim.timeline.warps) + len(sim.timeline.blocks)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / what
        if what == "report.html":
            seconds = cpu(partial(sim.save_html, path))
        else:
            seconds = cpu(partial(gs.views.save_trace, sim, path))
        nbytes = path.stat().st_size
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    memory = f"{more:,.0f} MiB more than the {before:,.0f} of the run"
    print(f"{what} of {spans:,} spans: {seconds:.1f} s, {memory}, a file of {nbytes / MIB:.1f} MiB")


def imports() -> None:
    """Time of a process that only imports the package, less that of one that does nothing."""
    ends = []
    for code in ("pass", "import gpusim_des"):
        runs = []
        for _ in range(RUNS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
            runs.append(time.perf_counter() - began)
        ends.append(median(runs))
    print(f"import gpusim_des: {ends[1] - ends[0]:.2f} s")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--only", nargs=2, metavar=("FILE", "THREADS"), help="one file, as the processes are asked")
    asked = parser.parse_args(arguments)
    if asked.only:
        files(int(asked.only[1]), asked.only[0])
        return
    imports()
    recording(1 << (15 if asked.quick else 17))
    for what, threads in (("report.html", 1 << 18), ("trace.json.gz", 1 << 21), ("trace.pftrace", 1 << 21)):
        size = threads // 8 if asked.quick else threads
        subprocess.run([sys.executable, __file__, "--only", what, str(size)], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
