"""Servers, HBM channels and L2 slices of the compiled engine, as in `server`, `hbm` and `l2` (M5 to M7, M9)."""

from __future__ import annotations

from gpusim_des.timing.compiled_cache import add_fill, discard, drop, drop_fill, enter, evict, peek, sectors_in, touch
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    ATOMIC_FS,
    CACHES,
    F_MASK,
    F_NEXT,
    F_WHAT,
    FAR_FS,
    FROM_DRAM_FS,
    HALVES,
    L2_PART_FS,
    L2_SECTOR_FS,
    L2_WRITE_FS,
    M_PARTITION,
    MIXED_FS,
    PAIRS,
    PASSES_BITS,
    R_L2,
    R_L2_HITS,
    R_READS,
    R_WRITTEN,
    READ_BATCH_FS,
    READ_FS,
    SLICE_WORDS,
    SLICES,
    SM_TABLE,
    T_CHANNEL,
    T_GRANULES,
    T_LINE_COUNT,
    T_LINES,
    T_PLACE,
    T_RUN,
    T_SECTORS,
    TO_DRAM_FS,
    V_BUSY,
    V_FREE,
    V_IDLE,
    V_LAST_READ,
    V_LAST_WRITE,
    V_READS,
    V_READS_BEFORE,
    V_SERVED,
    V_STRETCHES,
    V_WINDOW,
    V_WRITES,
    V_WRITES_BEFORE,
    WRITE_BATCH_FS,
    WRITE_FS,
    X_DIRTY,
    X_FILLS,
    X_NUMBER,
    X_VALID,
    Z_ATOMIC,
    Z_CHANNEL,
    Z_HOME,
    Z_NEAR,
    Z_SERVER,
)
from gpusim_des.timing.hbm import MIX_WINDOW
from gpusim_des.timing.offered_load import PART_BITS, PARTS, WINDOW_BITS
from gpusim_des.timing.server import LOOKBACK

WHOLE_LINE = 15

SM_BIT, SM_MASK = 43, (1 << 16) - 1
"""Where the number of an SM stands in `place_in_order`."""


@compiled
def serve(m: Words, v: int, arrival: int, service: int) -> int:
    """Accept a customer; returns when it leaves."""
    start = m[v + V_FREE]
    if arrival > start:
        at = v + V_STRETCHES + 2 * (m[v + V_IDLE] & (LOOKBACK - 1))
        m[at] = start
        m[at + 1] = arrival
        m[v + V_IDLE] += 1
        start = arrival
    m[v + V_FREE] = start + service
    m[v + V_BUSY] += service
    m[v + V_SERVED] += 1
    return start + service


@compiled
def _turn_to(m: Words, v: int, time: int) -> None:
    """Begin the window in which a time lies, as in `offered_load`."""
    window = time >> WINDOW_BITS
    if window > m[v + V_WINDOW]:
        follows = window == m[v + V_WINDOW] + 1
        m[v + V_READS_BEFORE] = m[v + V_READS] if follows else 0
        m[v + V_WRITES_BEFORE] = m[v + V_WRITES] if follows else 0
        m[v + V_READS] = 0
        m[v + V_WRITES] = 0
        m[v + V_WINDOW] = window


@compiled
def channel_read(m: Words, v: int, arrival: int, granules: int) -> int:
    """Accept a read of a channel; returns when its last granule has left it."""
    served = m[v + V_SERVED]
    m[v + V_LAST_READ] = served
    mixed = served - m[v + V_LAST_WRITE] <= MIX_WINDOW
    service = granules * (m[MIXED_FS] if mixed else m[READ_FS])
    _turn_to(m, v, arrival)
    m[v + V_READS] += service
    return serve(m, v, arrival, service)


@compiled
def _channel_fetch(m: Words, v: int, arrival: int, granules: int) -> int:
    """Accept a read of the L2, which waits for a batch at least; returns when it has left, as in `hbm`."""
    _turn_to(m, v, arrival)
    gone = max(0, arrival - (m[v + V_WINDOW] << WINDOW_BITS)) >> WINDOW_BITS - PART_BITS
    left = PARTS - gone
    writes = m[v + V_WRITES] + (m[v + V_WRITES_BEFORE] >> PART_BITS) * left >> WINDOW_BITS - PART_BITS
    reads = m[v + V_READS] + (m[v + V_READS_BEFORE] >> PART_BITS) * left >> WINDOW_BITS - PART_BITS
    writes = min(PARTS, writes)
    reads = min(PARTS - writes, reads)
    work = reads * m[READ_BATCH_FS] + writes * m[WRITE_BATCH_FS]
    wait = 2 * work // (4 * PARTS - 3 * (reads + writes))
    busy = m[v + V_BUSY]
    leaves = channel_read(m, v, arrival, granules)
    return max(leaves, arrival + wait + m[v + V_BUSY] - busy)


