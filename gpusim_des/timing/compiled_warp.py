"""Warps, units and warp schedulers of the compiled engine, as in `warp`, `pipe` and `warp_scheduler` (I3 to I5, I7)."""

from __future__ import annotations

from gpusim_des.gpu import PIPE_FRACTION
from gpusim_des.timeline import WarpState
from gpusim_des.timing.compiled_jit import Words, compiled, compiled_by_constants
from gpusim_des.timing.compiled_layout import (
    FAR,
    I_DEPS,
    I_DEPS_END,
    I_LINE,
    I_OP,
    I_OPERAND,
    I_TURNED_AWAY,
    I_UNIT,
    LOG_EARLY,
    LOG_OCCUPIED,
    LOG_STATE,
    LOG_WAITED,
    M_WATCHED,
    NEVER,
    POLICY,
    R_LINES,
    S_ENTRIES,
    S_LAST,
    S_READY,
    S_RETRY,
    S_SEATS,
    S_UNITS,
    U_COUNT,
    U_DEPTH,
    U_FREE,
    U_HEAD,
    U_OCCUPIED,
    U_PARTS,
    U_SEATS,
    U_WATCHED,
    W_AGE,
    W_BARRIER_UNTIL,
    W_BLOCK,
    W_BLOCKED,
    W_BRANCH_UNTIL,
    W_CODE,
    W_DEADLINE,
    W_DEADLINES,
    W_END,
    W_ISSUED,
    W_LAST_MEMORY,
    W_LAST_RESULT,
    W_MEMBAR_UNTIL,
    W_NEXT,
    W_OCCUPIED,
    W_READY,
    W_RUN,
    W_SCOREBOARD,
    W_SINCE,
    W_SM,
    W_START_UNTIL,
    WATCHING,
)
from gpusim_des.timing.compiled_log import log, log_wait, phase_of
from gpusim_des.trace import OpClass

SELECTED, BARRIER, MEMBAR = int(WarpState.SELECTED), int(WarpState.BARRIER), int(WarpState.MEMBAR)
DRAIN, BRANCH, LONG = int(WarpState.DRAIN), int(WarpState.BRANCH_RESOLVING), int(WarpState.LONG_SCOREBOARD)
SHORT, WAIT = int(WarpState.SHORT_SCOREBOARD), int(WarpState.WAIT)
NOT_SELECTED, START = int(WarpState.NOT_SELECTED), int(WarpState.NO_INSTRUCTION)
BULK_WAIT = int(OpClass.BULK_WAIT)


@compiled
def instruction(m: Words, w: int) -> int:
    """Place of a warp's next instruction."""
    return m[w + W_CODE]


@compiled
def finished(m: Words, w: int) -> bool:
    """All instructions are issued."""
    return m[w + W_CODE] == m[w + W_END]


@compiled
def is_watched(m: Words, w: int) -> bool:
    """All that a warp does is written down."""
    return m[WATCHING] == 1 and m[m[w + W_SM] + M_WATCHED] == 1


@compiled_by_constants
def _deadline(m: Words, w: int, state: int, until: int, ready: int) -> int:
    """Add a reason that keeps a warp back, if it lasts longer than those before; returns when the last one ends."""
    if until <= ready:
        return ready
    at = w + W_DEADLINE + 2 * m[w + W_DEADLINES]
    m[at] = state
    m[at + 1] = until
    m[w + W_DEADLINES] += 1
    return until


@compiled
def plan(m: Words, w: int) -> bool:
    """Find out until when the next instruction is kept back; returns whether that is known yet."""
    at = instruction(m, w)
    complete = w + W_SCOREBOARD
    long = 0
    short = 0
    wait = 0
    for d in range(m[at + I_DEPS], m[at + I_DEPS_END]):
        cycle = m[complete + (m[d] >> 4)]
        if cycle == NEVER:
            m[w + W_BLOCKED] = 1
            return False
        state = m[d] & 15
        if state == WAIT:
            wait = max(wait, cycle)
        elif state == LONG:
            long = max(long, cycle)
        else:
            short = max(short, cycle)
    if m[at + I_OP] == BULK_WAIT:
        phase = phase_of(m, m[w + W_BLOCK], m[at + I_OPERAND])
        if phase:
            if m[phase + 1]:
                m[w + W_BLOCKED] = 1
                return False
            long = max(long, m[phase + 2])
    m[w + W_BLOCKED] = 0
    m[w + W_DEADLINES] = 0
    ready = m[w + W_ISSUED] + 1
    if not m[w + W_NEXT]:
        ready = _deadline(m, w, START, m[w + W_START_UNTIL], ready)
    ready = _deadline(m, w, BARRIER, m[w + W_BARRIER_UNTIL], ready)
    ready = _deadline(m, w, MEMBAR, m[w + W_MEMBAR_UNTIL], ready)
    ready = _deadline(m, w, BRANCH, m[w + W_BRANCH_UNTIL], ready)
    ready = _deadline(m, w, LONG, long, ready)
    ready = _deadline(m, w, SHORT, short, ready)
    m[w + W_READY] = _deadline(m, w, WAIT, wait, ready)
    return True


