"""Rule H1: when the device tells that a kernel is over."""

from __future__ import annotations

from gpusim_des.timing.work import Work


class KernelSignals:
    """Signals the ends of kernels: at once, or, on chips that signal late, batch by batch.

    Kernels that are issued one after another, in whatever streams, with nothing between them, are a batch there; all
    its ends are signalled with the last one, because the chip tries to run its kernels at once (C2050; Harris 2012,
    "How to Overlap Data Transfers in CUDA C/C++", NVIDIA developer blog).
    """

    def __init__(self, *, late: bool) -> None:
        self._late = late
        self._batch: list[Work] | None = None
        self._batches: dict[int, list[Work]] = {}

    def issued(self, work: Work) -> None:
        """Hear of every operation in the order of issue."""
        if not self._late:
            return
        if work.kind != "kernel":
            self._batch = None
            return
        if self._batch is None or all(kernel.ended.triggered for kernel in self._batch):
            self._batch = []
        self._batch.append(work)
        self._batches[work.number] = self._batch

    def ended(self, work: Work) -> None:
        """Hear that a kernel is over."""
        batch = self._batches.pop(work.number, [work])
        if all(kernel.ended.triggered for kernel in batch):
            for kernel in batch:
                kernel.done.succeed()
