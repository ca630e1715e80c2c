"""What the compiled engine will do when (T2): events of the present, events to come, and the alarms of the SMs.

What lies in the present bucket of time, or before it, is in a heap in the order of the contract. What comes later lies
in a ring of buckets, unsorted: most events are some hundred cycles away, and thousands are under way, so that one heap
of them all would be the most expensive thing in the engine. An SM has one alarm, which it moves as it likes.
"""

from __future__ import annotations

from gpusim_des.timing.compiled_arena import allocate, release
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    ALARMS,
    BUCKET,
    BUCKETS,
    E_MORE,
    E_NEXT,
    E_PLACE,
    E_TIME,
    E_WHAT,
    EVENT_WORDS,
    EVENTS,
    LAST_OF_REQUESTS,
    LATER_WORDS,
    LATEST_FS,
    M_DUE,
    M_SEAT,
    NEAR,
    NEVER,
    REMEMBERED,
    RING,
    SMS,
    T_DETAIL,
    T_PLACE,
    T_TIME,
    T_WHAT,
    WHAT_BITS,
)

BUCKET_BITS = 19
"""A bucket holds 2^19 femtoseconds, about an SM's cycle."""


@compiled
def place_in_order(kind: int, sm: int, part: int, age: int) -> int:
    """First half of an event's place at one instant; the second is `detail`. Both together are `order` of rule T2."""
    return ((kind << 16 | sm) << 8 | part) << 35 | age


@compiled
def detail(instruction: int, packet: int) -> int:
    """Second half of an event's place."""
    return instruction << 16 | packet


# Events ---------------------------------------------------------------------------------------------------------------


@compiled
def happen(m: Words, h: Words, time: int, place: int, more: int, what: int, to: int) -> None:
    """Let something happen at a time.

    Events that are equal in the order are alarms of one process, of which all but one pass unnoticed: their sequence
    does not matter.
    """
    m[EVENTS] += 1
    bucket = time >> BUCKET_BITS
    if bucket <= m[BUCKET]:
        _happen_near(m, h, time, place, more, what | to << WHAT_BITS)
        return
    e = allocate(m, LATER_WORDS)
    m[e + E_TIME] = time
    m[e + E_PLACE] = place
    m[e + E_MORE] = more
    m[e + E_WHAT] = what | to << WHAT_BITS
    _put_into_ring(m, e)


@compiled
def travel(m: Words, h: Words, time: int, what: int, t: int) -> None:
    """Let something happen at a time to a request, which is its own event."""
    m[EVENTS] += 1
    m[t + T_TIME] = time
    m[t + T_WHAT] = (m[t + T_WHAT] & -REMEMBERED) | what
    if time >> BUCKET_BITS <= m[BUCKET]:
        _happen_near(m, h, time, m[t + T_PLACE], m[t + T_DETAIL], what | t << WHAT_BITS)
    else:
        _put_into_ring(m, t)


@compiled
def _put_into_ring(m: Words, e: int) -> None:
    head = m[RING] + (m[e + E_TIME] >> BUCKET_BITS & (BUCKETS - 1))
    m[e + E_NEXT] = m[head]
    m[head] = e


@compiled
def come_near(m: Words, h: Words, until: int) -> None:
    """Go on to the first bucket with events, or to that of a time; all events up to there are near then."""
    last, lap = until >> BUCKET_BITS, BUCKETS
    while not m[NEAR] and m[EVENTS] and m[BUCKET] < last:
        if not lap:
            m[BUCKET] = max(m[BUCKET], min(_first_bucket(m), last) - 1)
            lap = BUCKETS
        lap -= 1
        m[BUCKET] += 1
        _fetch_bucket(m, h)


@compiled
def _fetch_bucket(m: Words, h: Words) -> None:
    """Move the events of the present bucket into the heap; those of later laps stay."""
    link = m[RING] + (m[BUCKET] & (BUCKETS - 1))
    while m[link]:
        e = m[link]
        if m[e + E_TIME] >> BUCKET_BITS != m[BUCKET]:
            link = e + E_NEXT
            continue
        m[link] = m[e + E_NEXT]
        what = m[e + E_WHAT]
        if what & (REMEMBERED - 1) <= LAST_OF_REQUESTS:
            what = (what & (REMEMBERED - 1)) | e << WHAT_BITS
            _happen_near(m, h, m[e + E_TIME], m[e + E_PLACE], m[e + E_MORE], what)
        else:
            _happen_near(m, h, m[e + E_TIME], m[e + E_PLACE], m[e + E_MORE], what)
            release(m, e, LATER_WORDS)


@compiled
def _first_bucket(m: Words) -> int:
    first = LATEST_FS
    for k in range(BUCKETS):
        e = m[m[RING] + k]
        while e:
            first = min(first, m[e + E_TIME] >> BUCKET_BITS)
            e = m[e + E_NEXT]
    return first


@compiled
def _before(h: Words, at: int, time: int, place: int, more: int) -> bool:
    if h[at] != time:
        return h[at] < time
    if h[at + 1] != place:
        return h[at + 1] < place
    return h[at + 2] < more


@compiled
def _happen_near(m: Words, h: Words, time: int, place: int, more: int, what: int) -> None:
    at = m[NEAR]
    m[NEAR] = at + 1
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
    h[b + 3] = what


@compiled
def remove_first(m: Words, h: Words) -> None:
    """Remove the first event, after it was read from the top of the heap."""
    m[EVENTS] -= 1
    count = m[NEAR] - 1
    m[NEAR] = count
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


# Alarms of the SMs ----------------------------------------------------------------------------------------------------


@compiled
def set_alarm(m: Words, sm: int, time: int) -> None:
    """Let an SM step at a time at the latest."""
    due = m[sm + M_DUE]
    if due != NEVER and due <= time:
        return
    m[sm + M_DUE] = time
    alarms, at = m[ALARMS], m[sm + M_SEAT]
    while at:
        above = (at - 1) >> 1
        a = alarms + 2 * above
        if m[a] < time or (m[a] == time and m[a + 1] < sm):
            break
        _seat(m, at, m[a], m[a + 1])
        at = above
    _seat(m, at, time, sm)


@compiled
def reset_first_alarm(m: Words) -> None:
    """Put the SM whose alarm was the first, and which has stepped, where its next one belongs."""
    alarms = m[ALARMS]
    sm = m[alarms + 1]
    due = m[sm + M_DUE]
    time = LATEST_FS if due == NEVER else due
    at = 0
    while True:
        below = 2 * at + 1
        if below >= m[SMS]:
            break
        b = alarms + 2 * below
        if below + 1 < m[SMS] and (m[b + 2] < m[b] or (m[b + 2] == m[b] and m[b + 3] < m[b + 1])):
            below += 1
            b += 2
        if time < m[b] or (time == m[b] and sm < m[b + 1]):
            break
        _seat(m, at, m[b], m[b + 1])
        at = below
    _seat(m, at, time, sm)


@compiled
def _seat(m: Words, at: int, time: int, sm: int) -> None:
    m[m[ALARMS] + 2 * at] = time
    m[m[ALARMS] + 2 * at + 1] = sm
    m[sm + M_SEAT] = at
