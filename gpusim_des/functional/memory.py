"""Arrays of a GPU: in device memory, with addresses, and in the shared memory of the blocks in flight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import DeviceMemoryError, KernelError
from gpusim_des.functional.operations import Atomics
from gpusim_des.functional.poison import poison
from gpusim_des.functional.source import caller, text_of

if TYPE_CHECKING:
    from gpusim_des.functional.allocator import DeviceMemory

MAX_ITEM_BYTES = 32
"""Largest element a lane may load at once."""


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Tell whether a GPU can hold elements of this type: anything of a fixed size without Python objects."""
    simple = dtype.kind in "biufcmMSUV" and not dtype.hasobject and dtype.subdtype is None
    return simple and 0 < dtype.itemsize <= MAX_ITEM_BYTES


def _here() -> str:
    """Line of the kernel, with its text: what the array is called there helps more than its own name."""
    site = caller()
    text = text_of(site)
    return f"{site}, {text!r}" if text else str(site)


class OnDevice(Atomics):
    """An array whose elements plain Python cannot touch: indexing, NumPy functions and arithmetic are refused."""

    __slots__ = ()

    def _refuse(self) -> NoReturn:
        """Say how to get at the elements instead."""
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        self._refuse()

    def __getitem__(self, index: object) -> Any:
        self._refuse()

    def __setitem__(self, index: object, value: object) -> None:
        self._refuse()

    def _operate(self, *_: object) -> NoReturn:
        self._refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = _operate
    __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _operate


