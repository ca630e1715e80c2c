"""Sweeps on a Dask cluster: the same rows, and clear words where workers or the scheduler are missing or other ones."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpusim_des as gs
from gpusim_des.sweeps import dask_backend, task
from gpusim_des.sweeps.axes import plan
from gpusim_des.sweeps.cluster import _lost, on_cluster, run_on_worker
from gpusim_des.sweeps.dask_backend import AHEAD
from gpusim_des.sweeps.task import DIED, Outcome, pack, run_packed
from tests.sweep_kernels import scale
from tests.test_sweep import ROOT, TINY
from tests.test_sweep_store import finished

# A cluster ------------------------------------------------------------------------------------------------------------

CLUSTER = """
import json, sys, threading
import gpusim_des as gs
from gpusim_des.sweeps import task
from tests.sweep_kernels import dies_at, scale

if __name__ == "__main__":
    from distributed import LocalCluster
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        threading.Timer(1, cluster.scale, [2]).start()  # workers that come when the sweep waits for them
        asked = dict(gpu="tiny", grid="cdiv(n, block)", block=[32, 64, 2048], args={"n": [100, 200], "x": "f32[n]"})
        there = gs.sweep(scale, **asked, cluster=cluster.scheduler_address, folder=sys.argv[2])
        args = {"x": "f32[32]", "deadly": 3, "n": list(range(6))}
        with cluster.get_client() as client:
            deadly = gs.sweep(dies_at, gpu="tiny", grid=1, block=32, args=args, cluster=client)
        task.simulator_digest = lambda: "of another version"
        try:
            gs.sweep(scale, **asked, cluster=cluster.scheduler_address)
        except gs.SweepError as error:
            other = str(error)
    here = gs.sweep(scale, **asked, workers=1)
    failed = [(row["arg_n"], row["error"][:10]) for row in deadly.failed]
    print(json.dumps([there.rows == here.rows, there.computed, len(there.failed), failed, other]))
"""


@pytest.mark.slow
def test_a_dask_cluster_comes_to_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    (tmp_path / "program.py").write_text(CLUSTER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), "-", str(tmp_path / "rows")],
        check=False, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    *rows, other = json.loads(run.stdout.splitlines()[-1])
    assert rows == [True, 6, 2, [[3, "WorkerDied"]]]
    assert re.match(r"the worker on .* has another gpusim_des \(.*: install the same one there", other)
    assert len(finished(tmp_path / "rows")) == 6


@pytest.mark.parametrize("address", ["nonsense://x", "foo", "tcp://foo", "tcp://foo:x", "", 5])
def test_a_cluster_that_is_not_there(address: object, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    made = []
    monkeypatch.setattr(distributed.Client, "__init__", lambda *a, **k: made.append(a))
    monkeypatch.setattr(distributed.Client, "__del__", lambda self: None)
    with pytest.raises(gs.SweepError, match=rf"cluster = {address!r}: no scheduler answers there .*tcp://host:8786"):
        gs.sweep(scale, **{**TINY, "block": [32, 64], "cluster": address})
    assert not made  # its end would be waited for


def test_the_cluster_extra_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(gs.SweepError, match=r"pip install 'gpusim-des\[cluster\]'"):
        gs.sweep(scale, **{**TINY, "block": [32, 64], "cluster": "tcp://127.0.0.1:1"})


# Tasks that come to no end --------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, and the end of patience, soon."""
    for name, seconds in (("LOOK_S", 0.1), ("SILENCE_S", 0.3), ("PATIENCE_S", 1.5)):
        monkeypatch.setattr(dask_backend, name, seconds)


@pytest.fixture
def cluster(quick: None, place: Path) -> Iterator[Any]:
    """Scheduler and workers in this process, which has none yet."""
    distributed = pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    asked = {"n_workers": 0, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**asked) as made:
        yield made
        go(place)


PLACE = {"folder": ""}
"""Kernels of the test write there that they begin, and go on when there is a file `go`."""


