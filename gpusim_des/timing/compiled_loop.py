"""The main loop of the compiled engine: one event after another in the order of rule T2, until Python is needed."""

from __future__ import annotations

from collections.abc import Callable

from gpusim_des.timing.compiled_agenda import come_near, remove_first, reset_first_alarm, travel
from gpusim_des.timing.compiled_arena import release
from gpusim_des.timing.compiled_blocks import dispatch, finish_if_through, retire, wake_dispatcher
from gpusim_des.timing.compiled_cache import empty, let_go
from gpusim_des.timing.compiled_cut import cut
from gpusim_des.timing.compiled_issue import step
from gpusim_des.timing.compiled_jit import Words, compiled, digest, entrance, start_of
from gpusim_des.timing.compiled_layout import (
    ALARMS,
    ATOMIC_ARRIVES,
    ATOMIC_PERFORMS,
    BACK_FS,
    BLOCK_RETIRES,
    BUDGET,
    BUFFER_DRAINS,
    CUT,
    EVENT_WORDS,
    EVENTS,
    KERNEL_ENDED,
    KERNEL_ENDS,
    L1_LINES,
    L_ARRIVED,
    L_MISSING,
    LATEST_FS,
    LOG_WORDS,
    LOGGED,
    M_DUE,
    M_L1,
    M_PORT_BACK,
    MARGIN,
    NEAR,
    NEEDS_BLOCKS,
    NEEDS_ROOM,
    NEVER,
    NEXT_WORD,
    NOTHING_LEFT,
    NOW,
    PAUSED,
    R_END_FS,
    R_WRITES,
    REACHED,
    READ_ARRIVES,
    READ_REPLIES,
    REMEMBERED,
    SECTOR_BACK_FS,
    SM_TABLE,
    SMS,
    T_ARRIVED,
    T_LOAD,
    T_MORE_LOADS,
    T_PLACE,
    T_RUN,
    T_SECTORS,
    T_WARP,
    UNTIL_FS,
    UNTIL_PLACE,
    WAKE_DISPATCHER,
    WANTED,
    WHAT_BITS,
    WRITE_ARRIVES,
)
from gpusim_des.timing.compiled_memory import ask_for_piece, drain_buffer, pass_through
from gpusim_des.timing.compiled_slice import slice_fetch, slice_perform, slice_read, slice_write, sm_of
from gpusim_des.timing.compiled_sm import acknowledged, arrived
from gpusim_des.timing.compiled_tape import write_tapes
from gpusim_des.timing.order import Kind

ISSUES = int(Kind.ISSUE) << 59
"""Place of the steps of SMs among the other events of an instant: no other kind lies between them."""

REPLY_AFTER_ARRIVAL = (int(Kind.REPLY) - int(Kind.ARRIVAL)) << 59
"""From the place of a request's arrival, in the order, to that of its reply."""


@compiled
def _reply(m: Words, h: Words, lg: Words, t: int) -> None:
    """Take sectors into the SM, and let the loads go on that wait for them."""
    time = pass_through(m, sm_of(m, t) + M_PORT_BACK, m[NOW], m[t + T_SECTORS] * m[SECTOR_BACK_FS])
    m[t + T_ARRIVED] = time
    load, node = m[t + T_LOAD], m[t + T_MORE_LOADS]
    m[t + T_LOAD] = 0
    m[t + T_MORE_LOADS] = 0
    while load:
        m[load + L_ARRIVED] = max(m[load + L_ARRIVED], time)
        m[load + L_MISSING] -= 1
        if not m[load + L_MISSING]:
            arrived(m, h, lg, load)
        load = 0
        if node:
            load, after = m[node], m[node + 1]
            release(m, node, 2)
            node = after
    let_go(m, t)


@compiled
def _reply_at(m: Words, h: Words, time: int, t: int) -> None:
    m[t + T_PLACE] += REPLY_AFTER_ARRIVAL
    travel(m, h, time, READ_REPLIES, t)


@compiled
def _accepted(m: Words, h: Words, lg: Words, t: int, time: int) -> None:
    """Count a write that memory has accepted, or will have at a time, and tell its SM."""
    _end_write(m, h, m[t + T_RUN], time)
    w, sectors = m[t + T_WARP], m[t + T_SECTORS]
    let_go(m, t)
    acknowledged(m, h, lg, w, time + m[BACK_FS], sectors)


@compiled
def _end_write(m: Words, h: Words, run: int, time: int) -> None:
    m[run + R_WRITES] -= 1
    m[run + R_END_FS] = max(m[run + R_END_FS], time)
    finish_if_through(m, h, run)


