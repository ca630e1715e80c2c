"""Limits of an SM by compute capability, for occupancy on architectures that no model exists of."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gpusim_des.errors import ModelError
from gpusim_des.gpu.load import GPULike, capabilities, field_value, load_gpu, models_folder, read_entries
from gpusim_des.gpu.schema import KEYS
from gpusim_des.gpu.sm_limits import SMLimits

# "9.0", and the compiler's names of it: sm_90, sm_90a, compute_100f.
_CAPABILITY = re.compile(r"(?P<dotted>\d+\.\d+)|(?:sm|compute)_(?P<major>\d+)(?P<minor>\d)[af]?")


def named_capability(text: str) -> str | None:
    """Return the compute capability that `text` names, with a dot; ``None`` if it names none.

    Examples
    --------
    >>> named_capability("8.6"), named_capability("sm_90a"), named_capability("compute_120"), named_capability("tiny")
    ('8.6', '9.0', '12.0', None)
    """
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None:
        return None
    return match["dotted"] or f"{match['major']}.{match['minor']}"


def sm_limits(gpu: GPULike | SMLimits) -> SMLimits:
    """Limits of an SM of `gpu`.

    Parameters
    ----------
    gpu
        A compute capability (``"8.6"``, ``"sm_86"``), a model, or the name or path of one.

    Raises
    ------
    ModelError
        If there is no such compute capability or model; the message lists the known ones.

    Examples
    --------
    >>> sm_limits("6.0").sub_partitions, sm_limits("h100-sxm").sub_partitions
    (2, 4)
    >>> sm_limits("9.9")
    Traceback (most recent call last):
        ...
    gpusim_des.errors.ModelError: there is no table for compute capability 9.9; known: 3.5, 3.7, 5.0, 5.2, 5.3, 6.0, \
6.1, 6.2, 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.8, 8.9, 9.0, 10.0, 10.3, 11.0, 12.0, 12.1
    """
    if isinstance(gpu, SMLimits):
        return gpu
    capability = named_capability(gpu) if isinstance(gpu, str) else None
    if capability is None:
        return load_gpu(gpu)
    if capability not in capabilities():
        raise ModelError(f"there is no table for compute capability {capability}; known: {', '.join(capabilities())}")
    return _table(capability)


@cache
def _table(capability: str) -> SMLimits:
    path = models_folder() / "compute_capability" / f"{capability}.toml"
    entries = read_entries(path)
    fields = {key.field for key in KEYS} & set(SMLimits.__dataclass_fields__)
    values: dict[str, Any] = {
        key.field: field_value(key, *entries[key.label]) for key in KEYS if key.field in fields and key.label in entries
    }
    values["compute_capability"] = capability
    return SMLimits(
        name=f"compute capability {capability}",
        **values,
        source_notes=tuple((key.field, entries[key.label][1]) for key in KEYS if key.label in entries),
    )
