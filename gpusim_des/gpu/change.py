"""What `GPU.replace` changes: names looked up in the schema, texts read with their units, pipes rebuilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpusim_des.errors import ModelError
from gpusim_des.gpu.parameters import Parameters, Pipe
from gpusim_des.gpu.schema import ALL_KEYS, KEYS, PIPE_KEYS, Key, suggest
from gpusim_des.gpu.values import read_value

# A pipe's key is not among the bare names: `lanes` alone would not say whose lanes.
_KEYS_BY_NAME: dict[str, Key] = {
    **{key.label: key for key in ALL_KEYS if key.field},
    **{key.name: key for key in KEYS if key.field},
    **{key.field: key for key in ALL_KEYS if key.field},
}

PARAMETERS = {name: key.field for name, key in _KEYS_BY_NAME.items() if key.kind != "text"}
"""Names of the parameters that `GPU.replace` changes → their fields; several names can mean one."""

_SM_CLOCK = _KEYS_BY_NAME["sm_clock"]


def changed_fields(gpu: Parameters, changes: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Turn the arguments of `GPU.replace` into fields of `GPU`, and name the parameters; raises `ModelError`."""
    fields: dict[str, Any] = {}
    notes = dict(gpu.source_notes)
    clock = _clock(gpu, changes)
    for name, raw in changes.items():
        if name in ("name", "title"):
            fields[name] = raw
            continue
        key = _KEYS_BY_NAME.get(name)
        if key is None:
            raise ModelError(
                f"GPU model {gpu.name!r} has no parameter {name!r}: {suggest(name, ['name', *_KEYS_BY_NAME])}"
            )
        if key.field in fields:
            raise ModelError(f"{key.field} is changed twice: {name!r} is another name of it")
        fields[key.field] = _final_value(key, raw, clock)
        notes[key.field] = "changed by replace()"
    names = [n for n in fields if n not in ("name", "title") and fields[n] != getattr(gpu, n, None)]
    pipes = tuple(_changed_pipe(pipe, fields) for pipe in gpu.pipes)
    for keys in PIPE_KEYS.values():
        for key in keys:
            fields.pop(key.field, None)
    return {**fields, "pipes": pipes, "source_notes": tuple(notes.items())}, names


def _clock(gpu: Parameters, changes: Mapping[str, object]) -> int:
    """Return the SM clock after the changes: latencies that are given as times are counted in its cycles."""
    raw = next((raw for name, raw in changes.items() if _KEYS_BY_NAME.get(name) is _SM_CLOCK), None)
    clock = gpu.sm_clock_hz if raw is None else _final_value(_SM_CLOCK, raw, gpu.sm_clock_hz)
    return clock if isinstance(clock, int) else gpu.sm_clock_hz  # what is no clock is refused by the check


def _final_value(key: Key, raw: object, sm_clock_hz: int) -> object:
    if key.kind in ("ratio", "choice"):
        return read_value(key, raw)
    if key.kind == "count" and isinstance(raw, str) and raw.strip().isdecimal():
        return int(raw)  # the command line has only texts
    if key.kind == "sizes" and isinstance(raw, (list, tuple)) and not any(isinstance(part, str) for part in raw):
        return tuple(raw)
    return read_value(key, raw, sm_clock_hz) if isinstance(raw, str) or key.kind == "sizes" else raw


def _changed_pipe(pipe: Pipe, fields: Mapping[str, Any]) -> Pipe:
    scope = fields.get(f"{pipe.name}_scope", "sm" if pipe.shared_by_sm else "sub-partition")
    return dataclasses.replace(
        pipe,
        lanes=fields.get(f"{pipe.name}_lanes", pipe.lanes),
        shared_by_sm=scope == "sm",
        sustained=fields.get(f"{pipe.name}_sustained", pipe.sustained),
        # For the branch pipe this is front_end.branch_latency, which remains a field as well.
        latency_cycles=fields.get(f"{pipe.name}_latency_cycles", pipe.latency_cycles),
    )
