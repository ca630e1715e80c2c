"""The interpreter's runtime: what one thread does, reported step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from gpusim_des.errors import DeadlockError, KernelError
from gpusim_des.functional import complaints, instructions, kernel_debugger, scalar_cuda
from gpusim_des.functional.cuda_operations import CudaOperation
from gpusim_des.functional.cuda_translation import translate
from gpusim_des.functional.formatted import Text
from gpusim_des.functional.kernel_source import Compiled, is_helper
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.machine import Counting
from gpusim_des.functional.masked_control import SPINS, bounds_of, is_rising
from gpusim_des.functional.masked_runtime import filled
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.neighbours import Neighbours
from gpusim_des.functional.operations import Barrier, Operation
from gpusim_des.functional.overflow import IndexOverflow, Overflow
from gpusim_des.functional.private_arrays import LocalArray
from gpusim_des.functional.provenance import MOST_CARRIED
from gpusim_des.functional.runtime import Runtime
from gpusim_des.functional.scalar_copies import Groups
from gpusim_des.functional.scalar_operations import operate
from gpusim_des.functional.scalar_steps import Key, Meeting, Step
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_memory import Array
from gpusim_des.functional.tracked import PLAIN, Value
from gpusim_des.trace import OpClass

_LATE = 1 << 30
"""Place of what a loop does after its body."""


class ScalarRuntime(Runtime):
    """The runtime of one thread."""

    def __init__(
        self,
        kernel_name: str,
        context: LaunchContext,
        compile_function: Callable[[Callable[..., Any]], Compiled],
        counting: Counting,
        block: Neighbours,
    ) -> None:
        super().__init__(kernel_name, context, learning=False)
        self.steps: list[Step] = []
        self._compile = compile_function
        self._counting = counting
        self.block = block
        self.groups = Groups()
        self.local_arrays: dict[tuple[Any, ...], LocalArray] = {}
        self._path: list[int] = []
        self._frames: list[tuple[Any, ...]] = []
        self._seen: dict[Key, int] = {}
        self._late = False
        self._spinning: dict[int, int] = {}
        self.changes = 0
        """Assignments and writes so far that changed something."""
        self.watching = False
        self.left = False
        """The kernel itself has returned, by a statement."""
        self._logic: list[list[Value]] = []
        self._selects: list[Any] = []

    # Record ---------------------------------------------------------------------------------------------------------

    def key(self, place: int) -> Key:
        """Key of the next step at a place."""
        prefix = (*self._path, _LATE if self._late else place, -1)
        count = self._seen.get(prefix, 0)
        self._seen[prefix] = count + 1
        return (*prefix, count)

    def step(self, place: int, op: OpClass | None, producers: tuple[Key, ...], **more: Any) -> tuple[Key, ...]:
        """Record a step; returns it as the producer of its result."""
        key = self.key(place)
        self.steps.append(Step(key, op, producers, self.sites[place], **more))
        return (key,)

    def emit(self, place: int, ops: instructions.Sequence, operands: tuple[Any, ...]) -> Any:
        """Record a sequence of instructions."""
        producers = self.joint_producers(operands)
        if self._counting != "auto":
            return tuple(sorted(producers)[-MOST_CARRIED:])
        for op in ops:
            producers = self.step(place, op, producers)
        return producers

    def joint_producers(self, operands: tuple[Any, ...]) -> Any:
        """Producers of all operands together."""
        return tuple(dict.fromkeys(p for x in operands if isinstance(x, Value) for p in x.producers))

    def line(self, place: int) -> bool:
        """Count a source line, where lines are counted."""
        if self._counting == "lines":
            self.step(place, None, ())
        return True

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """Wrap a constant: nothing made it."""
        return Value(self, np.asarray(value).astype(dtype)[()], ())

    def plain(self, value: Value, what: str) -> Any:  # noqa: ARG002 - one thread agrees with itself
        """Return the number itself."""
        return value.value.item()

    def merge(self, old: Any, new: Value) -> Value:
        """Return the new value: there is one thread only."""
        same = self.watching and isinstance(old, Value) and old.dtype == new.dtype
        if not (same and old.value.item() == new.value.item()):
            self.changes += 1
        return new

    def check_assigned(self, place: int, operand: Value) -> None:
        """Nothing to check: one thread has assigned a variable or not."""

    def frame_key(self) -> tuple[Any, ...]:
        """Places of the calls that led here."""
        return self._frames[-1]

    # Control flow ---------------------------------------------------------------------------------------------------

    def test(self, place: int, condition: Any) -> bool:
        """Return the way that a branch takes."""
        condition = self.truth(place, condition)
        if not isinstance(condition, Value):
            return bool(condition)
        taken = bool(condition.value)
        self.step(place, OpClass.BRANCH, condition.producers, taken=taken)
        return taken

    def begin_logic(self) -> bool:
        """Start ``and`` or ``or``."""
        self._logic.append([])
        return False

    def operand(self, value: Any) -> Any:
        """Take note of an operand that was computed."""
        if isinstance(value, Value):
            self._logic[-1].append(value)
        return value

    def end_logic(self, place: int, result: Any) -> Any:
        """End ``and`` or ``or``."""
        operands = self._logic.pop()
        if not operands:
            return bool(result)
        value = result.value if isinstance(result, Value) else np.bool_(result)
        return Value(self, value, self.emit(place, (OpClass.INT,), tuple(operands)))

    def begin_select(self, condition: Any) -> bool:
        """Choose a side."""
        self._selects.append(condition)
        return bool(condition.value) if isinstance(condition, Value) else bool(condition)

    def end_select(self, place: int, chosen: Any) -> Any:
        """End a conditional expression."""
        condition = self._selects.pop()
        if not isinstance(condition, Value):
            return chosen
        made = Value(self, chosen.value, self.emit(place, (OpClass.INT,), (condition, chosen)))
        made.overflow = chosen.overflow
        return made

    def loop_enter(self, place: int) -> None:
        """Start a while loop."""
        self._path += [place, -1]

    def loop_head(self) -> bool:
        """Start an iteration."""
        self._path[-1] += 1
        if self._path[-1] > SPINS:
            self._watch()
        return True

    def _watch(self) -> None:
        """Give up on a loop in which a whole iteration changed nothing."""
        depth = len(self._path)
        if self._spinning.get(depth) == self.changes:
            raise DeadlockError(
                f"{self.kernel_name}: a thread waits forever in the loop in {self.sites[self._path[-2]]} for something "
                "that another thread does: the interpreter runs threads of a block one after the other"
            )
        self._spinning[depth] = self.changes
        self.watching = True

    def loop_leave(self) -> None:
        """End a while loop."""
        del self._path[-2:]

    def range(self, place: int, unrolled: bool, *bounds: Any) -> Iterator[Any]:
        """``for i in range(…)``."""
        start, stop, step = bounds_of(bounds)
        if unrolled and not any(isinstance(b, Value) for b in (start, stop, step)):
            yield from self.each(place, range(int(start), int(stop), int(step)))
            return
        counter = self.as_int(place, start)
        name = "less" if is_rising(step) else "greater"
        depth = len(self._path)
        self.loop_enter(place)
        try:
            while self.loop_head():
                self.line(place)
                if not self.test(place, self.compare(place, name, counter, stop)):
                    break
                yield counter
                del self._path[depth + 2 :]
                self._late = True
                counter = self.binary(place, "add", counter, step)
                self._late = False
        finally:
            del self._path[depth:]

    def each(self, place: int, items: Iterable[Any]) -> Iterator[Any]:
        """``for x in items``."""
        if isinstance(items, Value):
            raise KernelError(f"{self.kernel_name}: loop over a number in {self.sites[place]}: write range(…)")
        depth = len(self._path)
        self.loop_enter(place)
        try:
            for item in items:
                self.loop_head()
                self.line(place)
                yield item
                del self._path[depth + 2 :]
            self.loop_head()
            self.line(place)
        finally:
            del self._path[depth:]

    # Functions ------------------------------------------------------------------------------------------------------

    def run(self, compiled: Compiled, arguments: tuple[Any, ...]) -> Generator[Meeting, Any, Any]:
        """Run the kernel itself."""
        return self._enter(("kernel",), compiled, arguments)

    def _enter(
        self, key: tuple[Any, ...], compiled: Compiled, arguments: tuple[Any, ...]
    ) -> Generator[Meeting, Any, Any]:
        sites, depth = self.sites, len(self._path)
        self._frames.append(key)
        self.sites = compiled.sites
        result = yield from compiled.run(self, *arguments)
        self._frames.pop()
        self.sites = sites
        del self._path[depth:]
        return result

    def returned(self, place: int, value: Any) -> Any:
        """``return value``."""
        self.left = len(self._frames) == 1
        return None if value is None else self.assign(place, "return value", self.undefined, value)

    def call(self, place: int, function: Any, *arguments: Any, **keywords: Any) -> Generator[Meeting, Any, Any]:
        """Call a method of the thread or of an array, a scalar function, a helper, or anything else."""
        if isinstance(function, Operation):
            bound = function.bind(self.sites[place], arguments, keywords)
            return (yield from self._operate(place, function, bound))
        if not keywords:
            result = self.scalar_function(place, function, arguments)
            if result is not NotImplemented:
                return result
        marked = getattr(function, "py_func", None)
        if marked is not None or is_helper(function):
            function = marked or function
            compiled = self._compile(function)
            key = (*self.frame_key(), place)
            self._path += [place, 0]
            result = yield from self._enter(key, compiled, filled(function, arguments, keywords))
            del self._path[-2:]
            return result
        if isinstance(getattr(function, "__self__", None), list | dict | set):
            return function(*arguments, **keywords)
        return self._foreign(function, arguments, keywords)

    def _operate(self, place: int, operation: Operation, arguments: dict[str, Any]) -> Generator[Meeting, Any, Any]:
        if isinstance(operation, CudaOperation):
            return (yield from scalar_cuda.operate(self, place, translate(self, place, operation, arguments)))
        return (yield from operate(self, place, operation, arguments))

    @property
    def is_watched(self) -> bool:
        """Whether the user wants to hear of this thread."""
        return self.context.watched.includes(self.block.number, self.block.thread)

    def text(self, place: int, *parts: Any) -> str:  # noqa: ARG002 - as in masked execution
        """``f"…"``."""
        return Text(parts).of(lambda x: x.value.item() if isinstance(x, Value) else x)

    def stop(self, place: int) -> Callable[[], None]:  # noqa: ARG002 - masked execution says where
        """``breakpoint()``: what to call in the frame of the kernel."""
        return kernel_debugger.debugger() if self.is_watched else kernel_debugger.nothing

    def _foreign(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call something that is no part of the language: it sees plain numbers, and its instructions are not known."""
        if function is print and not self.is_watched:
            return None
        tracked = tuple(x for x in (*arguments, *keywords.values()) if isinstance(x, Value))
        keep_type = (getattr(function, "__module__", None) or "").startswith("numpy")

        def number(x: Any) -> Any:
            return x if not isinstance(x, Value) else x.value if keep_type else x.value.item()

        result = function(*map(number, arguments), **{k: number(v) for k, v in keywords.items()})
        result = result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
        if not tracked or not isinstance(result, PLAIN):
            return result
        return Value(self, self.constant(result, self.rules.constant_type(result)).value, self.joint_producers(tracked))

    def call_now(self, place: int, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """Call inside of a lambda or a comprehension, where a thread cannot pause."""
        steps = self.call(place, function, *arguments, **keywords)
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        raise KernelError(
            f"{self.kernel_name}: {self.sites[place]} waits for other threads inside of a lambda or a comprehension: "
            "write a loop instead"
        )

    # Memory ---------------------------------------------------------------------------------------------------------

    def check_bounds(self, place: int, verb: str, array: Array, size: int, index: Any, where: str) -> None:
        """Refuse an index outside 0…size - 1."""
        if not 0 <= int(index) < size:
            self.block.refuse(verb, array, size, int(index), where, self.sites[place])

    def report_overflow(self, array: Array, over: Overflow, site: Site) -> IndexOverflow:
        """Report an index that wrapped."""
        return self.block.machine.watch.index_overflow(self.name_of(array), over, site, self.block.thread)

    @staticmethod
    def data_of(array: Array) -> Any:
        """Elements in row-major order."""
        return array.flat if isinstance(array, DeviceArray) else array.data[0]

    def read(self, place: int, array: Array, flat: Any, producers: Any) -> Value:
        """Read an element."""
        op = OpClass.GLOBAL_LOAD if isinstance(array, DeviceArray) else OpClass.SHARED_LOAD
        if isinstance(array, LocalArray):
            return scalar_cuda.read_local(self, place, array, int(flat), producers)
        made = self.step(place, op, producers, array=array, flat=int(flat))
        return Value(self, self.data_of(array)[int(flat)], made)

    def write(self, place: int, array: Array, flat: Any, value: Any, producers: Any) -> None:
        """Write an element."""
        op = OpClass.GLOBAL_STORE if isinstance(array, DeviceArray) else OpClass.SHARED_STORE
        number = value.value if isinstance(value, Value) else value
        self.changes += 1
        if isinstance(array, LocalArray):
            scalar_cuda.write_local(self, place, array, int(flat), number, producers)
            return
        self.data_of(array)[int(flat)] = number
        self.step(place, op, producers, array=array, flat=int(flat), value=number)

    # Barriers -------------------------------------------------------------------------------------------------------

    def pause(self, place: int, token: Any) -> Generator[Meeting, Any, None]:
        """``yield t.syncthreads()``."""
        if not isinstance(token, Barrier):
            raise complaints.no_barrier(self.kernel_name, self.sites[place], token)
        made = self.step(place, OpClass.BARRIER, ())
        yield Meeting(made[0], "barrier", self.sites[place], {})
