"""Random sources of thread-style kernels: race-free, ending, and using every construct that can be vectorized."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

INTS = ("a", "b")
FLOATS = ("f", "g")
BOOLS = ("p", "q")

UNIFORM = 10
"""Depth of a loop in which all threads go together, so that none may leave it."""

HEADER = """\
import math

import numpy as np

import gpusim_des as gs


def pair(x, y):
    if x > 3:
        return x - 1, y
    return x // 2, min(y * 0.5 + 1, 1000.0)

"""

SHAPES: tuple[tuple[Any, Any], ...] = (
    (1, 32),
    (2, 40),
    (3, (8, 5)),
    ((2, 2), (4, 3, 2)),
    (5, 7),
    (2, 96),
    ((1, 3), (33, 2)),
    (1, 1),
)


class Writer:
    """Writes one random module with a kernel ``kern`` and some helpers.

    ``number(low, high)`` chooses. Kernels with barriers have no early return, because all threads must reach a barrier.
    """

    def __init__(self, number: Callable[[int, int], int]) -> None:
        self.number = number
        self.counter = 0
        self.has_barriers = False
        self.helpers: list[str] = []
        self.inside_helper = False
        self.lines: list[str] = []

    # Choices --------------------------------------------------------------------------------------------------------

    def one_of(self, *choices: str) -> str:
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) < percent

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # Expressions ----------------------------------------------------------------------------------------------------

    def integer(self, depth: int) -> str:
        if depth <= 0 or self.chance(20):
            return self.integer_leaf()
        x = self.integer(depth - 1)
        if self.chance(35):
            return f"({x} {self.one_of('+', '-', '*', '&', '|', '^')} {self.integer(depth - 1)})"
        choices: list[Callable[[], str]] = [
            lambda: f"({x} * {self.integer(depth - 2)} {self.one_of('+', '-')} {self.integer(depth - 1)})",
            lambda: f"({x} {self.one_of('//', '%')} {self.one_of('3', '-5', 't.lane', self.odd(depth - 2))})",
            lambda: f"({x} {self.one_of('<<', '>>')} {self.number(0, 5)})",
            lambda: f"({x} if {self.condition(depth - 1)} else {self.integer(depth - 1)})",
            lambda: f"{self.one_of('min', 'max')}({x}, {self.integer(depth - 1)})",
            lambda: self.one_of(f"abs({x})", f"(-{x})", f"(~{x})"),
            lambda: f"{self.one_of('int', 'math.floor')}({self.clamped(self.floating(depth - 1))})",
            lambda: f"np.{self.one_of('int64', 'uint32', 'int8')}({x})",
            lambda: f"{self.one_of('I', 'B', 'U', 'W')}[({x}) % n]",
            lambda: f"t.{self.one_of('shfl_down', 'shfl_up', 'shfl_xor')}({x}, {self.one_of('1', '16', '(a & 7)')})",
            lambda: self.one_of(f"t.shfl({x}, {self.integer_leaf()})", f"t.ballot({self.condition(depth - 1)})"),
            lambda: x if self.inside_helper else f"int(loc[{self.number(0, 2)}])",
            lambda: self.call(x, depth),
        ]
        return choices[self.number(0, len(choices) - 1)]()

    def odd(self, depth: int) -> str:
        """No zero: a division of two constants by zero is an error of the kernel, of a thread's values it is not."""
        return f"({self.integer(depth)} | 1)"

    def call(self, x: str, depth: int) -> str:
        if not self.helpers:
            return x
        return f"int({self.one_of(*self.helpers)}(t, {x}, {self.floating(depth - 1)}, I, B, U, W, F, D, n))"

    def integer_leaf(self) -> str:
        return self.one_of(
            *INTS, *INTS, "t.lane", "t.linear", "t.blockIdx.x", "n", str(self.number(-3, 9)), "t.threadIdx.x", "1"
        )

    def floating(self, depth: int) -> str:
        if depth <= 0 or self.chance(20):
            return self.one_of(*FLOATS, *FLOATS, "0.5", "1.25", "-2.0", "m", "a % 5")
        x = self.floating(depth - 1)
        if self.chance(35):
            return f"({x} {self.one_of('+', '-', '*')} {self.floating(depth - 1)})"
        choices: list[Callable[[], str]] = [
            lambda: f"({x} {self.one_of('+', '-')} {self.floating(depth - 2)} * {self.floating(depth - 2)})",
            lambda: f"({x} / (abs({self.floating(depth - 1)}) + 1))",
            lambda: f"math.{self.one_of(f'sqrt(abs({x}))', f'sin({x})', f'exp(min({x}, 2.0))')}",
            lambda: f"np.maximum({x}, 0.25)",
            lambda: f"({x} if {self.condition(depth - 1)} else {self.floating(depth - 1)})",
            lambda: f"{self.one_of('F', 'F', 'D')}[({self.integer(depth - 1)}) % n]",
            lambda: self.one_of(f"float({self.integer_leaf()})", f"t.shfl_down({x}, 2)", f"np.float64({x})"),
        ]
        return choices[self.number(0, len(choices) - 1)]()

    def condition(self, depth: int) -> str:
        if depth <= 0 or self.chance(15):
            return self.one_of(*BOOLS, "a > b", "t.lane < 11", "a % 2 == 0", "f < g")
        x = self.integer(depth - 1)
        if self.chance(35):
            return f"{x} {self.one_of('<', '<=', '>', '>=', '==', '!=')} {self.integer(depth - 1)}"
        choices: list[Callable[[], str]] = [
            lambda: f"{self.floating(depth - 1)} < {self.floating(depth - 1)}",
            lambda: f"{self.number(-2, 5)} <= {x} {self.one_of('<', '!=')} {self.integer(depth - 1)}",
            lambda: self.joined("and", depth),
            lambda: self.joined("or", depth),
            lambda: f"not {self.one_of(*BOOLS, f'({x})')}",
            lambda: f"t.{self.one_of('any', 'all')}({self.condition(depth - 1)})",
        ]
        return choices[self.number(0, len(choices) - 1)]()

    def joined(self, operator: str, depth: int) -> str:
        return "(" + f" {operator} ".join(self.condition(depth - 1) for _ in range(self.number(2, 3))) + ")"

    # Statements -----------------------------------------------------------------------------------------------------

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int, loops: int, size: int) -> None:
        for _ in range(self.number(1, size)):
            self.statement(indent, depth, loops)

    def statement(self, indent: int, depth: int, loops: int) -> None:
        kind = self.number(0, 19)
        if kind < 6 or depth <= 0:
            self.assignment(indent)
        elif kind < 10:
            self.write(indent, f"if {self.condition(2)}:")
            self.block(indent + 1, depth - 1, loops, 3)
            if self.chance(30):
                self.write(indent, f"elif {self.condition(2)}:")
                self.block(indent + 1, depth - 1, loops, 2)
            if self.chance(50):
                self.write(indent, "else:")
                self.block(indent + 1, depth - 1, loops, 2)
        elif kind < 14 and loops % UNIFORM < 2:
            self.loop(indent, depth, loops)
        elif kind == 14 and 0 < loops < UNIFORM:
            self.leave(indent, self.one_of("break", "continue"))
        elif kind == 15 and self.may_return():
            self.leave(indent, self.result())
        elif not self.inside_helper:
            self.memory(indent)
        else:
            self.assignment(indent)

    def may_return(self) -> bool:
        return self.inside_helper or not self.has_barriers

    def result(self) -> str:
        if not self.inside_helper:
            return "return"
        return f"return {self.integer(1) if self.chance(70) else self.clamped(self.floating(1))}"

    def leave(self, indent: int, how: str) -> None:
        if self.chance(15):
            self.write(indent, how)
        else:
            self.write(indent, f"if {self.condition(2)}:")
            self.write(indent + 1, how)

    def clamped(self, value: str) -> str:
        return f"min(max({value}, -1000.0), 1000.0)"

    def assignment(self, indent: int) -> None:
        kind = self.number(0, 11)
        if kind < 4:
            self.write(indent, f"{self.one_of('a', 'b')} = {self.integer(3)}")
        elif kind == 10:
            self.write(indent, f"a, f = pair({self.integer(2)}, f)")
        elif kind == 11 and not self.inside_helper:
            self.local_array(indent)
        elif kind == 4:
            self.write(indent, f"{self.one_of('a', 'b')} {self.one_of('+', '-', '*', '^', '&')}= {self.integer(2)}")
        elif kind < 7:
            self.write(indent, f"{self.one_of(*FLOATS)} = {self.clamped(self.floating(3))}")
        elif kind == 7:
            self.write(indent, f"{self.one_of(*BOOLS)} = {self.condition(2)}")
        elif kind == 8:
            value = self.integer(2) if self.chance(60) and not self.has_mixed else self.clamped(self.floating(2))
            self.write(indent, f"m = {value}")
        else:
            self.write(indent, f"a, b = b, {self.integer(2)}")

    def local_array(self, indent: int) -> None:
        name = self.fresh("k")
        self.write(indent, f"for {name} in range(3):")
        if self.chance(50):
            self.write(indent + 1, f"if {self.condition(1)}:")
            self.write(indent + 2, self.one_of("continue", "break", f"b = {name}"))
        self.write(indent + 1, f"loc[{name}] = {self.one_of(f'loc[2 - {name}]', self.integer(1))}")
        self.write(indent + 1, f"a = int(loc[{name}]) + {name}")
        if self.chance(30):
            self.write(indent, f"loc = [{self.one_of('1', 'b')}, loc[1], a % 3]")

    has_mixed = False

    def loop(self, indent: int, depth: int, loops: int) -> None:
        name, kind = self.fresh("k"), self.number(0, 5)
        if kind == 5:
            self.write(indent, f"{name} = 0")
            self.write(indent, f"while {name} < {self.number(1, 4)} and {self.condition(2)}:")
            self.write(indent + 1, f"{name} += 1")
        elif kind == 4:
            self.write(indent, f"while a > {self.number(0, 3)} and b != 0:")
            self.write(indent + 1, "a = min(a, 5) - 1")
            # A helper loop body may raise a again: a second counter ends the loop.
            self.lines.insert(len(self.lines) - 2, "    " * indent + f"{name} = 0")
            self.write(indent + 1, f"{name} += 1")
            self.write(indent + 1, f"if {name} > 4:")
            self.write(indent + 2, "break")
        else:
            bounds = self.one_of(
                str(self.number(0, 4)),
                f"({self.integer(1)}) % 4",
                f"{self.number(-2, 2)}, ({self.integer(1)}) % 5",
                f"({self.integer(1)}) % 5, -1, -{self.number(1, 2)}",
                f"t.lane % 3, {self.number(2, 5)}, {self.number(1, 2)}",
            )
            items = "(3, 1, 4)" if kind == 0 else f"range({bounds})"
            self.write(indent, f"for {name} in {items}:")
            if self.chance(50):
                self.write(indent + 1, f"{self.one_of('a', 'b')} += {name}")
        self.block(indent + 1, depth - 1, loops % UNIFORM + 1, 3)

    def memory(self, indent: int) -> None:
        """Accesses without races: own elements, and atomics whose order does not matter."""
        kind = self.number(0, 8)
        if kind == 8 and self.has_barriers:
            self.own_copy(indent)
        elif kind == 0:
            self.write(indent, f"OI[me] = {self.integer(2)}")
        elif kind == 1:
            self.write(indent, f"OF[me] = {self.floating(2)}")
        elif kind == 2:
            self.write(indent, f"OI[me] {self.one_of('+', '-', '^')}= {self.integer(2)}")
        elif kind == 3:
            self.write(indent, f"OB[me] = {self.one_of(self.integer(2), self.condition(1))}")
        elif kind == 4:
            self.write(indent, f"H.atomic_add(({self.integer(2)}) % 16, {self.integer(1)})")
        elif kind == 5:
            self.write(indent, f"M.atomic_max(({self.integer(2)}) % 16, {self.integer(1)})")
        elif kind == 6 and self.has_barriers:
            self.write(indent, f"C.atomic_add(({self.integer(2)}) % 8, {self.integer(1)})")
        else:
            value = self.integer(2) if self.chance(60) else self.clamped(self.floating(2))
            self.write(indent, f"loc[{self.number(0, 2)}] = {value}")

    def own_copy(self, indent: int) -> None:
        """Asynchronous copies of a thread into elements that nobody else touches."""
        for _ in range(self.number(1, 2)):
            where = f"({self.one_of('0', '1', 'a & 1')}, t.linear)"
            self.write(indent, f"t.pipeline_memcpy_async(P, {where}, I, ({self.integer(1)}) % n)")
            if self.chance(70):
                self.write(indent, "t.pipeline_commit()")
        if self.chance(70):
            prior = self.one_of("0", "1", "2", f"({self.integer(1)}) % 3")
            self.write(indent, f"t.pipeline_wait_prior({prior})")
        self.write(indent, f"b = P[{self.one_of('0', '1')}, t.linear]")

    def bulk_copy(self, indent: int) -> None:
        """Bulk copies that all threads wait for; the barrier after it keeps the next copy from who still reads."""
        name = self.one_of("bar", "baz")
        for _ in range(self.number(1, 2)):
            begin = self.one_of("0", "8", "16", "4 * (a & 3)")
            ends = f"Q, {begin}, I, 4 * (({self.integer(1)}) & 7), {self.one_of('4', '8', '4 + 4 * (a & 1)')}"
            self.write(indent, f"if t.linear == {self.number(0, 99)} % nt:")
            self.write(indent + 1, f"t.memcpy_async_bulk({ends}, {name})")
        self.write(indent, f"t.barrier_wait({name})")
        self.write(indent, f"b = Q[({self.integer(2)}) % 32]")
        self.write(indent, "yield t.syncthreads()")

    def exchange(self, indent: int) -> None:
        """Threads of a block exchange values through shared memory, in uniform control flow."""
        if self.chance(30):
            self.bulk_copy(indent)
            return
        self.write(indent, f"S[t.linear] = {self.integer(2)}")
        self.write(indent, "yield t.syncthreads()")
        self.write(indent, f"b = S[({self.integer(2)}) % nt]")
        if self.chance(50):
            self.write(indent, f"if {self.condition(2)}:")
            self.write(indent + 1, f"a = T[t.linear // 3, t.linear % 3] + S[({self.integer(1)}) % nt]")
        self.write(indent, f"T[t.linear // 3, t.linear % 3] = {self.integer(1)}")
        self.write(indent, "yield t.syncthreads()")

    def helper(self) -> None:
        name = self.fresh("helper")
        self.inside_helper = True
        self.write(0, f"def {name}(t, a, f, I, B, U, W, F, D, n):")
        self.write(1, "b = a + 1")
        self.write(1, "m = b")
        self.write(1, "g = f * 0.5")
        self.write(1, "p = a > 2")
        self.write(1, "q = f < 1.0")
        self.block(1, 2, 0, 3)
        self.write(1, f"return {self.integer(1)}")
        self.write(0, "")
        self.write(0, "")
        self.inside_helper = False
        self.helpers.append(name)

    # The module -----------------------------------------------------------------------------------------------------

    def module(self) -> str:
        self.has_barriers = self.chance(60)
        self.has_mixed = self.chance(60)
        for _ in range(self.number(0, 2)):
            self.helper()
        self.write(0, "@gs.kernel")
        self.write(0, "def kern(t, I, B, U, W, F, D, OI, OF, OB, H, M, n):")
        self.write(1, "nt = t.blockDim.x * t.blockDim.y * t.blockDim.z")
        self.write(1, "blk = (t.blockIdx.z * t.gridDim.y + t.blockIdx.y) * t.gridDim.x + t.blockIdx.x")
        self.write(1, "me = blk * nt + t.linear")
        for text in ("a = me % 7", "b = I[me % n]", "m = 0", "f = F[me % n]", "g = 1.0", "p = a > 2", "q = False"):
            self.write(1, text)
        self.write(1, f"loc = [0, {self.one_of('a', '2', '0.5')}, {self.one_of('b', 'f', '7')}]")
        if self.has_barriers:
            self.write(1, 'Q = t.shared("Q", 32, np.int32)')
            self.write(1, 'S = t.shared("S", 128, np.int32)')
            self.write(1, 'T = t.shared("T", (43, 3), np.int32)')
            self.write(1, 'C = t.shared("C", 8, np.int32)')
            self.write(1, 'P = t.shared("P", (2, 128), np.int32)')
            self.write(1, "bar, baz = t.shared_barrier(), t.shared_barrier()")
            self.write(1, "T[t.linear // 3, t.linear % 3] = t.lane")
            self.write(1, "for z in range(t.linear, 8, nt):")
            self.write(2, "C[z] = 0")
            self.write(1, "yield t.syncthreads()")
        for _ in range(self.number(1, 4)):
            if self.has_barriers and self.chance(40):
                if self.chance(30):
                    self.write(1, f"for {self.fresh('u')} in range({self.number(1, 3)}):")
                    self.statement(2, 2, UNIFORM)
                    self.exchange(2)
                else:
                    self.exchange(1)
            else:
                self.statement(1, 3, 0)
        if self.has_barriers:
            self.write(1, "yield t.syncthreads()")
            self.write(1, "a = a + C[t.linear % 8]")
        self.write(1, "OI[me] += a + b")
        self.write(1, f"OF[me] = {self.clamped('f + g + m')}")
        self.write(1, "if p or q:")
        self.write(2, "OF[me] = loc[0] + loc[1] * loc[2]")
        return HEADER + "\n".join(["", *self.lines, ""])


def random_kernel(seed: int) -> tuple[str, Any, Any]:
    """Source of a module with a kernel named ``kern``, a grid and a block."""
    rng = Random(seed)
    source = Writer(rng.randint).module()
    return source, *rng.choice(SHAPES)
