"""Published measurements, and the traces and small tools that the tests of them share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim_des.gpu import GPU
from gpusim_des.timeline import KernelTiming
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches, simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "published.json").read_text(encoding="utf-8"))
"""Measurements by name; every one says by whom (``source``) and on which chip (``gpu``)."""


def play(
    gpu: GPU,
    blocks: Sequence[Sequence[WarpTrace]],
    *,
    caches: Caches = "on",
    engine: Engine = "compiled",
    **launch: Any,
) -> KernelTiming:
    """Simulate one kernel that was written by hand."""
    trace = KernelTrace.of_blocks("k", blocks, **launch)
    return simulate(gpu, [trace], engine=engine, detail="kernel", caches=caches).kernels[0]


class Chain:
    """Writes one warp's instructions down, one after another; each call returns the number of the instruction."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.sectors: list[Sequence[int]] = []

    def add(self, op: OpClass, *deps: int, **more: Any) -> int:
        self.instructions.append(Instruction(op, deps, **more))
        return len(self.instructions) - 1

    def access(self, op: OpClass, sectors: Sequence[int], *deps: int, **more: Any) -> int:
        self.sectors.append(sectors)
        return self.add(op, *deps, **more)

    def sum_up(self, op: OpClass, results: Sequence[int]) -> int:
        """Add results up, one after another, in the order in which they were asked for."""
        total = self.add(op, results[0])
        for result in results[1:]:
            total = self.add(op, result, total)
        return total

    def loop_end(self, counter: int | None) -> int:
        """Write the end of a loop's turn: counter plus one, comparison, jump back; returns the counter."""
        counter = self.add(OpClass.INT, *([] if counter is None else [counter]))
        self.add(OpClass.BRANCH, self.add(OpClass.INT, counter))
        return counter

    def warp(self) -> WarpTrace:
        return WarpTrace.of(self.instructions, self.sectors)
