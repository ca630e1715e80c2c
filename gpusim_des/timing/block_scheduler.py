"""Rule G1: the block scheduler hands blocks to SMs one by one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.order import Alarm, Environment, Kind, Occurrence, order
from gpusim_des.timing.sm import StreamingMultiprocessor


class BlockScheduler:
    """Places blocks in linear order onto the SM with the fewest resident blocks that has room."""

    def __init__(self, env: Environment, gpu: GPU) -> None:
        self.sms: list[StreamingMultiprocessor] = []
        self._env = env
        self._interval_fs = gpu.dispatch_interval_fs
        self._alarm = Alarm(env, order(Kind.DISPATCH))
        self._waits = False
        self._next_fs = 0
        """Earliest time of the next placement, whatever kernel it belongs to."""

    def block_retired(self) -> None:
        """Hear that an SM has room again."""
        if self._waits:
            self._alarm.set(self._env.now)

    def place_all(self, run: KernelRun) -> Generator[Event, Any, None]:
        """Process that places all blocks of a kernel, at most one per dispatch interval."""
        for block in range(run.trace.config.blocks):
            if self._env.now < self._next_fs:
                yield Occurrence(self._env, self._next_fs, order(Kind.DISPATCH))
            while not (candidates := [sm for sm in self.sms if sm.has_room(run)]):
                self._waits = True
                yield self._alarm.sleep()
                self._alarm.reset()
                self._waits = False
            min(candidates, key=lambda sm: len(sm.blocks)).accept(run, block)
            self._next_fs = self._env.now + self._interval_fs
