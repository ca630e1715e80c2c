"""Blocks come and go in the compiled engine, as in `sm` and `block_scheduler` (I1, I2, G1 to G3)."""

from __future__ import annotations

from gpusim_des.timing.compiled_agenda import happen, place_in_order, set_alarm
from gpusim_des.timing.compiled_arena import allocate
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    ASLEEP,
    B_DISPATCHED,
    B_LAST_EXIT,
    B_NUMBER,
    B_OPENED,
    B_PHASE_COUNT,
    B_PHASES,
    B_RETIRED,
    B_RUN,
    B_SLOT,
    B_SM,
    B_STAYING,
    B_TABLE,
    B_TAPE,
    B_WARPS,
    BLOCK_SLOTS,
    BLOCK_START,
    DISPATCH_FS,
    DISPATCHES,
    INSTRUCTION_WORDS,
    KERNEL_ENDS,
    LOG_BLOCK,
    M_BLOCKS,
    M_NUMBER,
    M_PART_WARPS,
    M_REGISTERS,
    M_ROOM,
    M_ROOM_RUN,
    M_SHARED,
    M_SLOTS,
    M_WARP_SLOTS,
    NEVER,
    NEXT_AGE,
    NEXT_PLACEMENT_FS,
    NOW,
    P_CODE,
    P_IDEAL_LOADS,
    P_IDEAL_STORES,
    P_LENGTH,
    P_PHASE_COUNT,
    P_PHASES,
    P_SLOTS,
    PARTS,
    PERIOD,
    PHASE_WORDS,
    QUEUE,
    QUEUE_LENGTH,
    R_BATCH,
    R_BATCH_AT,
    R_BATCH_END,
    R_BLOCKS,
    R_END_FS,
    R_IDEAL_LOADS,
    R_IDEAL_STORES,
    R_NUMBER,
    R_PLACED,
    R_REGISTERS,
    R_RETIRED,
    R_SHARED,
    R_WARPS,
    R_WRITES,
    SM_TABLE,
    SMS,
    W_AGE,
    W_BLOCK,
    W_CODE,
    W_END,
    W_ISSUED,
    W_NUMBER,
    W_PART,
    W_PROGRAM,
    W_RUN,
    W_SCOREBOARD,
    W_SINCE,
    W_SM,
    W_START,
    W_START_UNTIL,
    W_TAPE,
    WANTED,
)
from gpusim_des.timing.compiled_log import log, phase_of
from gpusim_des.timing.compiled_sm import (
    enter_waking,
    forget_block,
    leave,
)
from gpusim_des.timing.compiled_warp import finished, plan
from gpusim_des.timing.order import Kind

DISPATCH, HOST = int(Kind.DISPATCH), int(Kind.HOST)


# Blocks (I1, I2, G3) --------------------------------------------------------------------------------------------------


@compiled
def has_room(m: Words, sm: int, run: int) -> bool:
    """Tell whether one more block of a kernel fits."""
    if m[sm + M_ROOM_RUN] == run:
        return m[sm + M_ROOM] == 1
    fits = m[sm + M_BLOCKS] < m[BLOCK_SLOTS]
    fits = fits and m[run + R_SHARED] <= m[sm + M_SHARED] and m[run + R_WARPS] <= m[sm + M_WARP_SLOTS]
    if fits and m[run + R_REGISTERS]:
        warps = 0
        for part in range(m[PARTS]):
            warps += m[m[sm + M_REGISTERS] + part] // m[run + R_REGISTERS]
        fits = warps >= m[run + R_WARPS]
    m[sm + M_ROOM_RUN] = run
    m[sm + M_ROOM] = 1 if fits else 0
    return fits


