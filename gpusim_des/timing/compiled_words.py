"""The array of the compiled engine as Python builds it: the GPU's constants, its SMs, slices, kernels and programs."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpusim_des.gpu import GPU
from gpusim_des.line_site import NO_SITE, LineSite
from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.compiled_jit import Words
from gpusim_des.timing.hbm import MIX_WINDOW
from gpusim_des.timing.program import Program, Timing
from gpusim_des.timing.server import LOOKBACK
from gpusim_des.timing.use import Use
from gpusim_des.trace import GLOBAL_OPS, LINE_BYTES, MEMORY_OPS, SECTOR_BYTES

CACHE_LINE = 64
"""Bytes of a line of the processor's cache."""

LARGEST_STEP = 1 << 26
"""Words by which an array grows at most, where it does not have to: half a gigabyte."""

L1_ROWS, SLICE_ROWS = 1 << 12, 1 << 16
"""Most rows of a cache's table of lines; a cache with more lines has several in a row."""


class GpuWords:
    """The state of a GPU in one array, with its events and its log in two more."""

    def __init__(self, gpu: GPU, *, caches: bool, watched: set[int]) -> None:
        self.gpu = gpu
        self.words: NDArray[np.int64] = _zeros(1 << 24)
        self.events: NDArray[np.int64] = np.zeros(1 << 18, np.int64)
        self.log: NDArray[np.int64] = np.zeros(1 << 16, np.int64)
        self.words[at.NEXT_WORD] = at.HEADER_WORDS
        self.words[at.MARGIN] = 1 << 12
        self._pointers: list[int] = []
        self._timing = Timing(gpu)
        self._keeps_all = bool(watched)
        self._write_constants(caches=caches)
        self._build_slices(caches=caches)
        self.sms = self._build_sms(watched)
        table = self.take(gpu.sms)
        self.words[at.SM_TABLE] = table
        self.words[table : table + gpu.sms] = self.sms
        self._alarms = self.take(2 * gpu.sms)
        self.words[at.ALARMS] = self._alarms
        self.words[self._alarms : self._alarms + 2 * gpu.sms] = [w for sm in self.sms for w in (at.LATEST_FS, sm)]
        self.words[at.RING] = self.take(at.BUCKETS)
        self.words[at.QUEUE] = self.take(gpu.max_concurrent_kernels + 1)

    def arrays(self) -> tuple[Words, Words, Words]:
        """Words, events and log, as the compiled loop takes them."""
        return cast("tuple[Words, Words, Words]", (self.words, self.events, self.log))

    @property
    def more_to_come(self) -> bool:
        """Whether anything is going to happen by itself."""
        return bool(self.words[at.EVENTS]) or int(self.words[self._alarms]) != at.LATEST_FS

    def take(self, words: int) -> int:
        """Take a stretch of zeros that is never given back by Python; returns its place.

        The compiled loop may free it, so it has one of the lengths that the loop takes: a power of two.
        """
        size = 1 << max(at.SMALLEST, (words - 1).bit_length())
        self.make_room(size)
        place = int(self.words[at.NEXT_WORD])
        self.words[at.NEXT_WORD] = place + size
        return place

    def make_room(self, words: int = 0) -> None:
        """Let all arrays have room for what can happen at one instant, and `words` more."""
        margin = int(self.words[at.MARGIN])
        next_word, events, logged = (
            int(self.words[at.NEXT_WORD]),
            int(self.words[at.EVENTS]),
            int(self.words[at.LOGGED]),
        )
        self.words = _grown(self.words, next_word, words + margin)
        self.events = _grown(self.events, at.EVENT_WORDS * events, margin)
        # A log that is only just long enough would be read after every few events.
        self.log = _grown(self.log, at.LOG_WORDS * logged, 8 * margin if self._keeps_all else margin)

    def need_margin(self, words: int) -> None:
        """Demand that so many words are free before every event."""
        self.words[at.MARGIN] = max(int(self.words[at.MARGIN]), words)
        self.make_room()

    def _write_constants(self, *, caches: bool) -> None:
        gpu = self.gpu
        fixed = gpu.l2_fixed_latency_fs if caches else gpu.dram_fixed_latency_fs
        values = {
            at.PERIOD: gpu.sm_period_fs,
            at.PARTS: gpu.sub_partitions,
            at.SMS: gpu.sms,
            at.CACHES: int(caches),
            at.BLOCK_START: gpu.block_start_cycles,
            at.BLOCK_END: gpu.block_end_cycles,
            at.BRANCH_LATENCY: gpu.branch_latency_cycles,
            at.BARRIER_LATENCY: gpu.barrier_latency_cycles,
            at.SHARED_LATENCY: gpu.shared_latency_cycles,
            at.SHUFFLE_LATENCY: gpu.shuffle_latency_cycles,
            at.L1_LATENCY: gpu.l1_latency_cycles,
            at.DISPATCH_FS: gpu.dispatch_interval_fs,
            at.OUT_FS: fixed // 2,
            at.BACK_FS: fixed - fixed // 2,
            at.REQUEST_FS: gpu.port_out_fs(gpu.request_bytes),
            at.SECTOR_OUT_FS: gpu.port_out_fs(SECTOR_BYTES),
            at.SECTOR_BACK_FS: gpu.port_in_fs(SECTOR_BYTES),
            at.READ_FS: gpu.granule_fs("read"),
            at.WRITE_FS: gpu.granule_fs("write"),
            at.MIXED_FS: gpu.granule_fs("mixed"),
            at.L2_SECTOR_FS: gpu.l2_sector_fs,
            at.L2_WRITE_FS: gpu.l2_sector_fs * gpu.l2_write_services,
            at.L2_PART_FS: gpu.l2_sector_fs * (gpu.l2_partial_write_services - gpu.l2_write_services),
            at.READ_BATCH_FS: gpu.dram_batch_fs("read"),
            at.WRITE_BATCH_FS: gpu.dram_batch_fs("write"),
            at.ATOMIC_FS: gpu.atomic_interval_cycles * gpu.sm_period_fs,
            at.FAR_FS: gpu.l2_far_extra_fs,
            at.TO_DRAM_FS: gpu.dram_extra_fs // 2,
            at.FROM_DRAM_FS: gpu.dram_extra_fs - gpu.dram_extra_fs // 2,
            at.PAIRS: int(gpu.dram_granule_bytes == 2 * SECTOR_BYTES),
            at.BUFFER_SECTORS: max(1, gpu.store_buffer_bytes // SECTOR_BYTES),
            at.COPY_SECTOR_FS: -(-SECTOR_BYTES * gpu.sm_period_fs // gpu.bulk_bytes_per_cycle),
            at.BULK_OVERHEAD: gpu.bulk_overhead_cycles,
            at.POLICY: at.POLICIES.index(gpu.scheduler_policy),
            at.HALVES: gpu.l2_partitions if gpu.l2_partitions > 1 else 0,
            at.QUEUE_DEPTH: gpu.load_store_queue_depth,
            at.INTERLEAVE_LINES: gpu.channel_interleave_bytes // LINE_BYTES,
            at.BLOCK_SLOTS: gpu.max_blocks_per_sm,
            at.ASLEEP: 1,
            at.UNTIL_FS: at.LATEST_FS,
            at.L1_LINES: at.NEVER,
            at.WATCHING: int(self._keeps_all),
        }
        for place, value in values.items():
            self.words[place] = value

    def _write(self, place: int, fields: dict[int, Any]) -> None:
        for field, value in fields.items():
            self.words[place + field] = value

    # SMs and slices -------------------------------------------------------------------------------------------------

    def _build_slices(self, *, caches: bool) -> None:
        gpu = self.gpu
        self.slices = self.take(gpu.dram_channels * at.SLICE_WORDS)
        self.words[at.SLICES] = self.slices
        for channel in range(gpu.dram_channels):
            place = self.slices + channel * at.SLICE_WORDS
            self._write(place + at.Z_CHANNEL, {at.V_LAST_READ: -MIX_WINDOW - 1, at.V_LAST_WRITE: -MIX_WINDOW - 1})
            if not caches:
                continue
            self.words[place + at.Z_HOME] = self._build_cache(gpu.l2_slice_lines, SLICE_ROWS)
            for half in range(int(self.words[at.HALVES])):
                self.words[place + at.Z_NEAR + half] = self._build_cache(max(1, gpu.l2_slice_lines // 2), SLICE_ROWS)

    def _build_cache(self, lines: int, most_rows: int) -> int:
        rows = min(most_rows, 1 << (max(1, lines) - 1).bit_length())
        place = self.take(at.CACHE_WORDS)
        self._write(place, {at.C_CAPACITY: lines, at.C_MASK: rows - 1})
        self._point(place + at.C_TABLE, self.take(rows))
        return place

    def _build_heap(self, capacity: int) -> int:
        place = self.take(at.SMALL_HEAP_WORDS)
        self._write(place, {at.Q_CAPACITY: capacity})
        self._point(place + at.Q_ENTRIES, self.take(2 * capacity))
        return place

    def _point(self, place: int, to: int) -> None:
        """Write down where something lies, and that this is a place."""
        self.words[place] = to
        self._pointers.append(place)

    def _build_sms(self, watched: set[int]) -> list[int]:
        """Build one SM, and copy it: the others differ in their places and in their numbers."""
        gpu = self.gpu
        first = int(self.words[at.NEXT_WORD])
        self._pointers.clear()
        sm, units = self._build_sm()
        size, places = int(self.words[at.NEXT_WORD]) - first, np.array(self._pointers) - first
        self.make_room(size * gpu.sms)
        self.words[at.NEXT_WORD] = first + size * gpu.sms
        rows = self.words[first : first + size * gpu.sms].reshape(gpu.sms, size)
        rows[1:] = rows[0]
        numbers = np.arange(gpu.sms)
        rows[:, places] += size * numbers[:, None]
        rows[:, sm - first + at.M_NUMBER] = numbers
        rows[:, sm - first + at.M_SEAT] = numbers
        rows[:, sm - first + at.M_PARTITION] = numbers * gpu.l2_partitions // gpu.sms
        for number in watched:
            rows[number, sm - first + at.M_WATCHED] = 1
            rows[number, np.array(units) - first + at.U_WATCHED] = 1
        return (sm + size * numbers).tolist()

    def _build_sm(self) -> tuple[int, list[int]]:
        """Build an SM; returns its place and those of its units."""
        gpu, parts = self.gpu, self.gpu.sub_partitions
        place = self.take(at.SM_WORDS)
        registers, schedulers = self.take(parts), self.take(parts)
        self.words[registers : registers + parts] = gpu.registers_per_sm // parts
        self._write(
            place,
            {
                at.M_DUE: at.NEVER,
                at.M_STEPPED: -1,
                at.M_SHARED: gpu.shared_bytes_per_sm,
                at.M_WARP_SLOTS: min(gpu.max_warps_per_sm, gpu.max_threads_per_sm // gpu.warp_size),
                at.M_LOOKS_FS: at.NEVER,
            },
        )
        self._point(place + at.M_RELEASES, self._build_heap(64))
        self._point(place + at.M_WAKING, self._build_heap(64))
        self._point(place + at.M_L1, self._build_cache(gpu.l1_bytes // LINE_BYTES, L1_ROWS))
        self._point(place + at.M_REGISTERS, registers)
        self._point(place + at.M_PART_WARPS, self.take(parts))
        self._point(place + at.M_SLOTS, self.take(gpu.max_blocks_per_sm))
        self._point(place + at.M_SCHEDULERS, schedulers)
        shared = [self._build_unit(parts) if s else 0 for s in self._timing.shared_by_sm]
        units = [unit for unit in shared if unit]
        for part in range(parts):
            scheduler = self.take(at.S_ENTRIES + 3 * gpu.max_warps_per_sm)
            self._point(schedulers + part, scheduler)
            self.words[scheduler + at.S_LAST] = at.NEVER
            for number in range(at.UNITS):
                pipe = shared[number] if number < at.PIPES else 0
                unit = pipe or self._build_unit(1)
                units.append(unit)
                self._point(scheduler + at.S_UNITS + number, unit)
                self.words[scheduler + at.S_SEATS + number] = part if pipe else 0
        return place, units

    def _build_unit(self, seats: int) -> int:
        depth = self.gpu.load_store_queue_depth
        place = self.take(at.U_OCCUPIED + max(seats, depth + 2))
        self._write(place, {at.U_SEATS: seats, at.U_DEPTH: depth})
        return place

    # Kernels and programs -------------------------------------------------------------------------------------------

    def new_run(self, fields: dict[int, int]) -> int:
        """Make a kernel."""
        place = self.take(at.RUN_WORDS)
        self._write(place, fields)
        return place

    def start(self, run: int, priority: int) -> None:
        """Queue a kernel for placement behind those of its priority and of higher ones, and wake who places."""
        queue, length = int(self.words[at.QUEUE]), int(self.words[at.QUEUE_LENGTH])
        entries = self.words[queue : queue + length].tolist()
        behind = sum(int(self.words[entry + at.R_PRIORITY]) <= priority for entry in entries)
        entries.insert(behind, run)
        self.words[queue : queue + length + 1] = entries
        self.words[at.QUEUE_LENGTH] = length + 1
        self.words[at.WAKE_DISPATCHER] = 1

    def write_program(self, program: Program, accounts: dict[LineSite, int]) -> int:
        """Write a stream down; returns its place. `accounts`: distances of lines in the kernel's table."""
        slots, count = self._slots(program)
        n = len(program.ops)
        deps = [slots[d] << 4 | program.waiting[d] for producers in program.deps for d in producers]
        first = at.P_CODE + (n + 1) * at.INSTRUCTION_WORDS
        place = self.take(first + len(deps))
        first += place
        phases = self.take(2 * len(program.bulk_copies) + 1)
        for k, (phase, copies) in enumerate(program.bulk_copies.items()):
            self.words[phases + 2 * k : phases + 2 * k + 2] = phase, copies
        memory = [op in GLOBAL_OPS for op in program.ops if op in MEMORY_OPS]
        is_global = self.take(len(memory) + 1)
        self.words[is_global : is_global + len(memory)] = memory
        self._write(
            place,
            {
                at.P_LENGTH: n,
                at.P_SLOTS: count,
                at.P_PHASES: phases,
                at.P_PHASE_COUNT: len(program.bulk_copies),
                at.P_GLOBALS: is_global,
                at.P_IDEAL_LOADS: program.ideal_sectors[0],
                at.P_IDEAL_STORES: program.ideal_sectors[1],
            },
        )
        lines = [accounts[site] for site in program.sites]
        code = self.words[place + at.P_CODE : first].reshape(n + 1, at.INSTRUCTION_WORDS)
        code[:, at.I_LINE] = [*lines, lines[-1] if lines else accounts[NO_SITE]]
        if not n:
            return place
        self.words[first : first + len(deps)] = deps
        ends = first + np.cumsum([len(producers) for producers in program.deps])
        for field, values in (
            (at.I_OP, program.ops),
            (at.I_UNIT, program.units),
            (at.I_LATENCY, program.latencies),
            (at.I_INTERVAL, program.intervals),
            (at.I_WAITING, program.waiting),
            (at.I_TURNED_AWAY, program.turned_away),
            (at.I_LANES, program.lanes),
            (at.I_OPERAND, program.operands),
            (at.I_SLOT, slots),
            (at.I_DEPS, [first, *ends[:-1]]),
            (at.I_DEPS_END, ends),
            (at.I_UNREAD, [index in program.unread for index in range(n)]),
        ):
            code[:n, field] = values
        return place

    def _slots(self, program: Program) -> tuple[list[int], int]:
        """Places in a warp's scoreboard: one for every result that is read, until it was read for the last time."""
        n = len(program.ops)
        if self._keeps_all:
            return list(range(n)), n
        last = {producer: index for index, producers in enumerate(program.deps) for producer in producers}
        slots, free, count = [-1] * n, list[int](), 0
        for index, producers in enumerate(program.deps):
            # Operands are read before the result is written, so an instruction may take over a place.
            free += [slots[producer] for producer in set(producers) if last[producer] == index]
            if index in last:
                if not free:
                    free.append(count)
                    count += 1
                slots[index] = free.pop()
        return slots, count

    # What has been ------------------------------------------------------------------------------------------------

    def use(self, time_fs: int) -> Use:
        """How busy slices, atomic units and channels have been until now, as `FifoServer.busy_before`."""
        channels = self.gpu.dram_channels
        slices = self.words[self.slices : self.slices + channels * at.SLICE_WORDS].reshape(channels, at.SLICE_WORDS)

        def busy(server: int) -> list[int]:
            one = slices[:, server : server + at.SERVER_WORDS]
            stretches = one[:, at.V_STRETCHES :].reshape(channels, LOOKBACK, 2)
            # Rows that no stretch has filled yet are empty stretches at time 0.
            starts, ends = np.maximum(stretches[:, :, 0], time_fs), stretches[:, :, 1]
            idle = np.where(ends > time_fs, ends - starts, 0).sum(axis=1)
            beyond = np.maximum(one[:, at.V_FREE] - time_fs, 0)
            return cast("list[int]", (one[:, at.V_BUSY] - beyond + idle).tolist())

        return Use(time_fs, busy(at.Z_SERVER), busy(at.Z_ATOMIC), busy(at.Z_CHANNEL))


def _zeros(words: int) -> NDArray[np.int64]:
    """Make an array whose first word lies at the beginning of a line of the processor's cache."""
    array = np.zeros(words + CACHE_LINE // 8, np.int64)
    skipped = -array.ctypes.data % CACHE_LINE // array.itemsize
    return array[skipped : skipped + words]


def _grown(array: NDArray[np.int64], used: int, more: int) -> NDArray[np.int64]:
    """Return the array, or a longer copy if it has fewer than so many words behind those that are used."""
    if used + more <= len(array):
        return array
    longer = _zeros(max(used + more, len(array) + min(len(array), LARGEST_STEP)))
    # What was never written costs no memory: it is not copied.
    longer[:used] = array[:used]
    return longer
