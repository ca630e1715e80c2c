"""A list of NumPy arrays that moves to a temporary file once it outgrows a limit (rule W4)."""

from __future__ import annotations

import tempfile
import weakref
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ArrayStore:
    """Groups of arrays, kept in memory up to `limit_bytes` and in an unnamed temporary file beyond that.

    The file is deleted when the store is collected or the process ends.

    Examples
    --------
    >>> store = ArrayStore(limit_bytes=0)
    >>> number = store.put(np.arange(3), np.ones((2, 2)))
    >>> [a.tolist() for a in store.get(number)], store.spilled_bytes
    ([[0, 1, 2], [[1.0, 1.0], [1.0, 1.0]]], 56)
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.spilled_bytes = 0
        self._groups: list[tuple[Array, ...] | list[tuple[int, np.dtype[Any], tuple[int, ...]]]] = []
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, *arrays: Array) -> int:
        """Store a group of arrays and return its number."""
        size = sum(a.nbytes for a in arrays)
        if self.held_bytes + size <= self.limit_bytes:
            self.held_bytes += size
            self._groups.append(arrays)
        else:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="gpusim-des-trace-")  # noqa: SIM115 - closed by finalize
                weakref.finalize(self, self._file.close)
            self._file.seek(0, 2)
            places = []
            for array in arrays:
                places.append((self._file.tell(), array.dtype, array.shape))
                self._file.write(np.ascontiguousarray(array).tobytes())
            self.spilled_bytes += size
            self._groups.append(places)
        return len(self._groups) - 1

    def get(self, number: int) -> tuple[Array, ...]:
        """Return group `number`, read back from the file if it was spilled."""
        group = self._groups[number]
        if isinstance(group, tuple):
            return group
        assert self._file is not None
        arrays = []
        for offset, dtype, shape in group:
            self._file.seek(offset)
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(self._file.read(count * dtype.itemsize), dtype).reshape(shape))
        return tuple(arrays)
