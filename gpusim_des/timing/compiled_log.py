"""What the compiled engine writes down for those who look: blocks that retired, and, of watched SMs, every step."""

from __future__ import annotations

from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import LOG_STATE, LOG_WAITED, LOG_WORDS, LOGGED, W_AGE


@compiled
def log(m: Words, lg: Words, what: int, a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None:
    """Write one record."""
    at = LOG_WORDS * m[LOGGED]
    m[LOGGED] += 1
    lg[at] = what
    lg[at + 1] = a
    lg[at + 2] = b
    lg[at + 3] = c
    lg[at + 4] = d
    lg[at + 5] = e
    lg[at + 6] = f
    lg[at + 7] = g


@compiled
def log_state(m: Words, lg: Words, w: int, state: int, since: int, until: int) -> None:
    """Write down that a warp was in one state for some cycles."""
    log(m, lg, LOG_STATE, m[w + W_AGE], state, since, until, 0, 0, 0)


@compiled
def log_waited(m: Words, lg: Words, w: int, unit: int, state: int, ready: int, cycle: int) -> None:
    """Write down that a ready warp did not issue for some cycles, its unit being occupied in some of them."""
    log(m, lg, LOG_WAITED, m[w + W_AGE], unit, state, ready, cycle, 0, 0)
