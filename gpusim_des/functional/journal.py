"""What writes to global memory overwrote, and to what is known of it, so that blocks can run again as new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Journal:
    """Old values of the elements that a chunk of blocks wrote.

    Blocks that turn out to disagree on control flow run again in groups, and a kernel that turns out not to be
    vectorizable runs again thread by thread.

    Examples
    --------
    >>> data, journal = np.array([1, 2, 3]), Journal()
    >>> journal.note(data, np.array([0, 2])); data[:] = 9
    >>> journal.undo(); data
    array([1, 9, 3])
    """

    def __init__(self) -> None:
        self._notes: list[tuple[NDArray[Any], NDArray[np.int64], Any]] = []

    def note(self, data: NDArray[Any], index: NDArray[Any]) -> None:
        """Keep ``data[index]``, which is about to be overwritten."""
        where = index.astype(np.int64)
        self._notes.append((data, where, data[where]))

    def keep(self, data: NDArray[Any], index: NDArray[np.int64], before: Any) -> None:
        """Keep what was there `before`; nobody may change `index` any more."""
        self._notes.append((data, index, before))

    def undo(self) -> None:
        """Restore everything, the last write first."""
        for data, index, before in reversed(self._notes):
            data[index] = before
        self._notes.clear()

    def clear(self) -> None:
        """Forget: the writes stay."""
        self._notes.clear()