@compiled
def _request_goes_on(m: Words, h: Words, lg: Words, what: int, t: int) -> None:
    """Let a request arrive at its slice, be performed there, or come back (M5 to M9)."""
    now = m[NOW]
    if what == READ_ARRIVES:
        back = slice_read(m, now, t) + m[BACK_FS]
        _reply_at(m, h, back, t)
    elif what == READ_REPLIES:
        _reply(m, h, lg, t)
    elif what == WRITE_ARRIVES:
        _accepted(m, h, lg, t, slice_write(m, now, t))
    elif what == ATOMIC_ARRIVES:
        travel(m, h, slice_fetch(m, now, t), ATOMIC_PERFORMS, t)
    elif what == ATOMIC_PERFORMS:
        done = slice_perform(m, now, t)
        if m[t + T_LOAD]:
            _end_write(m, h, m[t + T_RUN], done)
            _reply_at(m, h, done + m[BACK_FS], t)
        else:
            _accepted(m, h, lg, t, done)
    else:
        ask_for_piece(m, h, t)


@compiled
def _take_up(m: Words, h: Words, lg: Words, x: Words) -> bool:
    """Do what Python has asked for since the loop ended last; returns whether blocks have to be read."""
    if m[CUT]:
        cut(m, lg)
    if m[L1_LINES] >= 0:
        for k in range(m[SMS]):
            empty(m, m[m[m[SM_TABLE] + k] + M_L1], m[L1_LINES], True)
        m[L1_LINES] = NEVER
    if m[WAKE_DISPATCHER]:
        m[WAKE_DISPATCHER] = 0
        wake_dispatcher(m, h)
    if m[WANTED]:
        write_tapes(m, x, m[WANTED])
        m[WANTED] = 0
        return dispatch(m, h, lg)
    return False


@compiled
def _happens(m: Words, h: Words, lg: Words, what: int, to: int) -> int:
    """Let an event happen that was taken from the heap; returns what Python has to do then, if anything."""
    if what < BUFFER_DRAINS:
        _request_goes_on(m, h, lg, what, to)
    elif what == BUFFER_DRAINS:
        drain_buffer(m, h, lg, to)
    elif what == BLOCK_RETIRES:
        retire(m, h, lg, to)
    elif what == KERNEL_ENDS:
        m[WANTED] = to
        return KERNEL_ENDED
    elif dispatch(m, h, lg):
        return NEEDS_BLOCKS
    return 0


@compiled
def _step_first(m: Words, h: Words, lg: Words) -> None:
    """Let the SM step whose alarm is the first."""
    sm = m[m[ALARMS] + 1]
    m[sm + M_DUE] = NEVER
    step(m, h, lg, sm)
    reset_first_alarm(m)


def _loop(known: int) -> Callable[[Words, Words, Words, Words], int]:
    """Make the loop; it encloses a digest of all that it calls, so that an old one on disk is not taken for it."""

    def play(words: Words, events: Words, records: Words, batch: Words) -> int:
        """Play until Python is needed; returns for what."""
        m, h, lg = start_of(words), start_of(events), start_of(records)
        asked = NEEDS_BLOCKS if _take_up(m, h, lg, start_of(batch)) else 0
        budget = m[BUDGET] if known else 0
        while not asked:
            time, place = m[m[ALARMS]], ISSUES
            if not m[NEAR]:
                come_near(m, h, time)
            steps = not m[NEAR] or time < h[0] or (time == h[0] and place < h[1])
            if not steps:
                time, place = h[0], h[1]
            room = min(len(words) - m[NEXT_WORD], len(events) - EVENT_WORDS * m[EVENTS])
            if time == LATEST_FS:
                asked = NOTHING_LEFT
            elif min(room, len(records) - LOG_WORDS * m[LOGGED]) < m[MARGIN]:
                asked = NEEDS_ROOM
            elif time > m[UNTIL_FS] or (time == m[UNTIL_FS] and place >= m[UNTIL_PLACE]):
                asked = REACHED
            elif not budget:
                asked = PAUSED
            else:
                budget -= 1
                m[NOW] = time
                if steps:
                    _step_first(m, h, lg)
                else:
                    what = h[3]
                    remove_first(m, h)
                    asked = _happens(m, h, lg, what & (REMEMBERED - 1), what >> WHAT_BITS)
        return asked

    return entrance(play)


play = _loop(digest())
