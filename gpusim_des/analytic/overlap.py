"""Copies and kernels that overlap: a pipeline of equal chunks through copy in, compute, copy out."""

from __future__ import annotations

from typing import Literal

from gpusim_des.analytic.arguments import Curve, curve, require_amount, whole

Issue = Literal["depth-first", "breadth-first"]
"""All steps of a chunk before the next chunk, or one step of all chunks before the next step."""


@curve
def pipeline_seconds(chunks: Curve, in_s: Curve, compute_s: Curve, out_s: Curve, *, engines: Curve = 2) -> float:
    """Time of `chunks` equal chunks, each copied in, computed and copied out, when everything may overlap.

    Each stage takes one chunk at a time. With an engine for each direction the first chunk passes all stages, and every
    further one comes out after another turn of the slowest: ``in + compute + out + (chunks - 1) × slowest``. One engine
    for both directions needs at least the time of all copies; it reaches that where copies in go first.

    Parameters
    ----------
    chunks
        How many.
    in_s, compute_s, out_s
        Seconds that each stage takes for one chunk, with the latencies that it has every time.
    engines
        Copy engines: 1, or 2 (more are of no use for two directions).

    Raises
    ------
    ValueError
        If `chunks` or `engines` is not at least 1, or a time is negative or not finite.

    References
    ----------
    Harris, M. (2012). How to Overlap Data Transfers in CUDA C/C++. NVIDIA developer blog.
    NVIDIA, CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation".

    Examples
    --------
    Copies of 4 ms each way and 2 ms of computation take 10 ms; in four chunks 2.5 ms and three times the slowest stage:

    >>> pipeline_seconds(1, 4e-3, 2e-3, 4e-3), pipeline_seconds(4, 1e-3, 0.5e-3, 1e-3)
    (0.01, 0.0055)
    >>> pipeline_seconds(4, 1e-3, 0.5e-3, 1e-3, engines=1)
    0.008
    >>> pipeline_seconds([1, 2, 4], 1e-3, 0.5e-3, 1e-3) * 1e3
    array([2.5, 3.5, 5.5])
    """
    number, stages = whole("chunks", chunks), (in_s, compute_s, out_s)
    require_amount(in_s=in_s, compute_s=compute_s, out_s=out_s)
    whole("engines", engines)
    pipeline = sum(stages) + (number - 1) * max(stages)
    return float(pipeline if engines > 1 else max(pipeline, number * (in_s + out_s)))


@curve
def blocking_seconds(
    chunks: Curve, in_s: Curve, compute_s: Curve, out_s: Curve, *, issue: Issue = "depth-first"
) -> float:
    """Time of the same chunks when every copy blocks the host, as copies of pageable memory do.

    Depth-first nothing overlaps. Breadth-first the host first waits for all copies in, then starts all kernels, then
    waits for all copies out, which overlap with all computations but the first.

    Parameters
    ----------
    chunks, in_s, compute_s, out_s
        As for `pipeline_seconds`.
    issue
        Order of the calls.

    Raises
    ------
    ValueError
        If `chunks` is not at least 1, a time is negative or not finite, or the order is unknown.

    Examples
    --------
    >>> blocking_seconds(4, 1e-3, 0.5e-3, 1e-3), blocking_seconds(4, 1e-3, 0.5e-3, 1e-3, issue="breadth-first")
    (0.01, 0.0085)
    """
    number, stages = whole("chunks", chunks), (in_s, compute_s, out_s)
    require_amount(in_s=in_s, compute_s=compute_s, out_s=out_s)
    if issue == "depth-first":
        return float(number * sum(stages))
    if issue != "breadth-first":
        raise ValueError(f"issue = {issue!r}: possible are 'depth-first' and 'breadth-first'")
    return float(number * in_s + compute_s + (number - 1) * max(compute_s, out_s) + out_s)


@curve
def launch_interval_seconds(kernel_s: Curve, gap_s: Curve, call_s: Curve = 0.0) -> float:
    """Time from one kernel to the next of many that follow each other in a stream, or in a graph.

    The device needs the kernel's own time and a gap; the host a call for each launch. They work at once, so the longer
    one counts. The launch of a graph is one call for all its nodes, so that `call_s` is 0 there.

    Raises
    ------
    ValueError
        If a time is negative or not finite.

    References
    ----------
    Gray, A. (2019). Getting Started with CUDA Graphs. NVIDIA developer blog.

    Examples
    --------
    A kernel of 1 µs, with a gap of 0.5 µs, called every 2.5 µs; and as a node of a graph:

    >>> launch_interval_seconds(1e-6, 0.5e-6, 2.5e-6), launch_interval_seconds(1e-6, 0.5e-6)
    (2.5e-06, 1.5e-06)
    """
    require_amount(kernel_s=kernel_s, gap_s=gap_s, call_s=call_s)
    return float(max(call_s, kernel_s + gap_s))