@compiled
def channel_write(m: Words, v: int, arrival: int, granules: int) -> int:
    """Accept a write to a channel; returns when its last granule is in memory."""
    served = m[v + V_SERVED]
    m[v + V_LAST_WRITE] = served
    mixed = served - m[v + V_LAST_READ] <= MIX_WINDOW
    service = granules * (m[MIXED_FS] if mixed else m[WRITE_FS])
    _turn_to(m, v, arrival)
    m[v + V_WRITES] += service
    return serve(m, v, arrival, service)


@compiled
def _arrived(m: Words, x: int, mask: int, now: int) -> int:
    """Time at which the sectors of `mask` that are on their way have arrived, at least `now`."""
    latest = now
    link = x + X_FILLS
    while m[link]:
        f = m[link]
        time = m[f + F_WHAT]
        if time <= now:
            drop_fill(m, link, False)
            continue
        if m[f + F_MASK] & mask and time > latest:
            latest = time
        link = f + F_NEXT
    return latest


@compiled
def _paired(m: Words, mask: int) -> int:
    """Sectors that DRAM moves for those of a mask (M6)."""
    return mask | (mask & 5) << 1 | (mask & 10) >> 1 if m[PAIRS] else mask


@compiled
def _granules(m: Words, mask: int) -> int:
    return sectors_in(_paired(m, mask)) // (2 if m[PAIRS] else 1)


@compiled
def _allocate_line(m: Words, z: int, number: int, leaves: int, run: int) -> int:
    """Make room at home; a dirty line that has to leave is written to DRAM."""
    home = m[z + Z_HOME]
    old = evict(m, home)
    if old:
        for half in range(m[HALVES]):
            drop(m, m[z + Z_NEAR + half], m[old + X_NUMBER], WHOLE_LINE, False)
        if m[old + X_DIRTY]:
            granules = _granules(m, m[old + X_DIRTY])
            m[run + R_WRITTEN] += granules
            channel_write(m, z + Z_CHANNEL, leaves + m[TO_DRAM_FS], granules)
        discard(m, old, False)
    return enter(m, home, number)


@compiled
def _read_home(m: Words, z: int, number: int, mask: int, leaves: int, run: int) -> int:
    x = touch(m, m[z + Z_HOME], number)
    if not x:
        x = _allocate_line(m, z, number, leaves, run)
    missing = mask & ~m[x + X_VALID]
    ready = _arrived(m, x, mask, leaves)
    m[run + R_L2_HITS] += sectors_in(mask ^ missing)
    if missing:
        fetched = _paired(m, missing) & ~m[x + X_VALID]
        granules = _granules(m, missing)
        m[run + R_READS] += granules
        there = _channel_fetch(m, z + Z_CHANNEL, leaves + m[TO_DRAM_FS], granules) + m[FROM_DRAM_FS]
        m[x + X_VALID] |= fetched
        add_fill(m, x, fetched, there)
        ready = max(ready, there)
    return ready


@compiled
def _enter_near(m: Words, near: int, number: int) -> int:
    x = touch(m, near, number)
    if not x:
        old = evict(m, near)
        if old:
            discard(m, old, False)
        x = enter(m, near, number)
    return x


@compiled
def _read_near(m: Words, z: int, near: int, number: int, mask: int, leaves: int, run: int) -> int:
    """Time at which the sectors are there, asked for at `leaves`; what is not near is fetched from home."""
    x = _enter_near(m, near, number)
    missing = mask & ~m[x + X_VALID]
    ready = _arrived(m, x, mask, leaves)
    m[run + R_L2_HITS] += sectors_in(mask ^ missing)
    if missing:
        hits = m[run + R_L2_HITS]
        there = _read_home(m, z, number, missing, leaves, run)
        if m[run + R_L2_HITS] > hits:
            there = max(there, leaves + m[FAR_FS])
        m[x + X_VALID] |= missing
        if there > leaves:
            add_fill(m, x, missing, there)
        ready = max(ready, there)
    return ready


