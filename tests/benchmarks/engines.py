"""Speed of both engines, as figures; nothing here passes or fails.

python tests/benchmarks/engines.py
"""

import time

import numpy as np

import gpusim_des as gs
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace

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


def compile_seconds(gpu: gs.GPU) -> float:
    """Time of the first run in this process: compiling, or reading what was compiled before."""
    start = time.perf_counter()
    CompiledEngine(gpu).run([KernelTrace.of_blocks("k", [[WarpTrace.of([Instruction(OpClass.FP32)])]])])
    return time.perf_counter() - start


def main() -> None:
    gpu = gs.load_gpu("h100-sxm")
    print(f"first run of the compiled engine: {compile_seconds(gpu):.1f} s")
    n = 1 << 18
    print(f"{'kernel':<22}{'caches':>8}{'simpy':>22}{'compiled':>24}")
    for name, blocks, threads in (("vector add 2^18", n // 256, 256), ("4 chains of 64 fp32", 1024, 256)):
        dev = gs.Device(gpu)
        c = dev.malloc(blocks * threads, np.float32)
        if name.startswith("vector"):
            a, b = (dev.to_device(np.ones(n, np.float32)) for _ in range(2))
            launch = dev.launch(vector_add, blocks, threads, a, b, c, n)
        else:
            launch = dev.launch(chains, blocks, threads, c, 64, 4)
        for caches in (False, True):
            speeds = []
            for engine, runs in ((SimpyEngine, 1), (CompiledEngine, RUNS)):
                best = float("inf")
                for _ in range(runs):
                    start = time.perf_counter()
                    engine(gpu, "kernel", caches=caches).run([launch.trace])
                    best = min(best, time.perf_counter() - start)
                speeds.append(launch.counters.warp_instructions / best / 1e3)
            print(f"{name:<22}{'on' if caches else 'off':>8}" + "".join(f"{s:>10.0f} k instr./s" for s in speeds))


if __name__ == "__main__":
    main()
