"""Lanes that meet in groups, in masked execution: operations with a member mask, and matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.functional import barriers, complaints, warp_groups
from gpusim_des.functional.tracked import Value
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime

ALONE = frozenset({"eq", "match_any", "match_all"})
"""Operations that exist in groups only."""


def meet(runtime: MaskedRuntime, place: int, name: str, arguments: dict[str, Any], members: Any) -> Any:
    """Shuffle or vote of the lanes that `members` names."""
    machine, site = runtime.machine, runtime.sites[place]
    active = machine.by_warp(machine.everyone(runtime.mask), fill=False)
    groups = machine.by_warp(_masks(members), fill=0)
    bad = np.argwhere(warp_groups.not_in_own_mask(groups, active))
    if len(bad):
        warp, lane = bad[0]
        raise complaints.not_in_mask(runtime.kernel_name, site, int(lane), int(groups[warp, lane]))
    if name == "syncwarp":
        barriers.meet_in_warps(machine, runtime.mask, runtime.joint_producers((members,)), site, _masks(members))
        return None
    numbers = _numbers(runtime, place, arguments)
    producers = runtime.joint_producers((members, *arguments.values(), *numbers))
    rows = [machine.by_warp(np.asarray(x.value if isinstance(x, Value) else x), fill=0) for x in numbers]
    if name.startswith("shfl"):
        answer = warp_groups.shuffled(name, rows[0], rows[1], groups, active)
        event = machine.count_shuffle(runtime.mask, producers, site)
    else:
        answer = warp_groups.voted(name, rows[0], groups, active)
        event = machine.instruction(OpClass.VOTE, runtime.mask, producers, site)
    result = answer.reshape(machine.shape[0], -1)[:, : machine.shape[1]]
    if name in {"ballot", "match_any", "match_all"}:
        bits = Value(runtime, result.astype(runtime.rules.lane_mask), (event,))
        return bits if name != "match_all" else (bits, Value(runtime, result != 0, (event,)))
    return Value(runtime, result, (event,))


def _masks(members: Any) -> Any:
    if isinstance(members, Value):
        return members.value.astype(np.uint32)
    return np.full((1, WARP_SIZE), members & warp_groups.FULL, np.uint32)[:, :1]


def _numbers(runtime: MaskedRuntime, place: int, arguments: dict[str, Any]) -> list[Any]:
    """Operands as values or arrays: a predicate, a value to compare, or a value and a lane."""
    for given in arguments.values():
        runtime.operand_type(place, given)
    done = dict(arguments)
    if "predicate" in done:
        done["predicate"] = runtime.truth(place, done["predicate"])
    if not isinstance(value := done.get("value", 0), Value):
        done["value"] = runtime.constant(value, runtime.rules.constant_type(value))
    return [done[what] for what in arguments]
