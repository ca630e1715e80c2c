"""Thread style: a kernel that says what one thread does, with CUDA's names.

``@kernel`` marks the function; its first argument is the `Thread`, the rest are the launch's arguments. It runs as
masked execution of many threads at once where that is possible, else thread by thread.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpusim_des.errors import DeadlockError, KernelError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.complaints import UnreachedBarrierError
from gpusim_des.functional.event import TooLong
from gpusim_des.functional.interpreter import interpret
from gpusim_des.functional.kernel_source import Compiled, NotVectorizable, parse
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.masked_code import compile_masked
from gpusim_des.functional.masked_runtime import MaskedRuntime
from gpusim_des.functional.operations import Dim, Thread
from gpusim_des.functional.races import Remedies
from gpusim_des.functional.scalar_code import compile_scalar
from gpusim_des.functional.tracked import Value
from gpusim_des.functional.type_rules import C_TYPES, TypeRules
from gpusim_des.functional.variable_types import Types
from gpusim_des.functional.watched import Watched
from gpusim_des.grid import WARP_SIZE

LEARNING_RUNS = 8
"""Runs after which the types of all variables must have settled; each run can only widen them."""


MOST_EXPLAINED = 10_000
"""Operations of a kernel up to which a barrier that is not reached is looked into thread by thread."""


class InterpretedWarning(UserWarning):
    """A thread kernel runs thread by thread, which is a thousand times slower than vectorized."""


class ThreadKernel(KernelFunction):
    """A function marked with `kernel`."""

    guard = "with an if, for example if {}:"
    remedies = Remedies("yield t.syncthreads()", "t.syncwarp()", "t.pipeline_wait_prior(0)", "t.barrier_wait(bar)")
    rules: TypeRules = C_TYPES
    """Which types meet to which."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.noticed: set[str] = set()
        """Reasons not to vectorize that the user has been told."""
        self._compiled: dict[tuple[Callable[..., Any], bool, bool], Compiled] = {}

    def compiled(self, function: Callable[..., Any], *, masked: bool, count_lines: bool) -> Compiled:
        """Return the rewritten function, the kernel itself or a helper; compiled once."""
        key = (function, masked, count_lines)
        if key not in self._compiled:
            compile_it = compile_masked if masked else compile_scalar
            source = parse(function, is_cuda=not self.takes_thread)
            self._compiled[key] = compile_it(source, count_lines=count_lines)
        return self._compiled[key]


def kernel(function: Callable[..., Any]) -> ThreadKernel:
    """Mark `function` as a kernel in thread style.

    Examples
    --------
    >>> @kernel
    ... def scale(t, a, n):
    ...     i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    ...     if i < n:
    ...         a[i] = 2 * a[i]
    >>> scale
    <kernel scale(a, n)>
    """
    return ThreadKernel(function)


