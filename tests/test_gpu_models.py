"""The shipped GPU models, and every kind of file that is refused."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from gpusim_des.errors import ModelError
from gpusim_des.gpu import GPU, list_gpus, load_gpu, occupancy
from gpusim_des.gpu.load import models_folder
from gpusim_des.gpu.schema import ALL_KEYS

SHIPPED = (
    *("a100-sxm-40gb", "a100-sxm-80gb", "a40", "b200", "c1060", "c2050", "gh200", "h100-pcie", "h100-sxm", "h200-sxm"),
    *("h800-pcie", "k20c", "l40", "rtx-2070", "rtx-2080-ti", "rtx-3090", "rtx-4090", "rtx-a6000", "t4", "tiny"),
    *("titan-v", "v100-pcie", "v100-sxm2"),
)
TINY = (models_folder() / "tiny.toml").read_text(encoding="utf-8")


def test_lists_what_is_shipped() -> None:
    assert list_gpus() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_every_number_has_a_source(name: str) -> None:
    gpu = load_gpu(name)
    texts = {"title", "compute_capability"}
    for key in ALL_KEYS:
        if not key.optional and key.field not in texts and not key.field.endswith("_scope"):
            assert gpu.sources.get(key.field, "").strip(), f"{key.label} of {name} has no source"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_lone_load_from_dram_takes_its_latency(name: str) -> None:
    gpu = load_gpu(name)
    path = gpu.sm_period_fs + gpu.port_out_fs(gpu.request_bytes) + gpu.granule_fs("read") + gpu.port_in_fs(32)
    assert path + gpu.dram_fixed_latency_fs == gpu.dram_latency_cycles * gpu.sm_period_fs


@pytest.mark.parametrize(
    ("name", "sms", "clock", "bandwidth", "l2"),
    [
        ("a40", 84, 1_740_000_000, 696_000_000_000, 6_291_456),
        ("h100-sxm", 132, 1_980_000_000, 3_352_300_000_000, 52_428_800),
        ("h100-pcie", 114, 1_755_000_000, 2_039_000_000_000, 52_428_800),
        ("h200-sxm", 132, 1_980_000_000, 4_800_000_000_000, 52_428_800),
        ("a100-sxm-80gb", 108, 1_410_000_000, 2_039_000_000_000, 41_943_040),
        ("a100-sxm-40gb", 108, 1_410_000_000, 1_555_200_000_000, 41_943_040),
        ("h800-pcie", 114, 1_755_000_000, 2_039_000_000_000, 52_428_800),
        ("gh200", 132, 1_980_000_000, 4_022_000_000_000, 52_428_800),
        ("v100-sxm2", 80, 1_530_000_000, 898_000_000_000, 6_291_456),
        ("v100-pcie", 80, 1_380_000_000, 898_000_000_000, 6_291_456),
        ("titan-v", 80, 1_455_000_000, 652_800_000_000, 4_718_592),
        ("l40", 142, 2_490_000_000, 864_000_000_000, 100_663_296),
        ("rtx-a6000", 84, 1_800_000_000, 768_096_000_000, 6_291_456),
        ("rtx-2080-ti", 68, 1_545_000_000, 616_000_000_000, 5_767_168),
        ("rtx-2070", 36, 1_620_000_000, 448_000_000_000, 4_194_304),
        ("rtx-4090", 128, 2_520_000_000, 1_008_000_000_000, 75_497_472),
        ("rtx-3090", 82, 1_695_000_000, 936_000_000_000, 6_291_456),
        ("t4", 40, 1_590_000_000, 320_000_000_000, 4_194_304),
        ("b200", 148, 1_965_000_000, 7_672_000_000_000, 132_644_864),
        ("k20c", 13, 706_000_000, 208_000_000_000, 1_310_720),
        ("c2050", 14, 1_150_000_000, 144_000_000_000, 786_432),
        ("c1060", 30, 1_296_000_000, 102_400_000_000, 1_024),
    ],
)
def test_products(name: str, sms: int, clock: int, bandwidth: int, l2: int) -> None:
    gpu = load_gpu(name)
    assert (gpu.sms, gpu.sm_clock_hz, gpu.dram_bandwidth_bytes_per_s, gpu.l2_bytes) == (sms, clock, bandwidth, l2)


def test_h100_by_hand() -> None:
    gpu = load_gpu("h100-sxm")
    assert gpu.sm_period_fs == 505_051  # 1e15 / 1.98e9 = 505050.5…
    assert gpu.channel_bandwidth_bytes_per_s == Fraction(3_352_300_000_000, 160)
    assert gpu.dram_efficiency_read == Fraction(31800, 33523)
    # 32 B × 160 channels / 3180 GB/s = 1.610063 ns
    assert gpu.granule_fs("read") == 1_610_063
    assert gpu.port_in_fs(32) == 252_525  # half a cycle of 505,050.5 fs
    assert gpu.max_warps_per_sm == 64
    assert gpu.shared_carveouts_bytes[-1] == gpu.shared_bytes_per_sm == 228 * 1024


@pytest.mark.parametrize(
    ("name", "intervals"),
    [
        # int, fp32, fp64, fp16, conversion, sfu, branch: cycles that a warp occupies its pipe
        ("h100-sxm", [2, 1, 2, 1, 2, 8, 1]),
        ("a100-sxm-80gb", [2, 2, 4, 1, 2, 8, 1]),
        ("a100-sxm-40gb", [2, 2, 4, 1, 2, 8, 1]),
        ("gh200", [2, 1, 2, 1, 2, 8, 1]),
        ("h800-pcie", [2, 1, 2, 1, 2, 8, 1]),
        ("v100-sxm2", [2, 2, 4, 2, 8, 8, 1]),
        ("v100-pcie", [2, 2, 4, 2, 8, 8, 1]),
        ("titan-v", [2, 2, 4, 2, 8, 8, 1]),
        ("rtx-4090", [2, 1, 16, 2, 2, 8, 1]),
        ("rtx-3090", [2, 1, 16, 2, 2, 8, 1]),
        ("l40", [2, 1, 16, 2, 2, 8, 1]),
        ("rtx-a6000", [2, 1, 16, 2, 2, 8, 1]),
        ("t4", [2, 2, 16, 2, 8, 8, 1]),
        ("rtx-2080-ti", [2, 2, 16, 2, 8, 8, 1]),
        ("rtx-2070", [2, 2, 16, 2, 8, 8, 1]),
        ("b200", [2, 1, 2, 2, 2, 8, 1]),
        ("k20c", [1, 1, 2, 1, 4, 4, 1]),
        ("c2050", [2, 2, 2, 2, 2, 8, 2]),
        ("c1060", [4, 4, 32, 4, 4, 16, 4]),
        ("tiny", [1, 1, 2, 1, 2, 4, 1]),
    ],
)
def test_issue_intervals(name: str, intervals: list[int]) -> None:
    assert [pipe.interval_cycles for pipe in load_gpu(name).pipes] == intervals


def test_consumer_chips_and_fermi_share_fp64_units() -> None:
    shared = {name for name in SHIPPED if load_gpu(name).pipe("fp64").shared_by_sm}
    assert shared == {"rtx-2070", "rtx-2080-ti", "rtx-3090", "rtx-4090", "rtx-a6000", "a40", "l40", "t4", "c2050"}


def test_what_the_host_side_of_old_chips_lacks() -> None:
    """One copy engine before Fermi, one hardware queue before Kepler; only Fermi signals late (H1, H2)."""
    gpus = [load_gpu(name) for name in SHIPPED if name != "tiny"]
    assert {gpu.name for gpu in gpus if gpu.copy_engines == 1} == {"c1060"}
    assert {gpu.name for gpu in gpus if gpu.max_concurrent_kernels == 1} == {"c1060"}
    assert {gpu.name for gpu in gpus if gpu.hardware_queues == 1} == {"c1060", "c2050"}
    assert {gpu.name for gpu in gpus if gpu.late_kernel_signals == "yes"} == {"c2050"}
    assert {gpu.hardware_queues for gpu in gpus} == {1, 32}


@pytest.mark.parametrize(("name", "blocks"), [("c1060", 4), ("c2050", 6), ("k20c", 8)])
def test_old_chips_hold_blocks_of_256_threads_by_their_warp_slots(name: str, blocks: int) -> None:
    """16 registers per thread: 1024 / 256, 1536 / 256 and 2048 / 256; with 32, the C1060 holds 16384 / 8192."""
    assert occupancy(load_gpu(name), threads=256, registers=16).blocks_per_sm == blocks
    assert occupancy(load_gpu("c1060"), threads=256, registers=32).blocks_per_sm == 2


def test_granules_of_gddr6_are_twice_as_large() -> None:
    """Measured on a T4, assumed for the others; GDDR6X and HBM have 32 bytes."""
    gddr6 = {"t4", "rtx-2070", "rtx-2080-ti", "rtx-a6000", "a40", "l40"}
    assert {name for name in SHIPPED if load_gpu(name).dram_granule_bytes == 64} == gddr6
    assert load_gpu("t4").granule_fs("read") == 3_764_706  # 64 B × 16 / 272 GB/s


def test_tiny_is_round() -> None:
    gpu = load_gpu("tiny")
    assert gpu.sm_period_fs == 1_000_000
    assert {gpu.granule_fs(kind) for kind in ("read", "write", "mixed")} == {2_000_000}
    assert gpu.port_out_fs(32) == gpu.port_in_fs(32) == 500_000
    assert gpu.dram_fixed_latency_fs == 196_000_000
    assert gpu.dispatch_interval_fs == 1_000_000
    assert gpu.warp_size == 32
    assert (gpu.block_start_cycles, gpu.block_end_cycles) == (0, 0)


def test_loads_a_model_a_path_and_a_text_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TINY, encoding="utf-8")
    gpu = load_gpu(path)
    assert gpu.name == "mine"
    assert gpu == load_gpu(str(path)) == load_gpu("tiny").replace(name="mine")
    assert load_gpu(gpu) is gpu


def test_a_gpus_own_file_wins_over_its_compute_capability(tmp_path: Path) -> None:
    text = (models_folder() / "h100-sxm.toml").read_text(encoding="utf-8")
    gpu = load_gpu(write(tmp_path, text + '\n[sm]\nmax_blocks_per_sm = 24\n\n[pipes.fp32]\nlatency = "5 cycles"\n'))
    assert gpu.max_blocks_per_sm == 24
    assert "max_blocks_per_sm" not in gpu.sources
    assert gpu.pipe("fp32").latency_cycles == 5
    assert gpu.pipe("fp32").lanes == load_gpu("h100-sxm").pipe("fp32").lanes


def test_ratios_are_exact(tmp_path: Path) -> None:
    for text, value in (("0.95", Fraction(19, 20)), ('"2/3"', Fraction(2, 3)), ('"809/898"', Fraction(809, 898))):
        gpu = load_gpu(write(tmp_path, changed("dram_efficiency_read", text)))
        assert gpu.dram_efficiency_read == value


def write(folder: Path, text: str) -> Path:
    path = folder / "bad.toml"
    path.write_text(text, encoding="utf-8")
    return path


def changed(key: str, value: str) -> str:
    """tiny.toml with another value behind `key`."""
    text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", TINY, count=1, flags=re.MULTILINE)
    assert count == 1
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TINY.replace("l2_size", "l2_sise"), r"unknown key memory.l2_sise = .*did you mean 'memory.l2_size'\?"),
        (TINY.replace("[memory]", "[memry]"), r"unknown table \[memry\]: did you mean 'memory'\?$"),
        (TINY + "\n[pipes.tensor]\nlanes = 8\n", r"unknown table \[pipes.tensor\]: "),
        (
            TINY.replace("l2_size = {", "l3_size = {"),
            r"unknown key memory.l3_size = '256 KiB': did you mean 'memory.l[12]_size'\?$",
        ),
        (
            re.sub(r"l2_size = .*\n", "", TINY),
            r"the key memory.l2_size is missing, .*= \"48 KiB\" under \[memory\]; there is no table .*known: 3.5",
        ),
        (re.sub(r"(?s)\[pipes.sfu\].*?\n\n", "", TINY), r"the key pipes.sfu.lanes is missing"),
        (
            re.sub(r"compute_capability.*\n", "", TINY),
            r'the key compute_capability is missing, for example compute_capability = "9.0" at the top$',
        ),
        (changed("sms", '"two"'), r"sms = 'two': must be a whole number without a unit"),
        (changed("sms", "2.0"), r"sms = 2\.0: must be a whole number without a unit"),
        (changed("sms", "132.5"), r"sms = 132\.5: must be a whole number without a unit"),
        (changed("dram_latency", "1_0.5e1"), r"memory.dram_latency = 1_0\.5e1: must be a text with a unit of cycles"),
        (changed("shared_carveouts", '[1.5, "16 KiB"]'), r"sm.shared_carveouts = 1\.5: must be a text with a unit"),
        (changed("dram_latency", '"400 B"'), r"'400 B' is in bytes, expected cycles: .*, or a time such as \"20 ns\""),
        (changed("sms", "true"), r"sms = True: must be a whole number"),
        (changed("sms", "-2"), r"sms \(sms = -2\): must be at least 1"),
        (changed("title", "5"), r"title = 5: must be a text"),
        (changed("l2_size", "262144"), r'memory.l2_size = 262144: must be a text with a unit of bytes.*"48 KiB"'),
        (changed("l2_size", '"256 KB/s"'), r"memory.l2_size: '256 KB/s' is in bytes/s, expected bytes"),
        (changed("l2_size", '"256 Kib"'), r"memory.l2_size: '256 Kib' has the unknown unit 'Kib', .*KiB"),
        (changed("l2_latency", '"100.5 cycles"'), r"memory.l2_latency = '100.5 cycles': must come out as a whole"),
        (changed("l2_latency", "{ source = 'x' }"), r"memory.l2_latency has no value"),
        (
            changed("l2_latency", "{ valu = 3 }"),
            r"memory.l2_latency has the unknown entry 'valu': did you mean 'value'",
        ),
        (changed("l2_latency", "{ value = '100 cycles', source = 3 }"), r"memory.l2_latency has the source 3"),
        (changed("scheduler_policy", '"gtp"'), r"scheduler_policy = 'gtp': must be one of gto, .*did you mean 'gto'"),
        (changed("shared_carveouts", '"16 KiB"'), r"sm.shared_carveouts = '16 KiB': must be a list"),
        (changed("shared_carveouts", '["16 KiB", "8 KiB"]'), r"shared_carveouts_bytes = \(16384, 8192\)\): must rise"),
        (changed("shared_carveouts", '["8 KiB"]'), r"last of sm.shared_carveouts = 8 KiB contradicts .*16 KiB"),
        (changed("dram_efficiency_read", "1.5"), r"dram_efficiency_read = 1\.5\): must be a fraction above 0"),
        (changed("dram_efficiency_read", '"2500/2394.5"'), r"dram_efficiency_read = 2500/2394\.5\): must be a frac"),
        (changed("dram_efficiency_read", "0"), r"dram_efficiency_read = 0\): must be a fraction above 0"),
        (changed("dram_efficiency_read", "nan"), r"dram_efficiency_read = nan: must be a number such as"),
        (changed("dram_efficiency_read", '"1/0"'), r"dram_efficiency_read = '1/0': must be a number such as"),
        (changed("dram_efficiency_read", '"1/2/3"'), r"dram_efficiency_read = '1/2/3': must be a number such as"),
        (changed("dram_granule", '"48 B"'), r"memory.dram_granule = 48 B: must be 32 B or 64 B"),
        (changed("channel_interleave", '"128 B"'), r"channel_interleave_bytes = 128\): must be at least 256"),
        (changed("channel_interleave", '"300 B"'), r"channel_interleave = 300 B: must be a multiple of 128 B"),
        (
            changed("dram_channel_bandwidth", '"16.02 GB/s"'),
            r"= '16.02 GB/s' is 64080000000 B/s, .* = '64 GB/s': .* within 0.1 %",
        ),
        (changed("shared_per_block", '"32 KiB"'), r"sm.shared_per_block = 32 KiB contradicts .*shared_per_sm.*16 KiB"),
        (changed("shared_per_block_optin", '"8 KiB"'), r"sm.shared_per_block = 16 KiB contradicts .*optin = 8 KiB"),
        (changed("l1_size", '"8 KiB"'), r"sm.shared_per_sm = 16 KiB contradicts memory.l1_size = 8 KiB"),
        (changed("max_threads_per_block", "1024"), r"max_threads_per_block = 1024 contradicts .*per_sm = 512"),
        (changed("max_threads_per_sm", "1024"), r"max_threads_per_sm = 1024 contradicts sm.max_warps_per_sm = 16"),
        (changed("registers_per_block", "32768"), r"registers_per_block = 32768 contradicts sm.registers_per_sm"),
        (changed("sub_partitions", "3"), r"max_warps_per_sm = 16 contradicts sm.sub_partitions = 3"),
        (changed("dram_latency", '"90 cycles"'), r"memory.l2_latency = 100 cycles contradicts memory.dram_latency"),
        ("this is no toml", r"not a TOML file"),
        (changed("sms", f"0x{'f' * 6000}"), r"sms: a whole number of 24,000 bits: at most 64"),
        (f"sms = {'9' * 6000}", r"a whole number of thousands of digits: at most 64 bits are possible"),
    ],
)
def test_refuses_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=rf"bad\.toml: (GPU model 'bad': )?.*({message})"):
        load_gpu(write(tmp_path, text))


def test_latencies_may_be_times(tmp_path: Path) -> None:
    """At 1 GHz a cycle is a nanosecond; a half rounds up."""
    for text, cycles in (("250 ns", 250), ("0.25 us", 250), ("250.5 ns", 251), ("250.49 ns", 250), ("251 cycles", 251)):
        assert load_gpu(write(tmp_path, changed("dram_latency", f'"{text}"'))).dram_latency_cycles == cycles


def test_channel_bandwidth_may_be_rounded(tmp_path: Path) -> None:
    assert load_gpu(write(tmp_path, changed("dram_channel_bandwidth", '"16.01 GB/s"'))).dram_channels == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100_sxm", r"there is no GPU model 'h100_sxm': did you mean 'h100-sxm'\?; known: a100-sxm-40gb,"),
        ("RTX4090", r"did you mean 'rtx-4090'\?"),
        ("a100", r"did you mean 'a100-sxm-40gb' or 'a100-sxm-80gb'\?"),
        ("A100", r"did you mean 'a100-sxm-40gb' or 'a100-sxm-80gb'\?"),
        ("a100-sxm", r"did you mean 'a100-sxm-40gb' or 'a100-sxm-80gb'\?"),
        ("h200", r"did you mean 'h200-sxm'\?"),
        ("H100", r"did you mean 'h100-sxm' or 'h100-pcie'\?"),
        ("3090", r"did you mean 'rtx-3090'\?"),
        ("H10-SXM", r"did you mean 'h100-sxm'\?"),
        ("zzz", r"there is no GPU model 'zzz': known: a100-sxm-40gb,.*path that ends in \.toml"),
        ("nowhere/gpu.toml", r"there is no GPU model file 'nowhere/gpu.toml'; shipped models: a100"),
        (Path("nowhere"), r"there is no GPU model file 'nowhere'"),
        (7, r"load_gpu\(7\): give a name"),
    ],
)
def test_unknown_models_name_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_gpu(name)


def test_unknown_pipe_and_traffic() -> None:
    gpu: GPU = load_gpu("tiny")
    with pytest.raises(ModelError, match=r"there is no pipe 'fp31': did you mean 'fp32'\?"):
        gpu.pipe("fp31")
    with pytest.raises(ModelError, match=r"there is no traffic 'wirte': did you mean 'write'\?"):
        gpu.granule_fs("wirte")  # type: ignore[arg-type]
