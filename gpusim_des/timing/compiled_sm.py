"""What happens to the warps of an SM in the compiled engine, as in `sm`: exits, barriers, fences, answers (I6, M8)."""

from __future__ import annotations

from gpusim_des.timing.compiled_agenda import detail, happen, place_in_order, set_alarm
from gpusim_des.timing.compiled_arena import allocate, put, release
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    B_AT_BARRIER,
    B_LAST_ARRIVAL,
    B_LAST_EXIT,
    B_OPENED,
    B_OPENED_AT,
    B_OPENED_WARP,
    B_PHASE_COUNT,
    B_PHASES,
    B_RETIRED,
    B_RUN,
    B_SM,
    B_STAYING,
    B_TABLE,
    B_TAPE,
    B_WARPS,
    B_WRITES,
    BARRIER_LATENCY,
    BLOCK_END,
    BLOCK_RETIRES,
    BUFFER_DRAINS,
    BULK_OVERHEAD,
    EXIT_CAUSE,
    I_OP,
    I_OPERAND,
    I_SLOT,
    INSTRUCTION_WORDS,
    L_ARRIVED,
    L_INDEX,
    L_MISSING,
    L_WARP,
    LOAD_WORDS,
    M_LOOKS_FS,
    M_NUMBER,
    M_RELEASES,
    M_WAITING,
    M_WAKING,
    M_WATCHED,
    NEVER,
    NOW,
    P_CODE,
    P_SLOTS,
    PERIOD,
    PHASE_WORDS,
    Q_COUNT,
    Q_ENTRIES,
    R_RESIDENT,
    W_ACKNOWLEDGED_UNTIL,
    W_AGE,
    W_AT_BARRIER,
    W_AT_FENCE,
    W_BARRIER_UNTIL,
    W_BLOCK,
    W_BLOCKED,
    W_IN_FLIGHT,
    W_LAST_MEMORY,
    W_LEFT,
    W_LEFT_AT,
    W_MEMBAR_UNTIL,
    W_NEXT,
    W_NUMBER,
    W_PROGRAM,
    W_READY,
    W_SCOREBOARD,
    W_SM,
    W_START,
    W_UNACKNOWLEDGED,
)
from gpusim_des.timing.compiled_log import log_exit, phase_of
from gpusim_des.timing.compiled_warp import account, finished, plan, plan_drain
from gpusim_des.timing.order import Kind
from gpusim_des.trace import OpClass

REPLY, RETIREMENT, ISSUE = int(Kind.REPLY), int(Kind.RETIREMENT), int(Kind.ISSUE)
BULK_COPY = int(OpClass.BULK_COPY)
AFTER_ALL_PARTS = 255
BARRIER = int(OpClass.BARRIER)


@compiled
def wake(m: Words, sm: int, cycle: int) -> None:
    """Look at the warps again in this cycle."""
    set_alarm(m, sm, max(cycle * m[PERIOD], m[NOW]))


@compiled
def wake_for_first(m: Words, sm: int) -> None:
    """Look at the warps again when the first of those that wait is ready."""
    q = m[sm + M_WAKING]
    if m[q + Q_COUNT]:
        wake(m, sm, m[m[q + Q_ENTRIES]])


@compiled
def enter_waking(m: Words, w: int) -> None:
    """Put a warp among those whose ready cycle is known."""
    put(m, m[m[w + W_SM] + M_WAKING], m[w + W_READY], w)


@compiled
def _leave(m: Words, h: Words, lg: Words, w: int) -> bool:
    """Let a warp leave whose last result is known; returns whether others of its block stay."""
    b = m[w + W_BLOCK]
    run, sm = m[b + B_RUN], m[b + B_SM]
    end = plan_drain(m, w)
    m[w + W_LEFT] = 1
    m[w + W_LEFT_AT] = end
    account(m, lg, w)
    m[run + R_RESIDENT] += end - m[w + W_START]
    if m[sm + M_WATCHED]:
        log_exit(m, lg, w)
    m[b + B_STAYING] -= 1
    m[b + B_LAST_EXIT] = max(m[b + B_LAST_EXIT], end)
    if m[b + B_STAYING]:
        return True
    retires = (m[b + B_LAST_EXIT] + m[BLOCK_END]) * m[PERIOD]
    place = place_in_order(RETIREMENT, m[sm + M_NUMBER], 0, m[m[b + B_TABLE] + W_AGE])
    happen(m, h, retires, place, 0, BLOCK_RETIRES, b)
    return False


