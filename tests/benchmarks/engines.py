"""Speed, memory and start-up of both engines, as figures; nothing here passes or fails.

    python tests/benchmarks/engines.py [--quick] [--out out] [--only rates grid sms memory start-up]

Speeds are per second of CPU time, so that other programs on the machine matter little; work that the compiled engine
does on a second core counts in full. Ratios come from one run: the engines take turns, and medians are compared. A
whole run takes about a quarter of an hour, most of it the SimPy engine and a matrix product of n = 1024.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script sees its own folder only

import gpusim_des as gs  # noqa: E402
from gpusim_des.timing.choice import Engine  # noqa: E402
from gpusim_des.timing.simulate import Caches, simulate  # noqa: E402
from tests.benchmarks.kernels import CASES, Start, add_vectors, multiply, run_chains  # noqa: E402

GPU = "h100-sxm"
RUNS = 3
BOTH: tuple[Caches, ...] = ("off", "on")
MIB = 2**20


class Speed(NamedTuple):
    """What one run took, in seconds."""

    cpu: float
    wall: float


def clock(action: Callable[[], object]) -> Speed:
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Speed(time.process_time() - cpu, time.perf_counter() - wall)


def chip(*, quick: bool) -> gs.GPU:
    return gs.load_gpu(GPU).slice(sms=4) if quick else gs.load_gpu(GPU)


def medians(works: Sequence[tuple[Any, ...]], runs: int) -> list[float]:
    """CPU time of some works (arguments of `play`), in seconds: they take turns, so that all see the same machine."""
    times = [[play(*work).cpu for work in works] for _ in range(runs)]
    return [median(seconds) for seconds in zip(*times, strict=True)]


def play(gpu: gs.GPU, launch: gs.Launch, engine: Engine, caches: Caches) -> Speed:
    return clock(partial(simulate, gpu, [launch.trace], engine=engine, caches=caches, detail="kernel"))


def sectors(launch: gs.Launch) -> int:
    c = launch.counters
    return c.global_load_sectors + c.global_store_sectors + c.global_atomic_sectors


def one_launch(gpu: gs.GPU, prepare: Callable[..., Start], *sizes: int) -> gs.Launch:
    return prepare(gs.Device(gpu), *sizes)()


# Sections -----------------------------------------------------------------------------------------------------------


def rates(*, quick: bool) -> list[dict[str, Any]]:
    """Both engines on one size, and the compiled one on a size that is large enough for its start not to matter."""
    gpu = chip(quick=quick)
    print(
        "\nspeed: thousands (k) or millions (M) a second\n"
        f"{'':<30}{'both engines, one size':^66}{'compiled, large':^51}\n"
        f"{'kernel':<22}{'caches':>8}{'warp instr.':>13}{'SimPy instr.':>14}{'sectors':>10}{'compiled':>11}"
        f"{'sectors':>10}{'ratio':>8}{'warp instr.':>15}{'CPU s':>8}{'wall s':>8}{'instr.':>10}{'sectors':>10}"
    )
    rows = []
    for case in CASES:
        small = one_launch(gpu, case.prepare, case.tiny if quick else case.small)
        large = small if quick else one_launch(gpu, case.prepare, case.large)
        for caches in BOTH:
            runs: dict[Engine, list[float]] = {"simpy": [], "compiled": []}
            for _ in range(1 if quick else RUNS):
                for engine, seconds in runs.items():
                    seconds.append(play(gpu, small, engine, caches).cpu)
            simpy, compiled = (median(seconds) for seconds in runs.values())
            count, many = small.counters.warp_instructions, large.counters.warp_instructions
            times = [play(gpu, large, "compiled", caches) for _ in range(1 if quick or many > 10**8 else RUNS)]
            speed = sorted(times)[len(times) // 2]
            row: dict[str, Any] = {
                "kernel": case.name,
                "caches": caches,
                "simpy": count / simpy,
                "simpy sectors": sectors(small) / simpy,
                "compiled": count / compiled,
                "compiled sectors": sectors(small) / compiled,
                "ratio": simpy / compiled,
                "large": many / speed.cpu,
                "sectors": sectors(large) / speed.cpu,
            }
            rows.append(row)
            print(
                f"{case.name:<22}{caches:>8}{count:>13,}"
                f"{row['simpy'] / 1e3:>12.1f} k{row['simpy sectors'] / 1e3:>8.1f} k"
                f"{row['compiled'] / 1e6:>9.2f} M{row['compiled sectors'] / 1e6:>8.2f} M{row['ratio']:>7.1f}×"
                f"{many:>15,}{speed.cpu:>8.2f}{speed.wall:>8.2f}"
                f"{row['large'] / 1e6:>8.2f} M{row['sectors'] / 1e6:>8.2f} M"
            )
    return rows


def grid(*, quick: bool) -> list[dict[str, Any]]:
    """Cost of an instruction against the size of the grid: level if cost grows as the work does."""
    gpu = chip(quick=quick)
    powers, largest_simpy = ((10, 13), 1 << 10) if quick else ((16, 25), 1 << 18)
    print(f"\nvector add on {gpu.title}: CPU time per warp instruction, ns\n{'threads':>12}{'warp instr.':>14}", end="")
    ways = [(engine, caches) for engine in ("compiled", "simpy") for caches in BOTH]
    print("".join(f"{engine + ', ' + caches:>16}" for engine, caches in ways))
    launches = {1 << power: one_launch(gpu, add_vectors, 1 << power) for power in range(*powers, 2)}
    found: dict[tuple[int, str, str], float] = {}
    for engine, runs in (("compiled", RUNS), ("simpy", 1)):
        keys = [(n, engine, caches) for n in launches if engine == "compiled" or n <= largest_simpy for caches in BOTH]
        works = [(gpu, launches[n], engine, caches) for n, _, caches in keys]
        found.update(zip(keys, medians(works, runs), strict=True))
    rows = []
    for n, launch in launches.items():
        count = launch.counters.warp_instructions
        costs = {f"{e}, {c}": 1e9 * found[n, e, c] / count for e, c in ways if (n, e, c) in found}
        rows.append({"threads": n, **costs})
        shown = "".join(f"{costs[f'{e}, {c}']:16,.0f}" if (n, e, c) in found else f"{'-':>16}" for e, c in ways)
        print(f"{n:12,}{count:14,}{shown}")
    return rows


def sms(*, quick: bool) -> list[dict[str, Any]]:
    """Cost of one and the same work against the number of SMs: 16 blocks keep 16 SMs busy, the others stay idle."""
    whole = gs.load_gpu(GPU)
    length = 4 if quick else 4096
    print(f"\n16 blocks of 256 threads, {length:,} multiply-adds each: CPU time per warp instruction, ns")
    print(f"{'SMs':>6}{'idle':>6}{'compiled':>12}{'simpy':>12}")
    gpus = [whole.replace(sms=number) for number in ((16, 32) if quick else (16, 33, 66, 132, 264))]
    launches = [one_launch(gpu, run_chains, 16 * 256, 1, length) for gpu in gpus]
    costs = {
        engine: medians([(gpu, launch, engine, "on") for gpu, launch in zip(gpus, launches, strict=True)], runs)
        for engine, runs in (("compiled", 1 if quick else 3 * RUNS), ("simpy", 1))
    }
    rows = []
    for gpu, launch, compiled, simpy in zip(gpus, launches, *costs.values(), strict=True):
        scale = 1e9 / launch.counters.warp_instructions
        rows.append({"sms": gpu.sms, "compiled": scale * compiled, "simpy": scale * simpy})
        print(f"{gpu.sms:6d}{gpu.sms - 16:6d}{scale * compiled:12,.0f}{scale * simpy:12,.0f}")
    return rows


MEMORY: dict[str, tuple[Callable[[gs.Device, int], Start], int]] = {
    **{f"vector add 2^{power}": (add_vectors, 1 << power) for power in (12, 18, 20, 22, 24, 26)},
    **{f"tiled matmul n = {n}": (multiply, n) for n in (256, 512)},
}


def memory(*, quick: bool) -> list[dict[str, Any]]:
    """Most memory that a process of its own held, in MiB: it must not grow with the grid, its arrays aside."""
    print("\npeak memory of a process, MiB: the arrays, what the launch adds, what the compiled engine adds")
    print(f"{'':<22}{'arrays':>8}{'launch':>8}{'timing':>8}{'all':>8}{'trace':>8}{'of it in a file':>17}{'wall s':>8}")
    rows = []
    for name in ["vector add 2^12"] if quick else list(MEMORY)[1:]:
        said = run_script("--measure", name)
        row = json.loads(said.stdout)
        rows.append(row)
        shown = "".join(f"{row[key]:8,.0f}" for key in ("arrays", "launch", "timing", "all", "trace"))
        print(f"{name:<22}{shown}{row['spilled']:17,.0f}{row['seconds']:8.1f}")
    return rows


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process, and tell how much more memory each of its parts needed."""
    prepare, size = MEMORY[name]
    gpu, begun = gs.load_gpu(GPU), time.perf_counter()
    dev = gs.Device(gpu)
    start = prepare(dev, size)
    peaks = [peak()]
    launch = start()
    peaks.append(peak())
    simulate(gpu, [launch.trace], engine="compiled", detail="kernel")
    peaks.append(peak())
    return {
        "name": name,
        "arrays": sum(array.nbytes for array in dev.leaks()) / MIB,
        "launch": peaks[1] - peaks[0],
        "timing": peaks[2] - peaks[1],
        "all": peaks[2],
        "trace": (launch.trace.held_bytes + launch.trace.spilled_bytes) / MIB,
        "spilled": launch.trace.spilled_bytes / MIB,
        "seconds": time.perf_counter() - begun,
    }


