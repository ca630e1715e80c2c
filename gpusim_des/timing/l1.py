"""Rule M2: the L1 cache of an SM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Lines
from gpusim_des.timing.cache import Line, SectoredCache
from gpusim_des.trace import LINE_BYTES

if TYPE_CHECKING:
    from gpusim_des.timing.memory_path import Load, ReadRequest


def l1_lines(gpu: GPU, shared_bytes: int) -> int:
    """Lines that remain of the unified memory beside the smallest carve-out that holds `shared_bytes`.

    >>> from gpusim_des.gpu import load_gpu
    >>> [l1_lines(load_gpu("tiny"), shared) for shared in (0, 100, 9000)]  # 32 KiB less 0, 8 and 16 KiB
    [256, 192, 128]
    """
    carveout = next(size for size in gpu.shared_carveouts_bytes if size >= shared_bytes)
    return (gpu.l1_bytes - carveout) // LINE_BYTES


class L1:
    """Sectored, write-through, no allocation on write; a miss reserves its sectors at once."""

    __slots__ = ("_cache",)

    def __init__(self, lines: int) -> None:
        self._cache = SectoredCache(lines)

    def resize(self, lines: int) -> None:
        """Begin anew with another capacity: the carve-out changed, or a kernel starts (M11)."""
        self._cache = SectoredCache(lines)

    def look_up(self, lines: Lines, load: Load, now_fs: int) -> tuple[tuple[tuple[int, int], ...], list[Line]]:
        """Find the sectors of a load; returns the missing ones, now reserved, and the lines that wait for them.

        The load joins the requests that already fetch some of its sectors.
        """
        missing, waiting = [], []
        cache = self._cache
        for number, mask in lines:
            line = cache.touch(number)
            if line is None:
                if not cache.capacity:
                    missing.append((number, mask))
                    continue
                line, _ = cache.insert(number)
                absent = mask
            else:
                absent = mask & ~line.valid
                if line.fills:
                    self._join(line, mask, load, now_fs)
            if absent:
                line.valid |= absent
                missing.append((number, absent))
                waiting.append(line)
        return tuple(missing), waiting

    @staticmethod
    def _join(line: Line, mask: int, load: Load, now_fs: int) -> None:
        """Let a load wait for the requests that fetch some of its sectors, and forget those that are back."""
        still = []
        for sectors, fill in line.fills or ():
            request: ReadRequest = fill  # type: ignore[assignment]  # an L1's fills are requests
            back = request.arrived_fs
            if back is not None and back <= now_fs:
                continue
            still.append((sectors, fill))
            if not sectors & mask:
                continue
            if back is not None:
                load.arrived_fs = max(load.arrived_fs, back)
            elif load not in request.loads:
                request.loads.append(load)
                load.missing += 1
        line.fills = still

    @staticmethod
    def reserve(waiting: list[Line], missing: tuple[tuple[int, int], ...], request: ReadRequest) -> None:
        """Note which request will bring the missing sectors."""
        if waiting:
            for line, (_, mask) in zip(waiting, missing, strict=True):
                line.fills = [*(line.fills or ()), (mask, request)]

    def drop(self, lines: Lines) -> None:
        """Forget sectors that an atomic changes behind the cache's back."""
        for number, mask in lines:
            self._cache.drop(number, mask)
