"""What a row calls its GPU: its name, what was changed with its value, and whatever tells it from its neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpusim_des.gpu import GPU, GPULike


def gpu_labels(written: Sequence[GPULike], gpus: Sequence[GPU]) -> list[str]:
    """Labels of the GPUs of an axis; two that are not equal never have the same.

    Parameters
    ----------
    written
        What the user gave: names and paths are labels as they are.
    gpus
        The models that they mean.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> tiny = load_gpu("tiny")
    >>> changed = tiny.replace(fp32_latency_cycles=5)
    >>> gpu_labels(["tiny", changed, tiny.slice(sms=1)], [tiny, changed, tiny.slice(sms=1)])
    ['tiny', 'tiny (fp32_latency_cycles=5)', 'tiny (1 of 2 SMs)']
    """
    labels = [_label(gpu) if isinstance(given, GPU) else str(given) for given, gpu in zip(written, gpus, strict=True)]
    for label in dict.fromkeys(labels):
        alike = [k for k, other in enumerate(labels) if other == label]
        if any(gpus[k] != gpus[alike[0]] for k in alike):  # a name and a title say nothing of what is in a model
            parts = [_numbers(gpus[k]) for k in alike]
            differing = [name for name in parts[0] if any(part[name] != parts[0][name] for part in parts)]
            for k, part in zip(alike, parts, strict=True):
                labels[k] = f"{label} ({', '.join(f'{name}={part[name]}' for name in differing)})"
    return labels


def _label(gpu: GPU) -> str:
    numbers = _numbers(gpu)
    part = f" ({gpu.slice_of[0]} of {gpu.slice_of[1]} SMs)" if gpu.slice_of else ""
    changed = f" ({', '.join(f'{name}={numbers[name]}' for name in gpu.changed)})" if gpu.changed else ""
    return gpu.name + part + changed


def _numbers(gpu: GPU) -> dict[str, Any]:
    """All that tells two GPUs apart, by the names that `GPU.replace` takes."""
    numbers = {f.name: getattr(gpu, f.name) for f in dataclasses.fields(gpu) if f.compare and f.name != "pipes"}
    for pipe in gpu.pipes:
        numbers[f"{pipe.name}_lanes"] = pipe.lanes
        numbers[f"{pipe.name}_scope"] = "sm" if pipe.shared_by_sm else "sub-partition"
        numbers[f"{pipe.name}_sustained"] = pipe.sustained
        numbers.setdefault(f"{pipe.name}_latency_cycles", pipe.latency_cycles)
    return numbers
