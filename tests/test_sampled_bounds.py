"""The truth lies within the bounds that samples report: against full runs of even and of uneven kernels (S3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.sampled_kernels import Launcher, irregular_cases, long_cases, regular_cases

ONE_SM = gs.load_gpu("h100-sxm").slice(sms=1)
EVEN, UNEVEN, LONG = regular_cases(ONE_SM), irregular_cases(ONE_SM), long_cases(ONE_SM)

SMALL = 0.05
"""The bound for even kernels."""


def compare(
    launch: Launcher, gpu: gs.GPU, sample: Any, caches: Any
) -> tuple[gs.KernelTiming, gs.KernelTiming, gs.Launch]:
    """Sample a kernel and run it whole; the counters are compared at once."""
    results = []
    for size in (sample, None):
        dev = gs.Device(gpu)
        done = launch(dev, size)
        results.append((done, dev.simulate(engine="compiled", caches=caches, detail="kernel").kernels[0]))
    (sampled, kernel), (exact, whole) = results
    if isinstance(sampled.counters, gs.EstimatedCounters):
        for name, bound in sampled.counters.bounds.items():
            one, other = (
                c.instruction_mix[name] if name in sampled.counters.instruction_mix else getattr(c, name)
                for c in (sampled.counters, exact.counters)
            )
            assert abs(one - other) <= bound + 0.5, name
    return kernel, whole, sampled


def within(kernel: gs.KernelTiming, whole: gs.KernelTiming) -> bool:
    """Tell whether the true time lies within the bound."""
    return abs(kernel.seconds - whole.seconds) <= kernel.relative_error * kernel.seconds * (1 + 1e-9)


@pytest.mark.parametrize("caches", ["on", "off"])
@pytest.mark.parametrize("name", EVEN)
def test_even_kernels(name: str, caches: str) -> None:
    kernel, whole, sampled = compare(EVEN[name], ONE_SM, "auto", caches)
    assert sampled.sample is not None
    assert within(kernel, whole)
    assert 0 < kernel.relative_error < SMALL


@pytest.mark.parametrize("caches", ["on", "off"])
@pytest.mark.parametrize("name", UNEVEN)
def test_uneven_kernels(name: str, caches: str) -> None:
    kernel, whole, sampled = compare(UNEVEN[name], ONE_SM, 18, caches)
    assert sampled.sample is not None
    assert within(kernel, whole)


@pytest.mark.slow
@pytest.mark.parametrize("caches", ["on", "off"])
@pytest.mark.parametrize("name", LONG)
def test_long_kernels(name: str, caches: str) -> None:
    launch, even = LONG[name]
    gpu = {"naive matmul": gs.load_gpu("t4").slice(sms=2), "tiled matmul": gs.load_gpu("h100-sxm").slice(sms=2)}
    kernel, whole, sampled = compare(launch, gpu.get(name, ONE_SM), "auto" if even else 12, caches)
    assert sampled.sample is not None
    assert within(kernel, whole)
    assert not even or kernel.relative_error < SMALL


@pytest.mark.slow
def test_the_bounds_of_random_kernels_hold() -> None:
    """Sixty kernels, GPUs and sizes of samples, drawn with a fixed seed: the truth is within in 95 % of them."""
    draw = np.random.default_rng(2_026)
    hits, misses = 0, []
    errors: list[float] = []
    bounds: list[float] = []
    while len(errors) < 60:
        name = str(draw.choice(["h100-sxm", "a100-sxm-80gb", "v100-sxm2", "t4", "rtx-3090"]))
        gpu = gs.load_gpu(name).slice(sms=int(draw.integers(1, 4)))
        cases = regular_cases(gpu) | irregular_cases(gpu)
        case = str(draw.choice(list(cases)))
        sample = draw.choice(["auto", "9", "12", "18", "24"])
        caches = str(draw.choice(["on", "off"]))
        results = []
        for size in ("auto" if sample == "auto" else int(sample), None):
            dev = gs.Device(gpu)
            done = cases[case](dev, size)
            if size is not None and done.sample is None:
                break
            results.append(dev.simulate(engine="compiled", caches=caches, detail="kernel").kernels[0])  # type: ignore[arg-type]
        if len(results) < 2:
            continue
        kernel, whole = results
        errors.append(abs(kernel.seconds / whole.seconds - 1))
        bounds.append(kernel.relative_error)
        hits += within(kernel, whole)
        if not within(kernel, whole):
            misses.append((name, gpu.sms, case, str(sample), caches, errors[-1], bounds[-1]))
    print(f"{hits} of {len(errors)} within; medians: error {np.median(errors):.2%}, bound {np.median(bounds):.2%}")
    assert hits >= 0.95 * len(errors), misses
