"""Which bytes of which device arrays an operation read and wrote.

Races between streams are found from it, and what a sampled launch left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.memory import DeviceArray, PrivateArray, SharedArray
from gpusim_des.trace import OpClass

UseKind = Literal["read", "write", "atomic"]

_KIND: dict[OpClass, UseKind] = {
    OpClass.GLOBAL_LOAD: "read",
    OpClass.ASYNC_COPY: "read",
    OpClass.BULK_COPY: "read",
    OpClass.GLOBAL_STORE: "write",
    OpClass.GLOBAL_ATOMIC: "atomic",
}


class ArrayUse(NamedTuple):
    """An operation's use of an array: from byte address `low` to before `end`, perhaps not every byte between."""

    array: DeviceArray
    kind: UseKind
    low: int
    end: int


class Written(NamedTuple):
    """Bytes that some threads wrote: `width` of them from each address on."""

    array: DeviceArray
    kind: UseKind
    first: NDArray[np.int64]
    width: int


class ArrayUses:
    """Uses of device arrays, joined to one span per array and kind.

    A span and not a set of bytes: it is two comparisons per access, and tells kernels apart that work on neighbouring
    parts of one array.

    Attributes
    ----------
    writes
        Every write and atomic access with its addresses; kept only where someone has put a list here.
    """

    def __init__(self) -> None:
        self.writes: list[Written] | None = None
        self._spans: dict[tuple[int, UseKind], ArrayUse] = {}

    def __iter__(self) -> Iterator[ArrayUse]:
        return iter(self._spans.values())

    def join(self, other: ArrayUses) -> None:
        """Add all uses of other blocks."""
        for use in other:
            self.add(use)

    def add(self, use: ArrayUse) -> None:
        """Widen the span of this array and kind."""
        key = id(use.array), use.kind
        have = self._spans.get(key)
        if have is not None:
            use = use._replace(low=min(have.low, use.low), end=max(have.end, use.end))
        self._spans[key] = use

    def add_access(
        self,
        op: OpClass,
        array: DeviceArray | SharedArray,
        first: NDArray[np.int64],
        width: int,
        active: NDArray[np.bool_] | None,
    ) -> None:
        """Add an access of `width` bytes per active lane, of an element if it is 0, from the addresses `first`."""
        if isinstance(array, SharedArray | PrivateArray):
            return
        some = first if active is None else first[active]
        size, kind = width or array.dtype.itemsize, _KIND[op]
        if some.size:
            self.add(ArrayUse(array.owner, kind, int(some.min()), int(some.max()) + size))
            if self.writes is not None and kind != "read":
                self.writes.append(Written(array, kind, some, size))
