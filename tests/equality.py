"""Both engines play the same programs and must come to the same timeline, to the last integer (E2).

``python -m tests.equality --programs 10000 --seed 1`` plays many; it prints the smallest program on which they differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import NamedTuple, cast

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gpusim_des.errors import CycleLimitError, DeadlockError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.programs import ACCESSES, EVERYTHING, PLAIN, Part, gpus, programs, small_caches, trace


class Programs(NamedTuple):
    """A GPU, and the programs of the warps of the blocks of some kernels, each in a stream."""

    gpu: GPU
    caches: bool
    kernels: list[list[list[list[Part]]]]
    streams: list[int]
    registers: int
    shared_bytes: int
    max_cycles: int | None = None

    def play(self, engine: type[SimpyEngine], detail: Detail = "sm") -> Timeline | str:
        """Timeline, up to the limit where there is one, or what the engine has to say about a deadlock."""
        traces = [
            trace(*blocks, registers=self.registers, shared_bytes=self.shared_bytes if n % 2 else 0)
            for n, blocks in enumerate(self.kernels)
        ]
        try:
            return engine(self.gpu, detail, caches=self.caches).run(traces, self.streams, self.max_cycles)
        except CycleLimitError as error:
            return replace(cast("Timeline", error.partial), gpu_name=str(error))
        except DeadlockError as error:
            return str(error)


@st.composite
def any_programs(draw: st.DrawFn) -> Programs:
    """Up to three kernels of a few blocks on a small GPU, with all classes of instructions."""
    caches = draw(st.booleans())
    classes = draw(st.sampled_from([ACCESSES, PLAIN, EVERYTHING, EVERYTHING]))
    gpu = draw(gpus(**(draw(small_caches()) if draw(st.booleans()) else {})))
    kernels = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        warps, blocks = draw(st.integers(1, 4)), []
        for _ in range(draw(st.integers(1, 5))):
            barriers = draw(st.integers(0, 2))
            counts = [draw(st.sampled_from([barriers, barriers, max(0, barriers - 1)])) for _ in range(warps)]
            span = draw(st.sampled_from([14, 40]))
            blocks.append([draw(programs(count, classes=classes, span=span)) for count in counts])
        kernels.append(blocks)
    # Kernels that are equal end at one instant here and there.
    kernels += [draw(st.sampled_from(kernels)) for _ in range(draw(st.sampled_from([0, 0, 1, 3])))]
    streams = [draw(st.integers(0, 2)) for _ in kernels]
    gpu = gpu.replace(
        max_concurrent_kernels=draw(st.integers(1, 4)),
        hardware_queues=draw(st.sampled_from([1, 2, 32])),
        late_kernel_signals=draw(st.sampled_from(["no", "yes"])),
    )
    shared = draw(st.sampled_from([0, 0, 200]))
    limit = draw(st.integers(1, 200)) if draw(st.integers(0, 3)) == 0 else None
    return Programs(gpu, caches, kernels, streams, draw(st.sampled_from([32, 32, 128])), shared, limit)


def differences(case: Programs, detail: Detail = "sm") -> list[str]:
    """Everything in which the engines differ on some programs, in words."""
    readable, fast = case.play(SimpyEngine, detail), case.play(CompiledEngine, detail)
    if readable == fast:
        return []
    if isinstance(readable, str) or isinstance(fast, str):
        return [f"simpy: {readable}", f"compiled: {fast}"]
    found = []
    for one, other in zip(readable.kernels, fast.kernels, strict=False):
        found += [
            f"{one.name}.{name}: {value!r} in simpy, {getattr(other, name)!r} in compiled"
            for name, value in vars(one).items()
            if value != getattr(other, name)
        ]
    for what in ("blocks", "operations", "warps"):
        if getattr(readable, what) != getattr(fast, what):
            pairs = zip(getattr(readable, what), getattr(fast, what), strict=False)
            first = next(((a, b) for a, b in pairs if a != b), "their number")
            found.append(f"{what} differ, first: {first}")
    return found or ["the timelines differ"]


def main() -> int:
    """Play many programs; returns 1 if the engines differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--detail", choices=["kernel", "sm", "warp"], default="sm")
    asked = parser.parse_args()
    count = 0

    @seed(asked.seed)
    @settings(
        max_examples=asked.programs,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=any_programs())
    def compare(case: Programs) -> None:
        nonlocal count
        count += 1
        found = differences(case, asked.detail)
        assert not found, "\n".join([*found, str(case)])

    began = time.perf_counter()
    try:
        compare()
    except AssertionError as error:
        print(f"the engines differ; the smallest program found:\n{error}")
        return 1
    print(f"{count:,} programs, equal in everything ({time.perf_counter() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
