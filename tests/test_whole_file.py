"""Files that appear whole or not at all, and names that no file may have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpusim_des.whole_file import whole_file


def write(path: Path | str, *, full: bool = False) -> None:
    with whole_file(path) as draft:
        draft.write_text("new")
        if full:
            raise OSError("full")


def test_a_name_gets_its_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    write(tmp_path / "a")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "new")]


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="full"):
        write(tmp_path / "a", full=True)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


@pytest.mark.parametrize("name", ["", "."])
def test_a_folder_is_no_name(name: str) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder; give the name of a file in it"):
        write(name)


def test_pipes_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe: it is a device or a pipe; give the name of a file"):
        write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_that_nobody_may_write_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # who runs the tests may be allowed everything
    with pytest.raises(PermissionError, match=r"cannot write a: the folder .* may not be written to; name another"):
        write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
