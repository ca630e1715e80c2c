"""Small wrongs of the SimPy engine, one rule each: what the equality of the engines has to notice.

A mutation replaces a piece of a method's source, which must be there exactly once; values that both engines read from
the GPU model stay as they are.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Any, NamedTuple

import pytest

from gpusim_des.timing.block_scheduler import BlockScheduler
from gpusim_des.timing.dma import SlicePort
from gpusim_des.timing.hbm import Channel
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.l1 import L1
from gpusim_des.timing.l2 import BareChannel, Slice
from gpusim_des.timing.load_store import LoadStoreQueue
from gpusim_des.timing.memory_path import ReadRequest
from gpusim_des.timing.memory_unit import MemoryUnit
from gpusim_des.timing.offered_load import OfferedLoad
from gpusim_des.timing.pipe import Pipe
from gpusim_des.timing.resident_block import ResidentBlock
from gpusim_des.timing.resources import SmResources
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.sm import StreamingMultiprocessor
from gpusim_des.timing.store_buffer import StoreBuffer
from gpusim_des.timing.warp import Warp
from gpusim_des.timing.warp_scheduler import WarpScheduler


class Mutation(NamedTuple):
    """A rule, and how a method breaks it."""

    rule: str
    owner: type
    method: str
    old: str
    new: str

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the wrong method in the place of the right one."""
        method = inspect.getattr_static(self.owner, self.method)
        source = textwrap.dedent(inspect.getsource(method))
        assert source.count(self.old) == 1, f"{self.old!r} is {source.count(self.old)} times in {self.method}"
        space: dict[str, Any] = dict(vars(sys.modules[self.owner.__module__]))
        wrong = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        exec(compile(wrong, f"<{self.rule}>", "exec"), space)
        patch.setattr(self.owner, self.method, space[self.method])


MUTATIONS = (
    Mutation("T2 two SMs at one instant", ReadRequest, "__init__", "Kind.ARRIVAL, sm.number", "Kind.ARRIVAL, 0"),
    Mutation("I2 warps beside each other", SmResources, "place", "self.warps.__getitem__", "lambda part: part"),
    Mutation("I3 greed", WarpScheduler, "pick", "if last in self.ready and", "if False and"),
    Mutation("I3 the oldest", WarpScheduler, "enter", "key=_age", "key=lambda w: -w.age"),
    Mutation("I3 turns", WarpScheduler, "pick", "w.age > last.age", "w.age < last.age"),
    Mutation(
        "I4 a result a cycle later",
        StreamingMultiprocessor,
        "_issue",
        "= cycle + program.latencies[index]",
        "= cycle + program.latencies[index] + 1",
    ),
    Mutation("I4 one more in the queue", LoadStoreQueue, "enter", ">= self._depth", "> self._depth"),
    Mutation("I5 no credit of a rest", Pipe, "accept", "- PIPE_FRACTION + 1", ""),
    Mutation(
        "I5 who comes first",
        StreamingMultiprocessor,
        "_issue",
        "(warp.sub_partition + 1) % self._parts",
        "warp.sub_partition",
    ),
    Mutation(
        "I6 an exit without latency",
        StreamingMultiprocessor,
        "_release_if_full",
        "block.last_exit + self._barrier_latency",
        "block.last_exit",
    ),
    Mutation(
        "I6 a fence that waits for no acknowledgement",
        StreamingMultiprocessor,
        "_pass_fence",
        "if warp.in_flight or warp.unacknowledged:",
        "if warp.in_flight:",
    ),
    Mutation("I6 the last copy of a phase", ResidentBlock, "copy_complete", "cycle >=", "cycle <"),
    Mutation("I7 branches after loads", Warp, "plan", "(_BRANCH, self.branch_until),\n", ""),
    Mutation("I7 the line that issues next", WarpScheduler, "account", "[warp.next]", "[max(0, warp.next - 1)]"),
    Mutation("M1 a whole cycle for a part", MemoryUnit, "_perform", "-(-end // 4)", "end // 4 + 1"),
    Mutation("M2 first in, first out", L1, "look_up", "cache.touch(number)", "cache.peek(number)"),
    Mutation("M2 no wait for what is on its way", L1, "look_up", "if line.fills:", "if False:"),
    Mutation("M3 no request before stored data", MemoryUnit, "_store", "packet.sectors)", "packet.sectors - 1)"),
    Mutation(
        "M4 a copy unit that asks for pieces of one length",
        MemoryUnit,
        "_copy_bulk",
        "piece.sectors * self._copy_sector_fs",
        "8 * self._copy_sector_fs",
    ),
    Mutation("M5 what is on its way is there", Slice, "_read_home", "_arrived(line, mask, leaves)", "leaves"),
    Mutation("M5 as near as near", Slice, "_read_near", "leaves + self._far_fs", "leaves"),
    Mutation("M5 copies out of date", Slice, "_pass_halves", "near.drop(number, mask)", "pass"),
    Mutation("M6 reads are never mixed", Channel, "read", "<= MIX_WINDOW", "< 0"),
    Mutation("M6 nobody waits for batches", Channel, "fetch", " + wait + ", " + "),
    Mutation("M6 windows begin empty", OfferedLoad, "_turn_to", "window == self._window + 1", "False"),
    Mutation("M6 the neighbour stays away", Slice, "_fetch", "line.valid |= fetched", "line.valid |= missing"),
    Mutation(
        "M7 atomics at once",
        Slice,
        "perform",
        "self.atomic_unit.serve(ready_fs, packet.passes * self._atomic_fs)",
        "ready_fs + packet.passes * self._atomic_fs",
    ),
    Mutation("M7 stale sectors", MemoryUnit, "_atomic", "self.l1.drop(packet.lines)", "pass"),
    Mutation("M8 a smaller store buffer", StoreBuffer, "has_room", "<= self._sectors", "< self._sectors"),
    Mutation("M8 an end before a write", KernelRun, "write_accepted", "max(self.end_fs, time_fs)", "self.end_fs"),
    Mutation("M9 atomics that write nothing", BareChannel, "fetch", "self.write(", "(lambda *_: None)("),
    Mutation("M11 a warm L1", SimpyEngine, "_empty_l1", "resize(lines)", "_cache.capacity = lines"),
    Mutation("G1 a longer interval", BlockScheduler, "_place_all", "+ self._interval_fs", "+ self._interval_fs + 1"),
    Mutation("G1 the first SM", BlockScheduler, "_place_all", "len(sm.blocks)", "sm.number"),
    Mutation("G2 no priorities", BlockScheduler, "start", "(priority, self._started, run)", "(0, self._started, run)"),
    Mutation(
        "G3 slots free at once",
        StreamingMultiprocessor,
        "_exit",
        "(block.last_exit + self.gpu.block_end_cycles)",
        "block.last_exit",
    ),
    Mutation(
        "H3 a granule more",
        SlicePort,
        "granules",
        "server.write(now_fs, granules)",
        "server.write(now_fs, granules + 1)",
    ),
    Mutation("M11 copies leave nothing", SlicePort, "lines", "WHOLE_LINE", "0"),
    Mutation("F1 a cycle more", StreamingMultiprocessor, "cut", "self._stepped + 1", "self._stepped + 2"),
)