def peak() -> float:
    """Most memory that this process has held so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage counts what the process that started this one held
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


FIRST_RUN = """
import json, time
def now():
    return time.process_time(), time.perf_counter()
start = now()
import gpusim_des as gs
imported = now()
import numpy as np
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
trace = KernelTrace.of_blocks("k", [[WarpTrace.of([Instruction(OpClass.FP32)])]])
simulate(gs.load_gpu("tiny"), [trace], engine="{engine}")
print(json.dumps([start, imported, now()]))
"""


def start_up(*, quick: bool) -> list[dict[str, Any]]:
    """Importing the package, and the first, tiny simulation of a process."""
    print(f"\n{'start of a process, seconds':<34}{'import':>14}{'first simulation':>20}")
    print(f"{'':<34}{'CPU':>7}{'wall':>7}{'CPU':>11}{'wall':>9}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ways: list[tuple[str, str, str | None]] = [
            ("SimPy", "simpy", None),
            ("compiled, from its cache", "compiled", None),
        ]
        if not quick:
            cold = ("compiled, never compiled before", "compiled", folder)
            ways += [cold, ("compiled, from that cache", "compiled", folder)]
        for name, engine, cache in ways:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), **({"NUMBA_CACHE_DIR": cache} if cache else {})}
            command = [sys.executable, "-c", FIRST_RUN.format(engine=engine)]
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            start, imported, end = (Speed(*pair) for pair in json.loads(said.stdout.splitlines()[-1]))
            row = {
                "name": name,
                "import, CPU": imported.cpu - start.cpu,
                "import, wall": imported.wall - start.wall,
                "first, CPU": end.cpu - imported.cpu,
                "first, wall": end.wall - imported.wall,
            }
            rows.append(row)
            print(f"{name:<34}{row['import, CPU']:7.2f}{row['import, wall']:7.2f}", end="")
            print(f"{row['first, CPU']:11.2f}{row['first, wall']:9.2f}")
    return rows


def run_script(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).resolve()), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True)


# Figures ------------------------------------------------------------------------------------------------------------


def draw(results: dict[str, list[dict[str, Any]]], out: Path) -> None:
    """Costs that should be level lines."""
    out.mkdir(parents=True, exist_ok=True)
    for section, key, xlabel, title in (
        ("grid", "threads", "threads of a vector add", "Cost against the size of the grid"),
        ("sms", "sms", "SMs, of which 16 have work", "Cost against the number of SMs"),
    ):
        rows = results.get(section)
        if not rows:
            continue
        names = [name for name in rows[0] if name.startswith("compiled")]
        axes = gs.views.curves(
            [row[key] for row in rows],
            [gs.views.Curve(name.replace(", ", " engine, caches "), [row[name] for row in rows]) for name in names],
            xlabel=xlabel,
            ylabel="CPU time per warp instruction (ns)",
            title=f"{title}: compiled engine, {GPU}",
            logarithmic=True,
        )
        gs.views.save(axes, out / f"engines_{section}.png")
        print(f"written: {out / f'engines_{section}.png'}")


SECTIONS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "start-up": start_up,
    "rates": rates,
    "grid": grid,
    "sms": sms,
    "memory": memory,
}


def main(*, quick: bool = False, out: Path | None = None, only: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    play(gs.load_gpu("tiny"), one_launch(gs.load_gpu("tiny"), add_vectors, 256), "compiled", "on")  # compiles, once
    results = {name: section(quick=quick) for name, section in SECTIONS.items() if name in only or not only}
    if out is not None:
        draw(results, out)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--out", type=Path, help="folder for the figures")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=(), help="sections")
    parser.add_argument("--measure", choices=MEMORY, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
    else:
        main(quick=options.quick, out=options.out, only=options.only)
