"""Finds what compiled code may not do: words outside its arrays, before them, or behind what it has taken.

`guarded` gives the compiled engine arrays that are just as long as it asks for, between words that nobody may change.
`checked` needs Numba switched off (``NUMBA_DISABLE_JIT=1``): the engine's functions run as Python, and every single
access is looked at, as is what is read before it was written, or after it was given back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.compiled_words import GpuWords

GUARD_WORDS = 1 << 12
LARGEST_ARRAY = 1 << 23
"""Words of an array that was made by a test; the engine begins with a larger one."""

GUARD = 0x5AFE_5AFE_5AFE_5AFE

JIT_IS_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"

POISON = -0x5EAD_5EAD_5EAD_5EAD
"""What words hold that nobody has written yet."""


class GuardError(AssertionError):
    """Somebody wrote where nobody may."""


class Arrays:
    """The arrays of all simulations of a process, each between its guards."""

    def __init__(self) -> None:
        self._whole: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """By identity, every array that is in use, which so lives as long, and the one with the guards around it."""
        self.live: dict[int, bytearray] = {}
        """By the array's identity, which of its words that were ever taken belong to somebody; for `checked`."""

        self.of_words: set[int] = set()
        """Identities of the arrays of words, whose owner is known word by word."""

    def rehouse(self, array: NDArray[np.int64], used: int, length: int) -> NDArray[np.int64]:
        """Return a copy of this length between guards."""
        whole = np.zeros(length + 2 * GUARD_WORDS, np.int64)  # what nobody touches costs no memory
        whole[:GUARD_WORDS] = whole[-GUARD_WORDS:] = GUARD
        inner = whole[GUARD_WORDS : GUARD_WORDS + length]
        inner[:used] = array[:used]
        self._whole[id(inner)] = inner, whole
        if id(array) in self.live:
            self.live[id(inner)] = self.live.pop(id(array))
        self.of_words.discard(id(array))
        self._whole.pop(id(array), None)
        return inner

    def check(self) -> None:
        """Look at all guards."""
        for _, whole in self._whole.values():
            for what, guard in (("before", whole[:GUARD_WORDS]), ("behind", whole[-GUARD_WORDS:])):
                if (guard != GUARD).any():
                    raise GuardError(f"compiled code wrote {what} an array of {len(whole) - 2 * GUARD_WORDS:,} words")


@contextmanager
def guarded(slack: float = 0.0) -> Iterator[Arrays]:
    """Give the compiled engine arrays of exactly the length that it needs, between guards.

    With `slack` they grow by that part of their length more where the engine asks for more only to ask less often.
    """
    arrays = Arrays()

    def make_room(gpu: GpuWords, words: int = 0) -> None:
        margin = int(gpu.words[at.MARGIN])
        arrays.check()
        # To make room less often, more than the margin is asked for, and a large array grows by a part of itself.
        own = len(gpu.words) < LARGEST_ARRAY
        more = int(slack * len(gpu.words) * own) if words == margin else words
        for name, used, free in (
            ("words", int(gpu.words[at.NEXT_WORD]), more + margin),
            ("events", at.EVENT_WORDS * int(gpu.words[at.EVENTS]), margin),
            ("log", at.LOG_WORDS * int(gpu.words[at.LOGGED]), margin),
        ):
            setattr(gpu, name, arrays.rehouse(getattr(gpu, name), used, used + free))
        arrays.of_words.add(id(gpu.words))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GpuWords, "make_room", make_room)
        yield arrays
        arrays.check()


# Every access ---------------------------------------------------------------------------------------------------------


class CheckedWords:
    """An array that refuses what a bare pointer would do without a word."""

    __slots__ = ("live", "view")

    def __init__(self, array: NDArray[np.int64], live: bytearray | None) -> None:
        self.view = memoryview(array)  # type: ignore[arg-type]
        self.live = live
        """Which words belong to somebody, as far as any were taken; `None` where all do."""

    def _check(self, place: int, what: str) -> None:
        live = self.live
        if not 0 <= place < len(self.view) or (live is not None and not (place < len(live) and live[place])):
            raise GuardError(f"word {place} was {what}, which belongs to nobody")

    def __getitem__(self, place: int) -> int:
        self._check(place, "read")
        value: int = self.view[place]
        if value == POISON:
            raise GuardError(f"word {place} was read before it was written")
        return value

    def __setitem__(self, place: int, value: int) -> None:
        self._check(place, "written")
        self.view[place] = value  # refuses what does not fit 64 bits


def _replace_everywhere(patch: pytest.MonkeyPatch, name: str, other: Any) -> None:
    for module in [m for n, m in sys.modules.items() if n.startswith("gpusim_des.timing.compiled")]:
        if hasattr(module, name):
            patch.setattr(module, name, other)


@contextmanager
def checked(slack: float = 0.0) -> Iterator[Arrays]:
    """Look at every access of the compiled engine's functions, which run as Python."""
    assert JIT_IS_OFF, "set NUMBA_DISABLE_JIT=1 before Numba is imported"
    with guarded(slack) as arrays, pytest.MonkeyPatch.context() as patch:

        def start_of(array: NDArray[np.int64]) -> CheckedWords:
            if id(array) not in arrays.of_words:
                return CheckedWords(array, None)
            live = arrays.live.setdefault(id(array), bytearray())
            # What Python has taken since belongs to somebody for good.
            live.extend(bytes([1]) * (int(array[at.NEXT_WORD]) - len(live)))
            return CheckedWords(array, live)

        def allocate(m: CheckedWords, words: int) -> int:
            # Nothing is used twice, and between two stretches lies a word of nobody.
            place, live = m[at.NEXT_WORD], m.live
            assert live is not None
            assert len(live) == place
            m[at.NEXT_WORD] = place + words + 1
            live.extend(bytes([1]) * words + bytes(1))
            for k in range(place, place + words):
                m.view[k] = POISON
            return place

        def release(m: CheckedWords, place: int, words: int) -> None:
            live = m.live
            assert live is not None
            if not all(live[place : place + words]):
                raise GuardError(f"words {place} to {place + words} were given back, but are not all somebody's")
            live[place : place + words] = bytes(words)

        for name, other in (("start_of", start_of), ("allocate", allocate), ("release", release)):
            _replace_everywhere(patch, name, other)
        yield arrays
