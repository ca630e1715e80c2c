"""What tensor cores can multiply: types, shapes of instructions, and the numbers that come out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.trace import Mma

Dtype = np.dtype[Any]
Shape = tuple[int, int, int]

_TF32_DROPPED = 13
"""Mantissa bits of a float that a tf32 does not have: 23 against 10."""


class MmaRule(NamedTuple):
    """What the factors of one type allow."""

    type: str
    """Name in `gpusim_des.trace.MMA_TYPES`."""
    accumulators: tuple[Dtype, ...]
    shapes: tuple[Shape, ...]
    """Shapes (m, n, k) of one instruction, the largest first."""
    wide: Dtype
    """Type in which products are made and the k products of an instruction are summed up: their products are exact."""


F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
I8, I32 = np.dtype(np.int8), np.dtype(np.int32)

MMA_RULES: dict[Dtype, MmaRule] = {
    F16: MmaRule("fp16", (F32, F16), ((16, 8, 16), (16, 8, 8)), F32),
    F32: MmaRule("tf32", (F32,), ((16, 8, 8), (16, 8, 4)), F32),
    F64: MmaRule("fp64", (F64,), ((8, 8, 4),), F64),
    I8: MmaRule("int8", (I32,), ((16, 8, 32), (16, 8, 16), (8, 8, 16)), F64),
}
"""By the type of the factors (PTX ISA, "Warp-level matrix instructions", mma.sync; further shapes that fp64 has from
compute capability 9.0 on are left out). Bfloat16 and fp8 have no NumPy type."""

FRAGMENT_TYPES = (F16, F32, F64, I8, I32)
"""Types of factors and accumulators."""


def rule_of(where: str, a: Dtype, b: Dtype, c: Dtype) -> MmaRule:
    """Rule of a product of these types; `where` begins the message of what is refused.

    >>> rule_of("k", F16, F16, F32).type
    'fp16'
    """
    rule = MMA_RULES.get(a) if a == b else None
    if rule is None or c not in rule.accumulators:
        legal = ", ".join(f"{t} → {' or '.join(str(c) for c in r.accumulators)}" for t, r in MMA_RULES.items())
        raise KernelError(f"{where} multiplies {a} by {b} and adds to {c}: tensor cores can do {legal}")
    return rule


def instruction_shape(where: str, rule: MmaRule, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> Mma:
    """Largest instruction that divides a product of fragments of these shapes.

    >>> instruction_shape("k", MMA_RULES[F16], (16, 16), (16, 16), (16, 16))
    Mma(m=16, n=8, k=16, type='fp16')
    """
    (m, k), n = a, b[1]
    shown = f"A of {_times(*a)}, B of {_times(*b)}, C of {_times(*c)}"
    if b[0] != k or c != (m, n):
        raise KernelError(f"{where} does not fit together, {shown}: A is m × k, B is k × n, C is m × n")
    for shape in rule.shapes:
        if all(whole % part == 0 for whole, part in zip((m, n, k), shape, strict=True)):
            return Mma(*shape, rule.type)
    legal = ", ".join(_times(*shape) for shape in reversed(rule.shapes))
    raise KernelError(
        f"{where} is a product of m × n × k = {_times(m, n, k)} ({shown}), which no {rule.type} instruction divides: "
        f"they are {legal}"
    )


def multiply_add(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], rule: MmaRule, instruction_k: int) -> NDArray[Any]:
    """Numbers of ``A @ B + C``, one instruction of depth `instruction_k` after the other along k.

    Products are exact and summed up in the rule's wide type; each instruction rounds once, to the accumulator's type.
    Real tensor cores differ in the last bits: they align and cut off the summands in ways that NVIDIA does not publish.
    Integers wrap around.

    >>> ones = np.ones((16, 16), np.float16)
    >>> float(multiply_add(ones, ones, np.zeros((16, 16), np.float32), MMA_RULES[F16], 16)[0, 0])
    16.0
    """
    left, right = (tf32(x) if rule.type == "tf32" else x.astype(rule.wide) for x in (a, b))
    total = c
    with np.errstate(all="ignore"):  # a GPU raises no arithmetic exceptions
        for start in range(0, a.shape[-1], instruction_k):
            part = slice(start, start + instruction_k)
            product = left[..., part] @ right[..., part, :]
            total = total + product.astype(I32) if c.dtype == I32 else (product + total).astype(c.dtype)
    return total


def tf32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Round floats to 10 explicit bits of mantissa, to nearest, ties away from zero (PTX: cvt.rna.tf32.f32).

    >>> tf32(np.array([1 + 2**-10, 1 + 2**-11, 1 + 2**-12], np.float32)).tolist()
    [1.0009765625, 1.0009765625, 1.0]
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    half, kept = np.uint32(1 << (_TF32_DROPPED - 1)), np.uint32((1 << 32) - (1 << _TF32_DROPPED))
    rounded = ((bits + half) & kept).view(np.float32)  # a carry out of the mantissa raises the exponent, as it should
    result: NDArray[np.float32] = np.where(np.isnan(values), np.float32(np.nan), rounded)
    return result


def _times(*sizes: int) -> str:
    return " × ".join(str(size) for size in sizes)
