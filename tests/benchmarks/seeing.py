"""What recording, reports, traces and the import cost, as figures; nothing here passes or fails.

    python tests/benchmarks/seeing.py [--quick]

Recording: what is left of it with ``detail="kernel"`` are a span for each block, thrown away at once, and a comparison
for each instruction. Both are timed alone and set against the time of a run. More detail is set against
``detail="kernel"``: ratios of CPU time, the ways taking turns in changing order, the fastest of each compared; the same
way twice shows what the machine adds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script sees its own folder only

import gpusim_des as gs  # noqa: E402
from gpusim_des.simulation import Simulation  # noqa: E402
from gpusim_des.timeline import BlockSpan  # noqa: E402
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


def each(action: Callable[[], object], times: int = 100_000) -> float:
    """Seconds that an action takes, the loop around it included."""

    def repeat() -> None:
        for _ in range(times):
            action()

    return min(cpu(repeat) for _ in range(3)) / times


def recording(threads: int) -> None:
    """Cost of every level of detail in the SimPy engine, of which every instruction takes longest."""
    dev = gs.Device(gs.load_gpu(GPU).slice(sms=4))
    trace = add_vectors(dev, threads)().trace
    ways: tuple[tuple[str, Detail], ...] = (("kernel", "kernel"), ("again", "kernel"), ("sm", "sm"), ("warp", "warp"))
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    for turn in range(RUNS):
        for name, detail in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            times[name].append(cpu(partial(simulate, dev.gpu, [trace], engine="simpy", detail=detail)))
    base = min(times["kernel"])
    kernel = simulate(dev.gpu, [trace], engine="simpy", detail="kernel").kernels[0]
    probe, looked_at = Probe("kernel"), None
    of_blocks = kernel.blocks * each(lambda: probe.block(BlockSpan(0, 0, 0, 0, 0, 1)))
    of_instructions = 3 * kernel.warp_instructions * each(lambda: looked_at is not None)
    print(f'detail="kernel": {100 * (of_blocks + of_instructions) / base:.1f} % of {base:.2f} s, at most')
    for name in ("again", "sm", "warp"):
        way = 'detail="kernel" again' if name == "again" else f'detail="{name}"'
        print(f"{way}: {100 * (min(times[name]) / base - 1):+.1f} %")


def bars(threads: int) -> Simulation:
    """A run with the states of all warps."""
    dev = gs.Device(GPU)
    add_vectors(dev, threads)()
    return dev.simulate(engine="compiled", detail="warp")


def files(threads: int, what: str) -> None:
    """Time and memory of a report or a trace (of a million events at most), in a process of its own."""
    sim = bars(threads)
    spans = sum(len(warp.states) for warp in sim.timeline.warps) + len(sim.timeline.blocks)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / what
        seconds = cpu(partial(sim.report, path)) if what == "report" else cpu(partial(gs.views.save_trace, sim, path))
        nbytes = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    memory = f"its peak of memory {more:,.0f} MiB above the {before:,.0f} of the run"
    print(f"{what} of {spans:,} spans: {seconds:.1f} s, {memory}, {nbytes / MIB:.1f} MiB written")


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
    for what, threads in (("report", 1 << 18), ("trace.json.gz", 1 << 21), ("trace.pftrace", 1 << 21)):
        size = threads // 8 if asked.quick else threads
        subprocess.run([sys.executable, __file__, "--only", what, str(size)], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
