"""Speed of the functional executor and of the SimPy engine, as figures; nothing here passes or fails.

python tests/benchmarks/simpy_engine.py
"""

import time

import numpy as np

import gpusim_des as gs

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
    print(f"{'kernel':<28}{'functional':>20}{'timing':>26}")
    for name, blocks, threads in (("vector add 2^18", n // 256, 256), ("4 chains of 64 fp32", 256, 256)):
        best_run = best_sim = float("inf")
        for _ in range(RUNS):
            dev = gs.Device(gpu)
            c = dev.malloc(blocks * threads, np.float32)
            start = time.perf_counter()
            if name.startswith("vector"):
                a, b = (dev.to_device(np.ones(n, np.float32)) for _ in range(2))
                start = time.perf_counter()
                launch = dev.launch(vector_add, blocks, threads, a, b, c, n)
            else:
                launch = dev.launch(chains, blocks, threads, c, 64, 4)
            best_run = min(best_run, time.perf_counter() - start)
            start = time.perf_counter()
            dev.simulate(detail="kernel", caches="off")
            best_sim = min(best_sim, time.perf_counter() - start)
        instructions = launch.counters.warp_instructions
        print(
            f"{name:<28}{blocks * threads / best_run / 1e6:>12.2f} M threads/s"
            f"{instructions / best_sim / 1e3:>12.1f} k warp instr./s"
        )


if __name__ == "__main__":
    main()
