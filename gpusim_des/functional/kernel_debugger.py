"""``breakpoint()`` in a kernel: Python's debugger, in which the thread's variables are plain numbers and arrays."""

from __future__ import annotations

import os
import pdb
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from gpusim_des.functional.array_view import ArrayView
from gpusim_des.functional.kernel_source import RUNTIME
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.operations import Dim, Thread
from gpusim_des.functional.private_arrays import LocalArray
from gpusim_des.functional.tracked import UNDEFINED, LocalList, Value


def debugger() -> Callable[[], None]:
    """Return what stops the frame that calls it: `KernelDebugger`, or the debugger that the user has chosen.

    A hook (``sys.breakpointhook``) or ``PYTHONBREAKPOINT`` is a choice.
    """
    if sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT"):
        return breakpoint
    return KernelDebugger().set_trace


def nothing() -> None:
    """Do not stop: the user watches another thread."""


class KernelDebugger(pdb.Pdb):
    """Python's debugger, which shows a thread's numbers and arrays instead of what the simulator knows of them.

    Arrays are read-only, and assignments to variables have no effect on the kernel.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._names: Mapping[str, Any] = {}

    @property
    def curframe_locals(self) -> dict[str, Any]:
        """Variables of the frame that the user looks at."""
        return dict(self._names)

    @curframe_locals.setter
    def curframe_locals(self, names: Mapping[str, Any] | None) -> None:
        self._names = shown(names) if names is not None and RUNTIME in names else names or {}


def shown(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kernel's variables as a user thinks of them, with the thread's indices under CUDA's names."""
    runtime = names[RUNTIME]
    done = {
        name: plain(value)
        for name, value in names.items()
        if not name.startswith("__") and value is not UNDEFINED and not isinstance(value, Thread)
    }
    thread = runtime.thread
    for name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        done.setdefault(name, plain(getattr(thread, name)))
    for name, value in names.items():
        if isinstance(value, Thread):
            done[name] = _Plain(thread)
    return done


class _Plain:
    """The thread with plain numbers."""

    def __init__(self, thread: Thread) -> None:
        for name in Thread.__slots__:
            setattr(self, name, plain(getattr(thread, name)))

    def __repr__(self) -> str:
        return f"<thread {self.threadIdx} of block {self.blockIdx}>"  # type: ignore[attr-defined]


def plain(value: Any) -> Any:
    """Return a value as a Python number, an array as a read-only NumPy array."""
    if isinstance(value, Value):
        return value.value.item()
    if isinstance(value, Dim):
        return Dim(plain(value.x), plain(value.y), plain(value.z))
    if isinstance(value, LocalList | tuple):
        return type(value)(map(plain, value)) if isinstance(value, tuple) else [plain(x) for x in value]
    if isinstance(value, ArrayView):
        start = value.start.value if isinstance(value.start, Value) else value.start
        data = _elements(value.base).reshape(-1)[int(start) :]
        return as_strided(data, value.shape, value.strides, writeable=False)
    if isinstance(value, DeviceArray | SharedArray):
        return _elements(value)
    return value


def _elements(array: DeviceArray | SharedArray) -> NDArray[Any]:
    if isinstance(array, LocalArray):
        data = array.slots[:, 0, 0]
    elif isinstance(array, SharedArray):
        data = array.data[0]
    else:
        data = array.flat
    shown_array = data[: int(np.prod(array.shape))].reshape(array.shape).view()
    shown_array.flags.writeable = False
    return shown_array
