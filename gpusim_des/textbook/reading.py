"""A kernel that reads an array, some elements for each thread, all of its loads under way at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.functional.thread_kernel import ThreadKernel, kernel
from gpusim_des.gpu import GPU


def reader(loads: int) -> ThreadKernel:
    """Sum up `loads` elements, a grid apart; a sum is written only if it is negative, so that all traffic is reads."""

    @kernel
    def read(t: Any, a: Any, out: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        x = [np.float32(0)] * loads
        for k in range(loads):
            x[k] = a[i + k * t.gridDim.x * t.blockDim.x]
        for k in range(1, loads):
            x[0] += x[k]
        if x[0] < 0:
            out[i] = x[0]

    return read


def read_array(chip: GPU, loads: int, blocks: int, threads: int, **launch: Any) -> Device:
    """Read 4 × `loads` × `blocks` × `threads` bytes and check the sums; `launch` as in `Device.launch`.

    The device is ready to be simulated, with nothing in its caches.
    """
    dev, count = Device(chip), blocks * threads
    x = np.random.default_rng(0).random(count * loads, dtype=np.float32)
    x[:: count // 2] = -100  # a few sums are negative
    a, out = dev.to_device(x), dev.to_device(np.zeros(count, np.float32))
    dev.forget_launches()
    dev.launch(reader(loads), blocks, threads, a, out, **launch)
    check_result(dev.to_host(out), np.minimum(x.reshape(loads, count).sum(axis=0), 0), rtol=1e-4)
    return dev
