"""Where the compiled engine keeps things: one array of integers, in which every object is a stretch of words.

An object is known by the place of its first word; a name below is the distance of a field from there, or, for the
header, the place itself.
"""

from __future__ import annotations

from gpusim_des.timeline import WarpState
from gpusim_des.timing.program import PIPE_CLASSES
from gpusim_des.timing.server import LOOKBACK
from gpusim_des.trace import OpClass

NEVER = -1
"""A result that is not known yet, and a time that was not set."""

FAR = 1 << 60
"""A cycle that never comes."""

LATEST_FS = 1 << 62
"""A time that never comes."""

STATES, CLASSES, PIPES = len(WarpState), len(OpClass), len(PIPE_CLASSES)
UNITS = PIPES + 2

# Header: constants of the GPU -----------------------------------------------------------------------------------------

(
    PERIOD,
    PARTS,
    SMS,
    CACHES,
    BLOCK_START,
    BLOCK_END,
    BRANCH_LATENCY,
    BARRIER_LATENCY,
    SHARED_LATENCY,
    SHUFFLE_LATENCY,
    L1_LATENCY,
    DISPATCH_FS,
    OUT_FS,
    BACK_FS,
    REQUEST_FS,
    SECTOR_OUT_FS,
    SECTOR_BACK_FS,
    READ_FS,
    WRITE_FS,
    MIXED_FS,
    L2_SECTOR_FS,
    L2_WRITE_FS,
    L2_PART_FS,
    READ_BATCH_FS,
    WRITE_BATCH_FS,
    ATOMIC_FS,
    FAR_FS,
    TO_DRAM_FS,
    FROM_DRAM_FS,
    PAIRS,
    BUFFER_SECTORS,
    COPY_SECTOR_FS,
    BULK_OVERHEAD,
    POLICY,
    HALVES,
    QUEUE_DEPTH,
    INTERLEAVE_LINES,
    BLOCK_SLOTS,
    # What changes
    NOW,
    NEXT_WORD,
    MARGIN,
    EVENTS,
    NEAR,
    BUCKET,
    RING,
    ALARMS,
    WATCHING,
    LOGGED,
    SM_TABLE,
    SLICES,
    ASLEEP,
    NEXT_PLACEMENT_FS,
    NEXT_AGE,
    QUEUE,
    QUEUE_LENGTH,
    WAKE_DISPATCHER,
    L1_LINES,
    WANTED,
    BUDGET,
    UNTIL_FS,
    UNTIL_PLACE,
    CUT,
    FREE_LISTS,
) = range(63)
"""FREE_LISTS and the words behind it: the first free stretch of every length."""

LONG = 10
"""Stretches of more than 2^10 words have lengths a quarter of a power of two apart."""

HEADER_WORDS = (FREE_LISTS + LONG + 4 * (48 - LONG) + 63) // 64 * 64
"""Stretches begin at whole lines of the processor's cache."""

SMALLEST = 3
"""Stretches of fewer than 2^3 words are pieces of longer ones."""

POLICIES = ("gto", "lrr", "oldest")

# A kernel: what KernelRun counts, in its words ------------------------------------------------------------------------

(
    R_NUMBER,
    R_BLOCKS,
    R_PLACED,
    R_RETIRED,
    R_WARPS,
    R_REGISTERS,
    R_SHARED,
    R_PRIORITY,
    R_WRITES,
    R_END_FS,
    R_RESIDENT,
    R_LANES,
    R_L1,
    R_L1_HITS,
    R_STORED,
    R_IDEAL_LOADS,
    R_IDEAL_STORES,
    R_L2,
    R_L2_HITS,
    R_READS,
    R_WRITTEN,
    R_BATCH,
    R_BATCH_AT,
    R_BATCH_END,
    R_LINES,
) = range(25)
"""LINES is the place of a table: warp-cycles by state for every source line."""
R_MIX = R_LINES + 1
R_QUARTERS = R_MIX + CLASSES
R_PARTS = R_QUARTERS + CLASSES
RUN_WORDS = R_PARTS + PIPES

# A stream made ready --------------------------------------------------------------------------------------------------

