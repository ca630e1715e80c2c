"""The type of every variable of a thread-style kernel, the same in all threads, as in C and Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional.type_rules import C_TYPES, TypeRules


class Types:
    """Type of every variable of a launch, found before it runs, so that a variable has one type in all threads."""

    def __init__(self, rules: TypeRules = C_TYPES) -> None:
        self.rules = rules
        self.known: dict[tuple[Any, ...], np.dtype[Any]] = {}
        self.constant: set[tuple[Any, ...]] = set()
        """Variables to which only constants were assigned so far."""
        self.stored: set[tuple[Any, ...]] = set()
        """Local lists to which the kernel stores, so that their numbers differ from thread to thread."""
        self.indexed: set[tuple[Any, ...]] = set()
        """Local arrays that the kernel indexes with values: they are in memory."""
        self.learnt = False
        """All statements were seen."""
        self._joined: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.changed = False

    def joined(self, slot: tuple[Any, ...]) -> tuple[Any, ...]:
        """Slot that stands for this one and all that were joined with it."""
        while slot in self._joined:
            slot = self._joined[slot]
        return slot

    def join(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
        """Take note that a variable may be either of two local lists, whose numbers therefore have one type."""
        one, other = self.joined(one), self.joined(other)
        if one != other:
            self._joined[other] = one
            self.changed = True

    def note_stored(self, slot: tuple[Any, ...]) -> None:
        """Take note of an assignment to an element of a local list."""
        self.changed |= slot not in self.stored
        self.stored.add(slot)

    def learn(self, slot: tuple[Any, ...], dtype: np.dtype[Any], *, constant: bool) -> None:
        """Take note of an assignment."""
        old = self.known.get(slot)
        new = dtype if old is None else self.rules.variable(old, slot in self.constant, dtype, constant)
        if not constant:
            self.constant.discard(slot)
        elif old is None:
            self.constant.add(slot)
        if new != old:
            self.known[slot] = new
            self.changed = True
