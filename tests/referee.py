"""A naive second opinion on a timeline: every cycle of every warp, derived again from the rules.

The referee takes from the engine only the cycles of issue. From those it computes, in the plainest way it can, when
every result is complete (`Memory`), and then walks through all cycles to see which warp could have issued (`Referee`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, TypeVar

from gpusim_des.gpu import GPU, Pipe
from gpusim_des.timeline import Timeline, WarpHistory, WarpState
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, SHARED_OPS, OpClass
from tests.programs import Case, Part

Key = tuple[int, int]
"""Age of a warp and number of its instruction."""


class Player(NamedTuple):
    """A warp: what it should do and what it did."""

    age: int
    block: int
    history: WarpHistory
    program: list[Part]
    cycles: dict[int, int]
    """Cycle of issue of every instruction."""

    def before(self, cycle: int) -> int:
        """Instructions issued before `cycle`: the number of the next one."""
        return sum(c < cycle for c in self.cycles.values())


def players(case: Case, timeline: Timeline) -> list[Player]:
    """The warps of the only kernel, oldest first (T2: by block number, then warp number)."""
    width = len(case.blocks[0])
    found = []
    for history in timeline.warps:
        program = case.blocks[history.block][history.warp]
        cycles = {event.index: event.cycle for event in history.issues}
        assert list(cycles) == list(range(len(program)))
        assert [event.op for event in history.issues] == [kind.label for kind, *_ in program]
        found.append(Player(history.block * width + history.warp, history.block, history, program, cycles))
    assert [player.age for player in found] == list(range(width * len(case.blocks)))
    return found


def channel_of(sector: int, gpu: GPU) -> int:
    """M4 once more, for one sector."""
    unit = sector * 32 // gpu.channel_interleave_bytes
    if gpu.channel_hash == "linear":
        return unit % gpu.dram_channels
    turn, word = unit // gpu.dram_channels, 1 << 64
    for multiplier, shift in ((0x9E3779B97F4A7C15, 17), (0xBF58476D1CE4E5B9, 29)):
        turn = (turn ^ turn >> shift) * multiplier % word
    return (unit + (turn >> 32) * gpu.dram_channels // (1 << 32)) % gpu.dram_channels


class Packet(NamedTuple):
    """Sectors of one access on one channel; sorts by time and then by rule T2."""

    time_fs: int
    sm: int
    sub_partition: int
    age: int
    instruction: int
    part: int
    channel: int
    is_load: bool
    sectors: int
    granules: int


class Memory:
    """When every memory instruction is complete, given when they were issued."""

    def __init__(self, gpu: GPU, warps: list[Player]) -> None:
        self.gpu = gpu
        self.complete: dict[Key, int] = {}
        self.leaves: dict[Key, int] = {}
        """Cycle at which the load/store unit has finished an instruction."""
        self.writes_end_fs = 0
        self.served: list[tuple[int, int, int]] = []
        """Channel, arrival and departure of every packet."""
        packets: list[Packet] = []
        for sm in range(gpu.sms):
            packets += self._through_the_unit(sm, [w for w in warps if w.history.sm == sm])
        self._back_through_the_ports(self._through_the_channels(sorted(packets)))

    def _through_the_unit(self, sm: int, warps: list[Player]) -> list[Packet]:
        gpu, packets, unit, port = self.gpu, [], 0, 0
        half = gpu.dram_fixed_latency_fs // 2
        for cycle, player, index in in_acting_order(gpu, warps):
            kind, _, quarters, sectors, *_ = player.program[index]
            if kind not in MEMORY_OPS:
                continue
            key = player.age, index
            unit = max(unit, 4 * cycle) + max(quarters, 4)
            self.leaves[key] = self.complete[key] = -(-unit // 4)
            if kind is OpClass.SHARED_LOAD:
                self.complete[key] += gpu.shared_latency_cycles - 1
            elif kind is OpClass.SHUFFLE:
                self.complete[key] += gpu.shuffle_latency_cycles - 1
            elif kind in GLOBAL_OPS:
                is_load = kind is OpClass.GLOBAL_LOAD
                on_channel: dict[int, list[int]] = {}
                for sector in sectors:
                    on_channel.setdefault(channel_of(sector, gpu), []).append(sector)
                for part, (channel, together) in enumerate(on_channel.items()):
                    port = max(port, -(-unit * gpu.sm_period_fs // 4)) + gpu.port_out_fs(gpu.request_bytes)
                    port += 0 if is_load else len(together) * gpu.port_out_fs(32)
                    granules = len({s * 32 // gpu.dram_granule_bytes for s in together})
                    place = sm, player.history.sub_partition, player.age, index, part
                    packets.append(Packet(port + half, *place, channel, is_load, len(together), granules))
        return packets

    def _through_the_channels(self, packets: list[Packet]) -> list[Packet]:
        """Serve in the order of arrival; returns the loads as they come back to their SMs."""
        gpu, replies = self.gpu, []
        free: dict[int, int] = defaultdict(int)
        kinds: dict[int, list[bool]] = defaultdict(list)
        for packet in packets:
            recent = kinds[packet.channel][-16:]
            kinds[packet.channel].append(packet.is_load)
            mixed = (not packet.is_load) in recent
            fs = gpu.granule_fs("mixed" if mixed else "read" if packet.is_load else "write")
            end = max(free[packet.channel], packet.time_fs) + packet.granules * fs
            free[packet.channel] = end
            self.served.append((packet.channel, packet.time_fs, end))
            if packet.is_load:
                back = gpu.dram_fixed_latency_fs - gpu.dram_fixed_latency_fs // 2
                replies.append(packet._replace(time_fs=end + back))
            else:
                self.writes_end_fs = max(self.writes_end_fs, end)
        return replies

    def _back_through_the_ports(self, replies: list[Packet]) -> None:
        port: dict[int, int] = defaultdict(int)
        for packet in sorted(replies):
            port[packet.sm] = max(port[packet.sm], packet.time_fs) + packet.sectors * self.gpu.port_in_fs(32)
            key = packet.age, packet.instruction
            self.complete[key] = max(self.complete[key], -(-port[packet.sm] // self.gpu.sm_period_fs))


AnyMemory = TypeVar("AnyMemory", bound=Memory)


def pipe_of(gpu: GPU, kind: OpClass) -> Pipe | None:
    """The arithmetic pipe of a class, if it has one."""
    if kind is OpClass.VOTE:
        kind = OpClass.INT
    if kind in MEMORY_OPS or kind in (OpClass.BARRIER, OpClass.EXIT):
        return None
    return gpu.pipe(kind.label)


def in_acting_order(gpu: GPU, warps: list[Player]) -> list[tuple[int, Player, int]]:
    """All issues of an SM as (cycle, warp, instruction), in the order in which its schedulers act (I5).

    The sub-partition after the last one that got a unit shared by the SM acts first.
    """
    by_cycle: dict[int, list[tuple[Player, int]]] = defaultdict(list)
    for player in warps:
        for index, cycle in player.cycles.items():
            by_cycle[cycle].append((player, index))
    ordered, first = [], 0
    for cycle in sorted(by_cycle):
        begin = first
        for player, index in sorted(
            by_cycle[cycle], key=lambda issue: (issue[0].history.sub_partition - begin) % gpu.sub_partitions
        ):
            ordered.append((cycle, player, index))
            pipe = pipe_of(gpu, player.program[index][0])
            if pipe is not None and pipe.shared_by_sm:
                first = (player.history.sub_partition + 1) % gpu.sub_partitions
    return ordered


class Referee:
    """Walks through all cycles of one SM and objects to whatever breaks a rule."""

    def __init__(self, gpu: GPU, memory: Memory, warps: list[Player]) -> None:
        self.gpu = gpu
        self.memory = memory
        self.warps = warps
        self.order = in_acting_order(gpu, warps)
        self.place = {(w.age, i): n for n, (_, w, i) in enumerate(self.order)}
        self.last: list[Player | None] = [None] * gpu.sub_partitions

    # What a warp waits for -------------------------------------------------------------------------------------------

    def complete(self, player: Player, index: int) -> int:
        """Cycle at which a result can be used."""
        kind = player.program[index][0]
        if kind in MEMORY_OPS:
            return self.memory.complete[player.age, index]
        pipe = pipe_of(self.gpu, kind)
        return player.cycles[index] + (pipe.latency_cycles if pipe and kind is not OpClass.BRANCH else 1)

    def leaves(self, player: Player) -> int:
        """Cycle at which a warp leaves: everything is issued, done and complete."""
        end = player.history.start_cycle + self.gpu.block_start_cycles
        for index, cycle in player.cycles.items():
            end = max(end, cycle + 1, self.complete(player, index))
            if player.program[index][0] is OpClass.BRANCH:
                end = max(end, cycle + self.gpu.branch_latency_cycles)
            if player.program[index][0] is OpClass.BARRIER:
                end = max(end, self.opens(player, index))
        return end

    def opens(self, player: Player, index: int) -> int:
        """Cycle from which the barrier at `index` lets the warps go on (I6)."""
        rank = sum(kind is OpClass.BARRIER for kind, *_ in player.program[:index])
        arrivals, exits = [], [0]
        for other in self.warps:
            if other.block == player.block:
                barriers = [i for i, part in enumerate(other.program) if part[0] is OpClass.BARRIER]
                if len(barriers) > rank:
                    arrivals.append(other.cycles[barriers[rank]])
                else:
                    exits.append(self.leaves(other))
        latency = self.gpu.barrier_latency_cycles
        return max(max(arrivals) + max(latency, 1), max(exits) + latency)

    def reason(self, player: Player, cycle: int) -> WarpState | None:
        """First reason of rule I7 that keeps a warp from issuing, units aside."""
        index = player.before(cycle)
        previous = player.program[index - 1][0] if index else None
        until: dict[WarpState, int] = defaultdict(int)
        if previous is None:
            until[WarpState.NO_INSTRUCTION] = player.history.start_cycle + self.gpu.block_start_cycles
        if previous is OpClass.BARRIER:
            until[WarpState.BARRIER] = self.opens(player, index - 1)
        if previous is OpClass.BRANCH:
            until[WarpState.BRANCH_RESOLVING] = player.cycles[index - 1] + self.gpu.branch_latency_cycles
        leaving = index == len(player.program)
        for producer in range(index) if leaving else player.program[index][1]:
            state = _drain_state(player, producer) if leaving else _operand_state(player, producer)
            until[state] = max(until[state], self.complete(player, producer))
        return next((state for state in WarpState if cycle < until[state]), None)

    # Units -----------------------------------------------------------------------------------------------------------

    def unit_taken(self, player: Player, cycle: int, granted: list[Player]) -> bool:
        """Tell whether the unit of the next instruction is taken at `cycle`.

        In the cycle of a grant the unit is taken for the warps of the sub-partitions other than those in `granted`.
        """
        kind = player.program[player.before(cycle)][0]
        part = player.history.sub_partition
        if kind in MEMORY_OPS:
            inside = sum(
                c < cycle < self.memory.leaves[w.age, i]
                for c, w, i in self.order
                if w.history.sub_partition == part and w.program[i][0] in MEMORY_OPS
            )
            return inside >= self.gpu.load_store_queue_depth
        pipe = pipe_of(self.gpu, kind)
        if pipe is None:
            return False
        for c, w, i in self.order:
            other = w.history.sub_partition
            busy = c < cycle < c + pipe.interval_cycles or (c == cycle and other != part and w in granted)
            if busy and pipe_of(self.gpu, w.program[i][0]) == pipe and (pipe.shared_by_sm or other == part):
                return True
        return False

    # Verdicts --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check every cycle, and the states that the engine recorded."""
        for player in self.warps:
            assert player.history.end_cycle == self.leaves(player), "exit"
            for index, event in enumerate(player.history.issues):
                assert event.complete_cycle == self.complete(player, index), "completion"
        recorded = {w.age: cycle_states(w.history) for w in self.warps}
        end = max((w.history.end_cycle for w in self.warps), default=0)
        for cycle in range(end):
            issuing = [w for c, w, _ in self.order if c == cycle]
            assert len({w.history.sub_partition for w in issuing}) == len(issuing), "two issues in a cycle"
            for part in range(self.gpu.sub_partitions):
                here = [w for w in self.warps if w.history.sub_partition == part and cycle in recorded[w.age]]
                self._check_scheduler(part, cycle, here, issuing, recorded)

    def _check_scheduler(
        self,
        part: int,
        cycle: int,
        here: list[Player],
        issuing: list[Player],
        recorded: dict[int, dict[int, WarpState]],
    ) -> None:
        chosen = next((w for w in issuing if w.history.sub_partition == part), None)
        earlier = issuing if chosen is None else issuing[: issuing.index(chosen)]
        if chosen is None and issuing:
            # Schedulers that found nothing to do acted somewhere between; only those before this one count for it.
            first = self._first_to_act(cycle)
            turn = (part - first) % self.gpu.sub_partitions
            earlier = [w for w in issuing if (w.history.sub_partition - first) % self.gpu.sub_partitions < turn]
        eligible = []
        for player in here:
            state = self.reason(player, cycle)
            if state is None and not self.unit_taken(player, cycle, earlier):
                eligible.append(player)
            if player is chosen:
                state = WarpState.SELECTED
            elif state is None and self.unit_taken(player, cycle, issuing):
                state = _throttle(player.program[player.before(cycle)][0])
            elif state is None:
                state = WarpState.NOT_SELECTED
            assert recorded[player.age][cycle] is state, (cycle, player.age, state)
        assert chosen is self._choice(part, eligible), (cycle, part)
        if chosen is not None:
            self.last[part] = chosen

    def _first_to_act(self, cycle: int) -> int:
        grants = [
            w.history.sub_partition
            for c, w, i in self.order
            if c < cycle and (pipe := pipe_of(self.gpu, w.program[i][0])) is not None and pipe.shared_by_sm
        ]
        return (grants[-1] + 1) % self.gpu.sub_partitions if grants else 0

    def _choice(self, part: int, eligible: list[Player]) -> Player | None:
        """The warp that the policy prefers (I3)."""
        last, policy = self.last[part], self.gpu.scheduler_policy
        if policy == "gto" and last in eligible:
            return last
        younger = [w for w in eligible if last is not None and w.age > last.age]
        if policy == "lrr" and younger:
            return min(younger, key=lambda w: w.age)
        return min(eligible, key=lambda w: w.age, default=None)


