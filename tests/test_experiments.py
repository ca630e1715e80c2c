"""Every experiment runs, and its numbers show the phenomenon that it is about."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpusim_des as gs
from gpusim_des.experiment import list_experiments, load
from gpusim_des.textbook.tiled_matmul import fitting, measure

pytestmark = pytest.mark.filterwarnings("error::gpusim_des.RaceWarning", "error::gpusim_des.UnwrittenReadWarning")

FOLDER = Path(__file__).resolve().parent.parent / "experiments"


def test_the_gallery_is_complete() -> None:
    gallery = (FOLDER / "README.md").read_text()
    for name in list_experiments():
        assert f"**`{name}`**" in gallery
        assert f"![{name}](pictures/{name}.png)" in gallery
        assert (FOLDER / "pictures" / f"{name}.png").is_file()


TEXTBOOK = Path(gs.__file__).parent / "textbook"


@pytest.mark.parametrize("path", [*FOLDER.glob("*.py"), *TEXTBOOK.glob("*.py")], ids=lambda path: path.stem)
def test_explanations_are_bounded(path: Path) -> None:
    """An explanation without a bound would cover any mistake of the simulator; `compare_points` takes none."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if ast.unparse(call.func) in {"gs.compare", "compare"} and "explain" in given:
            assert "explained_up_to" in given, f"{path}:{call.lineno}"


def test_wave_quantization(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, table = load("wave_quantization").main("tiny", tmp_path, 4)

    assert [(p.blocks, p.waves) for p in points] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4)]
    plain, full = table.sections
    assert all(0 <= row.difference < 0.15 for row in plain.rows)  # handing out and the last writes come on top of it
    assert abs(full.worst_difference) < 0.01  # and with them nothing is left to explain
    assert (plain.verdict, full.verdict) == ("explained", "pass")
    assert points[2].simulated_us / points[1].simulated_us > 1.8  # one block more than a wave costs a wave
    assert points[1].simulated_us / points[0].simulated_us < 1.05  # the second SM costs nothing
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"wave_quantization.png", *(f"wave_timeline_{n}_blocks.png" for n in (2, 3, 4))}
    assert "2 blocks at a time" in capsys.readouterr().out


def test_latency_hiding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, table = load("latency_hiding").main("h100-sxm", tmp_path, 4, (1 / 16, 1 / 4))

    real, no_cost, only_memory = results.values()
    assert [p.label for p in real] == ["6.25%", "25%"]
    for as_is, without, memory in zip(real, no_cost, only_memory, strict=True):
        assert as_is.gbs < without.gbs < memory.gbs < 1.01 * memory.littles_law_gbs  # each step closer to the law
        assert memory.difference > -0.16  # what is left is transfer and queues
        for point in (as_is, without, memory):
            assert point.gbs == pytest.approx(point.with_measured_time_gbs, rel=0.04)  # L = λW
    assert (tmp_path / "latency_hiding.png").exists()
    said = capsys.readouterr().out
    assert "440 more to start and end the block" in said
    assert "loads and stores only, 6.25% occupancy" in said
    assert table.verdict == "explained"


def test_copy_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, table = load("copy_overlap").main("tiny", tmp_path, (1, 4), 64)

    def us(chunks: int, *, pinned: bool, engines: int = 2, issue: str = "depth-first") -> float:
        wanted = chunks, pinned, engines, issue
        (found,) = (p for p in points if (p.chunks, p.pinned, p.engines, p.issue) == wanted)
        return float(found.simulated_us)

    assert len(points) == 16
    pipeline, broken = table.sections
    assert len(pipeline) == 16
    assert abs(pipeline.worst_difference) < 0.01
    assert (broken.verdict, broken.rows[0].difference > 0.5) == ("explained", True)
    one, four = us(1, pinned=True), us(4, pinned=True)
    assert four < 0.8 * one  # four streams are faster
    assert us(4, pinned=True, engines=1) > 1.2 * four  # two directions take turns
    assert us(4, pinned=False) > us(1, pinned=False) > one  # pageable memory: only more latencies
    assert us(4, pinned=False, issue="breadth-first") < us(4, pinned=False)
    assert us(4, pinned=True, issue="breadth-first") == four  # enough hardware queues
    best = min(points, key=lambda p: float(p.simulated_us)).sim.overlap()
    assert best.all_three_s > 0.1 * best.total_s
    assert {p.name for p in tmp_path.iterdir()} == {"copy_overlap.png", "copy_overlap_timelines.png"}
    assert "these copies are not asynchronous: the host arrays are pageable" in capsys.readouterr().out


def test_copy_overlap_needs_whole_blocks() -> None:
    with pytest.raises(ValueError, match="33,792 bytes in 4 chunks of whole blocks: take a multiple of 8,192"):
        load("copy_overlap").main("tiny", None, (4,), 33)


def test_launch_overhead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, table = load("launch_overhead").main("h200-sxm", tmp_path, (64, 512, 4096), 6)

    short, middle, long = points
    stream, graph, whole = table.sections
    assert max(abs(stream.worst_difference), abs(graph.worst_difference)) < 0.01
    assert (stream.verdict, graph.verdict, whole.verdict) == ("pass", "pass", "explained")
    assert short.stream_us == pytest.approx(2.45)  # the host's call: a shorter kernel would gain nothing
    assert middle.stream_us > 3
    assert short.graph_us < 0.6 * short.stream_us
    assert long.graph_us == pytest.approx(long.stream_us - 1.15)  # gaps of 2.05 and 0.9
    assert long.share(long.stream_us) < 0.2
    assert short.share(short.stream_us) > 0.8
    assert {p.name for p in tmp_path.iterdir()} == {"launch_overhead.png", "launch_overhead_timelines.png"}
    assert "a launch costs the host 2.45 µs, the device 2.05 µs" in capsys.readouterr().out


