"""What blocks will do, read from a trace and laid out for the compiled engine: packets by channel (M4, W3, W4)."""

from __future__ import annotations

from gpusim_des.timing.compiled_arena import allocate
from gpusim_des.timing.compiled_jit import Words, compiled
from gpusim_des.timing.compiled_layout import (
    A_PACKET,
    A_PACKETS,
    A_WORDS,
    INTERLEAVE_LINES,
    K_CHANNEL,
    K_GRANULES,
    K_LINE,
    K_LINES,
    K_PASSES,
    K_SECTORS,
    P_GLOBALS,
    R_BATCH,
    R_BATCH_AT,
    R_BATCH_END,
)


@compiled
def write_tapes(m: Words, x: Words, run: int) -> None:
    """Lay out a batch of blocks.

    The input holds the numbers of blocks, warps and pieces, then for every warp its program and how many
    memory instructions and global accesses it has, then the quarter-cycles, then for every access the number of its
    pieces and whether it is a bulk copy, then the pieces: line, mask, channel, sectors, granules, passes.

    A tape holds its length, the number of warps, for every warp the program and where its memory instructions begin,
    and then those: the quarter-cycles of each, and behind them the access of a global one.
    """
    blocks, warps, quarters, accesses = x[0], x[1], x[2], x[3]
    head = 4
    quarter = head + 3 * blocks * warps
    access = quarter + quarters
    piece = access + 2 * accesses
    for block in range(blocks):
        words = 2 + 2 * warps
        at, pieces = access, 0
        for k in range(warps):
            words += x[head + 3 * k + 1]
            for _ in range(x[head + 3 * k + 2]):
                pieces += x[at]
                at += 2
                words += A_PACKET
        words += pieces * (K_LINE + 2)
        tape = allocate(m, words)
        m[tape] = words
        m[tape + 1] = warps
        to = 2 + 2 * warps
        for k in range(warps):
            m[tape + 2 + 2 * k] = x[head]
            m[tape + 3 + 2 * k] = to
            is_global = m[x[head] + P_GLOBALS]
            for n in range(x[head + 1]):
                m[tape + to] = x[quarter + n]
                to += 1
                if m[is_global + n]:
                    to += _write_access(m, x, tape + to, piece, x[access], x[access + 1])
                    piece += 6 * x[access]
                    access += 2
            quarter += x[head + 1]
            head += 3
        m[m[run + R_BATCH] + block] = tape
    m[run + R_BATCH_AT] = 0
    m[run + R_BATCH_END] = blocks


@compiled
def _write_access(m: Words, x: Words, a: int, piece: int, pieces: int, bulk: int) -> int:
    """Group the pieces of an access into packets; returns its length.

    Those of one channel travel together, in the order in which the access meets the channels; those of a bulk copy
    one interleave unit after another (M4).
    """
    to = a + A_PACKET
    packets = 0
    for k in range(pieces):
        p = piece + 6 * k
        same = False
        for other in range(k):
            o = piece + 6 * other
            if _together(m, x, o, p, bulk):
                same = True
                break
        if same:
            continue
        packets += 1
        m[to + K_CHANNEL] = x[p + 2]
        m[to + K_SECTORS] = 0
        m[to + K_GRANULES] = 0
        m[to + K_PASSES] = 0
        m[to + K_LINES] = 0
        for other in range(k, pieces):
            o = piece + 6 * other
            if not _together(m, x, o, p, bulk):
                continue
            line = to + K_LINE + 2 * m[to + K_LINES]
            m[line] = x[o]
            m[line + 1] = x[o + 1]
            m[to + K_LINES] += 1
            m[to + K_SECTORS] += x[o + 3]
            m[to + K_GRANULES] += x[o + 4]
            m[to + K_PASSES] += x[o + 5]
        to += K_LINE + 2 * m[to + K_LINES]
    m[a + A_PACKETS] = packets
    m[a + A_WORDS] = to - a
    return to - a


@compiled
def _together(m: Words, x: Words, a: int, b: int, bulk: int) -> bool:
    if bulk:
        return x[a] // m[INTERLEAVE_LINES] == x[b] // m[INTERLEAVE_LINES]
    return x[a + 2] == x[b + 2]
