"""The early end of a simulation in the compiled engine: what is under way is recorded up to a cycle (F1)."""

from __future__ import annotations

from gpusim_des.timeline import WarpState
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    B_DISPATCHED,
    B_LAST_EXIT,
    B_NUMBER,
    B_PHASE_COUNT,
    B_PHASES,
    B_RUN,
    B_SLOT,
    B_SM,
    B_STAYING,
    B_TABLE,
    B_WARPS,
    BLOCK_SLOTS,
    CUT,
    LOG_CUT,
    M_BLOCKS,
    M_NUMBER,
    M_SCHEDULERS,
    M_SLOTS,
    M_STEPPED,
    M_WATCHED,
    NEVER,
    NOW,
    P_SLOTS,
    PERIOD,
    PHASE_WORDS,
    R_END_FS,
    R_NUMBER,
    R_RESIDENT,
    SM_TABLE,
    SMS,
    W_AGE,
    W_AT_BARRIER,
    W_AT_FENCE,
    W_BLOCK,
    W_DEADLINE,
    W_DEADLINES,
    W_LAST_MEMORY,
    W_LEFT,
    W_PART,
    W_PROGRAM,
    W_SCOREBOARD,
    W_SINCE,
    W_START,
)
from gpusim_des.timing.compiled_log import log, log_exit
from gpusim_des.timing.compiled_warp import account, account_for_waiting, finished, plan, plan_drain

BARRIER, MEMBAR = int(WarpState.BARRIER), int(WarpState.MEMBAR)


@compiled
def cut(m: Words, lg: Words) -> None:
    """Record what is under way up to the cycle in CUT, less 1; of an SM that had this cycle already, one more."""
    for k in range(m[SMS]):
        sm = m[m[SM_TABLE] + k]
        cycle = max(m[CUT] - 1, m[sm + M_STEPPED] + 1)
        age = NEVER
        for _ in range(m[sm + M_BLOCKS]):
            # In the order of dispatch.
            first = 0
            for slot in range(m[BLOCK_SLOTS]):
                b = m[m[sm + M_SLOTS] + slot]
                if b and m[m[b + B_TABLE] + W_AGE] > age and (not first or _age(m, b) < _age(m, first)):
                    first = b
            age = _age(m, first)
            _cut_block(m, lg, first, cycle)
    m[CUT] = 0


@compiled
def _age(m: Words, b: int) -> int:
    return m[m[b + B_TABLE] + W_AGE]


@compiled
def _cut_block(m: Words, lg: Words, b: int, cycle: int) -> None:
    run, sm = m[b + B_RUN], m[b + B_SM]
    for k in range(m[b + B_WARPS]):
        w = m[b + B_TABLE + k]
        if m[w + W_LEFT] or m[w + W_START] >= cycle:
            continue
        _plan_cut(m, w, cycle)
        account(m, lg, w)
        if m[w + W_SINCE] < cycle:
            account_for_waiting(m, lg, m[m[sm + M_SCHEDULERS] + m[w + W_PART]], w, cycle)
        m[run + R_RESIDENT] += cycle - m[w + W_START]
        if m[sm + M_WATCHED]:
            log_exit(m, lg, w)
    end = max(m[NOW], cycle * m[PERIOD], m[b + B_LAST_EXIT] * m[PERIOD])
    m[run + R_END_FS] = max(m[run + R_END_FS], end)
    start = m[m[b + B_TABLE] + W_START]
    last = max(start, m[b + B_LAST_EXIT], cycle if m[b + B_STAYING] else 0)
    where = m[sm + M_NUMBER] << 16 | m[b + B_SLOT]
    log(m, lg, LOG_CUT, m[run + R_NUMBER], m[b + B_NUMBER], where, m[b + B_DISPATCHED], end, start, last)


@compiled
def _plan_cut(m: Words, w: int, cycle: int) -> None:
    """Deadlines where the simulation ends at `cycle`: what is under way counts until then."""
    for slot in range(m[m[w + W_PROGRAM] + P_SLOTS]):
        if m[w + W_SCOREBOARD + slot] == NEVER:
            m[w + W_SCOREBOARD + slot] = cycle
    if m[w + W_AT_BARRIER] or m[w + W_AT_FENCE]:
        m[w + W_DEADLINES] = 1
        m[w + W_DEADLINE] = BARRIER if m[w + W_AT_BARRIER] else MEMBAR
        m[w + W_DEADLINE + 1] = cycle
    elif finished(m, w):
        m[w + W_LAST_MEMORY] = max(m[w + W_LAST_MEMORY], cycle)
        plan_drain(m, w)
    else:
        b = m[w + W_BLOCK]
        for k in range(m[b + B_PHASE_COUNT]):
            phase = m[b + B_PHASES] + PHASE_WORDS * k
            if m[phase + 1]:
                m[phase + 1] = 0
                m[phase + 2] = cycle
        plan(m, w)
    for k in range(m[w + W_DEADLINES]):
        at = w + W_DEADLINE + 2 * k + 1
        m[at] = min(m[at], cycle)
