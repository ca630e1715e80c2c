"""Speed of the functional executor and of the SimPy engine, as figures; nothing here passes or fails.

python tests/benchmarks/simpy_engine.py
"""

import time

import numpy as np

import gpusim_des as gs
from gpusim_des.timing.simpy_engine import SimpyEngine

RUNS = 3


@gs.block_kernel
def vector_add(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(c, i, blk.load(a, i, mask=m) + blk.load(b, i, mask=m), mask=m)


@gs.block_kernel
def chains(blk: gs.Block, c: gs.DeviceArray, length: int, ilp: int) -> None:
    values = [blk.tid.astype(np.float32) + np.float32(k) for k in range(ilp)]
    for _ in range(length):
        values = [v * np.float32(0.5) for v in values]
    blk.store(c, blk.bx * blk.bdx + blk.tx, sum(values[1:], start=values[0]))


def main() -> None:
    gpu = gs.load_gpu("h100-sxm").slice(sms=16)
    n = 1 << 18
    print(f"{'kernel':<22}{'caches':>8}{'functional':>20}{'timing':>26}{'events per warp instr.':>24}")
    for name, blocks, threads in (("vector add 2^18", n // 256, 256), ("4 chains of 64 fp32", 256, 256)):
        best_run = float("inf")
        for _ in range(RUNS):
            dev = gs.Device(gpu)
            c = dev.malloc(blocks * threads, np.float32)
            a, b = (dev.to_device(np.ones(n, np.float32)) for _ in range(2))
            start = time.perf_counter()
            if name.startswith("vector"):
                launch = dev.launch(vector_add, blocks, threads, a, b, c, n)
            else:
                launch = dev.launch(chains, blocks, threads, c, 64, 4)
            best_run = min(best_run, time.perf_counter() - start)
        instructions = launch.counters.warp_instructions
        for caches in (True, False):
            best_sim, events = float("inf"), 0
            for _ in range(RUNS):
                engine = SimpyEngine(gpu, "kernel", caches=caches)
                start = time.perf_counter()
                engine.run([launch.trace])
                best_sim = min(best_sim, time.perf_counter() - start)
                events = next(engine.env._eid)  # SimPy numbers every event that is scheduled
            print(
                f"{name:<22}{'on' if caches else 'off':>8}{blocks * threads / best_run / 1e6:>8.2f} M threads/s"
                f"{instructions / best_sim / 1e3:>12.1f} k warp instr./s{events / instructions:>24.2f}"
            )


if __name__ == "__main__":
    main()