def _drain_state(player: Player, producer: int) -> WarpState:
    return WarpState.DRAIN if player.program[producer][0] in MEMORY_OPS else WarpState.WAIT


def _operand_state(player: Player, producer: int) -> WarpState:
    kind = player.program[producer][0]
    if kind in GLOBAL_OPS:
        return WarpState.LONG_SCOREBOARD
    return WarpState.SHORT_SCOREBOARD if kind in SHARED_OPS or kind is OpClass.SFU else WarpState.WAIT


def _throttle(kind: OpClass) -> WarpState:
    if kind in GLOBAL_OPS:
        return WarpState.LG_THROTTLE
    return WarpState.MIO_THROTTLE if kind in SHARED_OPS else WarpState.MATH_PIPE_THROTTLE


def cycle_states(history: WarpHistory) -> dict[int, WarpState]:
    """State of a warp in each cycle of its residency."""
    return {c: span.state for span in history.states for c in range(span.start_cycle, span.end_cycle)}


def judge(case: Case, timeline: Timeline, memory_of: type[AnyMemory]) -> AnyMemory:
    """Check a timeline of one kernel, every warp and every cycle of it; returns what memory did."""
    warps = players(case, timeline)
    memory = memory_of(case.gpu, warps)
    for sm in range(case.gpu.sms):
        Referee(case.gpu, memory, [w for w in warps if w.history.sm == sm]).check()
    blocks_end_fs = max(b.end_fs for b in timeline.blocks)
    assert timeline.kernels[0].end_fs == max(blocks_end_fs, memory.writes_end_fs)
    return memory
