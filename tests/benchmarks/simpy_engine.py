"""Speed of the functional executor and of the SimPy engine, in CPU time; nothing here passes or fails.

python tests/benchmarks/simpy_engine.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script sees its own folder only

import gpusim_des as gs
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.benchmarks.kernels import add_vectors, run_chains

RUNS = 3


def main() -> None:
    gpu = gs.load_gpu("h100-sxm").slice(sms=16)
    print(f"{'kernel':<22}{'caches':>8}{'functional':>20}{'timing':>26}{'events per warp instr.':>24}")
    cases = {
        "vector add 2^18": add_vectors(gs.Device(gpu), 1 << 18),
        "4 chains of 64 fp32": run_chains(gs.Device(gpu), 256 * 256, 4),
    }
    for name, start_launch in cases.items():
        best_run = float("inf")
        for _ in range(RUNS):
            start = time.process_time()
            launch = start_launch()
            best_run = min(best_run, time.process_time() - start)
        counters = launch.counters
        for caches in (True, False):
            best_sim, events = float("inf"), 0
            for _ in range(RUNS):
                engine = SimpyEngine(gpu, "kernel", caches=caches)
                start = time.process_time()
                engine.run([launch.trace])
                best_sim = min(best_sim, time.process_time() - start)
                events = next(engine.env._eid)  # SimPy numbers every event that is scheduled
            print(
                f"{name:<22}{'on' if caches else 'off':>8}{counters.threads / best_run / 1e6:>8.2f} M threads/s"
                f"{counters.warp_instructions / best_sim / 1e3:>12.1f} k warp instr./s"
                f"{events / counters.warp_instructions:>24.2f}"
            )


if __name__ == "__main__":
    main()
