"""Pictures on disk: whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusim_des import views


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a", b"\x89PNG")])
def test_saved_pictures_have_the_format_of_their_name(tmp_path: Path, name: str, start: bytes) -> None:
    views.save(views.waves_curve([1], [1.0], [1.0]), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes().startswith(start)


def test_saving_into_a_missing_folder_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write a\.png: there is no folder .*nowhere; create it first"):
        views.save(views.waves_curve([1], [1.0], [1.0]), tmp_path / "nowhere" / "a.png")


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text("old")
    with pytest.raises(ValueError, match="xyz"):
        views.save(views.waves_curve([1], [1.0], [1.0]), path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
