"""Rules G1 and G2: the block scheduler hands blocks to SMs one by one, kernel after kernel."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator
from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.order import Alarm, Environment, Kind, Occurrence, order
from gpusim_des.timing.sm import StreamingMultiprocessor


class BlockScheduler:
    """Places blocks in linear order onto the SM with the fewest resident blocks that has room.

    Kernels that run at once wait in the order of their starts: a younger one gets its turn when the older one has no
    blocks left to place (G2). One of a higher priority (a lower number) goes first. `checkpoint` hears before
    blocks are placed that a kernel's `windows` name.
    """

    def __init__(self, env: Environment, gpu: GPU, checkpoint: Callable[[KernelRun], None]) -> None:
        self.sms: list[StreamingMultiprocessor] = []
        self._env = env
        self._checkpoint = checkpoint
        self._interval_fs = gpu.dispatch_interval_fs
        self._alarm = Alarm(env, order(Kind.DISPATCH))
        self._queue: list[tuple[int, int, KernelRun]] = []
        """Priority, place in the order of starts, and kernel; the first is placed."""
        self._started = 0
        self._next_fs = 0
        """Earliest time of the next placement, whatever kernel it belongs to."""
        self._next_age = 0
        env.process(self._place_all())

    def start(self, run: KernelRun, priority: int = 0) -> None:
        """Queue a kernel for placement."""
        insort(self._queue, (priority, self._started, run))
        self._started += 1
        self._alarm.set(self._env.now)

    def block_retired(self) -> None:
        """Hear that an SM has room again."""
        if self._queue:
            self._alarm.set(self._env.now)

    def _place_all(self) -> Generator[Event, Any, None]:
        """Process that places blocks, at most one per dispatch interval."""
        while True:
            if self._queue and self._env.now < self._next_fs:
                yield Occurrence(self._env, self._next_fs, order(Kind.DISPATCH))
            run = self._queue[0][2] if self._queue else None
            candidates = [sm for sm in self.sms if sm.has_room(run)] if run else []
            if run is None or not candidates:
                yield self._sleep()
                continue
            sm = min(candidates, key=lambda sm: len(sm.blocks))
            if not run.blocks_placed:
                run.begin()
            if run.blocks_placed in run.windows:
                self._checkpoint(run)
            sm.accept(run, run.blocks_placed, self._next_age)
            self._next_age += run.trace.config.warps_per_block
            self._next_fs = self._env.now + self._interval_fs
            run.blocks_placed += 1
            if run.blocks_placed == run.trace.config.blocks:
                self._queue = [entry for entry in self._queue if entry[2] is not run]

    def _sleep(self) -> Event:
        """Event of the next retirement or start; call again after waking."""
        self._alarm.reset()
        return self._alarm.sleep()
