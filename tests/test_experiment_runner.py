"""Finding experiments, running them, one table over all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpusim_des as gs
from gpusim_des import experiment
from gpusim_des.cli import main

SCRIPT = '''"""Title of mine.

More.
"""
import gpusim_des as gs

def main(gpu="tiny", out=None, *, quick=False, size=100):
    table = gs.compare(100, {simulated}, name="law", explain={explain!r})
    print(table, gpu, quick, size)
    return [size], table

if __name__ == "__main__":
    gs.experiment.script(main)
'''


def mine(folder: Path, simulated: float, explain: str = "", name: str = "mine") -> str:
    path = folder / f"{name}.py"
    path.write_text(SCRIPT.format(simulated=simulated, explain=explain))
    return str(path)


@pytest.mark.parametrize(
    ("simulated", "explain", "code", "said"),
    [(101, "", 0, "+1.00%  pass"), (150, "because", 0, "+50.00%  explained"), (150, "", 1, "+50.00%  unexplained")],
)
def test_a_file_of_ones_own(
    simulated: float, explain: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = mine(tmp_path, simulated, explain), tmp_path / "deep" / "out"

    assert main(["experiment", path, "--gpu", "t4", "--quick", "--out", str(out)]) == code

    printed = capsys.readouterr().out
    assert "t4 True 100" in printed
    assert printed.splitlines()[-2].split() == ["experiment", "formula", "worst", "difference", "verdict"]
    assert printed.splitlines()[-1].split(maxsplit=2)[:2] == ["mine", "law"]
    assert said in printed.splitlines()[-1]
    assert {p.name for p in out.iterdir()} == {"mine.csv", "mine.json"}


def test_rows_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", mine(tmp_path, 101), "--json", "--out", str(tmp_path / "out")]) == 0

    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert (row["experiment"], row["name"], row["simulated"], row["verdict"]) == ("mine", "law", 101, "pass")
    assert "tiny False 100" in said.err  # what the experiment prints


def test_of_several_one_may_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = mine(tmp_path, 100), tmp_path / "bad.py"
    bad.write_text("def main(gpu='tiny', out=None, quick=False):\n    raise ValueError('n = 7: must be even')\n")

    results = experiment.run_several([str(bad), good], None)

    assert experiment.summary(results).splitlines()[1:] == [
        "bad         ValueError: n = 7: must be even                    failed",
        "mine        law                                        +0.00%  pass",
    ]
    assert experiment.result_rows(results)[0]["error"] == "ValueError: n = 7: must be even"
    assert "== mine (2 of 2)" in capsys.readouterr().err
    with pytest.raises(ValueError, match="n = 7: must be even"):
        experiment.run_several([str(bad)], None)


def test_what_is_no_experiment_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(name: str) -> str:
        assert main(["experiment", name, "--out", str(tmp_path / "out")]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert "there is no experiment 'latency': did you mean 'latency_hiding'?" in error("latency")
    assert "there is no experiment file 'nowhere.py'" in error("nowhere.py")
    path = tmp_path / "empty.py"
    path.write_text("")
    assert error(str(path)).endswith("an experiment has a function main(gpu, out, quick), and this file has none")
    path.write_text("def main(gpu='', out=None, quick=False): return 7")
    assert "main() returned int: must be its numbers and a Comparison" in error(str(path))
    assert not (tmp_path / "out").exists()


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiment.list_experiments())
    assert all(line.endswith((".", "!")) for line in lines)  # each says what it shows


def test_script_takes_options_of_main(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = experiment.load("latency_hiding")
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["x", "--gpu", "tiny", "--sms", "1", "--quick", "--out", str(out)])
    with pytest.raises(SystemExit) as left:
        gs.experiment.script(module.main, sms="SMs")
    assert left.value.code == 0
    assert "1 of 2 SMs" in capsys.readouterr().out
    assert {p.name for p in out.iterdir()} == {"latency_hiding.png", "latency_hiding.csv", "latency_hiding.json"}
    monkeypatch.setattr("sys.argv", ["x", "--gpu", "tinny", "--out", str(out)])
    with pytest.raises(SystemExit) as left:
        gs.experiment.script(module.main)
    assert left.value.code == 2
    assert "there is no GPU model 'tinny': did you mean 'tiny'?" in capsys.readouterr().err


def test_script_knows_choices_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "choosing.py"
    path.write_text(
        "from typing import Literal\nimport gpusim_des as gs\n"
        "def main(gpu='', out=None, *, quick: bool = False, caches: Literal['on', 'off'] = 'on', share: float = 0.5):\n"
        "    print(caches, share)\n    return [], gs.compare(1, 1)\n"
    )
    choosing = experiment.load(str(path)).main
    monkeypatch.setattr("sys.argv", ["x", "--caches", "off", "--share", "0.25", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        experiment.script(choosing, caches="caches", share="a share")
    assert (left.value.code, capsys.readouterr().out) == (0, "off 0.25\n")
    for wrong, said in (("--caches=maybe", "invalid choice: 'maybe'"), ("--share=half", "invalid float value: 'half'")):
        monkeypatch.setattr("sys.argv", ["x", wrong])
        with pytest.raises(SystemExit) as left:
            experiment.script(choosing, caches="caches", share="a share")
        assert left.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_all_quick_ends_with_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four; each has tests of its own."""
    some = ("bank_conflicts", "divergence", "launch_overhead", "wave_quantization")
    monkeypatch.setattr(experiment, "list_experiments", lambda: some)
    assert main(["experiment", "all", "--quick", "--out", str(tmp_path)]) == 0

    table = capsys.readouterr().out.rpartition("\n\n")[2].splitlines()
    assert table[0].split() == ["experiment", "formula", "worst", "difference", "verdict"]
    assert {line.split()[0] for line in table[1:]} == set(experiment.list_experiments())
    assert {line.split()[-1] for line in table[1:]} <= {"pass", "explained"}
    for name in experiment.list_experiments():
        assert {f"{name}.csv", f"{name}.json", f"{name}.png"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.parametrize(("warps", "cycles"), [(1, 100), (2, 100), (4, 200)])
def test_where_nothing_waits_only_work_takes_time(warps: int, cycles: int) -> None:
    """``tiny``: two schedulers of an SM issue an instruction a cycle; as it is, a lone warp needs four for each."""

    @gs.block_kernel
    def chain(blk: gs.Block, length: int) -> None:
        blk.compute(length)

    def more(gpu: gs.GPU) -> int:
        taken = []
        for length in (100, 200):
            dev = gs.Device(gpu)
            dev.launch(chain, 1, 32 * warps, length)
            taken.append(dev.simulate().kernels[0].cycles)
        return taken[1] - taken[0]

    tiny = gs.load_gpu("tiny").slice(sms=1)
    assert more(gs.experiment.without_waits(tiny)) == cycles
    assert more(tiny) == 400
