"""Sweeps on a Dask cluster: the same rows, and clear words where workers are missing or have another version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty

import pytest

import gpusim_des as gs
from gpusim_des.sweeps import cluster as clusters
from gpusim_des.sweeps import task
from gpusim_des.sweeps.axes import plan
from gpusim_des.sweeps.cluster import AHEAD, on_cluster
from gpusim_des.sweeps.task import Outcome, pack, run_packed
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
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=None) as cluster:
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


# Workers that are missing, late, or other ones -----------------------------------------------------------------------


class Future:
    """A task that was handed out."""

    def __init__(self, key: str, number: int) -> None:
        self.key = key
        self.number = number
        self.status = "finished"
        self.error: Exception | None = None

    def add_done_callback(self, call: Callable[[Future], None]) -> None:
        self.call = call

    def result(self) -> tuple[int, Outcome]:
        return self.number, Outcome({"n": self.number})

    def exception(self) -> Exception | None:
        return self.error


class Client:
    """A cluster's client as sweeps use it; tasks end when the cluster is asked for its workers."""

    def __init__(self, threads: list[int], error: Exception | None = None) -> None:
        self.threads = threads  # at each look; the last one stays
        self.error = error
        self.waiting: list[Future] = []
        self.handed_out: list[int] = []  # at each look
        self.cancelled: list[Future] = []
        self.scheduler = self
        self.address = "tcp://fake"

    def submit(self, function: object, data: bytes, number: int, c: object, *, pure: bool) -> Future:
        assert function is run_packed
        assert not pure
        self.waiting.append(Future(f"key {number}", number))
        return self.waiting[-1]

    def ncores(self) -> dict[str, int]:
        self.handed_out.append(len(self.waiting))
        now = self.threads.pop(0) if len(self.threads) > 1 else self.threads[0]
        for future in self.waiting[: now and len(self.waiting)]:
            if self.error is not None:
                future.status, future.error = "error", self.error
            future.call(future)
        if now:
            self.waiting.clear()
        return {"a worker": now} if now else {}

    def cancel(self, futures: list[Future], *, force: bool) -> None:
        self.cancelled = futures


class Clock:
    """Time that passes only while a sweep waits."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def queue(self) -> Clock:
        self.items: deque[Future] = deque()
        self.put = self.items.append
        return self

    def get(self, timeout: float) -> Future:
        if not self.items:
            self.now += 1.1 * timeout
            raise Empty
        return self.items.popleft()


def run(client: Client, monkeypatch: pytest.MonkeyPatch, tasks: int) -> list[int]:
    clock = Clock()
    monkeypatch.setattr(clusters, "time", clock)
    monkeypatch.setattr(clusters, "SimpleQueue", clock.queue)
    monkeypatch.setattr(clusters, "connect", lambda cluster: (client, False))
    planned = plan({"gpu": "tiny", "grid": 1, "block": range(1, tasks + 1)}, {"n": 1, "x": "f32[n]"})
    numbered = {number: p.configuration for number, p in enumerate(planned)}
    return [number for number, _ in on_cluster(b"", numbered, "tcp://fake")]


def test_a_cluster_without_workers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([0])
    with (
        pytest.warns(gs.SweepWarning, match=r"the cluster at tcp://fake has no worker: waiting up to 60 s"),
        pytest.raises(gs.SweepError, match=r"at tcp://fake has had no worker for 60 s: start one \(dask worker"),
    ):
        run(client, monkeypatch, 5)
    assert [future.number for future in client.cancelled] == [0]


def test_workers_that_come_later_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([0, 0, 1, 3, 3, 3])
    assert sorted(run(client, monkeypatch, 40)) == list(range(40))
    # One task asks for a worker; then as many as keep those busy that are there.
    assert client.handed_out[:6] == [0, 1, 1, AHEAD, 3 * AHEAD, 3 * AHEAD]
    assert client.cancelled == []


def test_a_worker_of_another_version_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(task, "simulator_digest", lambda: "of another version")
        data = pack(scale)
    (planned,) = plan({"gpu": "tiny", "grid": 1, "block": 32}, {"n": 1, "x": "f32[n]"})
    message = r"the worker on .* has another gpusim_des \(0\..*, in .*\) than this sweep: install the same one there"
    with pytest.raises(gs.SweepError, match=message) as raised:
        run_packed(data, 0, planned.configuration)
    with pytest.raises(gs.SweepError, match=message):
        run(Client([1], raised.value), monkeypatch, 3)
