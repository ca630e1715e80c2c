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
    """Serves one operation at a time, or a few: of those that are ready the one that was ready first.

    Of several that were ready at one time it serves the one that was issued first; of different priorities the higher
    one (the lower number) goes before all that.
    """

    def __init__(self, env: Environment, name: str, places: int = 1) -> None:
        self.name = name
        self.last: Work | None = None
        """The operation that left last."""
        self._env = env
        self._free = places
        self._waiting: list[tuple[int, int, int, Event]] = []
        self._looks = False

    def request(self, work: Work, priority: int = 0) -> Event:
        """Event that happens when the engine is the operation's."""
        turn = Event(self._env)
        heappush(self._waiting, (priority, self._env.now, work.number, turn))
        self._look()
        return turn

    def release(self, work: Work) -> None:
        """Give the place of an operation to the next one."""
        self.last = work
        self._free += 1
        self._look()

    def _look(self) -> None:
        # Behind everything else that happens now, so that all that become ready at once are compared.
        if not self._looks:
            self._looks = True
            Occurrence(self._env, self._env.now, LAST, [self._grant])

    def _grant(self, _: Any) -> None:
        self._looks = False
        while self._free and self._waiting:
            self._free -= 1
            heappop(self._waiting)[-1].succeed()


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
