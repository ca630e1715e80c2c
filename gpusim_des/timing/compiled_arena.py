"""Memory and order of the compiled engine: stretches of words, small heaps, and the heap of events (T2)."""

from __future__ import annotations

from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    EVENT_WORDS,
    EVENTS,
    FREE_LISTS,
    NEXT_WORD,
    Q_CAPACITY,
    Q_COUNT,
    Q_ENTRIES,
)


@compiled
def allocate(m: Words, words: int) -> int:
    """Take a stretch of at least so many words; what it holds is left over from before."""
    size = 1
    while 1 << size < words:
        size += 1
    place = m[FREE_LISTS + size]
    if place:
        m[FREE_LISTS + size] = m[place]
        return place
    place = m[NEXT_WORD]
    m[NEXT_WORD] = place + (1 << size)
    return place


@compiled
def release(m: Words, place: int, words: int) -> None:
    """Give a stretch back."""
    size = 1
    while 1 << size < words:
        size += 1
    m[place] = m[FREE_LISTS + size]
    m[FREE_LISTS + size] = place


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


# Events ---------------------------------------------------------------------------------------------------------------


@compiled
def place_in_order(kind: int, sm: int, part: int, age: int) -> int:
    """First half of an event's place at one instant; the second is `detail`. Both together are `order` of rule T2."""
    return ((kind << 16 | sm) << 8 | part) << 35 | age


@compiled
def detail(instruction: int, packet: int) -> int:
    """Second half of an event's place."""
    return instruction << 16 | packet


@compiled
def _before(h: Words, at: int, time: int, place: int, more: int) -> bool:
    if h[at] != time:
        return h[at] < time
    if h[at + 1] != place:
        return h[at + 1] < place
    return h[at + 2] < more


@compiled
def happen(m: Words, h: Words, time: int, place: int, more: int, what: int, to: int) -> None:
    """Let something happen at a time.

    Events that are equal in the order are alarms of one process, of which all but one pass unnoticed: their sequence
    does not matter.
    """
    at = m[EVENTS]
    m[EVENTS] = at + 1
    while at:
        above = (at - 1) >> 2
        a = EVENT_WORDS * above
        if _before(h, a, time, place, more):
            break
        b = EVENT_WORDS * at
        h[b] = h[a]
        h[b + 1] = h[a + 1]
        h[b + 2] = h[a + 2]
        h[b + 3] = h[a + 3]
        at = above
    b = EVENT_WORDS * at
    h[b] = time
    h[b + 1] = place
    h[b + 2] = more
    h[b + 3] = what | to << 4


@compiled
def remove_first(m: Words, h: Words) -> None:
    """Remove the first event, after it was read from the top of the heap."""
    count = m[EVENTS] - 1
    m[EVENTS] = count
    last = EVENT_WORDS * count
    time, place, more, what = h[last], h[last + 1], h[last + 2], h[last + 3]
    at = 0
    while True:
        below = 4 * at + 1
        if below >= count:
            break
        best = below
        for other in range(below + 1, min(below + 4, count)):
            b = EVENT_WORDS * best
            if _before(h, EVENT_WORDS * other, h[b], h[b + 1], h[b + 2]):
                best = other
        b = EVENT_WORDS * best
        if not _before(h, b, time, place, more):
            break
        a = EVENT_WORDS * at
        h[a] = h[b]
        h[a + 1] = h[b + 1]
        h[a + 2] = h[b + 2]
        h[a + 3] = h[b + 3]
        at = best
    a = EVENT_WORDS * at
    h[a] = time
    h[a + 1] = place
    h[a + 2] = more
    h[a + 3] = what
