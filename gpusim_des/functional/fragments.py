"""A matrix that the 32 lanes of a warp hold together, one for every warp: operand and result of tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional import complaints, instructions, provenance
from gpusim_des.functional.lanes import cast
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.mma_rules import FRAGMENT_TYPES
from gpusim_des.functional.poison import poison_of
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site, caller
from gpusim_des.grid import WARP_SIZE, cdiv


class Fragment:
    """A matrix per warp, spread over its 32 lanes (``wmma::fragment``).

    ``blk.load_fragment``, ``blk.fill_fragment`` and ``blk.mma`` make them. ``c * 2``, ``c + d``, ``c - d`` and
    ``c.astype(dtype)`` work element by element; every lane holds a 32nd of the elements, so each costs (m × n / 32)
    instructions. A product and a sum are two instructions: they are not contracted into a multiply-add.

    Attributes
    ----------
    value
        The numbers, of shape (blocks, warps, rows, columns).
    producers
        Events of the machine that made it.
    """

    __slots__ = ("_parts", "_tile", "machine", "producers", "value")

    __array_ufunc__ = None  # makes NumPy's scalars and per-thread values leave operators to this class

    def __init__(
        self,
        machine: Machine,
        value: NDArray[Any],
        producers: Producers = (),
        tile: tuple[int, int] | None = None,
        parts: tuple[Producers, ...] = (),
    ) -> None:
        self.machine = machine
        self.value = value
        self.producers = producers
        self._tile = tile
        self._parts = parts

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.value.shape[-2], self.value.shape[-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.value.dtype

    def made_by(self, tile: tuple[int, int]) -> list[Producers]:
        """Events that made each tile of this shape, row by row: a chain of multiply-adds goes on tile by tile."""
        if tile == self._tile:
            return list(self._parts)
        return [self.producers] * (self.value[0, 0].size // (tile[0] * tile[1]))

    def astype(self, dtype: DTypeLike) -> Fragment:
        """Convert every element, as a cast in C does."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        check_type(f"{self.machine.kernel_name}: astype in {caller()}", target)
        ops = instructions.conversion(self.dtype, target)
        return self._made("astype", cast(self.value, target), ops, self.producers)

    def __add__(self, other: Any) -> Fragment:
        return self._combined("add", np.add, other)

    def __sub__(self, other: Any) -> Fragment:
        return self._combined("subtract", np.subtract, other)

    def __mul__(self, other: Any) -> Fragment:
        return self._combined("multiply", np.multiply, other)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return f"<Fragment {self.shape[0]} × {self.shape[1]} {self.dtype}>"

    def _combined(self, name: str, ufunc: Callable[..., Any], other: Any) -> Fragment:
        where = f"{self.machine.kernel_name}: {name} in {caller()}"
        producers = self.producers
        if isinstance(other, Fragment):
            check_machine(where, other, self.machine)
            if (other.shape, other.dtype) != (self.shape, self.dtype):
                raise KernelError(f"{where} combines {self!r} with {other!r}: shape and type must be the same")
            number, producers = other.value, provenance.joint(producers, other.producers)
        else:
            number = constant(where, other, self.dtype)
        with np.errstate(all="ignore"):
            value = ufunc(self.value, number)
        return self._made(name, value, instructions.arithmetic(name, self.dtype), producers)

    def _made(self, name: str, value: NDArray[Any], ops: instructions.Sequence, producers: Producers) -> Fragment:
        """Wrap a result that every lane computed for each of its elements."""
        site = caller()
        active = whole_warps(self.machine, name, site)
        if self.machine.counting == "auto":
            each = [
                self.machine.sequence(ops, self.machine.active, producers, site)
                for _ in range(cdiv(value[0, 0].size, WARP_SIZE))
            ]
            producers = provenance.joint(*each)
        return Fragment(self.machine, where_active(active, value), producers)


def whole_warps(machine: Machine, what: str, site: Site) -> NDArray[np.bool_]:
    """Warps that execute an operation on fragments, shape (blocks, warps); refuses one that is not complete."""
    access, threads = f"{machine.kernel_name}: {what} in {site}", machine.shape[1]
    if rest := threads % WARP_SIZE:
        there = np.ones(rest, bool)
        raise complaints.part_of_a_warp(access, machine.config, int(machine.blocks[0]), threads // WARP_SIZE, there)
    lanes = machine.lanes(machine.active).reshape(machine.shape[0], -1)
    part = (lanes > 0) & (lanes < WARP_SIZE)
    if machine.active is not None and part.any():
        row, warp = (int(k) for k in np.argwhere(part)[0])
        there = np.broadcast_to(machine.active, machine.shape)[row].reshape(-1, WARP_SIZE)[warp]
        raise complaints.part_of_a_warp(access, machine.config, int(machine.blocks[row]), warp, there)
    return lanes > 0


def where_active(active: NDArray[np.bool_], value: NDArray[Any]) -> NDArray[Any]:
    """Matrices of the warps that computed them; those of the others are poison."""
    return value if active.all() else np.where(active[:, :, None, None], value, poison_of(value.dtype))


def constant(where: str, number: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Check a number that is the same for all elements, and convert it."""
    if not isinstance(number, bool | int | float | np.bool_ | np.integer | np.floating):
        raise KernelError(
            f"{where} takes a {type(number).__name__}: a fragment combines with one of its shape or with a number"
        )
    if dtype.kind == "i" and not float(number).is_integer():
        raise KernelError(f"{where} takes {number!r}: a fragment of {dtype} holds whole numbers; convert it first")
    return cast(np.asarray(number), dtype)


def check_type(where: str, dtype: np.dtype[Any]) -> None:
    """Refuse element types that no tensor core takes or gives."""
    if dtype not in FRAGMENT_TYPES:
        raise KernelError(f"{where}: a fragment of {dtype}: possible are {', '.join(str(t) for t in FRAGMENT_TYPES)}")


def check_machine(where: str, fragment: Fragment, machine: Machine) -> None:
    """Refuse a fragment that outlived its launch."""
    if fragment.machine is not machine:
        raise KernelError(f"{where} uses a fragment of another launch")
