"""What both engines refuse before they play: traces and host programs that are wrong, or that no GPU model can play."""

from __future__ import annotations

import numpy as np

from gpusim_des.errors import LaunchError, TraceError
from gpusim_des.gpu import GPU, PIPE_FRACTION, misfit, occupancy
from gpusim_des.timing.program import Timing
from gpusim_des.trace import SECTOR_BYTES, Amounts, CopyMemory, HostProgram, KernelTrace, OpClass, SetMemory, check_host

MOST_WARPS = 1 << 35
"""Warps of all launches of a program at most: an event's place in the order has 35 bits for a warp's age (T2)."""

MOST_WORK_FS = 1 << 59
"""Time at most for which one unit may have work to do, were all of it there at once: nine minutes (T1)."""

MOST_PARTS = 1 << 62
"""Time of all instructions in pipes at most, in parts of a cycle (`gpusim_des.gpu.PIPE_FRACTION`)."""


def refuse_unplayable(gpu: GPU, program: HostProgram) -> None:
    """Look at everything that a host program asks for before anything of it happens.

    Raises
    ------
    TraceError
        If a command, a stream or a chunk of blocks is wrong, if a kernel uses instructions that the GPU does not have,
        or if times or counts would not fit 64 bits.
    LaunchError
        If a kernel's block fits on no SM; the message names the limiter.
    """
    check_host(program)
    known: dict[int, Amounts] = {}
    total = Amounts(0, 0, 0, 0, 0)
    longest = max(pipe.sustained_interval for pipe in gpu.pipes)
    for trace in program.traces():
        if id(trace) not in known:
            _refuse_launch(gpu, trace)
            known[id(trace)] = trace.check()
            longest = max(longest, _refuse_instructions(gpu, trace))
        total += known[id(trace)]
    _refuse_overflow(gpu, total, longest, _moved_bytes(gpu, program))


def _refuse_launch(gpu: GPU, trace: KernelTrace) -> None:
    """Refuse a kernel of which no block fits (I1)."""
    shape = trace.config.threads_per_block, trace.registers, trace.shared_bytes
    try:
        fits = occupancy(gpu, *shape).blocks_per_sm
    except LaunchError as error:
        raise LaunchError(f"kernel {trace.name!r} cannot be launched: {error}") from None
    if not fits:
        raise LaunchError(f"kernel {trace.name!r} never starts: {misfit(gpu, *shape)}")


def _refuse_instructions(gpu: GPU, trace: KernelTrace) -> int:
    """Refuse instructions that the GPU does not have (W2); returns the longest interval of a tensor instruction."""
    used = {int(op) for stream in trace.streams for op in np.unique(stream.ops)}
    for op, there, since in (
        (OpClass.ASYNC_COPY, gpu.async_copies, "asynchronous copies from global to shared memory need 8.0"),
        (OpClass.BULK_COPY, gpu.bulk_copies, "bulk copies need 9.0"),
    ):
        if op in used and there == "no":
            raise TraceError(
                f"kernel {trace.name!r} uses {op.label} instructions, which {gpu.title} (compute capability "
                f"{gpu.compute_capability}) does not have: {since}; choose a newer GPU or copy through registers"
            )
    timing = Timing(gpu)
    operands = {int(o) for s in trace.streams for o in s.operands[s.ops == OpClass.TENSOR].tolist()}
    return max((timing.tensor(operand)[0] for operand in operands), default=0)


def _moved_bytes(gpu: GPU, program: HostProgram) -> int:
    """Bytes of all copies and memsets."""
    found = 0
    for command in program.operations():
        if isinstance(command, CopyMemory | SetMemory):
            if command.nbytes > gpu.memory_bytes:
                raise TraceError(
                    f"{type(command).__name__} of {command.nbytes:,} bytes: {gpu.title} has a memory of "
                    f"{gpu.memory_bytes:,} bytes; move less"
                )
            found += command.nbytes
    return found


def _refuse_overflow(gpu: GPU, total: Amounts, longest: int, nbytes: int) -> None:
    """Refuse what could overflow counts and times of 64 bits, if all of it came to one unit."""
    if total.warps > MOST_WARPS:
        raise TraceError(
            f"{total.warps:,} warps in all launches: engines count the age of at most {MOST_WARPS:,} (T2); simulate "
            "fewer launches at a time"
        )
    sectors = total.sectors + nbytes // SECTOR_BYTES
    granule_fs = max(gpu.granule_fs(kind) for kind in ("read", "write", "mixed"))
    copy_sector_fs = -(-SECTOR_BYTES * gpu.sm_period_fs // gpu.bulk_bytes_per_cycle)
    sector_fs = sum(
        (
            gpu.port_out_fs(gpu.request_bytes + SECTOR_BYTES),
            gpu.port_in_fs(SECTOR_BYTES),
            copy_sector_fs,
            gpu.l2_sector_fs * gpu.l2_partial_write_services,
            2 * granule_fs,  # what is brought in may drive something out
        )
    )
    for what, count, each_fs in (
        ("sectors", sectors, sector_fs),
        ("quarter-cycles in the load/store units", total.quarter_cycles, gpu.sm_period_fs),
        ("atomic operations", total.passes, gpu.atomic_interval_cycles * gpu.sm_period_fs),
    ):
        if count * each_fs > MOST_WORK_FS:
            raise TraceError(
                f"{count:,} {what} in all launches and copies, {each_fs:,} fs each on {gpu.title}: together they may "
                "take at most 2^59 fs, so that times fit 64 bits (T1); simulate less at a time"
            )
    if total.instructions * longest > MOST_PARTS:
        raise TraceError(
            f"{total.instructions:,} instructions in all launches, up to {longest / PIPE_FRACTION:,.0f} cycles in a "
            f"pipe each on {gpu.title}: together at most 2^56 cycles, so that counts fit 64 bits (I5); simulate less "
            "at a time"
        )
