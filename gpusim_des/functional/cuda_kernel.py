"""Kernels written for ``numba.cuda``: what one thread does, with its names as global ones and Numba's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpusim_des.functional.numba_types import NUMBA_TYPES
from gpusim_des.functional.thread_kernel import ThreadKernel


class CudaKernel(ThreadKernel):
    """A function in the style of ``numba.cuda``; all its parameters are arguments of the launch.

    Attributes
    ----------
    py_func
        The function itself.
    """

    style = "cuda"
    rules = NUMBA_TYPES
    takes_thread = False

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.py_func = function
