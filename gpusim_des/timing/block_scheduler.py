"""Rules G1 and G2: the block scheduler hands blocks to SMs one by one, kernel after kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.order import Alarm, Environment, Kind, Occurrence, order
from gpusim_des.timing.sm import StreamingMultiprocessor


class BlockScheduler:
    """Places blocks in linear order onto the SM with the fewest resident blocks that has room.

    Kernels that run at once wait in the order of their starts: a younger one gets its turn when the older one has no
    blocks left to place (G2).
    """

    def __init__(self, env: Environment, gpu: GPU) -> None:
        self.sms: list[StreamingMultiprocessor] = []
        self._env = env
        self._interval_fs = gpu.dispatch_interval_fs
        self._alarm = Alarm(env, order(Kind.DISPATCH))
        self._queue: deque[KernelRun] = deque()
        self._next_fs = 0
        """Earliest time of the next placement, whatever kernel it belongs to."""
        self._next_age = 0
        env.process(self._place_all())

    def start(self, run: KernelRun) -> None:
        """Queue a kernel for placement."""
        self._queue.append(run)
        self._alarm.set(self._env.now)

    def block_retired(self) -> None:
        """Hear that an SM has room again."""
        if self._queue:
            self._alarm.set(self._env.now)

    def _place_all(self) -> Generator[Event, Any, None]:
        """Process that places blocks, at most one per dispatch interval."""
        while True:
            while not self._queue:
                yield self._sleep()
            run = self._queue[0]
            for block in range(run.trace.config.blocks):
                if self._env.now < self._next_fs:
                    yield Occurrence(self._env, self._next_fs, order(Kind.DISPATCH))
                while not (candidates := [sm for sm in self.sms if sm.has_room(run)]):
                    yield self._sleep()
                sm = min(candidates, key=lambda sm: len(sm.blocks))
                sm.accept(run, block, self._next_age)
                run.blocks_placed += 1
                self._next_age += run.trace.config.warps_per_block
                self._next_fs = self._env.now + self._interval_fs
            self._queue.popleft()

    def _sleep(self) -> Event:
        """Event of the next retirement or start; call again after waking."""
        self._alarm.reset()
        return self._alarm.sleep()