@compiled
def _pass_halves(m: Words, z: int, number: int, mask: int, partition: int) -> None:
    """Leave a copy of what was written near the writer; copies near the other partition are out of date."""
    for half in range(m[HALVES]):
        near = m[z + Z_NEAR + half]
        if half != partition:
            drop(m, near, number, mask, False)
        else:
            m[_enter_near(m, near, number) + X_VALID] |= mask


@compiled
def sm_of(m: Words, t: int) -> int:
    """SM that a request comes from: its number stands in the request's place in the order."""
    return m[m[SM_TABLE] + (m[t + T_PLACE] >> SM_BIT & SM_MASK)]


@compiled
def _granules_of(m: Words, t: int) -> int:
    return m[t + T_GRANULES] & ((1 << PASSES_BITS) - 1)


@compiled
def _slice_of(m: Words, t: int) -> int:
    return m[SLICES] + m[t + T_CHANNEL] * SLICE_WORDS


@compiled
def slice_read(m: Words, now: int, t: int) -> int:
    """Accept a read that arrives now; returns when its last sector leaves."""
    z, run = _slice_of(m, t), m[t + T_RUN]
    if not m[CACHES]:
        m[run + R_READS] += _granules_of(m, t)
        return channel_read(m, z + Z_CHANNEL, now, _granules_of(m, t))
    leaves = serve(m, z + Z_SERVER, now, m[t + T_SECTORS] * m[L2_SECTOR_FS])
    m[run + R_L2] += m[t + T_SECTORS]
    ready = leaves
    partition = m[sm_of(m, t) + M_PARTITION]
    for k in range(m[t + T_LINE_COUNT]):
        at = m[t + T_LINES] + 2 * k
        if m[HALVES]:
            there = _read_near(m, z, m[z + Z_NEAR + partition], m[at], m[at + 1], leaves, run)
        else:
            there = _read_home(m, z, m[at], m[at + 1], leaves, run)
        ready = max(ready, there)
    return ready


@compiled
def slice_write(m: Words, now: int, t: int) -> int:
    """Accept a write that arrives now; returns when it has been accepted."""
    z, run = _slice_of(m, t), m[t + T_RUN]
    if not m[CACHES]:
        m[run + R_WRITTEN] += _granules_of(m, t)
        return channel_write(m, z + Z_CHANNEL, now, _granules_of(m, t))
    sectors = m[t + T_SECTORS]
    parts = (m[t + T_GRANULES] >> PASSES_BITS) - sectors
    leaves = serve(m, z + Z_SERVER, now, sectors * m[L2_WRITE_FS] + parts * m[L2_PART_FS])
    accepted = leaves
    for k in range(m[t + T_LINE_COUNT]):
        at = m[t + T_LINES] + 2 * k
        number, mask = m[at], m[at + 1]
        x = touch(m, m[z + Z_HOME], number)
        if not x:
            written = m[run + R_WRITTEN]
            x = _allocate_line(m, z, number, leaves, run)
            if m[run + R_WRITTEN] != written:
                accepted = max(accepted, m[z + Z_CHANNEL + V_FREE])
        m[x + X_VALID] |= mask
        m[x + X_DIRTY] |= mask
        _pass_halves(m, z, number, mask, m[sm_of(m, t) + M_PARTITION])
    return accepted


@compiled
def slice_fetch(m: Words, now: int, t: int) -> int:
    """Fetch what atomic operations change; returns when it is there."""
    z, run = _slice_of(m, t), m[t + T_RUN]
    if not m[CACHES]:
        there = slice_read(m, now, t)
        slice_write(m, now, t)
        return there
    leaves = serve(m, z + Z_SERVER, now, m[t + T_SECTORS] * m[L2_SECTOR_FS])
    m[run + R_L2] += m[t + T_SECTORS]
    ready = leaves
    for k in range(m[t + T_LINE_COUNT]):
        at = m[t + T_LINES] + 2 * k
        ready = max(ready, _read_home(m, z, m[at], m[at + 1], leaves, run))
        m[peek(m, m[z + Z_HOME], m[at]) + X_DIRTY] |= m[at + 1]
        _pass_halves(m, z, m[at], m[at + 1], m[sm_of(m, t) + M_PARTITION])
    return ready


@compiled
def slice_perform(m: Words, ready: int, t: int) -> int:
    """Do atomic operations one by one; returns when the last one is done."""
    return serve(m, _slice_of(m, t) + Z_ATOMIC, ready, (m[t + T_GRANULES] >> PASSES_BITS) * m[ATOMIC_FS])
