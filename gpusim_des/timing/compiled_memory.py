"""The load/store unit of the compiled engine, as in `memory_unit` and `store_buffer` (M1, M2, M7, M8)."""

from __future__ import annotations

from gpusim_des.timing.compiled_agenda import detail, place_in_order, travel
from gpusim_des.timing.compiled_arena import allocate, release, take_least
from gpusim_des.timing.compiled_cache import drop
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_l1 import join, look_up, reserve
from gpusim_des.timing.compiled_layout import (
    A_PACKET,
    A_PACKETS,
    A_WORDS,
    ATOMIC_ARRIVES,
    B_WRITES,
    BUFFER_SECTORS,
    BULK_ASKS,
    CACHES,
    COPY_SECTOR_FS,
    FAR,
    I_OP,
    I_UNREAD,
    INSTRUCTION_WORDS,
    K_CHANNEL,
    K_GRANULES,
    K_LINE,
    K_LINES,
    K_PASSES,
    K_SECTORS,
    L1_LATENCY,
    L_ARRIVED,
    L_MISSING,
    LOAD_WORDS,
    M_BUFFERED,
    M_COPY_UNIT,
    M_L1,
    M_LOOKS_FS,
    M_NUMBER,
    M_PORT_OUT,
    M_RELEASES,
    M_UNIT,
    M_WAITING,
    M_WAITING_LAST,
    N_ACCESS,
    N_CYCLE,
    N_INDEX,
    N_NEXT,
    N_OP,
    N_QUARTERS,
    N_QUEUE,
    N_STORED,
    N_WARP,
    NEVER,
    NOW,
    OUT_FS,
    P_CODE,
    PASSES_BITS,
    PERIOD,
    Q_COUNT,
    Q_ENTRIES,
    R_L1,
    R_L1_HITS,
    R_QUARTERS,
    R_STORED,
    R_WRITES,
    READ_ARRIVES,
    REMEMBERED,
    REQUEST_FS,
    REQUEST_WORDS,
    SECTOR_OUT_FS,
    SHARED_LATENCY,
    SHUFFLE_LATENCY,
    T_ARRIVED,
    T_CHANNEL,
    T_DETAIL,
    T_GRANULES,
    T_LINE_COUNT,
    T_LINES,
    T_LOAD,
    T_MORE_LOADS,
    T_OWN,
    T_PLACE,
    T_RUN,
    T_SECTORS,
    T_WARP,
    T_WHAT,
    U_FREE,
    W_AGE,
    W_BLOCK,
    W_IN_FLIGHT,
    W_LAST_MEMORY,
    W_NEXT,
    W_PART,
    W_PROGRAM,
    W_RUN,
    W_TAPE,
    W_UNACKNOWLEDGED,
    WAITING_WORDS,
    WRITE_ARRIVES,
)
from gpusim_des.timing.compiled_slice import sm_of
from gpusim_des.timing.compiled_sm import known, new_load, note_complete, wake, watch_buffer
from gpusim_des.timing.compiled_warp import instruction, queue_enter, queue_settle
from gpusim_des.timing.order import Kind
from gpusim_des.trace import OpClass

ARRIVAL = int(Kind.ARRIVAL)
SHARED_LOAD, SHARED_STORE = int(OpClass.SHARED_LOAD), int(OpClass.SHARED_STORE)
SHARED_ATOMIC, SHUFFLE = int(OpClass.SHARED_ATOMIC), int(OpClass.SHUFFLE)
GLOBAL_LOAD, GLOBAL_STORE, GLOBAL_ATOMIC = (
    int(OpClass.GLOBAL_LOAD),
    int(OpClass.GLOBAL_STORE),
    int(OpClass.GLOBAL_ATOMIC),
)
ASYNC_COPY, BULK_COPY = int(OpClass.ASYNC_COPY), int(OpClass.BULK_COPY)


@compiled
def pass_through(m: Words, server: int, arrival: int, service: int) -> int:
    """Serve a customer of a server that nobody asks how busy it was."""
    m[server] = max(m[server], arrival) + service
    return m[server]


