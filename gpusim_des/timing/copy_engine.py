"""Rule H2: copy engines and the link to the host."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from simpy import Event

from gpusim_des import units
from gpusim_des.gpu import GPU
from gpusim_des.timing.order import LAST, Environment, Occurrence
from gpusim_des.timing.work import Work


class Engine:
    """Serves one operation at a time: of those that are ready the one that was ready first, then the one issued first.

    Of different priorities the higher one (the lower number) goes first.
    """

    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self.busy_with: Work | None = None
        self.served: Work | None = None
        """The operation before: whoever waited for the engine waited for its end."""
        self._env = env
        self._waiting: list[tuple[int, int, int, Work, Event]] = []
        self._looks = False

    def request(self, work: Work, priority: int = 0) -> Event:
        """Event that happens when the engine is the operation's."""
        turn = Event(self._env)
        heappush(self._waiting, (priority, self._env.now, work.number, work, turn))
        self._look()
        return turn

    def release(self) -> None:
        """Give the engine to the next one."""
        self.served, self.busy_with = self.busy_with, None
        self._look()

    def _look(self) -> None:
        # Behind everything else that happens now, so that all that become ready at once are compared.
        if not self._looks:
            self._looks = True
            Occurrence(self._env, self._env.now, LAST, [self._grant])

    def _grant(self, _: Any) -> None:
        self._looks = False
        if self.busy_with is None and self._waiting:
            _, _, _, self.busy_with, turn = heappop(self._waiting)
            turn.succeed()


class CopyEngines:
    """The engines of a GPU, by direction: one for each, or one for both where there is one, or the link is half duplex.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> engines = CopyEngines(Environment(), load_gpu("tiny"))
    >>> engines.of("h2d").name, engines.of("d2h").name
    ('copy engine 0', 'copy engine 1')
    >>> engines.transfer_fs("h2d", 1_000, pinned=True)  # 10 us and a nanosecond for each byte
    11000000000
    """

    def __init__(self, env: Environment, gpu: GPU) -> None:
        self._gpu = gpu
        one = gpu.copy_engines == 1 or gpu.link_duplex == "half"
        engines = [Engine(env, f"copy engine {number}") for number in range(1 if one else 2)]
        self._engines = {"h2d": engines[0], "d2h": engines[-1]}

    def of(self, direction: str) -> Engine:
        """Engine of a direction."""
        return self._engines[direction]

    def transfer_fs(self, direction: str, nbytes: int, *, pinned: bool) -> int:
        """Femtoseconds that a copy occupies its engine: latency + bytes / bandwidth."""
        rates = {
            ("h2d", True): self._gpu.h2d_pinned_bytes_per_s,
            ("d2h", True): self._gpu.d2h_pinned_bytes_per_s,
            ("h2d", False): self._gpu.h2d_pageable_bytes_per_s,
            ("d2h", False): self._gpu.d2h_pageable_bytes_per_s,
        }
        return self._gpu.copy_latency_fs + nbytes * units.FS_PER_S // rates[direction, pinned]