@compiled
def leave(m: Words, h: Words, lg: Words, w: int) -> None:
    """Let a warp leave; its block's barrier may be full without it."""
    if _leave(m, h, lg, w):
        release_if_full(m, h, lg, m[w + W_BLOCK], w)


@compiled
def release_if_full(m: Words, h: Words, lg: Words, b: int, last: int) -> None:
    """Release the barrier once all warps that have not exited have arrived, `last` having arrived or left."""
    if not m[b + B_AT_BARRIER] or m[b + B_AT_BARRIER] < m[b + B_STAYING]:
        return
    arrival = m[b + B_LAST_ARRIVAL] + max(m[BARRIER_LATENCY], 1)
    leaving = m[b + B_LAST_EXIT] + m[BARRIER_LATENCY]
    until = max(arrival, leaving)
    m[b + B_AT_BARRIER] = 0
    if leaving > arrival:
        for k in range(m[b + B_WARPS]):
            last = b + B_TABLE + k
            last = m[last]
            if m[last + W_LEFT] and m[last + W_LEFT_AT] == m[b + B_LAST_EXIT]:
                break
    m[b + B_OPENED] = EXIT_CAUSE if m[last + W_LEFT] else BARRIER
    m[b + B_OPENED_WARP] = m[last + W_NUMBER]
    m[b + B_OPENED_AT] = m[last + W_NEXT] - 1
    for k in range(m[b + B_WARPS]):
        w = m[b + B_TABLE + k]
        if not m[w + W_AT_BARRIER]:
            continue
        m[w + W_AT_BARRIER] = 0
        m[w + W_BARRIER_UNTIL] = until
        # Nobody is at the barrier any more, so one that leaves here releases nobody.
        if not finished(m, w):
            if plan(m, w):
                enter_waking(m, w)
        elif not m[w + W_IN_FLIGHT]:
            _leave(m, h, lg, w)
    wake_for_first(m, m[b + B_SM])


@compiled
def go_on(m: Words, h: Words, lg: Words, w: int) -> None:
    """Put a warp where it waits for its next instruction, or let it exit."""
    if finished(m, w):
        if not m[w + W_IN_FLIGHT]:
            leave(m, h, lg, w)
    elif plan(m, w):
        enter_waking(m, w)


@compiled
def arrive_at_barrier(m: Words, h: Words, lg: Words, w: int, cycle: int) -> None:
    """Let a warp wait for the others of its block."""
    b = m[w + W_BLOCK]
    m[w + W_AT_BARRIER] = 1
    m[b + B_AT_BARRIER] += 1
    m[b + B_LAST_ARRIVAL] = cycle
    release_if_full(m, h, lg, b, w)


@compiled
def pass_fence(m: Words, h: Words, lg: Words, w: int) -> None:
    """Let a warp go on behind its fence once all its accesses before it are through."""
    if m[w + W_IN_FLIGHT] or m[w + W_UNACKNOWLEDGED]:
        return
    m[w + W_AT_FENCE] = 0
    m[w + W_MEMBAR_UNTIL] = max(m[w + W_LAST_MEMORY], m[w + W_ACKNOWLEDGED_UNTIL])
    go_on(m, h, lg, w)


# What memory answers (M2, M7, M8) -------------------------------------------------------------------------------------


@compiled
def _retry(m: Words, w: int) -> None:
    if plan(m, w):
        enter_waking(m, w)
        wake_for_first(m, m[w + W_SM])


@compiled
def note_complete(m: Words, w: int, index: int, cycle: int) -> None:
    """Write into the scoreboard when an instruction is complete, if anybody reads its result."""
    slot = m[m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * index + I_SLOT]
    if slot >= 0:
        m[w + W_SCOREBOARD + slot] = cycle


