"""Memory of the compiled engine: stretches of words, and small heaps of pairs."""

from __future__ import annotations

from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    FREE_LISTS,
    LONG,
    NEXT_WORD,
    Q_CAPACITY,
    Q_COUNT,
    Q_ENTRIES,
    SMALLEST,
)

SLAB_WORDS = 64


@compiled
def _size_class(words: int) -> tuple[int, int]:
    """Where free stretches for so many words are listed, and how long they are.

    Their lengths are powers of two, and of long ones, which tapes are, quarters between them as well.
    """
    size = 1
    while 1 << size < words:
        size += 1
    if size <= LONG:
        return size, 1 << size
    quarter = 1 << (size - 3)
    quarters = (words - (1 << (size - 1)) + quarter - 1) >> (size - 3)
    return 4 * (size - LONG) + LONG + quarters - 4, (1 << (size - 1)) + quarters * quarter


@compiled
def allocate(m: Words, words: int) -> int:
    """Take a stretch of at least so many words; what it holds is left over from before."""
    number, length = _size_class(words)
    place = m[FREE_LISTS + number]
    if place:
        m[FREE_LISTS + number] = m[place]
        return place
    place = m[NEXT_WORD]
    if number >= SMALLEST:
        m[NEXT_WORD] = place + length
        return place
    m[NEXT_WORD] = place + SLAB_WORDS
    for piece in range(place + length, place + SLAB_WORDS, length):
        m[piece] = m[FREE_LISTS + number]
        m[FREE_LISTS + number] = piece
    return place


@compiled
def release(m: Words, place: int, words: int) -> None:
    """Give a stretch back."""
    number, _ = _size_class(words)
    m[place] = m[FREE_LISTS + number]
    m[FREE_LISTS + number] = place


# Small heaps of pairs -------------------------------------------------------------------------------------------------


@compiled
def put(m: Words, q: int, key: int, value: int) -> None:
    """Add a pair to a small heap, which grows as needed."""
    count = m[q + Q_COUNT]
    capacity = m[q + Q_CAPACITY]
    if count == capacity:
        entries = allocate(m, 4 * capacity)
        old = m[q + Q_ENTRIES]
        for k in range(2 * count):
            m[entries + k] = m[old + k]
        release(m, old, 2 * capacity)
        m[q + Q_ENTRIES] = entries
        m[q + Q_CAPACITY] = 2 * capacity
    entries = m[q + Q_ENTRIES]
    m[q + Q_COUNT] = count + 1
    at = count
    while at:
        above = (at - 1) >> 1
        if m[entries + 2 * above] <= key:
            break
        m[entries + 2 * at] = m[entries + 2 * above]
        m[entries + 2 * at + 1] = m[entries + 2 * above + 1]
        at = above
    m[entries + 2 * at] = key
    m[entries + 2 * at + 1] = value


@compiled
def take_least(m: Words, q: int) -> int:
    """Remove the pair with the least key; returns its value."""
    entries = m[q + Q_ENTRIES]
    count = m[q + Q_COUNT] - 1
    m[q + Q_COUNT] = count
    value = m[entries + 1]
    key, moved = m[entries + 2 * count], m[entries + 2 * count + 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and m[entries + 2 * below + 2] < m[entries + 2 * below]:
            below += 1
        if m[entries + 2 * below] >= key:
            break
        m[entries + 2 * at] = m[entries + 2 * below]
        m[entries + 2 * at + 1] = m[entries + 2 * below + 1]
        at = below
    m[entries + 2 * at] = key
    m[entries + 2 * at + 1] = moved
    return value
