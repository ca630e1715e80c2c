"""The truth lies within the bounds that samples report: against full runs of even and of uneven kernels (S3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.sampled_kernels import (
    Launcher,
    histogram,
    irregular_cases,
    listed,
    long_cases,
    regular_cases,
    work_list,
)

ONE_SM = gs.load_gpu("h100-sxm").slice(sms=1)
EVEN, UNEVEN, LONG = regular_cases(ONE_SM), irregular_cases(ONE_SM), long_cases(ONE_SM)

SMALL = 0.05
"""The bound for even kernels."""


def compare(
    launch: Launcher, gpu: gs.GPU, sample: Any, caches: Any
) -> tuple[gs.KernelTiming, gs.KernelTiming, gs.Launch]:
    """Sample a kernel and run it whole."""
    results = []
    for size in (sample, None):
        dev = gs.Device(gpu)
        done = launch(dev, size)
        results.append((done, dev.simulate(engine="compiled", caches=caches, detail="kernel").kernels[0]))
    (sampled, kernel), (_, whole) = results
    return kernel, whole, sampled


def counters_within(launch: Launcher, sample: Any) -> dict[str, bool]:
    """Tell of every counter of a sampled kernel whether the true one lies within the bound."""
    estimates, whole = (launch(gs.Device(ONE_SM), size).counters for size in (sample, None))
    assert isinstance(estimates, gs.EstimatedCounters)

    def value(counters: gs.Counters, name: str) -> int:
        mix = estimates.instruction_mix
        return counters.instruction_mix[name] if name in mix else int(getattr(counters, name))

    # Estimates are whole numbers.
    return {n: abs(value(estimates, n) - value(whole, n)) <= bound + 0.5 for n, bound in estimates.bounds.items()}


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


@pytest.mark.parametrize("sample", [12, pytest.param(18, marks=pytest.mark.slow)])
def test_counters_of_all_kernels(sample: int) -> None:
    """A bound with a confidence of 95 % may fail now and then, so all counters of all kernels count together."""
    held = [ok for launch in (EVEN | UNEVEN).values() for ok in counters_within(launch, sample).values()]
    assert sum(held) >= 0.95 * len(held)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["histogram", "heavy blocks"])
def test_counters_of_many_random_inputs(kernel: str) -> None:
    """One kernel with a hundred inputs: each counter is within as often as promised, but for chance."""
    held: dict[str, list[bool]] = {}
    for seed in range(100):
        tenth = np.random.default_rng(seed).random(325) < 0.1
        launch = histogram(355, 256, seed) if kernel == "histogram" else listed(work_list, np.where(tenth, 20, 2))
        for name, ok in counters_within(launch, "auto").items():
            held.setdefault(name, []).append(ok)
    chance = 2 * (0.95 * 0.05 / 100) ** 0.5
    assert {name: sum(oks) for name, oks in held.items() if sum(oks) < 100 * (0.95 - chance)} == {}
    assert sum(map(sum, held.values())) >= 0.95 * sum(map(len, held.values()))


@pytest.mark.slow
@pytest.mark.parametrize("caches", ["on"])
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
    """Forty kernels, GPUs and sizes of samples, drawn with a fixed seed: the truth is within in 95 % of them."""
    draw = np.random.default_rng(2_026)
    hits, misses = 0, []
    errors: list[float] = []
    bounds: list[float] = []
    while len(errors) < 40:
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
