"""Slices and replaced parameters: still the same GPU, and still checked."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.errors import ModelError
from gpusim_des.gpu import list_gpus, load_gpu


def test_a_quarter_of_an_h100() -> None:
    gpu = load_gpu("h100-sxm")
    part = gpu.slice(sms=33)
    assert part.sms == 33
    assert part.dram_channels == 40
    assert part.dram_bandwidth_bytes_per_s * 4 == gpu.dram_bandwidth_bytes_per_s
    assert part.channel_bandwidth_bytes_per_s == gpu.channel_bandwidth_bytes_per_s
    assert part.l2_bytes * 4 == gpu.l2_bytes
    assert part.memory_bytes * 4 == gpu.memory_bytes
    assert part.dispatch_interval_fs == 4 * gpu.dispatch_interval_fs
    assert part.dram_fixed_latency_fs == gpu.dram_fixed_latency_fs
    assert "33 of 132 SMs" in part.title


@given(st.sampled_from(list_gpus()), st.integers(1, 148))
def test_every_slice_keeps_the_balance(name: str, sms: int) -> None:
    gpu = load_gpu(name)
    part = gpu.slice(sms=min(sms, gpu.sms))
    whole = Fraction(gpu.dram_bandwidth_bytes_per_s, gpu.sms)
    assert abs(part.dram_bandwidth_bytes_per_s - whole * part.sms) <= Fraction(1, 2)
    assert abs(part.dram_channels - max(Fraction(1), Fraction(gpu.dram_channels * part.sms, gpu.sms))) <= Fraction(1, 2)
    assert abs(part.l2_bytes - Fraction(gpu.l2_bytes * part.sms, gpu.sms)) <= Fraction(1, 2)
    assert abs(part.dispatch_interval_fs - Fraction(gpu.dispatch_interval_fs * gpu.sms, part.sms)) <= Fraction(1, 2)
    assert part.dram_fixed_latency_fs > 0
    assert abs(part.l2_bandwidth_bytes_per_s - Fraction(gpu.l2_bandwidth_bytes_per_s * part.sms, gpu.sms)) <= Fraction(
        1, 2
    )
    for batch in ("dram_read_batch_bytes", "dram_write_batch_bytes"):  # as long as before, to a byte
        seconds = getattr(gpu, batch) / gpu.channel_bandwidth_bytes_per_s
        assert (
            abs(getattr(part, batch) / part.channel_bandwidth_bytes_per_s - seconds)
            <= 1 / part.channel_bandwidth_bytes_per_s
        )
    kept = {"title", "sms", "dram_channels", "dram_bandwidth_bytes_per_s", "l2_bytes", "memory_bytes"}
    kept |= {"l2_bandwidth_bytes_per_s", "dispatch_interval_fs", "dram_read_batch_bytes", "dram_write_batch_bytes"}
    for field in dataclasses.fields(gpu):
        if field.compare and field.name not in kept:
            assert getattr(part, field.name) == getattr(gpu, field.name)


def test_the_slice_of_all_sms_is_the_gpu_itself() -> None:
    gpu = load_gpu("tiny")
    assert gpu.slice(sms=2) is gpu


def test_the_title_says_what_was_done() -> None:
    gpu = load_gpu("h100-sxm")
    assert gpu.slice(sms=16).slice(sms=4).title == f"{gpu.title} (4 of 132 SMs)"
    faster = gpu.replace(dram_bandwidth="5 TB/s")
    assert faster.title == f"{gpu.title} (changed: dram_bandwidth_bytes_per_s)"
    both = f"{gpu.title} (16 of 132 SMs) (changed: dram_bandwidth_bytes_per_s)"
    assert faster.slice(sms=16).title == both
    assert gpu.slice(sms=16).replace(dram_bandwidth="500 GB/s").title == both
    again = faster.replace(dram_bandwidth="6 TB/s", fp32_lanes=16)
    assert again.title == f"{gpu.title} (changed: dram_bandwidth_bytes_per_s, fp32_lanes)"
    assert again.replace(block_end=1, block_start=1).title.endswith("fp32_lanes, block_end_cycles and 1 more)")
    assert gpu.replace(sms=132, name="mine").title == gpu.title  # nothing of it is a change of a parameter
    assert faster.replace(title="my chip").title == "my chip"
    assert faster.replace(title="my chip").slice(sms=2).title == "my chip (2 of 132 SMs)"
    assert gpu.slice(sms=4).replace(sms=20).slice(sms=2).title == f"{gpu.title} (2 of 20 SMs) (changed: sms)"


def test_a_latency_may_be_a_time() -> None:
    gpu = load_gpu("h100-sxm")  # 1.98 GHz
    assert gpu.replace(dram_latency="400 ns").dram_latency_cycles == 792
    assert gpu.replace(dram_latency_cycles="0.4 us").dram_latency_cycles == 792
    assert gpu.replace(dram_latency="600 ns", sm_clock="1 GHz").dram_latency_cycles == 600  # of the new clock
    assert gpu.replace(fp32_latency_cycles="2 ns").pipe("fp32").latency_cycles == 4  # 3.96
    assert gpu.replace(branch_latency="2.5 ns", sm_clock="1 GHz").branch_latency_cycles == 3  # a half rounds up
    with pytest.raises(ModelError, match=r"memory.dram_latency \(dram_latency_cycles = 0\): must be at least 1"):
        gpu.replace(dram_latency="0.1 ns")


@pytest.mark.parametrize("sms", [0, -1, 3, 1.5, True])
def test_refuses_a_slice_that_is_none(sms: int) -> None:
    with pytest.raises(ModelError, match=rf"slice\(sms={sms}\) of 'tiny': must be a whole number from 1 to its 2 SMs"):
        load_gpu("tiny").slice(sms=sms)


@pytest.mark.parametrize(
    ("name", "value", "field", "result"),
    [
        ("sms", 4, "sms", 4),
        ("sms", "4", "sms", 4),  # the command line has only texts
        ("sm_clock", "2 GHz", "sm_clock_hz", 2 * 10**9),
        ("sm_clock_hz", 2 * 10**9, "sm_clock_hz", 2 * 10**9),
        ("memory.dram_bandwidth", "2 TB/s", "dram_bandwidth_bytes_per_s", 2 * 10**12),
        ("dram_bandwidth_bytes_per_s", "2 TB/s", "dram_bandwidth_bytes_per_s", 2 * 10**12),
        ("dram_efficiency_read", "1/3", "dram_efficiency_read", Fraction(1, 3)),
        ("dram_efficiency_read", 0.9, "dram_efficiency_read", Fraction(9, 10)),
        ("dispatch_interval", "0.6 ns", "dispatch_interval_fs", 600_000),
        ("scheduler_policy", "lrr", "scheduler_policy", "lrr"),
        ("shared_carveouts", ["0 KiB", "16 KiB"], "shared_carveouts_bytes", (0, 16384)),
        ("shared_carveouts_bytes", (0, 16384), "shared_carveouts_bytes", (0, 16384)),
        ("title", "another", "title", "another"),
        ("name", "another", "name", "another"),
    ],
)
def test_replaces_one_parameter(name: str, value: object, field: str, result: object) -> None:
    tiny = load_gpu("tiny")
    changed = tiny.replace(**{name: value})
    assert getattr(changed, field) == result
    assert getattr(tiny, field) != result
    assert dataclasses.replace(changed, **{field: getattr(tiny, field)}) == tiny


def test_replaces_parameters_of_a_pipe() -> None:
    changed = load_gpu("tiny").replace(fp32_latency_cycles=8, fp32_lanes=16, fp32_scope="sm")
    pipe = changed.pipe("fp32")
    assert (pipe.latency_cycles, pipe.lanes, pipe.shared_by_sm, pipe.interval_cycles) == (8, 16, True, 2)
    assert changed.pipe("int") == load_gpu("tiny").pipe("int")
    assert changed.replace(**{"pipes.fp32.latency": "6 cycles"}).pipe("fp32").latency_cycles == 6


def test_the_branch_pipe_follows_the_branch_latency() -> None:
    changed = load_gpu("tiny").replace(branch_latency="7 cycles")
    assert changed.pipe("branch").latency_cycles == changed.branch_latency_cycles == 7
    with pytest.raises(ModelError, match="they are one value"):
        dataclasses.replace(load_gpu("tiny"), branch_latency_cycles=7)


def test_a_replaced_number_says_so() -> None:
    changed = load_gpu("tiny").replace(l2_latency=90)
    assert changed.sources["l2_latency_cycles"] == "changed by replace()"
    assert changed.sources["l1_latency_cycles"] == "chosen"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dram_bandwith": "1 TB/s"}, r"'tiny' has no parameter 'dram_bandwith': did you mean 'dram_bandwidth'\?"),
        ({"lanes": 8}, r"has no parameter 'lanes'"),
        ({"dram_bandwidth": "1 TB"}, r"memory.dram_bandwidth: '1 TB' is in bytes, expected bytes/s"),
        ({"sms": "many"}, r"sms = 'many': must be a whole number"),
        ({"sms": 2.0}, r"sms \(sms = 2.0\): must be a whole number"),
        ({"sms": 0}, r"sms \(sms = 0\): must be at least 1"),
        ({"l2_size": -1}, r"memory.l2_size \(l2_bytes = -1\): must be at least 1"),
        ({"l2_size": "1 MiB", "l2_bytes": 5}, r"l2_bytes is changed twice: 'l2_bytes' is another name of it"),
        ({"fp32_lanes": 0}, r"pipes.fp32 \(fp32_lanes = 0\): must be a whole number, at least 1"),
        ({"fp32_scope": "half"}, r"pipes.fp32.scope = 'half': must be one of sub-partition, sm"),
        ({"dram_latency_cycles": 101, "dram_bandwidth": "1 GB/s"}, r"memory.dram_latency = 101 cycles contradicts"),
        ({"l1_latency_cycles": 100}, r"memory.l1_latency = 100 cycles contradicts memory.l2_latency = 100 cycles"),
        ({"title": ""}, r"title \(title = ''\): must be a text that is not empty"),
    ],
)
def test_refuses_a_wrong_change(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_gpu("tiny").replace(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dispatch_interval": "0 ns"}, r"front_end.dispatch_interval \(dispatch_interval_fs = 0\)"),
        ({"sm_clock_hz": 10**16}, r"sm_clock \(sm_clock_hz = 10+\): must be at most 10000000000$"),
        ({"sm_clock": "999 kHz"}, r"sm_clock \(sm_clock_hz = 999000\): must be at least 1000000$"),
        ({"sms": 1 << 16}, r"sms \(sms = 65536\): must be at most 65535$"),
        ({"sms": 20_000}, r"sms = 20000 with sm.max_warps_per_sm = 16 makes room for 320000 warps: .*at most 262144"),
        ({"max_warps_per_sm": 1 << 16}, r"max_warps_per_sm = 65536\): must be at most 65535$"),
        ({"sub_partitions": 255}, r"sm.sub_partitions \(sub_partitions = 255\): must be at most 254$"),
        ({"dram_channels": 0}, r"memory.dram_channels \(dram_channels = 0\): must be at least 1$"),
        ({"dram_channels": 1 << 13}, r"memory.dram_channels \(dram_channels = 8192\): must be at most 4096$"),
        ({"load_store_queue_depth": 257}, r"load_store_queue_depth = 257\): must be at most 256$"),
        ({"barrier_latency": -1}, r"front_end.barrier_latency \(barrier_latency_cycles = -1\): must be at least 0$"),
        ({"dram_latency": 1 << 25}, r"memory.dram_latency \(dram_latency_cycles = 33554432\): must be at most 1677"),
        ({"fp64_latency_cycles": 1 << 25}, r"pipes.fp64 \(fp64_latency_cycles = 33554432\): must be at most 16777216"),
        ({"fp32_sustained": "1/100000"}, r"pipes.fp32 \(fp32_sustained = 1/100000\): must be at least 1/65536"),
        ({"launch_latency": "11 s"}, r"host.launch_latency \(launch_latency_fs = 1[01]*0+\): must be at most 10{16}"),
        ({"l2_size": "8192 MiB"}, r"memory.l2_size \(l2_bytes = 8589934592\): must be at most 4294967296"),
        ({"l2_bandwidth": "1 B/s"}, r"memory.l2_bandwidth = 1 B/s: one sector takes \d+ fs in one of 4 slices; it"),
        ({"dram_bandwidth": "100 B/s"}, r"memory.dram_bandwidth = 100 B/s: at the efficiency of read .* a millisecond"),
        ({"dram_efficiency_mixed": "1/10000000"}, r"at the efficiency of mixed traffic one granule takes 20+ fs"),
        (
            {"dram_bandwidth": "64 MB/s", "dram_write_batch": 16_000_001, "dram_latency": 1 << 20},
            r"memory.dram_write_batch = 16000001 B: on one of 4 channels .* 64000000 B/s .* at most a second .*or 0 B",
        ),
        ({"dram_read_batch": "1 TiB"}, r"memory.dram_read_batch = 1 TiB: .* it takes 6\d+ fs, and must take at most"),
        ({"dram_read_batch": -1}, r"memory.dram_read_batch \(dram_read_batch_bytes = -1\): must be at least 0$"),
        ({"shared_carveouts": ("0 KiB", "2 TiB")}, r"must rise from at least 0 to at most 1099511627776, each"),
    ],
)
def test_refuses_what_no_engine_can_count(changes: dict[str, object], message: str) -> None:
    """T1, T2: zeros, and numbers for which 64 bits would not do; far beyond any chip."""
    with pytest.raises(ModelError, match=message):
        load_gpu("tiny").replace(**changes)


def test_the_largest_gpus_are_legal() -> None:
    gpu = load_gpu("tiny").replace(sms=1 << 14, dram_channels=1 << 12, dram_latency=1 << 24, l2_bandwidth="16 TB/s")
    assert gpu.sms * gpu.max_warps_per_sm == 1 << 18
    assert load_gpu("tiny").replace(max_warps_per_sm=(1 << 16) - 4, max_blocks_per_sm=5).max_warps_per_sm == 65532


def test_a_gpu_hashes_and_pickles() -> None:
    gpu = load_gpu("h100-sxm")
    copy = pickle.loads(pickle.dumps(gpu))
    assert copy == gpu
    assert hash(copy) == hash(gpu)
    assert copy.sources == gpu.sources
    assert str(copy.dram_efficiency_read) == str(gpu.dram_efficiency_read) == "3180/3352.3"
    assert gpu != gpu.replace(sms=131)
