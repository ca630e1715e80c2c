"""An SM's cycles in the compiled engine, as in `sm`: its schedulers issue (I3, I4)."""

from __future__ import annotations

from gpusim_des.timing.compiled_agenda import set_alarm
from gpusim_des.timing.compiled_arena import take_least
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    BRANCH_LATENCY,
    FAR,
    I_INTERVAL,
    I_LANES,
    I_LATENCY,
    I_OP,
    I_UNIT,
    INSTRUCTION_WORDS,
    LOG_ISSUE,
    M_FIRST,
    M_SCHEDULERS,
    M_STEPPED,
    M_WAKING,
    M_WATCHED,
    NOW,
    PARTS,
    PERIOD,
    Q_COUNT,
    Q_ENTRIES,
    R_LANES,
    R_MIX,
    R_PARTS,
    S_READY,
    S_RETRY,
    S_SEATS,
    S_UNITS,
    U_SEATS,
    W_AGE,
    W_AT_FENCE,
    W_BARRIER_UNTIL,
    W_BRANCH_UNTIL,
    W_CODE,
    W_LAST_RESULT,
    W_MEMBAR_UNTIL,
    W_NEXT,
    W_PART,
    W_PROGRAM,
    W_RUN,
)
from gpusim_des.timing.compiled_log import log
from gpusim_des.timing.compiled_memory import accept
from gpusim_des.timing.compiled_sm import (
    arrive_at_barrier,
    go_on,
    note_complete,
    pass_fence,
)
from gpusim_des.timing.compiled_warp import enter_ready, instruction, pick, pipe_accept, take
from gpusim_des.timing.program import MEMORY_UNIT
from gpusim_des.trace import OpClass

BARRIER, FENCE, BRANCH = int(OpClass.BARRIER), int(OpClass.FENCE), int(OpClass.BRANCH)


@compiled
def step(m: Words, h: Words, lg: Words, sm: int) -> None:
    """Let every scheduler issue in this cycle, and set the alarm for the next one that matters."""
    cycle = m[NOW] // m[PERIOD]
    m[sm + M_STEPPED] = cycle
    parts, q, schedulers = m[PARTS], m[sm + M_WAKING], m[sm + M_SCHEDULERS]
    while m[q + Q_COUNT] and m[m[q + Q_ENTRIES]] <= cycle:
        w = take_least(m, q)
        enter_ready(m, m[schedulers + m[w + W_PART]], w)
    following = FAR
    first = m[sm + M_FIRST]
    for offset in range(parts):
        part = first + offset
        s = m[schedulers + (part if part < parts else part - parts)]
        if not m[s + S_READY]:
            continue
        at = pick(m, s, cycle)
        if at:
            _issue(m, h, lg, sm, s, take(m, lg, s, at, cycle), cycle)
            if not m[s + S_READY]:
                continue
            retry = cycle + 1
        else:
            retry = max(m[s + S_RETRY], cycle + 1)
        following = min(following, retry)
    if m[q + Q_COUNT]:
        following = min(following, m[m[q + Q_ENTRIES]])
    if following < FAR:
        set_alarm(m, sm, following * m[PERIOD])


@compiled
def _issue(m: Words, h: Words, lg: Words, sm: int, s: int, w: int, cycle: int) -> None:
    i = instruction(m, w)
    op, number, index = m[i + I_OP], m[i + I_UNIT], m[w + W_NEXT]
    run = m[w + W_RUN]
    m[run + R_MIX + op] += 1
    m[run + R_LANES] += m[i + I_LANES]
    m[w + W_BARRIER_UNTIL] = 0
    m[w + W_BRANCH_UNTIL] = 0
    m[w + W_MEMBAR_UNTIL] = 0
    u = m[s + S_UNITS + number]
    if number == MEMORY_UNIT:
        accept(m, h, lg, sm, w, cycle, u)
    else:
        if number < MEMORY_UNIT:
            interval = m[i + I_INTERVAL]
            pipe_accept(m, lg, u, cycle, interval, m[s + S_SEATS + number])
            m[run + R_PARTS + number] += interval
            if m[u + U_SEATS] > 1:
                m[sm + M_FIRST] = (m[w + W_PART] + 1) % m[PARTS]
        done = cycle + m[i + I_LATENCY]
        note_complete(m, w, index, done)
        m[w + W_LAST_RESULT] = max(m[w + W_LAST_RESULT], done)
        if op == BRANCH:
            m[w + W_BRANCH_UNTIL] = cycle + m[BRANCH_LATENCY]
    if m[sm + M_WATCHED]:
        log(m, lg, LOG_ISSUE, m[w + W_AGE], index, cycle, m[w + W_PROGRAM], 0, 0, 0)
    m[w + W_NEXT] = index + 1
    m[w + W_CODE] = i + INSTRUCTION_WORDS
    if op == BARRIER:
        arrive_at_barrier(m, h, lg, w, cycle)
    elif op == FENCE:
        m[w + W_AT_FENCE] = 1
        pass_fence(m, h, lg, w)
    else:
        go_on(m, h, lg, w)