@compiled
def plan_drain(m: Words, w: int) -> int:
    """Find the reasons that keep a warp after its last issue: memory, then results; returns the cycle of the exit."""
    m[w + W_DEADLINES] = 0
    end = m[w + W_ISSUED] + 1
    if not m[w + W_NEXT]:
        end = _deadline(m, w, START, m[w + W_START_UNTIL], end)
    end = _deadline(m, w, BARRIER, m[w + W_BARRIER_UNTIL], end)
    end = _deadline(m, w, MEMBAR, m[w + W_MEMBAR_UNTIL], end)
    end = _deadline(m, w, DRAIN, m[w + W_LAST_MEMORY], end)
    end = _deadline(m, w, BRANCH, m[w + W_BRANCH_UNTIL], end)
    return _deadline(m, w, WAIT, m[w + W_LAST_RESULT], end)


@compiled
def account_of(m: Words, w: int) -> int:
    """Place of the warp-cycles by state of the line that a warp is in."""
    return m[m[w + W_RUN] + R_LINES] + m[instruction(m, w) + I_LINE]


@compiled
def account(m: Words, lg: Words, w: int) -> None:
    """Turn a warp's deadlines into states: each reason holds from where the one before ended."""
    since = m[w + W_SINCE]
    stalls = account_of(m, w)
    watched = is_watched(m, w)
    for k in range(m[w + W_DEADLINES]):
        state, until = m[w + W_DEADLINE + 2 * k], m[w + W_DEADLINE + 2 * k + 1]
        if until > since:
            m[stalls + state] += until - since
            if watched:
                log_wait(m, lg, w, state, since, until)
            since = until
    m[w + W_SINCE] = since


# Units (I4, I5) -------------------------------------------------------------------------------------------------------


@compiled
def occupied_before(m: Words, u: int, cycle: int, seat: int) -> int:
    """Cycles before `cycle` in which a unit was occupied, as seen from a seat."""
    return m[u + U_OCCUPIED + seat] - max(0, m[u + U_FREE] - cycle)


@compiled
def _occupy(m: Words, lg: Words, u: int, cycle: int, until: int, seat: int) -> None:
    m[u + U_FREE] = until
    for s in range(m[u + U_SEATS]):
        start = cycle + 1 if s == seat else cycle
        if until > start:
            m[u + U_OCCUPIED + s] += until - start
    if m[u + U_WATCHED]:
        log(m, lg, LOG_OCCUPIED, u, cycle, until, seat, 0, 0, 0)


