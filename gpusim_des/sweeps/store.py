"""Finished rows in a folder: one line each, appended and synced, so that no end loses one and none is read by half.

``rows.jsonl`` holds a JSON object in each line. A row is written by one call and then synced to the disk. Whatever
stands behind the last line's end is the half row of a writer that was killed: it is cut off. A line that is not whole
inside of the file was damaged by others, and so was one whose figures are none: it is told once, moved to another file,
and what it held is computed again.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from gpusim_des.errors import SweepError, SweepWarning
from gpusim_des.sweeps.axes import DEFAULTS
from gpusim_des.sweeps.lock import FolderLock
from gpusim_des.whole_file import whole_file

FILE = "rows.jsonl"

DAMAGED = "rows.damaged"
"""File to which lines go that are no rows."""

FORMAT = 1
"""Version of the rows; a newer one is refused."""

Record = dict[str, Any]
"""``key``, ``format``, the configuration's columns, and a ``result`` or an ``error``."""


class RowStore:
    """Rows by their keys, in a folder that only this process writes to.

    Parameters
    ----------
    folder
        Made if it is not there.

    Raises
    ------
    SweepError
        If another sweep uses the folder, or a newer version wrote it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RowStore(Path(folder)) as store:
    ...         store.append({"key": "a", "error": "LaunchError: no"})
    ...     with RowStore(Path(folder)) as store:
    ...         store.rows["a"]["error"]
    'LaunchError: no'
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SweepError(f"the folder {folder}: a file of this name is in the way; choose another folder") from None
        except OSError as error:
            reason = str(error.strerror or error).lower()
            raise SweepError(f"the folder {folder} cannot be made: {reason}; choose another folder") from None
        self._lock = FolderLock(folder)
        self._path = folder / FILE
        self.rows: dict[str, Record] = {}
        try:
            data = self._path.read_bytes() if self._path.exists() else b""
            whole = data.rfind(b"\n") + 1
            self.rows, sound, damaged = read_rows(data[:whole], self._path)
            if whole < len(data):
                os.truncate(self._path, whole)
            if damaged:
                _put_aside(self._path, sound, damaged)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except BaseException:
            self._lock.release()
            raise

    def append(self, record: Record) -> None:
        """Write a row; when this returns, it is on the disk.

        Raises
        ------
        SweepError
            If the disk is full or fails; nothing of the row stays in the file, and all earlier ones do.
        """
        line = json.dumps({"format": FORMAT, **record}, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):  # the rest has no room, or nobody said why: asking for it brings the reason
                written += os.write(self._descriptor, line[written:])
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes were taken")
            os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):  # what cannot be cut off now is cut off when the folder is opened again
                os.ftruncate(self._descriptor, before)
            raise SweepError(
                f"{self._path}: a row cannot be written: {error.strerror or error}; make room and start the sweep "
                f"again: its {len(self.rows):,} finished rows are kept"
            ) from None
        self.rows[record["key"]] = record

    def close(self) -> None:
        """Give the folder back."""
        os.close(self._descriptor)
        self._lock.release()

    def __enter__(self) -> RowStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _put_aside(path: Path, sound: list[bytes], damaged: list[bytes]) -> None:
    """Move damaged lines to a file of their own, so that they are told of once; where there is no room they stay."""
    with suppress(OSError), whole_file(path) as draft:
        with path.with_name(DAMAGED).open("ab") as aside:
            aside.writelines(line + b"\n" for line in damaged)
        with draft.open("xb") as file:
            file.writelines(line + b"\n" for line in sound)
            file.flush()
            os.fsync(file.fileno())


class Read(NamedTuple):
    """Rows by key, of several with one key the last; and all lines, by whether they are rows."""

    rows: dict[str, Record]
    sound: list[bytes]
    damaged: list[bytes]


def read_rows(data: bytes, path: Path) -> Read:
    """Read the lines of a file. Warns of those that are damaged; raises `SweepError` for those of a newer version."""
    read = Read({}, [], [])
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        record = _record(line)
        if record is None:
            read.damaged.append(line)
            warnings.warn(
                f"{path}, line {number}: damaged, not a row: what it held is computed again, and the line moves to "
                f"{DAMAGED}",
                SweepWarning,
                stacklevel=4,
            )
        elif record.get("format", FORMAT) != FORMAT:
            raise SweepError(
                f"{path}, line {number}: a row of format {record['format']!r}, this gpusim_des reads {FORMAT}: install "
                "a newer one, or choose another folder"
            )
        else:
            read.sound.append(line)
            read.rows[record["key"]] = record
    return read


NEEDED = {"seconds": (int, float), "achieved_occupancy": (int, float), "main_stall": (str,), "mistakes": (str,)}
"""What every result has, and its types."""

PLAIN = {int, float, str, bool, type(None)}
"""Types of what stands in a row."""


def _record(line: bytes) -> Record | None:
    """Read a row; ``None`` where it is none, or none that a sweep of this format wrote."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("key"), str):
        return None
    if record.get("format", FORMAT) != FORMAT:  # its rules are others
        return record
    result, error = record.get("result"), record.get("error", "")
    if result is None:
        return record if isinstance(error, str) and error else None
    return record if error == "" and _is_result(result) else None


def _is_result(result: object) -> bool:
    # What was varied has columns of its own, which no figure may replace.
    return (
        isinstance(result, dict)
        and _are_figures(tuple(result), tuple(map(type, result.values())))
        and all(map(isfinite, [value for value in result.values() if type(value) is float]))
    )


@lru_cache(maxsize=64)  # the rows of a kernel have few
def _are_figures(names: tuple[str, ...], types: tuple[type, ...]) -> bool:
    there = dict(zip(names, types, strict=True))
    return (
        all(there.get(name) in kinds for name, kinds in NEEDED.items())
        and PLAIN.issuperset(types)
        and DEFAULTS.keys().isdisjoint(names)
        and not any(name.startswith(("arg_", "gpu_", "error")) for name in names)
    )