class DeviceArray(OnDevice):
    """An array in device memory: it has an address, and only kernels and copies touch its elements.

    `Device.malloc` and `Device.to_device` make it; fresh memory is poison (`poison`).

    Attributes
    ----------
    name
        Name for messages; a launch uses the kernel's parameter name instead.
    address
        Byte address of the first element; an array made after this one was freed may have it again.
    shape, dtype, size, nbytes
        As in NumPy, row-major.
    freed
        Whether its memory was given back.
    """

    __slots__ = ("_data", "_freed", "_memory", "_missing", "_unwritten", "_whole", "address", "dtype", "name", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        address: int,
        name: str,
        data: NDArray[Any],
        memory: DeviceMemory,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.address = address
        self.name = name
        self._freed = False
        self._data = data
        self._memory = memory
        self._whole: DeviceArray | None = None
        self._missing: NDArray[np.bool_] | None = None
        self._unwritten: NDArray[np.bool_] | Literal[True] | None = None

    @property
    def freed(self) -> bool:
        """Whether its memory was given back."""
        return self.owner._freed

    @property
    def owner(self) -> DeviceArray:
        """The array that the memory was reserved for: this one, or the one that it is a part of."""
        return self if self._whole is None else self._whole

    def part(self, start: int, count: int) -> DeviceArray:
        """Return `count` elements from number `start` on, row-major, as an array that shares this one's memory.

        It is what ``pointer + start`` is in CUDA, but knows its end: copies and kernels that go beyond are refused.

        Raises
        ------
        DeviceMemoryError
            If the part is empty or reaches beyond the array.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> whole = dev.to_device(np.arange(10, dtype=np.int32))
        >>> dev.memset(whole.part(2, 3), 0)
        >>> dev.to_host(whole).tolist()
        [0, 1, 0, 0, 0, 5, 6, 7, 8, 9]
        """
        for what, value in (("start", start), ("count", count)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise DeviceMemoryError(f"part {what} = {value!r} of array {self.name!r}: give a whole number")
        if count < 1 or start < 0 or start + count > self.size:
            raise DeviceMemoryError(
                f"part(start={start}, count={count}) of array {self.name!r}: must hold at least one element and lie "
                f"within its {self.size:,}, 0 to {self.size - 1:,}"
            )
        data = self.flat[start : start + count]
        address = self.address + int(start) * self.dtype.itemsize
        name = f"{self.name}[{start}:{start + count}]"
        part = DeviceArray((int(count),), self.dtype, address, name, data, self._memory)
        part._whole = self.owner
        return part

    @property
    def missing(self) -> NDArray[np.bool_] | None:
        """Which elements, row-major, a sampled launch would have computed but did not; ``None``: none of them."""
        whole = self.owner._missing
        first = (self.address - self.owner.address) // self.dtype.itemsize
        return None if whole is None else whole[first : first + self.size]

    @missing.setter
    def missing(self, elements: NDArray[np.bool_] | None) -> None:
        self._missing = elements

    @property
    def unwritten(self) -> NDArray[np.bool_] | Literal[True] | None:
        """Which elements, row-major, hold the poison of fresh memory; ``True``: all; ``None``: none of them."""
        whole = self.owner._unwritten
        first = (self.address - self.owner.address) // self.dtype.itemsize
        return whole if whole is None or whole is True else whole[first : first + self.size]

    @unwritten.setter
    def unwritten(self, elements: NDArray[np.bool_] | Literal[True] | None) -> None:
        self.owner._unwritten = elements

    def note_written(self, elements: NDArray[Any] | slice, unwritten: NDArray[np.bool_] | bool = False) -> None:
        """Take note that elements were written; with ``unwritten``, that they were overwritten by such poison."""
        if self.unwritten is not None or unwritten is not False:
            self.unwritten_flags()[elements] = unwritten

    def unwritten_flags(self) -> NDArray[np.bool_]:
        """Return what `unwritten` says, element by element and for change."""
        if self.unwritten is None or self.unwritten is True:
            self.unwritten = np.full(self.owner.size, self.unwritten is True)
        flags = self.unwritten
        assert isinstance(flags, np.ndarray)
        return flags

    def settle_written(self) -> None:
        """Forget which elements were written if all of them were."""
        if isinstance(self.owner._unwritten, np.ndarray) and not self.owner._unwritten.any():
            self.unwritten = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def flat(self) -> NDArray[Any]:
        """The elements in row-major order, for the executor; raises `DeviceMemoryError` after `free`."""
        if self.freed:
            raise DeviceMemoryError(f"array {self.name!r} was freed: allocate it again before using it")
        return self._data

    def discard(self) -> None:
        """Let go of the elements, for the allocator."""
        self._freed = True
        self._data = self._data[:0].copy()

    def __repr__(self) -> str:
        state = "freed" if self.freed else f"{self.nbytes:,} bytes at {self.address:#x}"
        return f"<DeviceArray {self.name!r} shape={self.shape} dtype={self.dtype}, {state}>"

    def _refuse(self) -> NoReturn:
        running = self._memory.running
        if running is None:
            raise DeviceMemoryError(
                f"array {self.name!r} lives in device memory, the host cannot touch its elements: "
                "copy it with dev.to_host(array), or pass it to a kernel and use blk.load and blk.store there; a part "
                "of it, for a copy or a kernel, is array.part(start, count)"
            )
        raise KernelError(
            f"{running}: Python touches elements of array {self.name!r} in {_here()}: a block kernel reads device "
            "memory with blk.load(array, index, mask=…) and writes it with blk.store(array, index, value, mask=…); "
            "array[index], one element at a time, is for kernels in thread style (@gs.kernel)"
        )

    def __len__(self) -> int:
        return self.shape[0]


class PrivateArray(DeviceArray):
    """An array that no other kernel and no copy can reach: constants, and what threads have for themselves."""

    __slots__ = ()


class SharedArray(OnDevice):
    """A shared-memory array of every block in flight: data has one row per block.

    The address counts from the start of the block's shared memory, in bytes. Fresh shared memory is poison. `data` are
    its elements where they are shared with another array; rows may be longer than `shape` asks for.
    """

    __slots__ = ("address", "data", "dtype", "name", "shape")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        address: int,
        blocks: int,
        data: NDArray[Any] | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.address = address
        self.data: NDArray[Any] = np.empty((blocks, math.prod(shape)), dtype) if data is None else data
        if data is None:
            poison(self.data)

    @property
    def size(self) -> int:
        """Elements per block."""
        return int(self.data.shape[1])

    @property
    def identity(self) -> int:
        """Tells arrays apart that do not share their memory."""
        return id(self.data if self.data.base is None else self.data.base)

    @property
    def nbytes(self) -> int:
        """Bytes per block."""
        return self.size * self.dtype.itemsize

    def read(self, index: NDArray[Any]) -> NDArray[Any]:
        """Elements at row-major positions, one row per block; an index without rows, or with one, is every block's.

        >>> tile = SharedArray("tile", (4,), np.dtype(np.int32), 0, blocks=2)
        >>> tile.data[:] = np.arange(8).reshape(2, 4)
        >>> tile.read(np.array([0, 3])).tolist(), tile.read(np.array([[0, 3], [1, 2]])).tolist()
        ([[0, 3], [4, 7]], [[0, 3], [5, 6]])
        """
        where = index.astype(np.int64, copy=False)
        if index.ndim < 2 or len(index) == 1:  # five times as fast as looking every block's row up
            return np.take(self.data, where.reshape(-1), axis=1)
        return np.take(self.data.reshape(-1), where + np.arange(len(self.data))[:, None] * self.size)

    def _refuse(self) -> NoReturn:
        raise KernelError(
            f"Python touches elements of shared array {self.name!r} in {_here()}: a block kernel reads shared memory "
            "with blk.sload(array, index, mask=…) and writes it with blk.sstore(array, index, value, mask=…); "
            "array[index], one element at a time, is for kernels in thread style (@gs.kernel)"
        )
