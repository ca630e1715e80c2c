"""What the compiled engine writes down: blocks that retired, and of SMs that are watched every step, with causes."""

from __future__ import annotations

from gpusim_des.timeline import WarpState
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    ACKNOWLEDGEMENT_CAUSE,
    B_NUMBER,
    B_OPENED,
    B_OPENED_AT,
    B_OPENED_WARP,
    B_PHASE_COUNT,
    B_PHASES,
    B_RUN,
    B_SM,
    BLOCK_START_CAUSE,
    I_DEPS,
    I_DEPS_END,
    I_OP,
    I_OPERAND,
    I_UNIT,
    INSTRUCTION_WORDS,
    LOG_COMPLETE,
    LOG_EXIT,
    LOG_STATE,
    LOG_WORDS,
    LOGGED,
    M_NUMBER,
    NEVER,
    P_CODE,
    P_LENGTH,
    PHASE_WORDS,
    R_NUMBER,
    W_AGE,
    W_BLOCK,
    W_NEXT,
    W_NUMBER,
    W_PART,
    W_PROGRAM,
    W_SCOREBOARD,
    W_START,
)
from gpusim_des.timing.program import MEMORY_UNIT
from gpusim_des.trace import OpClass

BARRIER, MEMBAR, DRAIN = int(WarpState.BARRIER), int(WarpState.MEMBAR), int(WarpState.DRAIN)
BRANCH, START, WAIT = int(WarpState.BRANCH_RESOLVING), int(WarpState.NO_INSTRUCTION), int(WarpState.WAIT)
LONG, SHORT = int(WarpState.LONG_SCOREBOARD), int(WarpState.SHORT_SCOREBOARD)
BRANCH_OP, BULK_COPY, BULK_WAIT = int(OpClass.BRANCH), int(OpClass.BULK_COPY), int(OpClass.BULK_WAIT)


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
def log_wait(m: Words, lg: Words, w: int, state: int, since: int, until: int) -> None:
    """Write down that a warp waited, and what ended the wait, as `causes.cause_of` finds it."""
    what, warp, index = NEVER, m[w + W_NUMBER], NEVER
    b, p, following = m[w + W_BLOCK], m[w + W_PROGRAM], m[w + W_NEXT]
    if state == START:
        what = BLOCK_START_CAUSE
    elif state == BARRIER:
        what, warp, index = m[b + B_OPENED], m[b + B_OPENED_WARP], m[b + B_OPENED_AT]
    elif state == BRANCH:
        what, index = BRANCH_OP, following - 1
    elif state in (LONG, SHORT, WAIT) and following < m[p + P_LENGTH]:
        index = _operand(m, w, state, until)
        if index != NEVER:
            what = m[p + P_CODE + INSTRUCTION_WORDS * index + I_OP]
        else:
            i = p + P_CODE + INSTRUCTION_WORDS * following
            phase = phase_of(m, b, m[i + I_OPERAND]) if m[i + I_OP] == BULK_WAIT else 0
            if phase and m[phase + 3] != NEVER:
                what, warp, index = BULK_COPY, m[phase + 3], m[phase + 4]
    else:
        index = _outstanding(m, w, state, until)
        if index != NEVER:
            what = m[p + P_CODE + INSTRUCTION_WORDS * index + I_OP]
        elif state == MEMBAR:
            what = ACKNOWLEDGEMENT_CAUSE
    log(m, lg, LOG_STATE, m[w + W_AGE], state, since, until, what, warp, index)


@compiled
def phase_of(m: Words, b: int, phase: int) -> int:
    """Place of a phase of a block's barriers; 0 if no copy counts for it."""
    for k in range(m[b + B_PHASE_COUNT]):
        at = m[b + B_PHASES] + PHASE_WORDS * k
        if m[at] == phase:
            return at
    return 0


@compiled
def _operand(m: Words, w: int, state: int, until: int) -> int:
    """Find the first operand that came at that cycle; a watched warp has a place for every instruction's result."""
    i = m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * m[w + W_NEXT]
    for d in range(m[i + I_DEPS], m[i + I_DEPS_END]):
        if m[w + W_SCOREBOARD + (m[d] >> 4)] == until and m[d] & 15 == state:
            return m[d] >> 4
    return NEVER


@compiled
def _outstanding(m: Words, w: int, state: int, until: int) -> int:
    """Find the instruction that was complete last, for waits at the end of a warp or at a fence."""
    memory = state in (DRAIN, MEMBAR)
    for index in range(m[w + W_NEXT] - 1, -1, -1):
        unit = m[m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * index + I_UNIT]
        if m[w + W_SCOREBOARD + index] == until and (unit == MEMORY_UNIT) == memory:
            return index
    return NEVER


@compiled
def log_exit(m: Words, lg: Words, w: int) -> None:
    """Write down that a warp has left, and when its results were complete."""
    b = m[w + W_BLOCK]
    sm = m[m[b + B_SM] + M_NUMBER]
    number = m[w + W_NUMBER]
    run = m[m[b + B_RUN] + R_NUMBER]
    for index in range(m[w + W_NEXT]):
        log(m, lg, LOG_COMPLETE, m[w + W_AGE], index, m[w + W_SCOREBOARD + index], 0, 0, 0, 0)
    log(m, lg, LOG_EXIT, m[w + W_AGE], run, m[b + B_NUMBER], number, sm, m[w + W_PART], m[w + W_START])
