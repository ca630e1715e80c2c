"""Masks and structured control flow of vectorized kernels: who executes the present statement.

Control flow narrows the mask and widens it again; threads that broke out of a loop or returned are kept out until the
loop or the function ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional.kernel_source import NotVectorizable
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.runtime import Runtime
from gpusim_des.functional.tracked import Value

SPINS = 1000
"""Iterations of a loop after which it is watched: it may wait for something that never happens."""

LEARNING_ITERATIONS = 2
"""Iterations of every loop while types are learnt: the second sees what the first assigned."""


class Frame:
    """A function call: who has returned, and what."""

    def __init__(self, key: tuple[Any, ...], mask: Mask) -> None:
        self.key = key
        self.entered = mask
        self.returned: Mask = None
        self.value: Any = None
        self.loops: list[Loop] = []


class Loop:
    """A loop: who takes part, who has left, who waits for the next iteration."""

    def __init__(self, place: int, entered: Mask) -> None:
        self.place = place
        self.entered = entered
        self.live = entered
        self.broken: Mask = None
        self.continued: Mask = None
        self.iterations = 0
        self.active = self.changes = -1


def _or(a: Mask, b: Mask) -> Mask:
    """Threads in either set, where ``None`` is the empty set."""
    return b if a is None else a if b is None else a | b


class MaskedControl(Runtime):
    """The part of the masked runtime that keeps the mask."""

    def __init__(self, machine: Machine, context: LaunchContext, *, learning: bool) -> None:
        super().__init__(machine.kernel_name, context, learning=learning)
        self.machine = machine
        self.mask: Mask = np.zeros((1, 1), bool) if learning else None
        self._frames: list[Frame] = []
        self.changes = 0
        """Assignments and writes so far that changed something."""
        self.watching = False
        self._ifs: list[tuple[Mask, Any]] = []

    def line(self, place: int) -> bool:
        """Count a source line, where lines are counted."""
        self.machine.line(self.mask, self.sites[place])
        return True

    # Masks ----------------------------------------------------------------------------------------------------------

    def any_active(self, mask: Mask) -> bool:
        """Tell whether a mask holds for any thread, or statements run anyway because types are learnt."""
        return self.learning or mask is None or bool(mask.any())

    @staticmethod
    def narrow(mask: Mask, condition: NDArray[np.bool_]) -> Mask:
        """Threads of `mask` for which the condition holds."""
        if mask is None:
            return None if condition.all() else condition
        return mask & condition

    def _without_gone(self, mask: Mask) -> Mask:
        """`mask` without the threads that left the loop, wait for its next iteration, or returned."""
        frame = self._frames[-1]
        gone = frame.returned
        if frame.loops:
            loop = frame.loops[-1]
            gone = _or(_or(gone, loop.broken), loop.continued)
        if gone is None:
            return mask
        return ~gone if mask is None else mask & ~gone

    def others_live(self) -> bool:
        """Tell whether threads that do not execute the present statement may go on in this function."""
        frame = self._frames[-1]
        if self.mask is None:
            return False
        live = np.ones((1, 1), bool) if frame.entered is None else frame.entered
        if frame.returned is not None:
            live = live & ~frame.returned
        return bool((live & ~self.mask).any())

    def _leave(self, gone: Mask) -> NDArray[np.bool_]:
        now = np.ones((1, 1), bool) if self.mask is None else self.mask
        self.mask = np.zeros((1, 1), bool)
        return now if gone is None else gone | now

    # if -------------------------------------------------------------------------------------------------------------

    def enter_if(self, place: int, condition: Any) -> bool:
        """Start the first side; returns whether any thread takes it."""
        condition = self.truth(place, condition)
        self._ifs.append((self.mask, condition))
        if isinstance(condition, Value):
            self._branch(place, condition)
            self.mask = self.narrow(self.mask, condition.value)
            return self.any_active(self.mask)
        return bool(condition)

    def enter_else(self) -> bool:
        """Start the second side; returns whether any thread takes it."""
        outer, condition = self._ifs[-1]
        if not isinstance(condition, Value):
            return not condition
        self.mask = self._without_gone(self.narrow(outer, ~condition.value))
        return self.any_active(self.mask)

    def leave_if(self) -> None:
        """Reconverge."""
        outer, _ = self._ifs.pop()
        self.mask = self._without_gone(outer)

    def _branch(self, place: int, condition: Value) -> None:
        self.machine.branch(condition.value, self.mask, condition.producers, self.sites[place])

    # Loops ----------------------------------------------------------------------------------------------------------

    def loop_enter(self, place: int) -> None:
        """Start a while loop."""
        self._frames[-1].loops.append(Loop(place, self.mask))

    def loop_head(self) -> bool:
        """Start an iteration: threads that continued are back."""
        loop = self._frames[-1].loops[-1]
        loop.continued = None
        if loop.iterations:
            self.mask = self._without_gone(loop.live)
        loop.iterations += 1
        if loop.iterations > SPINS and not self.learning:
            self._watch(loop)
        return True

    def _watch(self, loop: Loop) -> None:
        """Give up on a loop in which a whole iteration changed nothing: it waits for threads that wait for it."""
        active = int(np.broadcast_to(True if self.mask is None else self.mask, self.machine.shape).sum())
        if (active, self.changes) == (loop.active, loop.changes):
            raise NotVectorizable("a loop that waits for other threads", self.sites[loop.place])
        loop.active, loop.changes, self.watching = active, self.changes, True

    def note_change(self, old: Any, new: Value) -> None:
        """Count an assignment that changed something; every one does until a loop has run suspiciously long."""
        same = (
            self.watching and isinstance(old, Value) and old.dtype == new.dtype and old.value.shape == new.value.shape
        )
        if not (same and np.array_equal(old.value, new.value)):
            self.changes += 1

    def loop_test(self, place: int, condition: Any) -> bool:
        """Keep the threads for which the condition holds; returns whether there are any."""
        loop = self._frames[-1].loops[-1]
        condition = self.truth(place, condition)
        if isinstance(condition, Value):
            self._branch(place, condition)
            self.mask = self.narrow(self.mask, condition.value)
        elif not condition:
            return False
        loop.live = self.mask
        if self.learning:
            return loop.iterations <= LEARNING_ITERATIONS
        return self.any_active(self.mask)

    def loop_leave(self) -> None:
        """End a loop: all threads that entered it go on, but for those that returned."""
        loop = self._frames[-1].loops.pop()
        self.mask = self._without_gone(loop.entered)

    def range(self, place: int, unrolled: bool, *bounds: Any) -> Iterator[Any]:
        """``for i in range(…)``: a compare, a branch and an add per iteration, unless its bounds are constants."""
        self.here = place
        start, stop, step = bounds_of(bounds)
        if unrolled and not any(isinstance(b, Value) for b in (start, stop, step)):
            yield from self.each(place, range(int(start), int(stop), int(step)))
            return
        counter = self.as_int(place, start)
        self.loop_enter(place)
        while self.loop_head():
            self.line(place)
            name = "less" if is_rising(step) else "greater"
            if not self.loop_test(place, self.compare(place, name, counter, stop)):
                break
            yield counter
            self.loop_head_again()
            counter = self.merge(counter, self.binary(place, "add", counter, step))
        self.loop_leave()

    def loop_head_again(self) -> None:
        """Bring threads that continued back before the counter is raised."""
        loop = self._frames[-1].loops[-1]
        loop.continued = None
        self.mask = self._without_gone(loop.live)

    def each(self, place: int, items: Iterable[Any]) -> Iterator[Any]:
        """``for x in items``, unrolled: the items are the same for all threads."""
        if isinstance(items, Value):
            raise KernelError(f"{self.kernel_name}: loop over a number in {self.sites[place]}: write range(…)")
        self.loop_enter(place)
        loop = self._frames[-1].loops[-1]
        for item in items:
            self.loop_head()
            self.line(place)
            if not self.any_active(self.mask):
                break
            loop.live = self.mask
            yield item
        else:
            self.loop_head()
            self.line(place)
        self.loop_leave()

    def do_break(self) -> None:
        """``break``."""
        loop = self._frames[-1].loops[-1]
        loop.broken = self._leave(loop.broken)

    def do_continue(self) -> None:
        """``continue``."""
        loop = self._frames[-1].loops[-1]
        loop.continued = self._leave(loop.continued)


def bounds_of(bounds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Start, stop and step of a range."""
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return (bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else 1)


def is_rising(step: Any) -> bool:
    """Tell whether a range counts up."""
    if isinstance(step, Value):
        return int(step.runtime.plain(step, "the step of a loop")) > 0
    if step == 0:
        raise KernelError("range() with step 0: the loop would never end")
    return bool(step > 0)