P_LENGTH, P_SLOTS, P_PHASES, P_PHASE_COUNT, P_IDEAL_LOADS, P_IDEAL_STORES, P_GLOBALS, P_CODE = range(8)
(
    I_OP,
    I_UNIT,
    I_LATENCY,
    I_INTERVAL,
    I_WAITING,
    I_TURNED_AWAY,
    I_LANES,
    I_OPERAND,
    I_SLOT,
    I_DEPS,
    I_DEPS_END,
    I_UNREAD,
    I_LINE,
) = range(13)
INSTRUCTION_WORDS = 13
"""LINE is the distance of its line's account in the table of its kernel; behind the last instruction stands one that
has nothing but the last one's line.

Dependencies are words of their own: the slot of the operand times 16 plus the state of a warp that waits for it."""

# An SM with its schedulers and units ----------------------------------------------------------------------------------

(
    M_NUMBER,
    M_PARTITION,
    M_DUE,
    M_SEAT,
    M_FIRST,
    M_BLOCKS,
    M_STEPPED,
    M_ROOM_RUN,
    M_ROOM,
    M_SHARED,
    M_WARP_SLOTS,
    M_PORT_OUT,
    M_PORT_BACK,
    M_UNIT,
    M_COPY_UNIT,
    M_BUFFERED,
    M_RELEASES,
    M_WAKING,
    M_WAITING,
    M_WAITING_LAST,
    M_LOOKS_FS,
    M_L1,
    M_WATCHED,
    M_REGISTERS,
    M_PART_WARPS,
    M_SLOTS,
    M_SCHEDULERS,
) = range(27)
SM_WORDS = 27

Q_COUNT, Q_CAPACITY, Q_ENTRIES = range(3)
"""A small heap of pairs, smallest first number on top."""
SMALL_HEAP_WORDS = 3

S_READY, S_LAST, S_RETRY, S_UNITS = range(4)
S_SEATS = S_UNITS + UNITS
S_ENTRIES = S_SEATS + UNITS
"""Ready warps, oldest first, three words each: age, warp, unit."""

U_FREE, U_PARTS, U_SEATS, U_WATCHED, U_DEPTH, U_HEAD, U_COUNT, U_OCCUPIED = range(8)
"""A pipe or a load/store queue; the queue's leaving cycles lie behind its one seat."""

# A block and its warps ------------------------------------------------------------------------------------------------

(
    B_RUN,
    B_NUMBER,
    B_SLOT,
    B_DISPATCHED,
    B_STAYING,
    B_WARPS,
    B_AT_BARRIER,
    B_LAST_ARRIVAL,
    B_LAST_EXIT,
    B_SM,
    B_TAPE,
    B_WRITES,
    B_RETIRED,
    B_PHASES,
    B_PHASE_COUNT,
    B_OPENED,
    B_OPENED_WARP,
    B_OPENED_AT,
    B_TABLE,
) = range(19)

PHASE_WORDS = 5
"""Phase, copies missing, cycle of the last end, and warp and instruction of the copy that ended last."""

(
    # What every instruction needs, in three lines of the processor's cache
    W_CODE,
    W_END,
    W_NEXT,
    W_SM,
    W_RUN,
    W_READY,
    W_ISSUED,
    W_SINCE,
    W_AGE,
    W_PART,
    W_TAPE,
    W_IN_FLIGHT,
    W_LAST_MEMORY,
    W_LAST_RESULT,
    W_BLOCKED,
    W_OCCUPIED,
    W_AT_BARRIER,
    W_AT_FENCE,
    W_BARRIER_UNTIL,
    W_MEMBAR_UNTIL,
    W_BRANCH_UNTIL,
    W_DEADLINES,
    W_DEADLINE,
) = range(23)
(
    W_BLOCK,
    W_NUMBER,
    W_PROGRAM,
    W_START,
    W_START_UNTIL,
    W_UNACKNOWLEDGED,
    W_ACKNOWLEDGED_UNTIL,
    W_LEFT,
    W_LEFT_AT,
    W_SCOREBOARD,
) = range(W_DEADLINE + 2 * 7, W_DEADLINE + 2 * 7 + 10)
"""The scoreboard is the end of a warp: the cycle of completion of every result that is still to be read."""

# What is under way ----------------------------------------------------------------------------------------------------