@compiled
def _new_warp(m: Words, b: int, number: int, age: int, cycle: int, start: int) -> int:
    """Make a warp resident, in the sub-partition with the fewest warps that has registers for it (I2)."""
    sm, run = m[b + B_SM], m[b + B_RUN]
    counts, registers = m[sm + M_PART_WARPS], m[sm + M_REGISTERS]
    part = NEVER
    for p in range(m[PARTS]):
        if m[registers + p] >= m[run + R_REGISTERS] and (part == NEVER or m[counts + p] < m[counts + part]):
            part = p
    m[registers + part] -= m[run + R_REGISTERS]
    m[counts + part] += 1
    tape = m[b + B_TAPE] + 2 + 2 * number
    slots = m[m[tape] + P_SLOTS]
    w = allocate(m, W_SCOREBOARD + slots)
    for k in range(W_SCOREBOARD):
        m[w + k] = 0
    for k in range(W_SCOREBOARD, W_SCOREBOARD + slots):
        m[w + k] = NEVER
    m[w + W_BLOCK] = b
    m[w + W_NUMBER] = number
    m[w + W_AGE] = age
    m[w + W_PART] = part
    m[w + W_PROGRAM] = m[tape]
    m[w + W_CODE] = m[tape] + P_CODE
    m[w + W_END] = m[tape] + P_CODE + INSTRUCTION_WORDS * m[m[tape] + P_LENGTH]
    m[w + W_TAPE] = m[b + B_TAPE] + m[tape + 1]
    m[w + W_SM] = sm
    m[w + W_RUN] = run
    m[run + R_IDEAL_LOADS] += m[m[tape] + P_IDEAL_LOADS]
    m[run + R_IDEAL_STORES] += m[m[tape] + P_IDEAL_STORES]
    m[w + W_START] = cycle
    m[w + W_SINCE] = cycle
    m[w + W_ISSUED] = cycle - 1
    m[w + W_START_UNTIL] = start
    return w


@compiled
def _count_copies(m: Words, b: int) -> None:
    """Count the bulk copies that the warps of a block start, by the phases of its barriers."""
    most = 0
    for k in range(m[b + B_WARPS]):
        most += m[m[m[b + B_TABLE + k] + W_PROGRAM] + P_PHASE_COUNT]
    m[b + B_PHASES] = allocate(m, PHASE_WORDS * most) if most else 0
    m[b + B_PHASE_COUNT] = 0
    for k in range(m[b + B_WARPS]):
        p = m[m[b + B_TABLE + k] + W_PROGRAM]
        for n in range(m[p + P_PHASE_COUNT]):
            phase, copies = m[m[p + P_PHASES] + 2 * n], m[m[p + P_PHASES] + 2 * n + 1]
            at = phase_of(m, b, phase)
            if not at:
                at = m[b + B_PHASES] + PHASE_WORDS * m[b + B_PHASE_COUNT]
                m[b + B_PHASE_COUNT] += 1
                m[at] = phase
                m[at + 1] = 0
                m[at + 2] = 0
                m[at + 3] = NEVER
                m[at + 4] = NEVER
            m[at + 1] += copies


