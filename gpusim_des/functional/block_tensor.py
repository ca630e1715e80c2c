"""Block style: matrices in the registers of warps and tensor cores that multiply them, as in ``nvcuda::wmma``."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional import complaints, fragment_access, mma_rules, provenance
from gpusim_des.functional.accounting import Array
from gpusim_des.functional.fragment_access import Place
from gpusim_des.functional.fragments import Fragment, check_machine, check_type, constant, where_active, whole_warps
from gpusim_des.functional.lanes import values_of
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site, caller
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass


class TensorCores(ABC):
    """The part of a `Block` in which warps work as a whole.

    All 32 lanes of a warp take part, so blocks have a multiple of 32 threads, and a branch around these calls must keep
    or leave out whole warps. Each warp has its own fragment of a shape.
    """

    _machine: Machine

    # Supplied by the block ------------------------------------------------------------------------------------------

    @abstractmethod
    def _name(self, array: DeviceArray) -> str:
        """Name of an array for messages."""

    @abstractmethod
    def _address(self, parts: tuple[Any, ...], mask: Mask, site: Site, *, in_global: bool) -> Producers:
        """Count the arithmetic that makes an address of an index; returns what made it."""

    # Fragments ------------------------------------------------------------------------------------------------------

    def load_fragment(
        self, array: DeviceArray | SharedArray, row: Any, col: Any, shape: tuple[int, int], *, transposed: bool = False
    ) -> Fragment:
        """Load a matrix of `shape` per warp from a two-dimensional array in global or shared memory.

        `row` and `col` are its upper left corner: whole numbers, or per-thread values that are the same in all lanes of
        a warp. With `transposed` it is read from a region of the swapped shape, element (i, j) from
        ``array[row + j, col + i]``, as a matrix in wmma's ``col_major``. A lane moves up to 16 bytes of a row with one
        instruction, whose address must be a multiple of that; transposed from global memory, one element.

        Raises `BoundsError` for a matrix that reaches out of the array.
        """
        what, site = "load_fragment", caller()
        rows, columns = sizes = self._shape(shape, what, site)
        region = (columns, rows) if transposed else sizes
        place, access, producers = self._place(what, "of", array, (row, col), region, site)
        check_type(access, array.dtype)
        op = OpClass.SHARED_LOAD if isinstance(array, SharedArray) else OpClass.GLOBAL_LOAD
        spread = fragment_access.spread_of(op, array.dtype.itemsize, region[1], transposed=transposed)
        events = fragment_access.count(self._machine, op, place, spread, producers, site, access)
        value = where_active(place.active, fragment_access.read(self._machine, place))
        return Fragment(self._machine, value.swapaxes(-1, -2) if transposed else value, events)

    def store_fragment(self, array: DeviceArray | SharedArray, row: Any, col: Any, fragment: Fragment) -> None:
        """Store every warp's matrix with its upper left corner at `row`, `col`; a lane moves up to 8 bytes of a row.

        The array has the fragment's type; ``fragment.astype`` converts. Raises as `load_fragment`.
        """
        what, site = "store_fragment", caller()
        self._check_fragment(fragment, what, site)
        place, access, producers = self._place(what, "to", array, (row, col), fragment.shape, site)
        if array.dtype != fragment.dtype:
            raise KernelError(
                f"{access}: a fragment of {fragment.dtype} into an array of {array.dtype}: convert it first, "
                f"fragment.astype(np.{array.dtype})"
            )
        op = OpClass.SHARED_STORE if isinstance(array, SharedArray) else OpClass.GLOBAL_STORE
        spread = fragment_access.spread_of(op, array.dtype.itemsize, place.columns, transposed=False)
        together = provenance.joint(producers, fragment.producers)
        fragment_access.count(self._machine, op, place, spread, together, site, access)
        fragment_access.write(self._machine, place, fragment.value)

    def fill_fragment(self, shape: tuple[int, int], value: float, dtype: DTypeLike = np.float32) -> Fragment:
        """Make a matrix of `shape` per warp that holds `value` everywhere.

        It costs no instruction, as a constant does: the first multiply-add reads its zeros from nowhere.
        """
        site = caller()
        where = f"{self._machine.kernel_name}: fill_fragment in {site}"
        kind = np.dtype(dtype)
        check_type(where, kind)
        sizes = self._shape(shape, "fill_fragment", site)
        active = whole_warps(self._machine, "fill_fragment", site)
        return Fragment(self._machine, np.broadcast_to(constant(where, value, kind), (*active.shape, *sizes)))

    def mma(self, a: Fragment, b: Fragment, c: Fragment) -> Fragment:
        """Multiply and add on tensor cores, ``a @ b + c`` for every warp.

        Factors of float16 accumulate in float32 or float16, int8 in int32, float64 in float64. Factors of float32 are
        rounded to tf32 first, which costs no instruction here, and accumulate in float32. Bfloat16 and fp8 are left
        out, NumPy has no type for them.

        A product is issued in instructions of the largest shape that divides it (`mma_rules.MMA_RULES`): 16 × 16 × 16
        in float16 is two of 16 × 8 × 16. Those along k depend on each other, output tile by output tile.
        """
        site = caller()
        for fragment in (a, b, c):
            self._check_fragment(fragment, "mma", site)
        where = f"{self._machine.kernel_name}: mma in {site}"
        rule = mma_rules.rule_of(where, a.dtype, b.dtype, c.dtype)
        instruction = mma_rules.instruction_shape(where, rule, a.shape, b.shape, c.shape)
        active, mask = whole_warps(self._machine, "mma", site), self._machine.active
        tile, operand = (instruction.m, instruction.n), instruction.encode()
        factors, parts = provenance.joint(a.producers, b.producers), c.made_by(tile)
        for _ in range(a.shape[1] // instruction.k):  # along k outside, so that neighbours do not wait for each other
            parts = [
                (self._machine.instruction(OpClass.TENSOR, mask, provenance.joint(factors, part), site, operand),)
                for part in parts
            ]
        value = mma_rules.multiply_add(a.value, b.value, c.value, rule, instruction.k)
        producers = provenance.joint(*parts)
        return Fragment(self._machine, where_active(active, value), producers, tile, tuple(parts))

    # Arguments ------------------------------------------------------------------------------------------------------

    def _check_fragment(self, fragment: Any, what: str, site: Site) -> None:
        where = f"{self._machine.kernel_name}: {what} in {site}"
        if not isinstance(fragment, Fragment):
            raise KernelError(
                f"{where} on a {type(fragment).__name__}: give a fragment, made by blk.load_fragment or "
                "blk.fill_fragment"
            )
        check_machine(where, fragment, self._machine)

    def _shape(self, shape: Any, what: str, site: Site) -> tuple[int, int]:
        try:
            rows, columns = (operator.index(size) for size in shape)
        except (TypeError, ValueError):
            rows = columns = 0
        if min(rows, columns) < 1:
            raise KernelError(
                f"{self._machine.kernel_name}: {what} in {site}: shape = {shape!r}: give two whole numbers of at least "
                "1, rows and columns"
            )
        return rows, columns

    def _place(
        self, what: str, preposition: str, array: Any, corner: tuple[Any, Any], region: tuple[int, int], site: Site
    ) -> tuple[Place, str, Producers]:
        """Where every warp's matrix lies, the access in words, and what made the address."""
        machine = self._machine
        self._check_array(array, what, site)
        access = f"{machine.kernel_name}: {what} {preposition} {self._label(array)!r} in {site}"
        active = whole_warps(machine, what, site)
        row, col = (
            self._by_warp(name, part, active, access) for name, part in zip(("row", "col"), corner, strict=True)
        )
        for axis, (first, extent) in enumerate(zip((row, col), region, strict=True)):
            bad = active & ((first < 0) | (first + extent > array.shape[axis]))
            if bad.any():
                raise complaints.fragment_outside(
                    access, array.shape, region, (row, col), axis, bad, machine.config, machine.blocks
                )
        flat = np.where(active, row * array.shape[1] + col, 0)
        made = self._address(corner, machine.active, site, in_global=isinstance(array, DeviceArray))
        return Place(array, flat, *region, active), access, made

    def _by_warp(self, name: str, part: Any, active: NDArray[np.bool_], access: str) -> NDArray[np.int64]:
        """One number for each warp, shape (blocks, warps); refuses one that differs between the lanes of a warp."""
        machine = self._machine
        numbers = np.asarray(values_of(machine, part))
        if numbers.dtype.kind not in "iu":
            raise KernelError(
                f"{access} has a {name} of type {numbers.dtype}: indices are integers; convert with .astype(np.int32)"
            )
        lanes = np.broadcast_to(numbers, machine.shape).astype(np.int64).reshape(*active.shape, WARP_SIZE)
        mixed = active & (lanes != lanes[:, :, :1]).any(axis=2)
        if mixed.any():
            block, warp = (int(k) for k in np.argwhere(mixed)[0])
            raise complaints.differs_within_warp(
                access, name, machine.config, int(machine.blocks[block]), warp, lanes[block, warp]
            )
        return lanes[:, :, 0]

    def _check_array(self, array: Any, what: str, site: Site) -> None:
        where = f"{self._machine.kernel_name}: {what} in {site}"
        if not isinstance(array, DeviceArray | SharedArray):
            raise KernelError(f"{where} on a {type(array).__name__}: give an array in global or shared memory")
        if len(array.shape) != 2:
            raise KernelError(
                f"{where}: array {self._label(array)!r} has shape {array.shape}: a fragment is a part of a "
                "two-dimensional array"
            )

    def _label(self, array: Array) -> str:
        return self._name(array) if isinstance(array, DeviceArray) else array.name
