"""Masked execution of thread kernels: many threads at once, on the machine.

The mask is the set of threads that execute the present statement. Control flow narrows it and widens it again; threads
that broke out of a loop or returned are kept out until the loop or the function ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional import (
    barriers,
    complaints,
    instructions,
    masked_cuda,
    masked_local,
    masked_print,
    overflow,
    provenance,
)
from gpusim_des.functional.cuda_operations import CudaOperation
from gpusim_des.functional.cuda_translation import translate
from gpusim_des.functional.formatted import Text
from gpusim_des.functional.kernel_source import Compiled, NotVectorizable, is_constant_function, is_helper
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.masked_control import Frame, MaskedControl
from gpusim_des.functional.masked_operations import operate
from gpusim_des.functional.masked_print import Printed
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.operations import Barrier, Operation
from gpusim_des.functional.overflow import IndexOverflow, Overflow
from gpusim_des.functional.plain_numbers import active_only
from gpusim_des.functional.private_arrays import LocalArray
from gpusim_des.functional.shared_names import SharedNames
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_memory import Array
from gpusim_des.functional.tracked import PLAIN, UNDEFINED, LocalList, Value
from gpusim_des.trace import OpClass

HARMLESS: tuple[Any, ...] = (len, range, isinstance, tuple, enumerate, zip, reversed, sum, min, max, abs, divmod, slice)
"""Builtins that masked execution may call once for all threads, because they only compute."""

MOST_CALLS = 64
"""Depth of helper calls; more is recursion, which masked execution leaves to the interpreter."""


class MaskedRuntime(MaskedControl):
    """The runtime of vectorized kernels."""

    def __init__(
        self,
        machine: Machine,
        context: LaunchContext,
        compile_function: Callable[[Callable[..., Any]], Compiled],
        *,
        learning: bool,
    ) -> None:
        super().__init__(machine, context, learning=learning)
        self._compile = compile_function
        self.shared_names = SharedNames()
        self.local_arrays: dict[tuple[Any, ...], LocalArray] = {}
        self.printed: list[Printed] = []
        """What the threads printed so far; it is written when they have run, because they may have to run again."""

    # Record ---------------------------------------------------------------------------------------------------------

    def emit(self, place: int, ops: instructions.Sequence, operands: tuple[Any, ...]) -> Any:
        """Count instructions of the active threads."""
        producers = provenance.joint(*(x.producers for x in operands if isinstance(x, Value)))
        if self.machine.counting != "auto":
            return provenance.latest(producers, self.machine.shape)
        return self.machine.sequence(ops, self.mask, producers, self.sites[place])

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """Wrap a constant: nothing made it."""
        return Value(self, np.asarray(value).astype(dtype).reshape(1, 1), ())

    def frame_key(self) -> tuple[Any, ...]:
        """Places of the calls that led here."""
        return self._frames[-1].key

    def plain(self, value: Value, what: str) -> Any:
        """Return the number that is the same for all threads of all blocks in flight."""
        flat = active_only(value.value, self.mask, self.machine.shape)
        if (flat != flat[0]).any():
            raise NotVectorizable(f"a value that differs from thread to thread as {what}", self.sites[self.here])
        return flat[0].item()

    def merge(self, old: Any, new: Value) -> Value:
        """Return the new value for active threads, the old one for the others."""
        mask = self.mask
        self.note_change(old, new)
        if old is new or self.learning:
            return new
        if mask is None:
            return new if new.assigned is None else self._copied(new)
        if old is UNDEFINED:
            done = self._copied(new)
            done.assigned = mask
            return done
        if isinstance(old, PLAIN):
            old = self.constant(old, new.dtype)
        shape = self.machine.shape
        value = np.where(mask, new.value, old.value)
        done = Value(self, value, provenance.merged(mask, new.producers, old.producers, shape))
        done.assigned = old.assigned if old.assigned is None or old.assigned is mask else old.assigned | mask
        if new.overflow or old.overflow:
            done.overflow = overflow.chosen(mask, (new, old))
        return done

    def _copied(self, value: Value) -> Value:
        made = Value(self, value.value, value.producers)
        made.bounds, made.overflow = value.bounds, value.overflow
        return made

    def check_assigned(self, place: int, operand: Value) -> None:
        """Refuse a variable that some of the active threads have not assigned."""
        if self.learning or operand.assigned is self.mask:
            return
        missing = ~operand.assigned if self.mask is None else self.mask & ~operand.assigned
        if missing.any():
            number = int(np.broadcast_to(missing, self.machine.shape).sum())
            raise KernelError(
                f"{self.kernel_name}: a variable is used in {self.sites[place]} by {number:,} "
                f"thread{'s' if number != 1 else ''} that did not assign it: give it a value before the branch"
            )

    def rebind(self, place: int, old: Any, new: Any) -> Any:
        """Assign an array, a list or a function: the same for all threads that are left in this function."""
        if old is UNDEFINED or old is new or self.learning or not self.others_live():
            return new
        if not (isinstance(old, LocalList) and isinstance(new, LocalList) and len(old) == len(new)):
            raise NotVectorizable(
                f"a variable that becomes a {type(new).__name__} in some threads only", self.sites[place]
            )
        # Lists of one slot: a thread that does not assign keeps its numbers.
        return LocalList((self._merged_item(place, a, b) for a, b in zip(old, new, strict=True)), new.slot)

    def _merged_item(self, place: int, old: Any, new: Any) -> Any:
        if not isinstance(old, Value) and not isinstance(new, Value) and (old is new or old == new):
            return new
        if not isinstance(new, (Value, *PLAIN)):
            return self.rebind(place, old, new)
        if not isinstance(new, Value):
            known = self.rules.constant_type(old) if isinstance(old, PLAIN) else old.dtype
            own = self.rules.constant_type(new)
            new = self.constant(new, self.rules.variable(known, isinstance(old, PLAIN), own, new_constant=True))
        return self.merge(old, new)

    # Expressions with control flow ----------------------------------------------------------------------------------

    def logic(self, place: int, name: str, *operands: Callable[[], Any]) -> Any:
        """``and`` or ``or``: an operand is computed by the threads that need it."""
        outer, is_and = self.mask, name == "and"
        going = np.ones((1, 1), bool)  # threads that have not decided yet
        result = np.full((1, 1), is_and)
        producers: list[Any] = []
        tracked = False
        for operand in operands:
            value = operand()
            if not isinstance(value, Value):
                if bool(value) == is_and:
                    continue
                if not tracked:
                    self.mask = outer
                    return bool(value)
                result = np.where(going, bool(value), result)
                break
            producers += value.producers if not tracked else _only(going, value.producers)
            tracked = True
            result = np.where(going, value.value, result)
            going = going & (value.value if is_and else ~value.value)
            self.mask = self.narrow(outer, going)
            if not self.any_active(self.mask):
                break
        self.mask = outer
        return Value(self, result, self._emit_joint(place, producers)) if tracked else is_and

    def _emit_joint(self, place: int, producers: list[Any]) -> Any:
        if self.machine.counting != "auto":
            return provenance.latest(provenance.joint(tuple(producers)), self.machine.shape)
        return self.machine.sequence((OpClass.INT,), self.mask, tuple(producers), self.sites[place])

    def select(self, place: int, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """``yes if condition else no``: each side for its threads, then a select."""
        if not isinstance(condition, Value):
            return yes() if condition else no()
        outer = self.mask
        sides: list[Any] = []
        for side, lanes in ((yes, condition.value), (no, ~condition.value)):
            self.mask = self.narrow(outer, lanes)
            sides.append(side())
        self.mask = outer
        if not all(isinstance(s, Value) for s in sides):
            raise KernelError(
                f"{self.kernel_name}: a condition in {self.sites[place]} chooses between things that are no numbers"
            )
        value = np.where(condition.value, sides[0].value, sides[1].value)
        chosen = provenance.merged(condition.value, sides[0].producers, sides[1].producers, self.machine.shape)
        made = Value(self, value, self._emit_joint(place, [*condition.producers, *chosen]))
        made.overflow = overflow.chosen(condition.value, sides)
        return made

    # Functions ------------------------------------------------------------------------------------------------------

    def run(self, compiled: Compiled, arguments: tuple[Any, ...]) -> Any:
        """Run the kernel itself."""
        return self._enter(("kernel",), compiled, arguments)

    def _enter(self, key: tuple[Any, ...], compiled: Compiled, arguments: tuple[Any, ...]) -> Any:
        outer, sites = self.mask, self.sites
        frame = Frame(key, outer)
        self._frames.append(frame)
        self.sites = compiled.sites
        result = compiled.run(self, *arguments)
        self._frames.pop()
        self.sites, self.mask = sites, outer
        return result

    def do_return(self, place: int, value: Any) -> None:
        """``return value``."""
        frame = self._frames[-1]
        if value is not None:
            frame.value = self.assign(place, "return value", UNDEFINED if frame.value is None else frame.value, value)
        frame.returned = self._leave(frame.returned)
        if len(self._frames) == 1:
            self.machine.left = frame.returned

    def result(self) -> Any:
        """Value of the function that ends."""
        return self._frames[-1].value

    def call(self, place: int, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the thread or of an array, a scalar function, or a helper."""
        if isinstance(function, Operation):
            return self._operate(place, function, function.bind(self.sites[place], arguments, keywords))
        if function is print:
            return masked_print.print_all(self, arguments, keywords)
        if not keywords:
            result = self.scalar_function(place, function, arguments)
            if result is not NotImplemented:
                return result
        marked = getattr(function, "py_func", None)
        if marked is not None or is_helper(function):
            function = marked or function
            if len(self._frames) > MOST_CALLS:
                raise NotVectorizable(f"recursion of {function.__name__}", self.sites[place])
            passed = filled(function, arguments, keywords)
            key = (*self.frame_key(), place)
            return self._enter(key, self._compile(function), passed)
        self._check_harmless(place, function, (*arguments, *keywords.values()))
        return function(*arguments, **keywords)

    def _operate(self, place: int, operation: Operation, arguments: dict[str, Any]) -> Any:
        if isinstance(operation, CudaOperation):
            return masked_cuda.operate(self, place, translate(self, place, operation, arguments))
        return operate(self, place, operation, arguments)

    def _check_harmless(self, place: int, function: Any, arguments: tuple[Any, ...]) -> None:
        """Leave a function to the interpreter that one call for all threads could not stand for."""
        name = getattr(function, "__name__", repr(function))
        if isinstance(getattr(function, "__self__", None), list | dict | set):
            raise NotVectorizable(f"a call of {name} of a list", self.sites[place])
        if any(isinstance(a, Value) for a in arguments):
            raise NotVectorizable(f"a call of {name} with a per-thread value", self.sites[place])
        if not any(function is f for f in HARMLESS) and not is_constant_function(function):
            raise NotVectorizable(f"a call of {name}, which may do more than compute", self.sites[place])

    # Memory ---------------------------------------------------------------------------------------------------------

    def joint_producers(self, operands: tuple[Any, ...]) -> Any:
        """Producers of all operands together."""
        return provenance.joint(*(x.producers for x in operands if isinstance(x, Value)))

    def check_bounds(self, place: int, verb: str, array: Array, size: int, index: Any, where: str) -> None:
        """Refuse an index of an active thread outside 0…size - 1."""
        self.machine.check_bounds(
            verb, self.name_of(array), size, np.asarray(index), self.mask, self.sites[place], where
        )

    def report_overflow(self, array: Array, over: Overflow, site: Site) -> IndexOverflow:
        """Report an index that wrapped in active threads."""
        return self.machine.watch.index_overflow(self.name_of(array), over, site)

    def read(self, place: int, array: Array, flat: Any, producers: Any) -> Value:
        """Read for the active threads."""
        index, site = np.asarray(flat), self.sites[place]
        if isinstance(array, LocalArray):
            return masked_local.read(self, place, array, index, producers)
        if isinstance(array, DeviceArray):
            values, event = self.machine.load(array, self.name_of(array), index, self.mask, producers, site)
        else:
            values, event = self.machine.shared_load(array, index, self.mask, producers, site)
        return Value(self, values, (event,))

    def write(self, place: int, array: Array, flat: Any, value: Any, producers: Any) -> None:
        """Write for the active threads."""
        index, site = np.asarray(flat), self.sites[place]
        self.changes += 1
        numbers = np.asarray(value.value if isinstance(value, Value) else value)
        if isinstance(array, LocalArray):
            masked_local.write(self, place, array, index, numbers, producers)
        elif isinstance(array, DeviceArray):
            self.machine.store(array, self.name_of(array), index, numbers, self.mask, producers, site)
        else:
            self.machine.shared_store(array, index, numbers, self.mask, producers, site)

    def text(self, place: int, *parts: Any) -> Text:  # noqa: ARG002 - the interpreter formats where it stands
        """``f"…"``: each thread's is made when it prints."""
        return Text(parts)

    def tell(self) -> None:
        """Write what the threads printed."""
        for call in self.printed:
            call.write()
        self.printed.clear()

    def stop(self, place: int) -> None:
        """``breakpoint()``: threads can stop one by one only."""
        if not self.learning:
            raise NotVectorizable("breakpoint()", self.sites[place])

    # Barriers -------------------------------------------------------------------------------------------------------

    def pause(self, place: int, token: Any) -> None:
        """``yield t.syncthreads()``."""
        if not isinstance(token, Barrier):
            raise complaints.no_barrier(self.kernel_name, self.sites[place], token)
        if not self.learning:
            barriers.meet(self.machine, self.mask, (), self.sites[place])


def _only(lanes: NDArray[np.bool_], producers: Any) -> list[Any]:
    """Producers as seen by some threads only."""
    return [np.where(lanes, np.asarray(p, np.int32), np.int32(-1)) for p in producers]


def filled(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Positional arguments of a helper, keywords and defaults filled in."""
    bound = inspect.signature(function).bind(*arguments, **keywords)
    bound.apply_defaults()
    return tuple(bound.arguments.values())
