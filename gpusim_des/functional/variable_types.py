"""The type of every variable of a thread-style kernel, the same in all threads, as in C."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional import arithmetic_rules as rules


class Types:
    """Type of every variable of a launch, found before it runs, so that a variable has one type in all threads."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], np.dtype[Any]] = {}
        self.constant: set[tuple[Any, ...]] = set()
        """Variables to which only constants were assigned so far."""
        self.changed = False

    def learn(self, slot: tuple[Any, ...], dtype: np.dtype[Any], *, constant: bool) -> None:
        """Take note of an assignment."""
        old = self.known.get(slot)
        if old is None:
            new = dtype
        elif constant and slot not in self.constant:
            new = old if dtype.kind in "ib" or old.kind in "fc" else rules.common_type(old, dtype)
        elif not constant and slot in self.constant:
            new = dtype if old.kind in "ib" or dtype.kind in "fc" else rules.common_type(old, dtype)
        else:
            new = old if old == dtype else rules.common_type(old, dtype)
        if not constant:
            self.constant.discard(slot)
        elif old is None:
            self.constant.add(slot)
        if new != old:
            self.known[slot] = new
            self.changed = True
