"""Rules M2 and M5: the tags of a sectored cache, least recently used line out first."""

from __future__ import annotations

from gpusim_des.trace import LINE_BYTES, SECTOR_BYTES

SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES

WHOLE_LINE = (1 << SECTORS_PER_LINE) - 1
"""Mask of all sectors of a line."""

SECTORS_IN = tuple(mask.bit_count() for mask in range(WHOLE_LINE + 1))
"""Number of sectors in a mask."""


class Line:
    """One line in a cache: which of its sectors are there, or on their way, and which were written.

    ``fills`` are pairs of a mask and what tells when those sectors arrive; the cache's owner drops the pairs that
    have arrived.
    """

    __slots__ = ("dirty", "fills", "valid")

    def __init__(self) -> None:
        self.valid = 0
        self.dirty = 0
        self.fills: list[tuple[int, object]] | None = None


class SectoredCache:
    """Lines of 128 bytes in the order of their last use.

    Fully associative: how real caches spread lines over sets is not public.

    Examples
    --------
    >>> cache = SectoredCache(lines=2)
    >>> for number in (7, 8):
    ...     cache.insert(number)
    (<...Line object at ...>, None)
    (<...Line object at ...>, None)
    >>> cache.touch(7) is None, cache.touch(9) is None
    (False, True)
    >>> cache.insert(9)[1][0]  # 8 was used least recently
    8
    """

    __slots__ = ("_lines", "capacity")

    def __init__(self, lines: int) -> None:
        self.capacity = lines
        self._lines: dict[int, Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def touch(self, number: int) -> Line | None:
        """Return a line and make it the one used last; ``None`` if it is not there."""
        line = self._lines.pop(number, None)
        if line is not None:
            self._lines[number] = line
        return line

    def peek(self, number: int) -> Line | None:
        """Return a line without using it."""
        return self._lines.get(number)

    def insert(self, number: int) -> tuple[Line, tuple[int, Line] | None]:
        """Make room for a line that is not there; returns it, empty, and the number and line that had to leave."""
        victim = None
        if len(self._lines) >= self.capacity:
            oldest = next(iter(self._lines))
            victim = oldest, self._lines.pop(oldest)
        line = self._lines[number] = Line()
        return line, victim

    def drop(self, number: int, mask: int = WHOLE_LINE) -> None:
        """Forget sectors of a line, whether they are there or on their way, and the line with its last one."""
        line = self._lines.get(number)
        if line is not None:
            line.valid &= ~mask
            if not line.valid:
                del self._lines[number]
            elif line.fills:
                line.fills = [(left, fill) for sectors, fill in line.fills if (left := sectors & ~mask)]

    def clear(self) -> None:
        """Forget all lines."""
        self._lines.clear()
