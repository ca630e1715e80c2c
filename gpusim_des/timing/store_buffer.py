"""Rule M8: how much of what an SM has written may be under way before its load/store unit stops."""

from __future__ import annotations

from heapq import heappop, heappush


class StoreBuffer:
    """Sectors that have left the load/store unit and are not acknowledged yet; times are femtoseconds.

    Examples
    --------
    >>> buffer = StoreBuffer(sectors=8)
    >>> buffer.take(8), buffer.has_room(4, now_fs=0)
    (None, False)
    >>> buffer.give_back(8, time_fs=100)
    >>> buffer.has_room(4, now_fs=99), buffer.next_release_fs, buffer.has_room(4, now_fs=100)
    (False, 100, True)
    """

    __slots__ = ("_releases", "_sectors", "used")

    def __init__(self, sectors: int) -> None:
        self._sectors = sectors
        self.used = 0
        self._releases: list[tuple[int, int]] = []

    def has_room(self, sectors: int, now_fs: int) -> bool:
        """Tell whether a store fits; one that is larger than the whole buffer fits when it is empty."""
        while self._releases and self._releases[0][0] <= now_fs:
            self.used -= heappop(self._releases)[1]
        return not self.used or self.used + sectors <= self._sectors

    def take(self, sectors: int) -> None:
        """Let a store in."""
        self.used += sectors

    def give_back(self, sectors: int, time_fs: int) -> None:
        """Hear that sectors will have been acknowledged at a time."""
        heappush(self._releases, (time_fs, sectors))

    @property
    def next_release_fs(self) -> int | None:
        """Time of the next acknowledgement that is known, if any is."""
        return self._releases[0][0] if self._releases else None