@compiled
def known(m: Words, h: Words, lg: Words, w: int, index: int, cycle: int) -> None:
    """Hear when a memory instruction is complete that did not know at issue."""
    note_complete(m, w, index, cycle)
    m[w + W_LAST_MEMORY] = max(m[w + W_LAST_MEMORY], cycle)
    m[w + W_IN_FLIGHT] -= 1
    if m[w + W_AT_BARRIER]:
        return
    if m[w + W_AT_FENCE]:
        pass_fence(m, h, lg, w)
        wake_for_first(m, m[w + W_SM])
    elif finished(m, w):
        if not m[w + W_IN_FLIGHT]:
            leave(m, h, lg, w)
    elif m[w + W_BLOCKED]:
        _retry(m, w)


@compiled
def _copy_complete(m: Words, w: int, index: int, cycle: int) -> None:
    """Note the end of a bulk copy, and let those go on that waited for its phase."""
    b = m[w + W_BLOCK]
    phase = phase_of(m, b, m[m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * index + I_OPERAND])
    m[phase + 1] -= 1
    if cycle >= m[phase + 2]:
        m[phase + 2] = cycle
        m[phase + 3] = m[w + W_NUMBER]
        m[phase + 4] = index
    if m[phase + 1]:
        return
    for k in range(m[b + B_WARPS]):
        if m[m[b + B_TABLE + k] + W_BLOCKED]:
            _retry(m, m[b + B_TABLE + k])


@compiled
def arrived(m: Words, h: Words, lg: Words, load: int) -> None:
    """Accept the data of a load whose last packet is back: usable from the next clock edge on (T1)."""
    cycle = -(-m[load + L_ARRIVED] // m[PERIOD])
    w, index = m[load + L_WARP], m[load + L_INDEX]
    release(m, load, LOAD_WORDS)
    if m[m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * index + I_OP] == BULK_COPY:
        cycle += m[BULK_OVERHEAD]
        _copy_complete(m, w, index, cycle)
    known(m, h, lg, w, index, cycle)


@compiled
def watch_buffer(m: Words, h: Words, sm: int) -> None:
    """Come back at the next acknowledgement that is known; there may be none yet."""
    q = m[sm + M_RELEASES]
    if not m[q + Q_COUNT]:
        return
    time = m[m[q + Q_ENTRIES]]
    looks = m[sm + M_LOOKS_FS]
    if looks != NEVER and looks <= time:
        return
    m[sm + M_LOOKS_FS] = time
    place = place_in_order(REPLY, m[sm + M_NUMBER], AFTER_ALL_PARTS, 0)
    happen(m, h, time, place, detail(0, 0), BUFFER_DRAINS, sm)


@compiled
def acknowledged(m: Words, h: Words, lg: Words, w: int, time: int, sectors: int) -> None:
    """Hear that a write was accepted, which the SM knows at `time`."""
    b = m[w + W_BLOCK]
    sm = m[b + B_SM]
    put(m, m[sm + M_RELEASES], time, sectors)
    if m[sm + M_WAITING]:
        watch_buffer(m, h, sm)
    m[w + W_UNACKNOWLEDGED] -= 1
    m[w + W_ACKNOWLEDGED_UNTIL] = max(m[w + W_ACKNOWLEDGED_UNTIL], -(-time // m[PERIOD]))
    if m[w + W_AT_FENCE]:
        pass_fence(m, h, lg, w)
        wake_for_first(m, sm)
    m[b + B_WRITES] -= 1
    forget_block(m, b)


@compiled
def forget_block(m: Words, b: int) -> None:
    """Free what a block held once it has retired and its last write is through."""
    if not m[b + B_RETIRED] or m[b + B_WRITES]:
        return
    for k in range(m[b + B_WARPS]):
        w = m[b + B_TABLE + k]
        release(m, w, W_SCOREBOARD + m[m[w + W_PROGRAM] + P_SLOTS])
    if m[b + B_PHASES]:
        release(m, m[b + B_PHASES], PHASE_WORDS * m[b + B_PHASE_COUNT])
    release(m, m[b + B_TAPE], m[m[b + B_TAPE]])
    release(m, b, B_TABLE + m[b + B_WARPS])


@compiled
def new_load(m: Words, w: int, index: int) -> int:
    """Begin a load with no packets under way."""
    load = allocate(m, LOAD_WORDS)
    m[load + L_WARP] = w
    m[load + L_INDEX] = index
    m[load + L_MISSING] = 0
    m[load + L_ARRIVED] = 0
    return load
