"""The tags of a sectored cache in the compiled engine, as in `cache`: least recently used line out first (M2, M5)."""

from __future__ import annotations

from gpusim_des.timing.compiled_arena import allocate, release
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    C_CAPACITY,
    C_COUNT,
    C_MASK,
    C_NEWEST,
    C_OLDEST,
    C_TABLE,
    F_MASK,
    F_NEXT,
    F_WHAT,
    FILL_WORDS,
    LINE_WORDS,
    REMEMBERED,
    REQUEST_WORDS,
    T_LINES,
    T_OWN,
    T_WHAT,
    X_AFTER,
    X_BEFORE,
    X_CHAIN,
    X_DIRTY,
    X_FILLS,
    X_NUMBER,
    X_VALID,
)


@compiled
def sectors_in(mask: int) -> int:
    """Count the sectors of a mask."""
    return (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1)


@compiled
def _row(m: Words, c: int, number: int) -> int:
    # Lines of a slice lie some distance apart: fold what is above the mask into it.
    return m[c + C_TABLE] + ((number ^ number >> 7 ^ number >> 15) & m[c + C_MASK])


@compiled
def peek(m: Words, c: int, number: int) -> int:
    """Return a line without using it; 0 if it is not there."""
    x = m[_row(m, c, number)]
    while x and m[x + X_NUMBER] != number:
        x = m[x + X_CHAIN]
    return x


@compiled
def _unlink(m: Words, c: int, x: int) -> None:
    before, after = m[x + X_BEFORE], m[x + X_AFTER]
    if before:
        m[before + X_AFTER] = after
    else:
        m[c + C_OLDEST] = after
    if after:
        m[after + X_BEFORE] = before
    else:
        m[c + C_NEWEST] = before


@compiled
def _append(m: Words, c: int, x: int) -> None:
    newest = m[c + C_NEWEST]
    m[x + X_BEFORE] = newest
    m[x + X_AFTER] = 0
    if newest:
        m[newest + X_AFTER] = x
    else:
        m[c + C_OLDEST] = x
    m[c + C_NEWEST] = x


@compiled
def touch(m: Words, c: int, number: int) -> int:
    """Return a line and make it the one used last; 0 if it is not there."""
    x = peek(m, c, number)
    if x and m[c + C_NEWEST] != x:
        _unlink(m, c, x)
        _append(m, c, x)
    return x


@compiled
def evict(m: Words, c: int) -> int:
    """Take the line used least recently out of a full cache; 0 if there is room.

    The caller looks at what it held and gives it to `discard`.
    """
    if m[c + C_COUNT] < m[c + C_CAPACITY]:
        return 0
    x = m[c + C_OLDEST]
    _leave(m, c, x)
    return x


@compiled
def _leave(m: Words, c: int, x: int) -> None:
    _unlink(m, c, x)
    row = _row(m, c, m[x + X_NUMBER])
    at = m[row]
    if at == x:
        m[row] = m[x + X_CHAIN]
    else:
        while m[at + X_CHAIN] != x:
            at = m[at + X_CHAIN]
        m[at + X_CHAIN] = m[x + X_CHAIN]
    m[c + C_COUNT] -= 1


@compiled
def enter(m: Words, c: int, number: int) -> int:
    """Add an empty line that is not there; there is room for it."""
    x = allocate(m, LINE_WORDS)
    m[x + X_NUMBER] = number
    m[x + X_VALID] = 0
    m[x + X_DIRTY] = 0
    m[x + X_FILLS] = 0
    row = _row(m, c, number)
    m[x + X_CHAIN] = m[row]
    m[row] = x
    _append(m, c, x)
    m[c + C_COUNT] += 1
    return x


# Fills: sectors on their way, in the order in which they were asked for -----------------------------------------------


@compiled
def add_fill(m: Words, x: int, mask: int, what: int) -> None:
    """Note behind the others that sectors of a line are on their way: until a time, or with a request."""
    f = allocate(m, FILL_WORDS)
    m[f + F_MASK] = mask
    m[f + F_WHAT] = what
    m[f + F_NEXT] = 0
    at = x + X_FILLS
    while m[at]:
        at = m[at] + F_NEXT
    m[at] = f


@compiled
def let_go(m: Words, t: int) -> None:
    """Forget a request when nobody waits for it or remembers it any more."""
    m[t + T_WHAT] -= REMEMBERED
    if m[t + T_WHAT] < REMEMBERED:
        if m[t + T_OWN]:
            release(m, m[t + T_LINES], m[t + T_OWN])
        release(m, t, REQUEST_WORDS)


@compiled
def drop_fill(m: Words, link: int, requests: bool) -> None:
    """Forget the fill that a link points to; of an L1 it is a request."""
    f = m[link]
    m[link] = m[f + F_NEXT]
    if requests:
        let_go(m, m[f + F_WHAT])
    release(m, f, FILL_WORDS)


@compiled
def discard(m: Words, x: int, requests: bool) -> None:
    """Forget a line that has left its cache."""
    while m[x + X_FILLS]:
        drop_fill(m, x + X_FILLS, requests)
    release(m, x, LINE_WORDS)


@compiled
def drop(m: Words, c: int, number: int, mask: int, requests: bool) -> None:
    """Forget sectors of a line, whether they are there or on their way, and the line with its last one."""
    x = peek(m, c, number)
    if not x:
        return
    m[x + X_VALID] &= ~mask
    if not m[x + X_VALID]:
        _leave(m, c, x)
        discard(m, x, requests)
        return
    link = x + X_FILLS
    while m[link]:
        f = m[link]
        m[f + F_MASK] &= ~mask
        if m[f + F_MASK]:
            link = f + F_NEXT
        else:
            drop_fill(m, link, requests)


@compiled
def empty(m: Words, c: int, lines: int, requests: bool) -> None:
    """Begin anew with another capacity."""
    while m[c + C_COUNT]:
        x = m[c + C_OLDEST]
        _leave(m, c, x)
        discard(m, x, requests)
    m[c + C_CAPACITY] = lines
