"""Counters as plain data: every counter, the instruction mix, and every place in the source that touches memory."""

from __future__ import annotations

from typing import Any

from gpusim_des.functional.counters import Counters
from gpusim_des.functional.estimated_counters import EstimatedCounters
from gpusim_des.results.plain import from_plain, to_plain


def counters_to_plain(counters: Counters) -> dict[str, Any]:
    """Write counters as a dictionary that JSON can hold; those of a sample with ``executed`` and ``bounds``.

    Examples
    --------
    >>> data = counters_to_plain(Counters(blocks=2, global_load_sectors=8))
    >>> data["blocks"], data["global_load_sectors"], data["instruction_mix"], data["accesses"]
    (2, 8, {}, [])
    """
    kind = EstimatedCounters if isinstance(counters, EstimatedCounters) else Counters
    plain: dict[str, Any] = to_plain(counters, kind)
    return plain


def counters_from_plain(data: object, where: str) -> Counters:
    """Read counters back; raises `ReadError`."""
    estimated = isinstance(data, dict) and "executed" in data
    counters: Counters = from_plain(data, EstimatedCounters if estimated else Counters, where)
    return counters