def test_tiled_matmul(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n = 128
    rows, table = load("tiled_matmul").main("h100-sxm", tmp_path, n, sms=2)
    points = {p.name: p for p in rows}

    assert {p.loads * tile for p, tile in zip(points.values(), (1, 1, 8, *[16], *[32] * 5), strict=True)} == {2 * n**3}
    assert all(p.loads == p.formula_loads and p.ratio >= 1 for p in points.values())  # a roofline is a least time
    us = {name: p.kernel.seconds * 1e6 for name, p in points.items()}
    assert us["naive"] > 2 * us["naive, unrolled by 4"] > us["naive, unrolled by 4"] > us["T = 16"] > us["T = 32"]
    waits = {name: p.kernel.stalls["long_scoreboard"] for name, p in points.items()}
    assert waits["T = 32, double-buffered"] < 0.5 * waits["T = 32"]  # the next tile is on its way
    assert us["T = 32, padded"] == us["T = 32"]  # tiles that are read by rows have no conflicts to remove
    assert us["T = 32, B transposed"] > 10 * us["T = 32, B transposed, padded"]
    passes = [p.wavefronts_per_request for p in points.values()]
    assert passes == [0, 0, 1, 1, 1, 1, 1, 16.5, 1]  # 32 for B's tile, 1 for A's
    naive = points["naive"]
    assert naive.sectors == n**3 // 32 * 5  # of a step: a warp's one element of A, and 32 neighbours of B
    assert (points["T = 8"].sectors, points["T = 8"].formula_sectors) == (2 * n**3 // 64,) * 2
    assert points["T = 32"].roofline.limiter == "load/store units"
    assert [p.name for p in tmp_path.iterdir()] == ["tiled_matmul.png"]
    said = capsys.readouterr().out
    assert "* naive; naive, unrolled by 4: the lanes of a warp load the same element of A" in said
    loads, sectors, time = table.sections
    assert (loads.verdict, sectors.verdict, time.verdict) == ("pass", "explained", "explained")
    assert {row.label: row.verdict for row in time.rows}["T = 32, B transposed"] == "pass"


@pytest.mark.slow
def test_tiled_matmul_where_nothing_waits() -> None:
    """What the roofline leaves out is waiting: at the same rates and next to no latencies all are close to it.

    Writes take no longer than reads here: blocks write their tiles at the end, when nothing else is left to do.
    """
    chip = gs.experiment.without_waits(gs.load_gpu("h100-sxm").slice(sms=2)).replace(
        l2_write_services=1, l2_partial_write_services=1
    )
    points = [measure(variant, chip, 128, "on", "auto") for variant in fitting(chip, 128)]

    assert len(points) == 9
    assert all(1 <= p.ratio < 1.06 for p in points)


def test_tiled_matmul_without_caches(capsys: pytest.CaptureFixture[str]) -> None:
    """On paper: the naive kernel is bound by DRAM, and tiles move the limit elsewhere."""
    points, _ = load("tiled_matmul").main("tiny", None, 64, caches="off", engine="compiled")

    assert [p.name for p in points] == ["naive", "naive, unrolled by 4", "T = 8", "T = 16"]
    assert all(p.ratio >= 1 for p in points)
    assert [p.roofline.limiter for p in points[1:]] == ["DRAM", "issue slots", "issue slots"]
    assert points[1].ratio < 1.1
    assert "left out: T = 32, with 1,024 threads per block where the GPU allows 512" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"n = 72: must be a multiple of 32"):
        load("tiled_matmul").main("tiny", None, 72)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["c1060", "k20c", "v100-sxm2", "b200"])
def test_no_gpu_beats_its_roofline(gpu: str) -> None:
    """With caches and without; and the naive kernel comes close to the DRAM limit where that is the limit."""
    for caches in ("on", "off"):
        points, _ = load("tiled_matmul").main(gpu, None, 96, sms=2, caches=caches, engine="compiled")
        assert all(p.ratio >= 1 for p in points)
        assert all(
            p.ratio < 1.25 for p in points if p.name.startswith("naive, unrolled") and p.roofline.limiter == "DRAM"
        )


@pytest.mark.slow
def test_tiled_matmul_in_two_processes(tmp_path: Path) -> None:
    """As a reader starts it: the variants run in processes of their own, and the table is the same."""
    command = [sys.executable, str(FOLDER / "tiled_matmul.py"), "--quick", "--n", "64"]
    said = [
        subprocess.run([*command, "--jobs", jobs, "--out", tmp_path / jobs], check=True, capture_output=True, text=True)
        for jobs in ("1", "2")
    ]
    assert said[0].stdout.rsplit("\n", 2)[0] == said[1].stdout.rsplit("\n", 2)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["divergence", "ilp_vs_tlp", "launch_overhead"])
def test_with_its_defaults(name: str, tmp_path: Path) -> None:
    _, table = load(name).main(out=tmp_path)
    assert table.passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("bank_conflicts", ("c2050",)),
        ("coalescing", ("c1060",)),  # no L1 for global memory
        ("copy_overlap", ("c1060", "c2050")),  # one hardware queue, late signals
        ("histogram", ("t4",)),
        ("ilp_vs_tlp", ("c2050", "h200-sxm")),
        ("little_law", ("c1060", "rtx-4090")),  # one channel; 48 warps
        ("roofline", ("b200",)),
    ],
)
def test_quick_on_other_gpus(name: str, gpus: tuple[str, ...]) -> None:
    """Nothing is left unexplained on chips with rules of their own."""
    for gpu in gpus:
        _, table = load(name).main(gpu, quick=True)
        assert table.passed, str(table)