@gs.block_kernel
def waits(blk, x, n):  # type: ignore[no-untyped-def]
    place = Path(PLACE["folder"])
    with (place / "begun").open("a") as file:
        file.write(f"{n}\n")
    until = time.monotonic() + 30
    while not (place / "go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    blk.store(x, blk.tx, n)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kernels").mkdir()
    monkeypatch.setitem(PLACE, "folder", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def go(place: Path) -> None:
    """Let kernels end."""
    (place / "go").touch()


def begun(place: Path) -> list[str]:
    """What kernels that began were called with."""
    return (place / "begun").read_text().split() if (place / "begun").exists() else []


def swept(there: Any, tasks: int = 6, **more: Any) -> gs.SweepTable:
    args = {"n": range(tasks), "x": "i32[32]"}
    return gs.sweep(waits, gpu="tiny", grid=1, block=32, args=args, cluster=there, **more)


def when_begun(place: Path, act: Callable[[], object]) -> None:
    """Act as soon as the first kernel runs."""

    def wait() -> None:
        while not begun(place):
            time.sleep(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


def test_workers_that_come_later_are_used(cluster: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out: list[int] = []
    before = dask_backend._Mended._hand_out

    def spied(backend: Any) -> None:
        before(backend)
        out.append(len(backend._open))

    monkeypatch.setattr(dask_backend._Mended, "_hand_out", spied)
    go(place)
    later = threading.Timer(0.2, cluster.scale, [2])
    later.start()
    with cluster.get_client() as client:
        table = swept(client, 40)
    later.join()
    assert (len(table), table.failed) == (40, [])
    # One task asks for a worker; then as many as keep those busy that are there.
    assert out[0] == 1
    assert max(out) == 2 * AHEAD


def test_a_cluster_without_workers_is_told(cluster: Any) -> None:
    with (
        cluster.get_client() as client,
        pytest.warns(gs.SweepWarning, match=r"the cluster at .* has had no worker for 0\.3 s: waiting up to 1\.5 s"),
        pytest.raises(gs.SweepError, match=r"has had no worker for 1\.5 s: start one, dask worker ADDRESS, and the"),
    ):
        swept(client)
    gone(cluster)


def gone(cluster: Any) -> None:
    """Nothing of the sweep is left on the cluster."""
    until = time.monotonic() + 10
    while cluster.scheduler.tasks and time.monotonic() < until:
        time.sleep(0.01)
    assert not cluster.scheduler.tasks


def test_a_warning_that_is_an_error_ends_the_sweep(cluster: Any) -> None:
    with cluster.get_client() as client, pytest.raises(gs.SweepWarning, match="has had no worker for"):
        swept(client)


def test_tasks_that_somebody_cancels_run_again(cluster: Any, place: Path) -> None:
    """As those do whose worker another one took with it."""
    import distributed  # noqa: PLC0415 - an extra

    cluster.scale(1)
    with cluster.get_client() as client:
        client.wait_for_workers(1)

        def cancel() -> None:
            client.cancel([distributed.Future(key, client) for key in list(client.futures)])
            go(place)

        when_begun(place, cancel)
        table = swept(client)
    assert (len(table), table.computed, table.failed) == (6, 6, [])
    assert begun(place).count("0") == 2


def test_a_client_that_is_closed_ends_the_sweep(cluster: Any, place: Path) -> None:
    cluster.scale(1)
    client = cluster.get_client()
    when_begun(place, client.close)
    message = r"the scheduler (at|of) .* is gone: start it and the sweep again; finished rows are kept where"
    for _ in range(2):  # while it runs, and from the beginning
        with pytest.raises(gs.SweepError, match=message):
            swept(client)


def test_a_client_of_an_asynchronous_program_is_refused(cluster: Any) -> None:
    import distributed  # noqa: PLC0415 - an extra

    async def program() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            with pytest.raises(gs.SweepError, match=r"a client of a program with await; give the scheduler's address"):
                swept(client)

    asyncio.run(program())


def test_an_interrupted_sweep_leaves_nothing_on_the_cluster(cluster: Any, place: Path, tmp_path: Path) -> None:
    go(place)
    cluster.scale(1)

    def told(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with cluster.get_client() as client:
        client.wait_for_workers(1)
        with pytest.raises(KeyboardInterrupt):
            swept(client, 40, progress=told, folder=tmp_path)
        gone(cluster)
        assert len(finished(tmp_path)) == 2
        assert swept(client, 40, folder=tmp_path).computed == 38


def test_a_task_that_cannot_be_handed_out_is_an_error_of_its_row(
    cluster: Any, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go(place)
    cluster.scale(1)
    with cluster.get_client() as client:
        client.wait_for_workers(1)
        submit = client.submit
        numbers: list[int] = []

        def refuses(function: Any, tasks: Any, **more: Any) -> Any:
            ((_, (_, (number, _)), _),) = tasks
            numbers.append(number)
            if number == 2:
                raise OSError("no room")
            return submit(function, tasks=tasks, **more)

        monkeypatch.setattr(client, "submit", refuses)
        table = swept(client, 6, folder=tmp_path)
    assert numbers == list(range(6))
    assert [(row["arg_n"], row["error"]) for row in table.failed] == [(2, "RuntimeError: the cluster lost it")]
    records = [json.loads(line) for line in finished(tmp_path).values()]
    assert [record["config"]["arg_n"] for record in records if record.get("again")] == [2]  # tried again next time


class KilledWorker(Exception):  # noqa: N818 - distributed's
    """As distributed names it."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KilledWorker("key", "worker", 3), DIED),
        (asyncio.CancelledError(), DIED),
        (ModuleNotFoundError("No module named 'gpusim_des'"), "ModuleNotFoundError: No module named 'gpusim_des'"),
    ],
)
def test_what_is_said_of_a_task_without_an_end(error: BaseException, said: str) -> None:
    assert _lost((b"", (7, None)), error) == (7, Outcome(None, said, again=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "patience_s", "message"),
    [
        ("SIGKILL", 60, "is gone: start it and the sweep again"),  # its client gives up first
        ("SIGSTOP", 3, "has not answered for 3 s: start it and the sweep again"),
    ],
)
def test_a_scheduler_that_is_lost(
    sent: str,
    patience_s: float,
    message: str,
    tmp_path: Path,
    place: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    monkeypatch.setattr(dask_backend, "PATIENCE_S", patience_s)
    monkeypatch.setattr(dask_backend, "SILENCE_S", 100.0)
    monkeypatch.setattr(dask_backend, "ANSWER_S", 0.5)
    written = tmp_path / "scheduler.json"
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    with subprocess.Popen([*words, "--scheduler-file", str(written)], stderr=subprocess.DEVNULL) as scheduler:
        try:
            while not written.exists() and scheduler.poll() is None:
                time.sleep(0.05)
            address = json.loads(written.read_text())["address"]
            with distributed.Client(address, timeout="2 s", set_as_default=False) as client:
                when_begun(place, lambda: scheduler.send_signal(signal.Signals[sent]))
                client.sync(worker, address)
                with pytest.raises(gs.SweepError, match=message):
                    swept(client)
        finally:
            go(place)
            scheduler.kill()


async def worker(address: str) -> None:
    """Start a worker in this process."""
    import distributed  # noqa: PLC0415 - an extra

    await distributed.Worker(address, nthreads=1, dashboard=False)


# Workers that are other ones ------------------------------------------------------------------------------------------


def test_a_worker_of_another_version_ends_the_sweep(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(task, "simulator_digest", lambda: "of another version")
        data = pack(scale)
    planned = plan({"gpu": "tiny", "grid": 1, "block": 32}, {"n": [1, 2, 3], "x": "f32[n]"})
    message = r"the worker on .* has another gpusim_des \(0\..*, in .*\) than this sweep: install the same one there"
    with pytest.raises(gs.SweepError, match=message):
        run_packed(data, 0, planned[0].configuration)
    cluster.scale(1)
    with cluster.get_client() as client, pytest.raises(gs.SweepError, match=message):
        list(on_cluster(data, {number: p.configuration for number, p in enumerate(planned)}, client))
    gone(cluster)


def test_a_worker_that_lacks_a_module_of_the_kernels_is_an_error_of_the_row() -> None:
    (planned,) = plan({"gpu": "tiny", "grid": 1, "block": 32}, {"n": 1, "x": "f32[n]"})
    number, outcome = run_on_worker(b"no kernel", (4, planned.configuration))
    assert (number, outcome.result, outcome.again) == (4, None, True)
    assert outcome.error.startswith("UnpicklingError: ")
