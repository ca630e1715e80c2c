"""What tests of the host side share: readable commands, and kernels that read and write parts of arrays."""

from __future__ import annotations

from typing import Any

import gpusim_des as gs
from gpusim_des import trace


def readable(dev: gs.Device, start: int = 0) -> list[str]:
    """Commands of the program, one word per fact; ``!`` marks what blocks the host, ``*`` pinned memory."""
    return [_readable(command) for command in dev.program.commands[start:]]


def _readable(command: Any) -> str:  # noqa: C901, PLR0911 - one line for each command
    match command:
        case trace.LaunchKernel():
            return f"{command.stream}: launch {command.trace.name}"
        case trace.CopyMemory():
            marks = "!" * command.blocking + "*" * command.pinned
            return f"{command.stream}: {command.direction}{marks} {command.name} {command.nbytes}"
        case trace.SetMemory():
            return f"{command.stream}: memset {command.name} {command.nbytes}"
        case trace.RecordEvent():
            return f"{command.stream}: record {command.event}"
        case trace.WaitEvent():
            return f"{command.stream}: wait {command.event}"
        case trace.Synchronize(what="stream"):
            return f"host: synchronize stream {command.stream}"
        case trace.Synchronize(what="event"):
            return f"host: synchronize event {command.event}"
        case trace.Synchronize():
            return "host: synchronize device"
        case trace.HostWork():
            return f"host: {command.name} {command.femtoseconds}"
        case trace.LaunchGraph():
            nodes = ", ".join(
                f"{_readable(node.command).split(': ')[1]} after {list(node.after)}" for node in command.nodes
            )
            return f"{command.stream}: {command.name} [{nodes}]"
    raise AssertionError(command)


@gs.block_kernel
def increment(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.store(a, blk.tx, blk.load(a, blk.tx) + 1)


@gs.block_kernel
def add(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
    blk.store(c, blk.tx, blk.load(a, blk.tx) + blk.load(b, blk.tx))


@gs.kernel
def fill_part(t: Any, a: Any, first: int, last: int) -> None:
    i = first + t.threadIdx.x
    if i < last:
        a[i] = i


@gs.kernel
def count_up(t: Any, a: Any) -> None:
    a.atomic_add(0, 1)