@compiled
def _has_room(m: Words, sm: int, sectors: int, now: int) -> bool:
    """Tell whether a store fits into the buffer; one that is larger than the whole buffer fits when it is empty."""
    q = m[sm + M_RELEASES]
    while m[q + Q_COUNT] and m[m[q + Q_ENTRIES]] <= now:
        m[sm + M_BUFFERED] -= take_least(m, q)
    return m[sm + M_BUFFERED] == 0 or m[sm + M_BUFFERED] + sectors <= m[BUFFER_SECTORS]


@compiled
def accept(m: Words, h: Words, lg: Words, sm: int, w: int, cycle: int, queue: int) -> None:
    """Take the next instruction of a warp, issued at `cycle` through the queue of its sub-partition."""
    i = instruction(m, w)
    op, index = m[i + I_OP], m[w + W_NEXT]
    run, tape = m[w + W_RUN], m[w + W_TAPE]
    quarters = m[tape]
    m[w + W_TAPE] = tape + 1
    m[run + R_QUARTERS + op] += quarters
    access = 0
    stored = 0
    if op not in (SHARED_LOAD, SHARED_STORE, SHARED_ATOMIC, SHUFFLE):
        access = tape + 1
        m[w + W_TAPE] += m[access + A_WORDS]
        if op == GLOBAL_STORE or (op == GLOBAL_ATOMIC and m[i + I_UNREAD]):
            at = access + A_PACKET
            for _ in range(m[access + A_PACKETS]):
                stored += m[at + K_SECTORS]
                at += K_LINE + 2 * m[at + K_LINES]
            m[run + R_STORED] += stored
    if m[sm + M_WAITING] or (stored and not _has_room(m, sm, stored, m[NOW])):
        m[w + W_IN_FLIGHT] += 1
        queue_enter(m, lg, queue, cycle, FAR)
        _wait(m, sm, w, index, op, quarters, access, stored, cycle, queue)
        watch_buffer(m, h, sm)
        return
    leaves, done = _perform(m, h, sm, w, index, op, quarters, access, stored, 4 * cycle)
    queue_enter(m, lg, queue, cycle, leaves)
    note_complete(m, w, index, done)
    if done == NEVER:
        m[w + W_IN_FLIGHT] += 1
    else:
        m[w + W_LAST_MEMORY] = max(m[w + W_LAST_MEMORY], done)


@compiled
def _wait(
    m: Words, sm: int, w: int, index: int, op: int, quarters: int, access: int, stored: int, cycle: int, queue: int
) -> None:
    """Put an instruction behind those that wait for the store buffer."""
    note_complete(m, w, index, NEVER)
    n = allocate(m, WAITING_WORDS)
    m[n + N_WARP] = w
    m[n + N_INDEX] = index
    m[n + N_OP] = op
    m[n + N_QUARTERS] = quarters
    m[n + N_ACCESS] = access
    m[n + N_STORED] = stored
    m[n + N_CYCLE] = cycle
    m[n + N_QUEUE] = queue
    m[n + N_NEXT] = 0
    if m[sm + M_WAITING]:
        m[m[sm + M_WAITING_LAST] + N_NEXT] = n
    else:
        m[sm + M_WAITING] = n
    m[sm + M_WAITING_LAST] = n