K_CHANNEL, K_SECTORS, K_GRANULES, K_PASSES, K_LINES, K_LINE = range(6)
"""A packet; its lines are pairs of number and mask."""

A_WORDS, A_PACKETS, A_PACKET = range(3)
"""An access: its length in words, the number of its packets, and the packets one behind another."""

L_WARP, L_INDEX, L_MISSING, L_ARRIVED = range(4)
LOAD_WORDS = 4

(
    T_TIME,
    T_PLACE,
    T_DETAIL,
    T_WHAT,
    T_NEXT,
    T_CHANNEL,
    T_GRANULES,
    T_RUN,
    T_SECTORS,
    T_LOAD,
    T_MORE_LOADS,
    T_ARRIVED,
    T_OWN,
    T_LINES,
    T_LINE_COUNT,
    T_WARP,
) = range(16)
REQUEST_WORDS = 16
"""A packet on its way, which is its own event: the first words are those of `E_TIME` to `E_NEXT`.

In WHAT stands how many remember it, times 16, plus what happens to it; in GRANULES the passes times 2^32, plus the
granules. OWN is the length of its list of lines where that is not the packet's.
"""

WHAT_BITS = 4
REMEMBERED = 1 << WHAT_BITS
PASSES_BITS = 32

N_WARP, N_INDEX, N_OP, N_QUARTERS, N_ACCESS, N_STORED, N_CYCLE, N_QUEUE, N_NEXT = range(9)
WAITING_WORDS = 9

# Caches and servers ---------------------------------------------------------------------------------------------------

C_CAPACITY, C_COUNT, C_OLDEST, C_NEWEST, C_TABLE, C_MASK = range(6)
CACHE_WORDS = 6
X_NUMBER, X_VALID, X_DIRTY, X_FILLS, X_BEFORE, X_AFTER, X_CHAIN = range(7)
LINE_WORDS = 7
F_MASK, F_WHAT, F_NEXT = range(3)
FILL_WORDS = 3

V_FREE, V_BUSY, V_SERVED, V_LAST_READ, V_LAST_WRITE, V_IDLE = range(6)
V_WINDOW, V_READS, V_WRITES, V_READS_BEFORE, V_WRITES_BEFORE = range(6, 11)
V_STRETCHES = 11
SERVER_WORDS = V_STRETCHES + 2 * LOOKBACK
"""A server, and its latest idle stretches in a ring; IDLE counts all of them."""

Z_SERVER = 0
Z_ATOMIC = SERVER_WORDS
Z_CHANNEL = 2 * SERVER_WORDS
Z_HOME = 3 * SERVER_WORDS
Z_NEAR = Z_HOME + 1
SLICE_WORDS = Z_NEAR + 2

# Events ---------------------------------------------------------------------------------------------------------------

EVENT_WORDS = 4
"""Time, place in the order (kind, SM, sub-partition, age), detail (instruction, packet), and what happens to what."""

E_TIME, E_PLACE, E_MORE, E_WHAT, E_NEXT = range(5)
LATER_WORDS = 5
"""The same of an event that is not near yet, and the next one in its bucket."""

BUCKETS = 1 << 12

(
    READ_ARRIVES,
    READ_REPLIES,
    WRITE_ARRIVES,
    WRITE_PERFORMS,
    BULK_ASKS,
    ATOMIC_ARRIVES,
    ATOMIC_PERFORMS,
    BUFFER_DRAINS,
    BLOCK_RETIRES,
    DISPATCHES,
    KERNEL_ENDS,
) = range(11)
LAST_OF_REQUESTS = ATOMIC_PERFORMS

# What Python is asked for, and what the log says ----------------------------------------------------------------------

NEEDS_BLOCKS, KERNEL_ENDED, NOTHING_LEFT, NEEDS_ROOM, PAUSED, REACHED = range(1, 7)

LOG_WORDS = 8
LOG_BLOCK, LOG_STATE, LOG_WAITED, LOG_ISSUE, LOG_COMPLETE, LOG_EXIT, LOG_OCCUPIED, LOG_EARLY, LOG_CUT = range(9)

BLOCK_START_CAUSE, EXIT_CAUSE, ACKNOWLEDGEMENT_CAUSE = range(CLASSES, CLASSES + 3)
"""What ended a wait, beside the classes of instructions; `NEVER` where nothing is known."""
