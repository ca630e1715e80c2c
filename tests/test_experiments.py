"""Every experiment runs, and its numbers show the phenomenon that it is about."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "experiments"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"experiments_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_no_experiment_is_forgotten() -> None:
    assert {p.stem for p in FOLDER.glob("*.py")} == {"latency_hiding", "wave_quantization"}


def test_wave_quantization(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = load("wave_quantization").main("tiny", tmp_path, 4)

    assert [(p.blocks, p.waves) for p in points] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4)]
    for p in points:
        assert 0 <= p.difference < 0.15  # handing out and the last writes come on top of the formula
        assert abs(p.full_difference) < 0.01  # and with them nothing is left to explain
    assert points[2].simulated_us / points[1].simulated_us > 1.8  # one block more than a wave costs a wave
    assert points[1].simulated_us / points[0].simulated_us < 1.05  # the second SM costs nothing
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"wave_quantization.png", *(f"wave_timeline_{n}_blocks.png" for n in (2, 3, 4))}
    assert "2 blocks at a time" in capsys.readouterr().out


def test_latency_hiding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = load("latency_hiding").main("h100-sxm", 4, tmp_path, (1 / 16, 1 / 4))

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
    worst = min(p.difference for p in only_memory)
    assert f"farthest from Little's law: {worst:+.1%} with W = DRAM latency" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency_hiding", "wave_quantization"])
def test_with_its_defaults(name: str, tmp_path: Path) -> None:
    assert load(name).main(out=tmp_path)
