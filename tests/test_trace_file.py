"""Traces on a disk that is full: whole or not there, whatever the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusim_des.timeline import Timeline
from gpusim_des.views import save_trace, trace_file
from gpusim_des.views.run_trace import run_trace

pytest_plugins = ["tests.timelines"]

NAMES = ("run.json", "run.json.gz", "run.pftrace", "run.pftrace.gz")


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_the_old_file_and_names_it(
    three_waves: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("old")
    opened = Path.open

    def full(self: Path, mode: str) -> Any:
        file = opened(self, mode, buffering=0)
        monkeypatch.setattr(trace_file, "COMPRESSION", 0)  # so that bytes are written soon
        return _Full(file)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left on device") as told:
        save_trace(three_waves, tmp_path / name)
    assert told.value.filename == str(tmp_path / name)
    monkeypatch.undo()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "old")]


class _Full:
    """A file on a disk that takes a thousand bytes more."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = 1000

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: bytes) -> int:
        written: int = self._file.write(content[: self._left])
        self._left -= written
        if not self._left:
            raise OSError(28, "No space left on device")
        return written


@pytest.mark.parametrize("name", NAMES)
def test_what_fails_while_a_trace_is_made_leaves_the_old_file(
    three_waves: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Tables are made while the file is written."""
    (tmp_path / name).write_text("old")
    assert next(iter(run_trace(three_waves, 100).tables))

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpusim_des.views.run_trace.warp_slices", fail)
    with pytest.raises(KeyboardInterrupt):
        save_trace(three_waves, tmp_path / name)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "old")]