@compiled
def _accept_block(m: Words, h: Words, lg: Words, sm: int, run: int, tape: int) -> None:
    """Make the next block of a kernel resident now; its warps may issue `BLOCK_START` cycles later."""
    cycle = -(-m[NOW] // m[PERIOD])
    start = cycle + m[BLOCK_START]
    warps = m[run + R_WARPS]
    b = allocate(m, B_TABLE + warps)
    for k in range(B_TABLE):
        m[b + k] = 0
    m[b + B_RUN] = run
    m[b + B_OPENED] = NEVER
    m[b + B_NUMBER] = m[run + R_PLACED]
    m[b + B_DISPATCHED] = m[NOW]
    m[b + B_WARPS] = warps
    m[b + B_STAYING] = warps
    m[b + B_SM] = sm
    m[b + B_TAPE] = tape
    slot = 0
    while m[m[sm + M_SLOTS] + slot]:
        slot += 1
    m[b + B_SLOT] = slot
    m[m[sm + M_SLOTS] + slot] = b
    m[sm + M_BLOCKS] += 1
    m[sm + M_SHARED] -= m[run + R_SHARED]
    m[sm + M_WARP_SLOTS] -= warps
    m[sm + M_ROOM_RUN] = 0
    for k in range(warps):
        m[b + B_TABLE + k] = _new_warp(m, b, k, m[NEXT_AGE] + k, cycle, start)
    _count_copies(m, b)
    for k in range(warps):
        w = m[b + B_TABLE + k]
        if finished(m, w):
            leave(m, h, lg, w)
        elif plan(m, w):
            enter_waking(m, w)
    set_alarm(m, sm, start * m[PERIOD])


@compiled
def retire(m: Words, h: Words, lg: Words, b: int) -> None:
    """Free a block's slot and tell the block scheduler."""
    sm, run = m[b + B_SM], m[b + B_RUN]
    m[m[sm + M_SLOTS] + m[b + B_SLOT]] = 0
    m[sm + M_BLOCKS] -= 1
    m[sm + M_SHARED] += m[run + R_SHARED]
    m[sm + M_WARP_SLOTS] += m[b + B_WARPS]
    for k in range(m[b + B_WARPS]):
        part = m[m[b + B_TABLE + k] + W_PART]
        m[m[sm + M_REGISTERS] + part] += m[run + R_REGISTERS]
        m[m[sm + M_PART_WARPS] + part] -= 1
    m[sm + M_ROOM_RUN] = 0
    start = m[m[b + B_TABLE] + W_START]
    where = m[sm + M_NUMBER] << 16 | m[b + B_SLOT]
    log(
        m,
        lg,
        LOG_BLOCK,
        m[run + R_NUMBER],
        m[b + B_NUMBER],
        where,
        m[b + B_DISPATCHED],
        m[NOW],
        start,
        m[b + B_LAST_EXIT],
    )
    m[run + R_RETIRED] += 1
    m[run + R_END_FS] = max(m[run + R_END_FS], m[NOW])
    finish_if_through(m, h, run)
    m[b + B_RETIRED] = 1
    forget_block(m, b)
    if m[QUEUE_LENGTH]:
        wake_dispatcher(m, h)


@compiled
def finish_if_through(m: Words, h: Words, run: int) -> None:
    """Let a kernel end when its blocks and its writes are through (M8)."""
    if m[run + R_RETIRED] == m[run + R_BLOCKS] and not m[run + R_WRITES]:
        happen(m, h, m[run + R_END_FS], place_in_order(HOST, 0, 0, m[run + R_NUMBER]), 0, KERNEL_ENDS, run)


# The block scheduler (G1, G2) -----------------------------------------------------------------------------------------


@compiled
def wake_dispatcher(m: Words, h: Words) -> None:
    """Let the block scheduler look again now, if it sleeps: asleep 1, with the alarm set 2, between two blocks 0."""
    if m[ASLEEP] == 1:
        m[ASLEEP] = 2
        happen(m, h, m[NOW], place_in_order(DISPATCH, 0, 0, 0), 0, DISPATCHES, 0)


@compiled
def dispatch(m: Words, h: Words, lg: Words) -> bool:
    """Place blocks, at most one per interval; returns whether blocks have to be read first."""
    m[ASLEEP] = 0
    while m[QUEUE_LENGTH]:
        if m[NOW] < m[NEXT_PLACEMENT_FS]:
            happen(m, h, m[NEXT_PLACEMENT_FS], place_in_order(DISPATCH, 0, 0, 0), 0, DISPATCHES, 0)
            return False
        run = m[m[QUEUE]]
        best = 0
        for k in range(m[SMS]):
            sm = m[m[SM_TABLE] + k]
            if (not best or m[sm + M_BLOCKS] < m[best + M_BLOCKS]) and has_room(m, sm, run):
                best = sm
        if not best:
            break
        if m[run + R_BATCH_AT] == m[run + R_BATCH_END]:
            m[WANTED] = run
            return True
        _accept_block(m, h, lg, best, run, m[m[run + R_BATCH] + m[run + R_BATCH_AT]])
        m[run + R_BATCH_AT] += 1
        m[NEXT_AGE] += m[run + R_WARPS]
        m[NEXT_PLACEMENT_FS] = m[NOW] + m[DISPATCH_FS]
        m[run + R_PLACED] += 1
        if m[run + R_PLACED] == m[run + R_BLOCKS]:
            m[QUEUE_LENGTH] -= 1
            for k in range(m[QUEUE_LENGTH]):
                m[m[QUEUE] + k] = m[m[QUEUE] + k + 1]
    m[ASLEEP] = 1
    return False
