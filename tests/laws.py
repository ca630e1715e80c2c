"""What tests of laws share, with caches on and off: identities of a timeline, and what a slower GPU may not do."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import pairwise

from gpusim_des.gpu import GPU
from gpusim_des.line_site import LineSite
from gpusim_des.timeline import Timeline
from tests.programs import Case


def check_states(case: Case, timeline: Timeline) -> None:
    """I7: states tile every residency and add up to the resident warp-cycles; each instruction is issued once."""
    kernel = timeline.kernels[0]
    sums: Counter[str] = Counter()
    for history in timeline.warps:
        edges = [(span.start_cycle, span.end_cycle) for span in history.states]
        assert all(start < end for start, end in edges)
        assert all(left[1] == right[0] for left, right in pairwise(edges))
        if edges:
            assert (history.start_cycle, history.end_cycle) == (edges[0][0], edges[-1][1])
        assert history.end_cycle - history.start_cycle == sum(end - start for start, end in edges)
        for span in history.states:
            sums[span.state.suffix] += span.end_cycle - span.start_cycle
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles
    assert {state: cycles for state, cycles in kernel.stalls.items() if cycles} == dict(sums)
    assert kernel.stalls["selected"] == kernel.warp_instructions
    assert kernel.warp_instructions == sum(len(program) for block in case.blocks for program in block)
    assert kernel.line_stalls == states_by_line(timeline)


def states_by_line(timeline: Timeline, kernel: int = 0) -> dict[LineSite, dict[str, int]]:
    """Warp-cycles by source line and state, from the histories of all warps: of the instruction that is issued next."""
    sums: dict[LineSite, Counter[str]] = defaultdict(Counter)
    for history in timeline.warps:
        if history.kernel != kernel:
            continue
        issued = [issue.cycle for issue in history.issues]
        for span in history.states:
            for cycle in range(span.start_cycle, span.end_cycle):
                following = min(bisect_left(issued, cycle), len(issued) - 1)
                line = history.issues[following].line if issued else 0
                sums[LineSite("", line)][span.state.suffix] += 1
    return {line: dict(states) for line, states in sums.items()}


def area(customers: list[tuple[int, int]]) -> int:
    """Integral over time of the number of customers present, by a sweep over arrivals and departures."""
    changes = sorted([(arrival, 1) for arrival, _ in customers] + [(departure, -1) for _, departure in customers])
    present = total = 0
    for (time, change), (following, _) in pairwise(changes):
        present += change
        total += present * (following - time)
    return total


def with_longer(gpu: GPU, latency: str, more: int) -> GPU:
    """Return the GPU with a latency that is longer by some cycles."""
    pipes = {f"{pipe.name}_latency_cycles": pipe.latency_cycles for pipe in gpu.pipes}
    present = pipes[latency] if latency in pipes else getattr(gpu, latency)
    return gpu.replace(**{latency: present + more})
