"""The L1 cache of the compiled engine, as in `l1`: loads join the requests that already fetch their sectors (M2)."""

from __future__ import annotations

from gpusim_des.timing.compiled_arena import allocate
from gpusim_des.timing.compiled_cache import add_fill, discard, drop_fill, enter, evict, peek, sectors_in, touch
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    C_CAPACITY,
    F_MASK,
    F_NEXT,
    F_WHAT,
    L_ARRIVED,
    L_MISSING,
    M_L1,
    NEVER,
    NOW,
    REMEMBERED,
    T_ARRIVED,
    T_LINE_COUNT,
    T_LINES,
    T_LOAD,
    T_MORE_LOADS,
    T_OWN,
    T_SECTORS,
    T_WHAT,
    X_FILLS,
    X_VALID,
)


@compiled
def join(m: Words, t: int, load: int) -> None:
    """Let a load wait for a request, behind the others, if it does not yet."""
    if m[t + T_LOAD] == load:
        return
    if not m[t + T_LOAD]:
        m[t + T_LOAD] = load
    else:
        link = t + T_MORE_LOADS
        while m[link]:
            if m[m[link]] == load:
                return
            link = m[link] + 1
        node = allocate(m, 2)
        m[node] = load
        m[node + 1] = 0
        m[link] = node
    m[load + L_MISSING] += 1


@compiled
def look_up(m: Words, sm: int, load: int, t: int) -> None:
    """Leave in a request only what the L1 does not have; the rest is there or on its way, and the load waits for it."""
    c = m[sm + M_L1]
    count, lines = m[t + T_LINE_COUNT], m[t + T_LINES]
    own = allocate(m, 2 * count)
    left, sectors = 0, 0
    for k in range(count):
        number, mask = m[lines + 2 * k], m[lines + 2 * k + 1]
        absent = mask
        if m[c + C_CAPACITY]:
            x = touch(m, c, number)
            if x:
                absent = mask & ~m[x + X_VALID]
                _wait_for_fills(m, x, mask, load)
            else:
                old = evict(m, c)
                if old:
                    discard(m, old, True)
                x = enter(m, c, number)
            m[x + X_VALID] |= absent
        if absent:
            m[own + 2 * left] = number
            m[own + 2 * left + 1] = absent
            left += 1
            sectors += sectors_in(absent)
    m[t + T_LINES] = own
    m[t + T_OWN] = 2 * count
    m[t + T_LINE_COUNT] = left
    m[t + T_SECTORS] = sectors


@compiled
def _wait_for_fills(m: Words, x: int, mask: int, load: int) -> None:
    """Let a load wait for the requests that fetch some of its sectors, and forget those that are back."""
    link = x + X_FILLS
    while m[link]:
        f = m[link]
        t = m[f + F_WHAT]
        back = m[t + T_ARRIVED]
        if back != NEVER and back <= m[NOW]:
            drop_fill(m, link, True)
            continue
        if m[f + F_MASK] & mask:
            if back != NEVER:
                m[load + L_ARRIVED] = max(m[load + L_ARRIVED], back)
            else:
                join(m, t, load)
        link = f + F_NEXT


@compiled
def reserve(m: Words, c: int, t: int) -> None:
    """Note which request will bring the missing sectors, in the lines that are still there."""
    for k in range(m[t + T_LINE_COUNT]):
        x = peek(m, c, m[m[t + T_LINES] + 2 * k])
        if x:
            add_fill(m, x, m[m[t + T_LINES] + 2 * k + 1], t)
            m[t + T_WHAT] += REMEMBERED
