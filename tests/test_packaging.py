"""The models are found from a wheel and from an editable install, and an edited model is seen at once."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = "import gpusim_des.gpu as g; print(*g.list_gpus()); print(g.load_gpu('tiny').sms); print(g.__file__)"

pytestmark = pytest.mark.slow


def copy_of_checkout(folder: Path) -> Path:
    target = folder / "checkout"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "tests", "demo-out", "out", "build", "dist")
    shutil.copytree(ROOT, target, ignore=ignored)
    return target


def empty_environment(folder: Path) -> Path:
    """A new environment that sees the dependencies of this one, but not its gpusim_des."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    # A path file inside a folder that a path file names is not read, so the editable install stays invisible.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def pip(python: Path, *arguments: str | Path) -> None:
    subprocess.run([str(python), "-m", "pip", "-q", "--disable-pip-version-check", *map(str, arguments)], check=True)


def ask(python: Path, folder: Path) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run([python, "-c", LIST], check=True, capture_output=True, text=True, cwd=folder, env=environment)
    return run.stdout.splitlines()


def test_wheel(tmp_path: Path) -> None:
    checkout = copy_of_checkout(tmp_path)
    pip(Path(sys.executable), "wheel", "--no-deps", "-w", tmp_path / "wheels", checkout)
    python = empty_environment(tmp_path)
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    pip(python, "install", "--no-deps", wheel)
    shutil.rmtree(checkout)

    names, sms, place = ask(python, tmp_path)

    assert names.split() == sorted(p.stem for p in (ROOT / "models").glob("*.toml"))
    assert sms == "2"
    assert place.startswith(str(tmp_path / "venv"))
    said = subprocess.run(
        [python.parent / "gpusim-des", "gpus"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "NVIDIA H100 SXM5" in said.stdout
    said = subprocess.run(
        [python.parent / "gpusim-des", "validate", "--list"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "pchase_v100" in said.stdout
    said = subprocess.run(
        [python.parent / "gpusim-des", "experiment", "list"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert [line.split()[0] for line in said.stdout.splitlines()] == sorted(
        p.stem for p in (ROOT / "experiments").glob("*.py")
    )


def test_editable_install_sees_an_edited_model(tmp_path: Path) -> None:
    checkout = copy_of_checkout(tmp_path)
    python = empty_environment(tmp_path)
    pip(python, "install", "--no-deps", "-e", checkout)
    assert ask(python, tmp_path)[1] == "2"

    model = checkout / "models" / "tiny.toml"
    text = model.read_text()
    assert "value = 2, source" in text
    model.write_text(text.replace("value = 2, source", "value = 4, source", 1))

    assert ask(python, tmp_path)[1] == "4"
