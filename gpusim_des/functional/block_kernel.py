"""Block style: a kernel that does for all threads of a block at once what CUDA writes for one.

``@block_kernel`` marks the function; its first argument is a `Block`, the rest are the launch's arguments.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gpusim_des.errors import BoundsError, KernelError, MaskError
from gpusim_des.functional import barriers, instructions, overflow, provenance
from gpusim_des.functional.block_copies import AsynchronousCopies
from gpusim_des.functional.block_tensor import TensorCores
from gpusim_des.functional.branch_mask import BranchMask
from gpusim_des.functional.lanes import Lanes, cast, joint_producers, values_of, within
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.races import Remedies
from gpusim_des.functional.source import Site, caller
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass

Index = Any
"""An index: a per-thread value, an integer, or a tuple of those with one entry per dimension."""

COMPUTE_CLASSES = {
    op.label: op for op in (OpClass.INT, OpClass.FP32, OpClass.FP64, OpClass.FP16, OpClass.CONVERSION, OpClass.SFU)
}


class KernelFunction:
    """A function marked as a kernel; launch it, do not call it."""

    style = ""
    """How the kernel is written, for messages."""
    guard = "with a mask, for example mask={}"
    """How it keeps threads out of an access, for messages."""
    remedies = Remedies()
    """How it writes barriers, for messages."""
    takes_thread = True
    """The first parameter is the block, or the thread; the launch gives the others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters and self.takes_thread:
            raise TypeError(
                f"kernel {function.__name__!r} takes no argument: the first one is the block, kernel(blk, …)"
            )
        flexible = [p for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if flexible:
            shown = flexible[0].replace(annotation=inspect.Parameter.empty)
            raise TypeError(
                f"kernel {function.__name__!r}: parameter '{shown}' is not one argument by position, which is how a "
                "launch passes them; name each one, kernel(blk, a, b, n)"
            )
        self.function = function
        self.name = function.__name__
        self.parameters = tuple(p.name for p in parameters[self.takes_thread :])
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def bind(self, args: Sequence[Any]) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in; raises `TypeError` for a wrong number of arguments."""
        first = (None,) if self.takes_thread else ()
        try:
            bound = inspect.signature(self.function).bind(*first, *args)
        except TypeError as error:
            number = f"{len(args)} argument{'s' if len(args) != 1 else ''}"
            raise TypeError(
                f"kernel {self.name!r} takes ({', '.join(self.parameters)}), got {number}: {error}"
            ) from None
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[self.takes_thread :])

    def __call__(self, *_: Any) -> Any:
        """Refuse: a kernel runs on a device."""
        raise TypeError(f"{self.name} is a kernel: run it with dev.launch({self.name}, grid, block, ...)")

    def __repr__(self) -> str:
        return f"<{f'{self.style} kernel'.strip()} {self.name}({', '.join(self.parameters)})>"


class BlockKernel(KernelFunction):
    """A function marked with `block_kernel`."""

    style = "block"


def block_kernel(function: Callable[..., None]) -> BlockKernel:
    """Mark `function` as a kernel in block style.

    Examples
    --------
    >>> @block_kernel
    ... def scale(blk, a, n):
    ...     i = blk.bx * blk.bdx + blk.tx
    ...     m = i < n
    ...     blk.store(a, i, 2 * blk.load(a, i, mask=m), mask=m)
    >>> scale
    <block kernel scale(a, n)>
    """
    return BlockKernel(function)


class Block(AsynchronousCopies, TensorCores):
    """What a kernel in block style sees of its block: names, memory, barriers.

    Per-thread values (``tx``, ``tid``, ``lane``, results of `load`) are `Lanes`; sizes (``bdx``, ``gdx``) are integers.
    A ``mask`` is a per-thread truth value; threads outside of it do not take part, their results are 0.
    """

    def __init__(self, machine: Machine, names: dict[int, str]) -> None:
        config = machine.config
        threads = np.arange(config.threads_per_block, dtype=np.int32)[None, :]
        blocks = machine.blocks[:, None]
        self._machine = machine
        self._names = names
        self.bdx, self.bdy, self.bdz = config.block
        self.gdx, self.gdy, self.gdz = config.grid
        self.tid = self._special(threads)
        self.lane = self._special(threads % WARP_SIZE)
        self.warp = self._special(threads // WARP_SIZE)
        self.tx, self.ty, self.tz = (self._special(part) for part in _unravel(threads, config.block))
        self.bx, self.by, self.bz = (self._special(part) for part in _unravel(blocks, config.grid))

    def _special(self, values: Any) -> Lanes:
        """Wrap a value that the hardware provides: no instruction made it."""
        return Lanes(self._machine, values.astype(np.int32))

    # Memory ---------------------------------------------------------------------------------------------------------

    def load(self, array: DeviceArray, index: Index, mask: Any = None) -> Lanes:
        """Read ``array[index]`` from global memory; 0 for threads outside of `mask`.

        Raises `BoundsError` for an index outside of the array, negative ones included, and `MaskError` for a mask of
        the wrong length.
        """
        site = caller()
        self._check_device_array(array, "load", site)
        on, made = self._mask(mask, site)
        flat, producers = self._flat_index("load of", array, index, on, site)
        values, event = self._machine.load(array, self._name(array), flat, on, _join(producers, made), site)
        return Lanes(self._machine, values, (event,), on)

    def store(self, array: DeviceArray, index: Index, value: Any, mask: Any = None) -> None:
        """Write ``array[index] = value`` to global memory; raises as `load`."""
        site = caller()
        self._check_device_array(array, "store", site)
        on, made = self._mask(mask, site)
        plain, made_value = self._value(value, array.dtype)
        flat, producers = self._flat_index("store to", array, index, on, site)
        self._machine.store(array, self._name(array), flat, plain, on, _join(producers, made, made_value), site)

    def shared(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float32,
        name: str | None = None,
        *,
        dynamic: bool = False,
    ) -> SharedArray:
        """Declare an array in the block's shared memory; it holds poison until the kernel stores to it.

        `LaunchError` is raised above the GPU's limit: 48 KiB for static arrays, and what the launch reserved as
        ``dynamic_shared`` for `dynamic` ones.
        """
        sizes = shape if isinstance(shape, tuple) else (shape,)
        try:
            whole = tuple(int(n.__index__()) for n in sizes)
        except AttributeError:
            whole = ()
        if not whole or min(whole) < 1:
            raise KernelError(
                f"{self._machine.kernel_name}: shared array of shape {shape!r} in {caller()}: sizes are whole numbers "
                "of at least 1"
            )
        return self._machine.shared(name or f"shared@{caller().line}", whole, dtype, dynamic=dynamic)

    def sload(self, array: SharedArray, index: Index, mask: Any = None) -> Lanes:
        """Read ``array[index]`` from shared memory; 0 for threads outside of `mask`."""
        site = caller()
        self._check_shared_array(array, "sload", site)
        on, made = self._mask(mask, site)
        flat, producers = self._flat_index("shared load of", array, index, on, site)
        values, event = self._machine.shared_load(array, flat, on, _join(producers, made), site)
        return Lanes(self._machine, values, (event,), on)

    def sstore(self, array: SharedArray, index: Index, value: Any, mask: Any = None) -> None:
        """Write ``array[index] = value`` to shared memory."""
        site = caller()
        self._check_shared_array(array, "sstore", site)
        on, made = self._mask(mask, site)
        plain, made_value = self._value(value, array.dtype)
        flat, producers = self._flat_index("shared store to", array, index, on, site)
        self._machine.shared_store(array, flat, plain, on, _join(producers, made, made_value), site)

    # Control --------------------------------------------------------------------------------------------------------

    def sync(self, mask: Any = None) -> None:
        """Barrier of the block (``__syncthreads``); raises `DeadlockError` if `mask` keeps some of its threads away."""
        site = caller()
        on, _ = self._mask(mask, site)
        barriers.meet(self._machine, on, (), site)

    def branch(self, condition: Any, mask: Any = None) -> BranchMask:
        """Count a branch on `condition`; its divergence shows in the counters.

        What comes back is a mask, and a region: inside ``with blk.branch(condition) as taken:`` only the threads that
        take the branch execute, arithmetic included; ``with taken.orelse:`` is the other side. A value computed in a
        region is poison for all other threads: join the sides with ``np.where(taken, a, b)``.
        """
        site = caller()
        on, made = self._mask(mask, site)
        taken, made_condition = self._mask(condition, site, "condition")
        taken = np.ones((1, 1), bool) if taken is None else taken
        producers = _join(made_condition, made)
        self._machine.branch(taken, on, producers, site)
        return BranchMask(self._machine, taken, producers, on)

    def compute(self, n: int = 1, mask: Any = None, op: str = "fp32", value: Lanes | None = None) -> Lanes | None:
        """Declare `n` instructions of class `op` that no operator shows, each depending on the one before.

        With `value` the first one reads it, and the value that comes back is made by the last.
        """
        site = caller()
        if op not in COMPUTE_CLASSES:
            raise KernelError(f"compute op {op!r} in {site}: possible are {', '.join(COMPUTE_CLASSES)}")
        count = _whole("compute n", "instructions", n, site)
        if value is not None and not isinstance(value, Lanes):
            raise KernelError(f"compute value = {value!r} in {site}: a per-thread value, such as blk.load returns")
        values_of(self._machine, 0 if value is None else value)
        on, made = self._mask(mask, site)
        producers = _join(made, joint_producers(value))
        made_last = self._machine.sequence((COMPUTE_CLASSES[op],) * count, on, producers, site)
        return None if value is None else Lanes(self._machine, value.value, made_last, value.mask)

    # Arguments ------------------------------------------------------------------------------------------------------

    def _name(self, array: DeviceArray) -> str:
        return self._names.get(id(array), array.name)

    def _mask(self, mask: Any, site: Site, what: str = "mask") -> tuple[Mask, Producers]:
        region = self._machine if what == "mask" else None
        if mask is None or mask is True:
            return (None if region is None else region.active), ()
        value = values_of(self._machine, mask)
        on = np.asarray(value)
        if on.dtype != np.bool_:
            raise MaskError(
                f"{self._machine.kernel_name}: {what} of type {on.dtype} in {site}: a {what} holds truth values, "
                "for example i < n"
            )
        on = on.reshape(1, -1) if on.ndim < 2 else on
        return (on if region is None else within(region, on)), joint_producers(mask)

    def _value(self, value: Any, dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], Producers]:
        if isinstance(value, Lanes):
            values_of(self._machine, value)
            value = value.astype(dtype)
            return value.value, value.producers
        return cast(np.asarray(values_of(self._machine, value)), dtype), ()

    def _flat_index(
        self, verb: str, array: DeviceArray | SharedArray, index: Index, mask: Mask, site: Site
    ) -> tuple[np.ndarray[Any, Any], Producers]:
        """Row-major position of an index, counting the address arithmetic."""
        parts = index if isinstance(index, tuple) else (index,)
        shape, in_global = array.shape, isinstance(array, DeviceArray)
        name = self._name(array) if isinstance(array, DeviceArray) else array.name
        if len(parts) != len(shape):
            if len(parts) > 1:
                raise KernelError(
                    f"{self._machine.kernel_name}: {len(parts)} indices in {site} for an array of shape {shape}: "
                    f"give {len(shape)}, or one flat index"
                )
            shape = (int(np.prod(shape)),)
        values = [np.asarray(values_of(self._machine, part)) for part in parts]
        wrapped = [over for part in parts for over in overflow.only(getattr(part, "overflow", ()), mask)]
        told = [self._machine.watch.index_overflow(name, over, site) for over in wrapped]
        try:
            return self._flattened(verb, name, shape, values, mask, site, check=bool(told)), self._address(
                parts, mask, site, in_global=in_global
            )
        except BoundsError as error:
            if not told:
                raise
            raise BoundsError(f"{error}; {told[0]}") from None

    def _flattened(
        self,
        verb: str,
        name: str,
        shape: tuple[int, ...],
        values: list[Any],
        mask: Mask,
        site: Site,
        *,
        check: bool,
    ) -> np.ndarray[Any, Any]:
        """Row-major position of an index with these parts."""
        flat: np.ndarray[Any, Any] = values[0]
        if check and len(shape) == 1:
            self._machine.check_bounds(verb, name, shape[0], flat, mask, site)
        if len(shape) > 1:  # each dimension by itself: an index beyond a row must not reach the next one
            for axis, (size, part) in enumerate(zip(shape, values, strict=True)):
                where = f" of dimension {axis} (shape {shape})"
                self._machine.check_bounds(verb, name, size, part, mask, site, where)
            flat = flat.astype(np.int64)
            for size, part in zip(shape[1:], values[1:], strict=True):
                flat = flat * size + part
        return flat

    def _address(self, parts: tuple[Any, ...], mask: Mask, site: Site, *, in_global: bool) -> Producers:
        """Count the arithmetic that makes an address of an index; returns what made it."""
        producers = joint_producers(*parts)
        if self._machine.counting == "auto" and any(isinstance(part, Lanes) for part in parts):
            ops = (OpClass.INT,) * (len(parts) - 1) + (instructions.ADDRESS if in_global else ())
            producers = self._machine.sequence(ops, mask, producers, site)
        return producers

    def _check_device_array(self, array: Any, operation: str, site: Site) -> None:
        if not isinstance(array, DeviceArray):
            raise KernelError(
                f"{self._machine.kernel_name}: {operation} in {site} from a {type(array).__name__}: "
                "global memory is reached through arrays made by dev.to_device or dev.malloc"
                + ("; use sload and sstore for shared memory" if isinstance(array, SharedArray) else "")
            )

    def _check_shared_array(self, array: Any, operation: str, site: Site) -> None:
        if not isinstance(array, SharedArray):
            raise KernelError(
                f"{self._machine.kernel_name}: {operation} in {site} from a {type(array).__name__}: "
                "shared memory is declared with blk.shared(shape, dtype)"
                + ("; use load and store for global memory" if isinstance(array, DeviceArray) else "")
            )


def _whole(what: str, unit: str, value: Any, site: Site) -> int:
    """Return a whole number that is the same for the whole block."""
    try:
        number = operator.index(value)
    except TypeError:
        raise KernelError(f"{what} = {value!r} in {site}: must be a whole number of {unit}") from None
    if number < 0:
        raise KernelError(f"{what} = {number} in {site}: must be a whole number of {unit}, at least 0")
    return number


_join = provenance.joint


def _unravel(numbers: Any, sizes: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    x, y, _ = sizes
    return numbers % x, numbers // x % y, numbers // (x * y)
