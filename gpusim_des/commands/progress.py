"""How far long work is, on a terminal; silent elsewhere, so that logs and pipes stay clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

PATIENCE_S = 0.5
"""Work that is done by then says nothing, seconds."""

INTERVAL_S = 0.1
"""Between two updates, seconds."""

CLEAR_LINE = "\x1b[K"
"""Clears a terminal's line from the cursor on."""


class Progress:
    r"""One line that is written over: done, all, rate and remaining time.

    The rate is that of what was done since the first call: nothing that lay finished before, and no time before it.

    Parameters
    ----------
    what
        What is being done.
    unit
        What is counted.
    stream
        Where to write; standard error where not given. Nothing is written where that is no terminal.
    clock
        Seconds from some moment on.
    lines
        A line for each call, for work that itself says what it does.

    Examples
    --------
    >>> import io
    >>> class Terminal(io.StringIO):
    ...     def isatty(self):
    ...         return True
    >>> said, times = Terminal(), iter([10.0, 12.0])
    >>> with Progress("vector_add", stream=said, clock=lambda: next(times)) as progress:
    ...     progress(400, 2000)
    ...     progress(900, 2000)
    >>> said.getvalue().replace(CLEAR_LINE, "")
    '\rvector_add: 900 of 2,000 blocks (45 %), 250 blocks/s, 4 s left\n'
    """

    def __init__(
        self,
        what: str,
        unit: str = "blocks",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        lines: bool = False,
    ) -> None:
        self._what = what
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._lines = lines
        self._done = -1
        self._first = 0
        self._start = self._last = 0.0
        self._said = False

    def __call__(self, done: int, total: int) -> None:
        """Tell that `done` of `total` are done; fewer than before is the beginning of something new."""
        if not self._terminal:
            return
        now = self._clock()
        if self._done < 0 or done < self._done:
            self._first, self._start, self._last = done, now, now
        self._done = done
        early = now - self._start < PATIENCE_S
        if done == self._first or early or (not self._lines and now - self._last < INTERVAL_S and done < total):
            return
        self._last = now
        rate = (done - self._first) / (now - self._start)
        left = f", {remaining((total - done) / rate)} left" if done < total else ""
        speed = f"{rate:,.3g} {self._unit}/s" if rate >= 1 else f"{60 * rate:,.3g} {self._unit}/min"
        share = f"{done / max(1, total):.0%}".replace("%", " %")
        text = f"{self._what}: {done:,} of {total:,} {self._unit} ({share}), {speed}{left}"
        self._stream.write(f"{text}\n" if self._lines else f"\r{text}{CLEAR_LINE}")
        self._stream.flush()
        self._said = True

    def of_kernel(self, _kernel: str, done: int, total: int) -> None:
        """Tell the same as simulations do, which name the kernel."""
        self(done, total)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._said and not self._lines:
            self._stream.write("\n")


def remaining(seconds: float) -> str:
    """Write a time to wait: seconds, minutes or hours.

    >>> remaining(6.2), remaining(95), remaining(7300)
    ('6 s', '1 min 35 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