@compiled
def pipe_accept(m: Words, lg: Words, u: int, cycle: int, interval: int, seat: int) -> None:
    """Take an instruction into a pipe (I5)."""
    parts = max(m[u + U_PARTS], PIPE_FRACTION * cycle - PIPE_FRACTION + 1) + interval
    m[u + U_PARTS] = parts
    _occupy(m, lg, u, cycle, max(cycle + 1, -(-parts // PIPE_FRACTION)), seat)


@compiled
def _entry(m: Words, u: int, k: int) -> int:
    """Place of entry `k` of a load/store queue."""
    return u + U_OCCUPIED + 1 + (m[u + U_HEAD] + k) % (m[u + U_DEPTH] + 1)


@compiled
def queue_enter(m: Words, lg: Words, u: int, cycle: int, leaves: int) -> None:
    """Let an instruction into a load/store queue that leaves at cycle `leaves`."""
    while m[u + U_COUNT] and m[_entry(m, u, 0)] <= cycle:
        m[u + U_HEAD] = (m[u + U_HEAD] + 1) % (m[u + U_DEPTH] + 1)
        m[u + U_COUNT] -= 1
    m[_entry(m, u, m[u + U_COUNT])] = leaves
    m[u + U_COUNT] += 1
    room = m[_entry(m, u, 0)] if m[u + U_COUNT] >= m[u + U_DEPTH] else cycle + 1
    _occupy(m, lg, u, cycle, max(room, cycle + 1), 0)


@compiled
def queue_settle(m: Words, lg: Words, u: int, leaves: int) -> bool:
    """Find out when the oldest entry leaves that did not know; returns whether that made room for others."""
    k = 0
    while m[_entry(m, u, k)] != FAR:
        k += 1
    m[_entry(m, u, k)] = leaves
    first = m[_entry(m, u, 0)]
    if m[u + U_FREE] != FAR or first == FAR:
        return False
    m[u + U_OCCUPIED] -= FAR - first
    m[u + U_FREE] = first
    if m[u + U_WATCHED]:
        log(m, lg, LOG_EARLY, u, first, 0, 0, 0, 0, 0)
    return True


# Schedulers (I3, I7) --------------------------------------------------------------------------------------------------


@compiled
def enter_ready(m: Words, s: int, w: int) -> None:
    """Accept a warp whose operands are complete, in its place by age."""
    number = m[instruction(m, w) + I_UNIT]
    u = m[s + S_UNITS + number]
    m[w + W_OCCUPIED] = occupied_before(m, u, m[w + W_READY], m[s + S_SEATS + number])
    age = m[w + W_AGE]
    at = s + S_ENTRIES + 3 * m[s + S_READY]
    while at > s + S_ENTRIES and m[at - 3] > age:
        m[at] = m[at - 3]
        m[at + 1] = m[at - 2]
        m[at + 2] = m[at - 1]
        at -= 3
    m[at] = age
    m[at + 1] = w
    m[at + 2] = u
    m[s + S_READY] += 1


@compiled
def pick(m: Words, s: int, cycle: int) -> int:
    """Choose the ready warp that issues by the policy, or note when to try again; returns its entry's place or 0."""
    count, last, policy = m[s + S_READY], m[s + S_LAST], m[POLICY]
    begin = 0
    if policy == 0:
        for k in range(count):
            at = s + S_ENTRIES + 3 * k
            if m[at] >= last:
                if m[at] == last and m[m[at + 2] + U_FREE] <= cycle:
                    return at
                break
    elif policy == 1:
        while begin < count and m[s + S_ENTRIES + 3 * begin] <= last:
            begin += 1
    retry = NEVER
    for k in range(count):
        turn = begin + k
        at = s + S_ENTRIES + 3 * (turn if turn < count else turn - count)
        free = m[m[at + 2] + U_FREE]
        if free <= cycle:
            return at
        if retry == NEVER or free < retry:
            retry = free
    m[s + S_RETRY] = retry
    return 0


@compiled
def account_for_waiting(m: Words, lg: Words, s: int, w: int, cycle: int) -> None:
    """Divide the cycles in which a ready warp did not issue: its unit was occupied, or another warp was chosen."""
    i, ready = instruction(m, w), m[w + W_READY]
    stalls, number = account_of(m, w), m[i + I_UNIT]
    u, seat = m[s + S_UNITS + number], m[s + S_SEATS + number]
    away = occupied_before(m, u, cycle, seat) - m[w + W_OCCUPIED]
    m[stalls + m[i + I_TURNED_AWAY]] += away
    m[stalls + NOT_SELECTED] += cycle - ready - away
    if is_watched(m, w):
        log(m, lg, LOG_WAITED, m[w + W_AGE], u, seat, m[i + I_TURNED_AWAY], number, ready, cycle)


@compiled
def take(m: Words, lg: Words, s: int, at: int, cycle: int) -> int:
    """Remove the picked warp from the ready ones and account for its cycles up to this one; returns the warp."""
    w = m[at + 1]
    for k in range(at, s + S_ENTRIES + 3 * (m[s + S_READY] - 1)):
        m[k] = m[k + 3]
    m[s + S_READY] -= 1
    m[s + S_LAST] = m[w + W_AGE]
    account(m, lg, w)
    if cycle > m[w + W_READY]:
        account_for_waiting(m, lg, s, w, cycle)
    m[account_of(m, w) + SELECTED] += 1
    if is_watched(m, w):
        log(m, lg, LOG_STATE, m[w + W_AGE], SELECTED, cycle, cycle + 1, NEVER, 0, 0)
    m[w + W_ISSUED] = cycle
    m[w + W_SINCE] = cycle + 1
    return w
