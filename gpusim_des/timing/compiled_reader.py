"""Reads the next blocks of a kernel on the second core while the compiled loop plays those before them (W4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from gpusim_des.gpu import GPU
from gpusim_des.timing.compiled_batch import Batch, ReadyStream, read_batch
from gpusim_des.timing.kernel_run import KernelRun

WARPS_AHEAD = 64
"""Batches of fewer warps are read when they are asked for: it takes no longer than to tell another thread."""


class Reader:
    """Batches of blocks, read one ahead; what is read does not depend on who reads it, or when."""

    def __init__(self, gpu: GPU) -> None:
        self._gpu = gpu
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[KernelRun, tuple[tuple[int, int], Future[Batch | None]]] = {}
        self._one_at_a_time = Lock()
        """A trace keeps its open chunk, and kernels may share a trace."""

    def read(self, run: KernelRun, first: int, count: int, ready: Callable[[int], ReadyStream]) -> Batch:
        """Return the blocks from number `first` on, `count` at most; `ready` knows the kernel's streams."""
        asked, future = self._ahead.pop(run, (None, None))
        batch = future.result() if future is not None and asked == (first, count) else None
        if batch is None:
            with self._one_at_a_time:
                batch = read_batch(run.trace, first, count, self._gpu, ready)
        return batch

    def read_ahead(self, run: KernelRun, first: int, count: int, known: dict[int, ReadyStream]) -> None:
        """Begin to read what is probably asked for next, if all its streams are known by then."""
        if count * run.demand.warps < WARPS_AHEAD:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "gpusim-des-reader")
        self._ahead[run] = (first, count), self._pool.submit(self._try, run, first, count, dict(known))

    def _try(self, run: KernelRun, first: int, count: int, known: dict[int, ReadyStream]) -> Batch | None:
        """Read a batch; whatever goes wrong shows when it is read again where it is needed."""
        try:
            with self._one_at_a_time:
                return read_batch(run.trace, first, count, self._gpu, known.__getitem__)
        except Exception:  # noqa: BLE001 - a stream that is new, or a trace that contradicts itself
            return None

    def close(self) -> None:
        """Let nothing be read any more."""
        self._ahead.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
