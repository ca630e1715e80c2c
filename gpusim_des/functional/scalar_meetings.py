"""Lanes of a warp that meet in the interpreter: what each of them gets from a shuffle, a vote or a match."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional.scalar_steps import Meeting
from gpusim_des.functional.warp_exchange import source_lanes
from gpusim_des.functional.warp_groups import FULL


def meet_lanes(meetings: dict[int, Meeting]) -> list[Any]:
    """Result for every lane, in the order of `meetings`, which has an entry for each active lane.

    A lane hears the active lanes in its member mask, all of them where the operation has none.
    """
    name = next(iter(meetings.values())).name
    if name == "syncwarp":
        return [None for _ in meetings]
    results = []
    for lane, meeting in meetings.items():
        mask = int(meeting.arguments.get("members", FULL))
        heard = {k: m.arguments for k, m in meetings.items() if mask >> k & 1}
        results.append(_shuffled(name, lane, heard) if name.startswith("shfl") else _voted(name, lane, heard))
    return results


def _shuffled(name: str, lane: int, heard: dict[int, dict[str, Any]]) -> Any:
    own = heard[lane]
    other = next(v for k, v in own.items() if k not in {"value", "members"})
    return heard.get(int(source_lanes(name, lane, int(other))), own)["value"]


def _voted(name: str, lane: int, heard: dict[int, dict[str, Any]]) -> Any:
    if name.startswith("match"):
        same = [k for k, arguments in heard.items() if arguments["value"] == heard[lane]["value"]]
        return _bits(same if name == "match_any" or len(same) == len(heard) else [])
    held = {k: bool(arguments.get("predicate", True)) for k, arguments in heard.items()}
    if name in {"ballot", "activemask"}:
        return _bits([k for k, holds in held.items() if holds])
    if name == "eq":
        return np.bool_(len(set(held.values())) == 1)
    return np.bool_(any(held.values()) if name == "any" else all(held.values()))


def _bits(lanes: list[int]) -> np.uint32:
    return np.uint32(sum(1 << k for k in lanes))
