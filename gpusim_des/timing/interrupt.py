"""Rule F1: a simulation that is interrupted ends between two events, so that what was simulated stays consistent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_go_to(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` instead of raising `KeyboardInterrupt`; a second interrupt raises as usual.

    Outside the main thread, or where somebody else handles interrupts, nothing changes.
    """
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def handle(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, usual)
        stop()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