class ThreadRunner:
    """Runs the blocks of one launch of a thread kernel.

    Parameters
    ----------
    kernel, arguments, names
        The kernel, its arguments in order, and the arrays' names for messages.
    make_machine
        Builds a machine for some blocks.
    vectorize
        ``None`` chooses: masked execution, the interpreter where that is impossible.
    watched
        Threads that may print and stop.
    """

    def __init__(
        self,
        kernel: ThreadKernel,
        arguments: tuple[Any, ...],
        names: dict[int, str],
        make_machine: Callable[[np.ndarray[Any, Any]], Machine],
        *,
        count_lines: bool,
        vectorize: bool | None,
        watched: Watched,
    ) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._make_machine = make_machine
        self._count_lines = count_lines
        self._must = vectorize is True
        self.vectorized = False
        learning = make_machine(np.zeros(1, np.int64))
        threads = learning.config.blocks * learning.config.threads_per_block
        self._context = LaunchContext(kernel.name, names, Types(kernel.rules), threads, watched)
        try:
            self._learn_types()
            self.vectorized = vectorize is not False
        except NotVectorizable as reason:
            self._context.types = Types(kernel.rules)
            if vectorize is not False:
                self.fall_back(reason)

    def fall_back(self, reason: NotVectorizable) -> None:
        """Go on thread by thread, and say why, once."""
        if self._must:
            raise KernelError(f"kernel {self._kernel.name!r} cannot be vectorized: {reason}") from None
        self.vectorized = False
        if str(reason) in self._kernel.noticed:
            return
        self._kernel.noticed.add(str(reason))
        warnings.warn(
            f"kernel {self._kernel.name!r} runs thread by thread, which is slow, because of {reason}",
            InterpretedWarning,
            stacklevel=_depth_of_caller(),
        )

    def _masked(self, function: Callable[..., Any]) -> Compiled:
        return self._kernel.compiled(function, masked=True, count_lines=self._count_lines)

    def _scalar(self, function: Callable[..., Any]) -> Compiled:
        return self._kernel.compiled(function, masked=False, count_lines=self._count_lines)

    def _learn_types(self) -> None:
        """Find the type of every variable: run with no thread active, through all statements, until nothing changes."""
        types = self._context.types
        for _ in range(LEARNING_RUNS):
            types.changed = False
            self._run_masked(self._make_machine(np.zeros(1, np.int64)), learning=True)
            if not types.changed:
                types.learnt = True
                return
        raise AssertionError("types of variables do not settle: this is a bug of the simulator")

    def run(self, machine: Machine) -> None:
        """Run the blocks of `machine`: all at once, or, if not vectorized, the only one."""
        if not self.vectorized:
            self._interpret(machine)
            return
        try:
            self._run_masked(machine, learning=False)
        except UnreachedBarrierError as error:
            raise self._explained(machine, error) from None

    def _interpret(self, machine: Machine) -> None:
        interpret(
            machine,
            self._scalar(self._kernel.function),
            self._arguments,
            self._context,
            self._scalar,
            takes_thread=self._kernel.takes_thread,
        )

    def _explained(self, machine: Machine, error: UnreachedBarrierError) -> DeadlockError:
        """Run the block that is stuck thread by thread, which tells where every thread waits."""
        if len(machine.events) < MOST_EXPLAINED:
            machine.undo()
            alone = self._make_machine(np.array([error.block]))
            try:
                self._interpret(alone)
            except DeadlockError as better:
                return better
            except KernelError:
                pass
            finally:
                alone.undo()
        return error

    def _run_masked(self, machine: Machine, *, learning: bool) -> None:
        compiled = self._masked(self._kernel.function)
        runtime = MaskedRuntime(machine, self._context, self._masked, learning=learning)
        runtime.thread = _thread(machine, runtime)
        first = (runtime.thread,) if self._kernel.takes_thread else ()
        try:
            returned = runtime.run(compiled, (*first, *self._arguments))
        except (NotVectorizable, TooLong):
            raise  # these blocks run again
        except BaseException:
            runtime.tell()
            raise
        runtime.tell()
        if returned is not None:
            raise KernelError(
                f"kernel {self._kernel.name!r} returns a value: a kernel returns nothing, it writes its results to "
                "arrays"
            )


def _depth_of_caller() -> int:
    """Frames from the function that asks to the first one outside of this package: where a warning belongs."""
    package = str(Path(__file__).resolve().parent.parent) + os.sep
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame, depth = frame.f_back, depth + 1
    return depth


def _thread(machine: Machine, runtime: MaskedRuntime) -> Thread:
    config = machine.config
    threads = np.arange(config.threads_per_block, dtype=np.int32)[None, :]
    blocks = machine.blocks[:, None]

    def special(values: Any) -> Value:
        return Value(runtime, np.asarray(values).astype(np.int32), ())

    def unravel(numbers: Any, sizes: tuple[int, int, int]) -> Dim:
        x, y, _ = sizes
        return Dim(special(numbers % x), special(numbers // x % y), special(numbers // (x * y)))

    numbers = (special(threads), special(threads // WARP_SIZE), special(threads % WARP_SIZE))
    return Thread(
        unravel(threads, config.block), unravel(blocks, config.grid), Dim(*config.block), Dim(*config.grid), numbers
    )
