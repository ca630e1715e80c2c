"""Rule E2: the fast engine. The rules of one GPU's kernels run in compiled code; the host stays with SimPy.

`compiled_loop` plays events until Python is needed: to read blocks from a trace, and to hear that a kernel has ended.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from simpy import Event

from gpusim_des.errors import TraceError
from gpusim_des.line_site import LineSite
from gpusim_des.timeline import BlockSpan
from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.compiled_batch import ReadyStream
from gpusim_des.timing.compiled_dma import WordsPort
from gpusim_des.timing.compiled_history import Histories
from gpusim_des.timing.compiled_jit import Words
from gpusim_des.timing.compiled_loop import play
from gpusim_des.timing.compiled_reader import Reader
from gpusim_des.timing.compiled_words import GpuWords
from gpusim_des.timing.dma import DmaPort
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.order import Kind, Occurrence, end_of_time, order
from gpusim_des.timing.program import Program
from gpusim_des.timing.resident_block import ResidentBlock
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.use import Use
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, OpClass

WARPS_AT_ONCE, WORDS_AT_ONCE = 512, 1 << 18
"""About how many warps, and words of their accesses, are read from a trace at a time."""

RECORDS_AT_ONCE = 1 << 12

EVENTS_AT_ONCE = 1 << 22
"""Events after which the loop lets Python look at the world, for Ctrl-C: about a second."""

AT_ONCE = 1
"""Priority of what follows from an event of the host at the same instant: before all else (SimPy's own)."""

NOTHING: NDArray[np.int64] = np.zeros(1, np.int64)


class CompiledEngine(SimpyEngine):
    """A GPU whose SMs and memory are words in one array; equal to `SimpyEngine` in every integer."""

    def _build(self, *, history: bool) -> None:
        if history:
            raise TraceError("the compiled engine keeps no history of its servers; use engine='simpy'")
        self._watched = {sm for sm in range(self.gpu.sms) if self.probe.watches(sm)}
        self._gpu_words = GpuWords(self.gpu, caches=self.memory.caches, watched=self._watched)
        self._histories = Histories(self.probe, self._gpu_words)
        self._gpu_words.words[at.BUDGET] = EVENTS_AT_ONCE
        self._places: dict[KernelRun, int] = {}
        self._runs: dict[int, KernelRun] = {}
        self._programs: dict[int, ReadyStream] = {}
        """By the stream's identity; streams live as long as their traces."""
        self._programs_by_place: dict[int, Program] = {}
        self._known: dict[KernelRun, dict[int, ReadyStream]] = {}
        self._accounts: dict[KernelRun, dict[LineSite, int]] = {}
        """Of every kernel, the places of source lines in its table of warp-cycles."""
        self._reader = Reader(self.gpu)
        self._blocks_at_once = 1

    # The host and the GPU take turns ----------------------------------------------------------------------------------

    def _run_until(self, end: Event) -> None:
        try:
            self._take_turns(end)
        finally:
            self._reader.close()

    def _take_turns(self, end: Event) -> None:
        env = self.env
        while end.callbacks is not None and not self._stop:
            time_fs, priority = env.first
            if time_fs == env.now and priority <= AT_ONCE:
                env.step()
                continue
            asked = self._advance(time_fs, priority)
            if asked == at.KERNEL_ENDED:
                self._kernel_ends()
            elif asked != at.PAUSED and time_fs != env.never:
                env.step()
            elif asked == at.REACHED or (asked == at.NOTHING_LEFT and super()._more_to_come()):
                raise end_of_time()
            else:
                self._come_to_now(order(Kind.HOST), lambda _: None)
                if asked == at.NOTHING_LEFT:
                    self._report_deadlock()

    def _more_to_come(self) -> bool:
        return self._gpu_words.more_to_come or super()._more_to_come()

    def _reach_limit(self, event: Any) -> None:
        for run in self.runs:
            self._read_counts(run)
        super()._reach_limit(event)

    def _cut(self, cycle: int) -> None:
        gpu = self._gpu_words
        gpu.words[at.CUT], gpu.words[at.BUDGET] = cycle + 1, 0
        # Every warp may have as much to tell as at its exit, at the same time on all SMs.
        gpu.words[at.MARGIN] *= self.gpu.sms
        gpu.make_room()
        play(*gpu.arrays(), cast("Words", NOTHING))
        self._read_log()
        for run in self.runs:
            self._read_counts(run)

    def _come_to_now(self, priority: int, what: Any) -> None:
        """Let something happen on the host's side at the time at which the GPU is, before all else there.

        The host is ahead where nothing has happened on the GPU since.
        """
        Occurrence(self.env, max(self.env.now, int(self._gpu_words.words[at.NOW])), priority, [what])
        self.env.step()

    def _advance(self, time_fs: int, priority: int) -> int:
        """Let the GPU run until a kernel ends, nothing is left, or the host's next event comes first (T2)."""
        words = self._gpu_words.words
        # Priorities on the host's side lie between two kinds of events, or before all of them.
        words[at.UNTIL_FS], words[at.UNTIL_PLACE] = time_fs, ((priority + AT_ONCE >> 120) - 1) << 59
        gpu, batch = self._gpu_words, NOTHING
        while True:
            asked = play(*gpu.arrays(), cast("Words", batch))
            batch = NOTHING
            self._read_log()
            if asked == at.NEEDS_BLOCKS:
                batch = self._read_blocks(int(gpu.words[at.WANTED]))
            elif asked == at.NEEDS_ROOM:
                gpu.make_room(int(gpu.words[at.MARGIN]))
            elif asked != at.PAUSED or self._stop:
                return asked

    def _kernel_begins(self, run: KernelRun) -> None:
        """Let the host's side hear that there is room for the kernel's first block."""
        self._come_to_now(0, lambda _: run.begin())
        while not run.begun.processed:
            self.env.step()

    def _checkpoint(self, run: KernelRun) -> None:
        self._read_counts(run)
        noted: list[int] = []

        def note(_: Any) -> None:
            run.checkpoint(self._use())
            noted.append(run.number)

        self._come_to_now(0, note)
        while not noted:
            self.env.step()

    def _kernel_ends(self) -> None:
        words = self._gpu_words.words
        run = self._runs[int(words[at.WANTED])]
        words[at.WANTED] = 0
        self._read_counts(run)
        self._come_to_now(order(Kind.HOST, age=run.number), lambda _: run.done.succeed())

    def _use(self) -> Use:
        return self._gpu_words.use(self.env.now)

    def _place_blocks(self, run: KernelRun, priority: int) -> None:
        gpu = self._gpu_words
        accounts = {site: at.STATES * number for number, site in enumerate(run.trace.all_sites)}
        self._accounts[run] = accounts
        place = gpu.new_run(
            {
                at.R_NUMBER: run.number,
                at.R_BLOCKS: run.trace.config.blocks,
                at.R_WARPS: run.demand.warps,
                at.R_REGISTERS: run.demand.registers_per_warp,
                at.R_SHARED: run.demand.shared_bytes,
                at.R_PRIORITY: priority,
                at.R_END_FS: run.end_fs,
                at.R_BATCH: gpu.take(WARPS_AT_ONCE),
                at.R_LINES: gpu.take(at.STATES * len(accounts)),
            }
        )
        self._places[run], self._runs[place] = place, run
        gpu.words[at.NOW] = self.env.now
        gpu.start(place, priority)

    def _dma_port(self) -> DmaPort:
        return WordsPort(self._gpu_words, caches=self.memory.caches)

    def _empty_l1(self, lines: int) -> None:
        self._gpu_words.words[at.L1_LINES] = lines

    # What the compiled loop needs -------------------------------------------------------------------------------------

    def _read_blocks(self, place: int) -> NDArray[np.int64]:
        """Read the next blocks of a kernel, and make room for what they can do at one instant."""
        run, gpu = self._runs[place], self._gpu_words
        first = int(gpu.words[place + at.R_PLACED])
        if not first:
            self._kernel_begins(run)
        if first in run.windows:
            self._checkpoint(run)
        count = min(self._blocks_at_once, run.trace.config.blocks - first)
        batch = self._reader.read(run, first, count, lambda number: self._ready(run, number))
        # Scoreboards, warps and tapes are stretches that may be nearly twice as long as what they hold.
        warps = batch.blocks * run.demand.warps
        at_once = self.gpu.sub_partitions * (self.gpu.load_store_queue_depth + 1)
        block = run.demand.warps * (2 * batch.slots + 2 * at.PHASE_WORDS * batch.phases + 256)
        told = self.gpu.max_warps_per_sm * (batch.longest + 64) if self._watched else self.gpu.max_blocks_per_sm
        # A small heap that is full moves to a stretch of four words for every pair, and may be up to half empty then:
        # acknowledgements on their way to an SM, one for every sector at most, and its warps that wait.
        on_the_way = max(int(gpu.words[at.BUFFER_SECTORS]), 4 * batch.widest)
        heaps = 8 * (on_the_way + self.gpu.max_warps_per_sm)
        gpu.need_margin((1 << 14) + at_once * (64 * batch.widest + 64) + block + heaps + at.LOG_WORDS * told)
        gpu.make_room(4 * len(batch.words) + 16 * warps)
        if not first:
            # Room that is not used costs nothing; to make it bit by bit costs copies.
            resident = min(run.trace.config.blocks, run.occupancy.blocks_per_sm * self.gpu.sms + self._blocks_at_once)
            gpu.make_room(2 * len(batch.words) * resident // batch.blocks)
        wanted = batch.blocks * WORDS_AT_ONCE // len(batch.words)
        most = min(2 * batch.blocks + 8, WARPS_AT_ONCE // run.demand.warps)
        self._blocks_at_once = max(1, min(wanted, most))
        first += batch.blocks
        if first < run.trace.config.blocks:
            count = min(self._blocks_at_once, run.trace.config.blocks - first)
            self._reader.read_ahead(run, first, count, self._known[run])
        return batch.words

    def _ready(self, run: KernelRun, number: int) -> ReadyStream:
        """Return a stream of a kernel as it lies among the words, written there when it is met for the first time."""
        stream = run.trace.streams[number]
        known = self._programs.get(id(stream))
        if known is None:
            stream.check()  # compiled code would read what lies behind the scoreboard
            program = run.program(stream)
            bulk = np.array([op is OpClass.BULK_COPY for op in program.ops if op in GLOBAL_OPS], np.int64)
            place = self._gpu_words.write_program(program, self._accounts[run])
            slots = int(self._gpu_words.words[place + at.P_SLOTS])
            memory, n = sum(op in MEMORY_OPS for op in program.ops), len(program.ops)
            ready = ReadyStream(place, slots, len(program.bulk_copies), n, memory, bulk)
            known = self._programs[id(stream)] = ready
            self._programs_by_place[place] = program
        self._known.setdefault(run, {})[number] = known
        return known

    # What the compiled loop has to tell -------------------------------------------------------------------------------

    def _read_log(self) -> None:
        """Read which blocks have retired, and what warps that are watched have done."""
        gpu = self._gpu_words
        records = gpu.log[: at.LOG_WORDS * int(gpu.words[at.LOGGED])].reshape(-1, at.LOG_WORDS)
        gpu.words[at.LOGGED] = 0
        if not len(records):
            return
        runs = {run.number: run for run in self.runs}
        # Records make many small objects and no circles, for which Python would look again and again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for first in range(0, len(records), RECORDS_AT_ONCE):
                for record in records[first : first + RECORDS_AT_ONCE].tolist():
                    if record[0] in (at.LOG_BLOCK, at.LOG_CUT):
                        self._block_ends(runs[record[1]], record)
                    else:
                        self._histories.read(record, self._programs_by_place)
        finally:
            if collecting:
                gc.enable()

    def _block_ends(self, run: KernelRun, record: list[int]) -> None:
        what, number, block, where, dispatched, end, start, last_exit = record
        sm, slot = where >> 16, where & 0xFFFF
        self.probe.block(BlockSpan(number, block, sm, slot, dispatched, end))
        run.was_resident(sm, start, last_exit)
        if what == at.LOG_CUT:
            return
        run.blocks_retired += 1
        if self._progress is not None:
            self._progress(run.trace.name, run.blocks_retired, run.trace.config.blocks)

    def _read_counts(self, run: KernelRun) -> None:
        """Read what was counted for a kernel."""
        place, words = self._places[run], self._gpu_words.words

        def some(field: int, count: int) -> list[int]:
            return cast("list[int]", words[place + field : place + field + count].tolist())

        lines = self._accounts[run]
        table = words[(first := int(words[place + at.R_LINES])) : first + at.STATES * len(lines)]
        run.line_states = dict(zip(lines, table.reshape(-1, at.STATES).tolist(), strict=True))
        run.mix = some(at.R_MIX, at.CLASSES)
        run.quarter_cycles, run.pipe_parts = some(at.R_QUARTERS, at.CLASSES), some(at.R_PARTS, at.PIPES)
        (run.resident_warp_cycles, run.thread_instructions) = some(at.R_RESIDENT, 2)
        (run.l1_sectors, run.l1_hit_sectors, run.stored_sectors) = some(at.R_L1, 3)
        (run.ideal_load_sectors, run.ideal_store_sectors) = some(at.R_IDEAL_LOADS, 2)
        (run.l2_sectors, run.l2_hit_sectors, run.read_granules, run.write_granules) = some(at.R_L2, 4)
        (run.blocks_placed,), (run.writes_under_way, run.end_fs) = some(at.R_PLACED, 1), some(at.R_WRITES, 2)

    def _resident(self) -> Iterator[tuple[ResidentBlock, int]]:
        """Look like the blocks that are resident, for the report of a deadlock."""
        words = self._gpu_words.words
        for number, sm in enumerate(self._gpu_words.sms):
            slots = words[sm + at.M_SLOTS]
            blocks = [b for b in words[slots : slots + self.gpu.max_blocks_per_sm].tolist() if b]
            blocks.sort(key=lambda b: int(words[words[b + at.B_TABLE] + at.W_AGE]))
            for b in blocks:
                warps = []
                for w in words[b + at.B_TABLE : b + at.B_TABLE + words[b + at.B_WARPS]].tolist():
                    program = self._programs_by_place[int(words[w + at.W_PROGRAM])]
                    warp = SimpleNamespace(
                        number=int(words[w + at.W_NUMBER]),
                        next=int(words[w + at.W_NEXT]),
                        program=program,
                        finished=int(words[w + at.W_NEXT]) == len(program.ops),
                        waits_at_barrier=bool(words[w + at.W_AT_BARRIER]),
                        blocked=bool(words[w + at.W_BLOCKED]),
                        left=bool(words[w + at.W_LEFT]),
                    )
                    warps.append(warp)
                run = self._runs[int(words[b + at.B_RUN])]
                block = SimpleNamespace(run=run, block=int(words[b + at.B_NUMBER]), warps=warps)
                yield cast("ResidentBlock", block), number