@compiled
def drain_buffer(m: Words, h: Words, lg: Words, sm: int) -> None:
    """Perform what has waited for the store buffer, as far as there is room now."""
    now = m[NOW]
    if m[sm + M_LOOKS_FS] == now:
        m[sm + M_LOOKS_FS] = NEVER
    while m[sm + M_WAITING]:
        n = m[sm + M_WAITING]
        w, index, stored, queue = m[n + N_WARP], m[n + N_INDEX], m[n + N_STORED], m[n + N_QUEUE]
        if stored and not _has_room(m, sm, stored, now):
            break
        m[sm + M_WAITING] = m[n + N_NEXT]
        arrival = max(4 * m[n + N_CYCLE], -(-4 * now // m[PERIOD]))
        leaves, done = _perform(m, h, sm, w, index, m[n + N_OP], m[n + N_QUARTERS], m[n + N_ACCESS], stored, arrival)
        release(m, n, WAITING_WORDS)
        if queue_settle(m, lg, queue, leaves):
            wake(m, sm, m[queue + U_FREE])
        if done != NEVER:
            known(m, h, lg, w, index, done)
    if m[sm + M_WAITING]:
        watch_buffer(m, h, sm)


@compiled
def _perform(
    m: Words, h: Words, sm: int, w: int, index: int, op: int, quarters: int, access: int, stored: int, arrival: int
) -> tuple[int, int]:
    """Pass an instruction through; returns when it leaves the unit and when it is complete, as cycles."""
    end = pass_through(m, sm + M_UNIT, arrival, quarters)
    leaves = -(-end // 4)
    unread = m[m[w + W_PROGRAM] + P_CODE + INSTRUCTION_WORDS * index + I_UNREAD]
    time = -(-end * m[PERIOD] // 4)
    done = leaves
    if op in (GLOBAL_LOAD, ASYNC_COPY):
        done = _load(m, h, sm, w, index, access, leaves, time)
    elif op == GLOBAL_STORE:
        _store(m, h, sm, w, index, access, stored, time, 0)
    elif op == SHARED_LOAD or (op == SHARED_ATOMIC and not unread):
        done = leaves - 1 + m[SHARED_LATENCY]
    elif op == SHUFFLE:
        done = leaves - 1 + m[SHUFFLE_LATENCY]
    elif op == GLOBAL_ATOMIC:
        done = _atomic(m, h, sm, w, index, access, stored, leaves, time)
    elif op == BULK_COPY:
        _copy_bulk(m, h, sm, w, index, access, time)
        done = NEVER
    return leaves, done


# Requests -------------------------------------------------------------------------------------------------------------


@compiled
def _request(m: Words, sm: int, w: int, index: int, part: int, packet: int) -> int:
    """Make a request of a packet."""
    t = allocate(m, REQUEST_WORDS)
    m[t + T_CHANNEL] = m[packet + K_CHANNEL]
    m[t + T_SECTORS] = m[packet + K_SECTORS]
    m[t + T_GRANULES] = m[packet + K_GRANULES] | m[packet + K_PASSES] << PASSES_BITS
    m[t + T_RUN] = m[w + W_RUN]
    m[t + T_PLACE] = place_in_order(ARRIVAL, m[sm + M_NUMBER], m[w + W_PART], m[w + W_AGE])
    m[t + T_DETAIL] = detail(index, part)
    m[t + T_LINES] = packet + K_LINE
    m[t + T_LINE_COUNT] = m[packet + K_LINES]
    m[t + T_WARP] = w
    m[t + T_LOAD] = 0
    m[t + T_MORE_LOADS] = 0
    m[t + T_ARRIVED] = NEVER
    m[t + T_WHAT] = REMEMBERED
    m[t + T_OWN] = 0
    return t


@compiled
def _load(m: Words, h: Words, sm: int, w: int, index: int, access: int, leaves: int, time: int) -> int:
    """Ask for the sectors that the L1 does not have; returns the cycle of completion if that is known."""
    load = new_load(m, w, index)
    run = m[w + W_RUN]
    found = False
    packet = access + A_PACKET
    for part in range(m[access + A_PACKETS]):
        t = _request(m, sm, w, index, part, packet)
        m[run + R_L1] += m[packet + K_SECTORS]
        if m[CACHES]:
            look_up(m, sm, load, t)
            m[run + R_L1_HITS] += m[packet + K_SECTORS] - m[t + T_SECTORS]
            found |= m[packet + K_SECTORS] != m[t + T_SECTORS]
        if m[t + T_SECTORS]:
            join(m, t, load)
            left = pass_through(m, sm + M_PORT_OUT, time, m[REQUEST_FS])
            travel(m, h, left + m[OUT_FS], READ_ARRIVES, t)
            if m[CACHES]:
                reserve(m, m[sm + M_L1], t)
        else:
            release(m, m[t + T_LINES], m[t + T_OWN])
            release(m, t, REQUEST_WORDS)
        packet += K_LINE + 2 * m[packet + K_LINES]
    hit = leaves - 1 + m[L1_LATENCY]
    if m[load + L_MISSING]:
        if found:
            m[load + L_ARRIVED] = max(m[load + L_ARRIVED], hit * m[PERIOD])
        return NEVER
    done = max(hit, -(-m[load + L_ARRIVED] // m[PERIOD]))
    release(m, load, LOAD_WORDS)
    return done


@compiled
def _store(m: Words, h: Words, sm: int, w: int, index: int, access: int, stored: int, time: int, atomic: int) -> None:
    m[sm + M_BUFFERED] += stored
    b = m[w + W_BLOCK]
    packet = access + A_PACKET
    for part in range(m[access + A_PACKETS]):
        t = _request(m, sm, w, index, part, packet)
        service = m[REQUEST_FS] + m[packet + K_SECTORS] * m[SECTOR_OUT_FS]
        left = pass_through(m, sm + M_PORT_OUT, time, service)
        m[w + W_UNACKNOWLEDGED] += 1
        m[b + B_WRITES] += 1
        m[m[t + T_RUN] + R_WRITES] += 1
        travel(m, h, left + m[OUT_FS], ATOMIC_ARRIVES if atomic else WRITE_ARRIVES, t)
        packet += K_LINE + 2 * m[packet + K_LINES]


@compiled
def _atomic(m: Words, h: Words, sm: int, w: int, index: int, access: int, stored: int, leaves: int, time: int) -> int:
    packet = access + A_PACKET
    if m[CACHES]:
        for _ in range(m[access + A_PACKETS]):
            for k in range(m[packet + K_LINES]):
                at = packet + K_LINE + 2 * k
                drop(m, m[sm + M_L1], m[at], m[at + 1], True)
            packet += K_LINE + 2 * m[packet + K_LINES]
    if stored:
        _store(m, h, sm, w, index, access, stored, time, 1)
        return leaves
    load = new_load(m, w, index)
    packet = access + A_PACKET
    for part in range(m[access + A_PACKETS]):
        t = _request(m, sm, w, index, part, packet)
        join(m, t, load)
        service = m[REQUEST_FS] + m[packet + K_SECTORS] * m[SECTOR_OUT_FS]
        m[m[t + T_RUN] + R_WRITES] += 1
        left = pass_through(m, sm + M_PORT_OUT, time, service)
        travel(m, h, left + m[OUT_FS], ATOMIC_ARRIVES, t)
        packet += K_LINE + 2 * m[packet + K_LINES]
    return NEVER


@compiled
def _copy_bulk(m: Words, h: Words, sm: int, w: int, index: int, access: int, time: int) -> None:
    """Let the copy unit ask for one piece after another, past the L1."""
    load = new_load(m, w, index)
    packet = access + A_PACKET
    for part in range(m[access + A_PACKETS]):
        t = _request(m, sm, w, index, part, packet)
        join(m, t, load)
        asked = pass_through(m, sm + M_COPY_UNIT, time, m[packet + K_SECTORS] * m[COPY_SECTOR_FS])
        travel(m, h, asked, BULK_ASKS, t)
        packet += K_LINE + 2 * m[packet + K_LINES]


@compiled
def ask_for_piece(m: Words, h: Words, t: int) -> None:
    """Send the request for a piece of a bulk copy: the port is free for others until then (M3)."""
    left = pass_through(m, sm_of(m, t) + M_PORT_OUT, m[NOW], m[REQUEST_FS])
    travel(m, h, left + m[OUT_FS], READ_ARRIVES, t)
