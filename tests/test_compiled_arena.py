"""Memory of the compiled engine: stretches do not overlap, are not much longer than asked for, and are used again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from gpusim_des.timing.compiled_arena import allocate, release
from gpusim_des.timing.compiled_layout import HEADER_WORDS, NEXT_WORD

SIZES = st.integers(1, 70) | st.integers(1, 20_000) | st.sampled_from([1023, 1024, 1025, 1280, 1281, 2048, 2049])


@njit
def play(m: Any, sizes: Any, given_back: Any, places: Any) -> None:
    """Take a stretch of every size; a step that gives one back names it."""
    for k in range(len(sizes)):
        if given_back[k] >= 0:
            release(m, places[given_back[k]], sizes[given_back[k]])
        places[k] = allocate(m, sizes[k])


def played(sizes: list[int], given_back: list[int]) -> tuple[NDArray[np.int64], int]:
    """Places of the stretches, and how many words were used."""
    m = np.zeros(1 << 21, np.int64)
    m[NEXT_WORD] = HEADER_WORDS
    places = np.zeros(len(sizes), np.int64)
    play(m, np.array(sizes, np.int64), np.array(given_back, np.int64), places)
    return places, int(m[NEXT_WORD])


@settings(deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=60), st.data())
def test_stretches_in_use_do_not_overlap(sizes: list[int], data: st.DataObject) -> None:
    held: set[int] = set()
    given_back = []
    for k in range(len(sizes)):
        back = data.draw(st.sampled_from([-1, *sorted(held)]))
        held.discard(back)
        held.add(k)
        given_back.append(back)
    places, end = played(sizes, given_back)
    stretches = sorted((int(places[k]), int(places[k]) + sizes[k]) for k in held)
    assert stretches[0][0] >= HEADER_WORDS
    assert stretches[-1][1] <= end
    assert all(before[1] <= after[0] for before, after in pairwise(stretches))


@settings(deadline=None)
@given(st.integers(2_000, 1_000_000))
def test_long_stretches_are_a_quarter_longer_than_asked_for_at_most(words: int) -> None:
    _, end = played([words], [-1])
    assert words <= end - HEADER_WORDS <= 1.25 * words + 1


def test_what_is_given_back_is_taken_again() -> None:
    places, _ = played([1500, 7, 1530, 5], [-1, -1, 0, 1])
    assert places[2] == places[0]
    assert places[3] == places[1]
