"""Finished rows in a folder: one line each, appended and synced, so that no end loses one and none is read by half.

``rows.jsonl`` holds a JSON object in each line. A row is written by one call and then synced to the disk. Whatever
stands behind the last line's end is the half row of a writer that was killed: it is cut off. A line that is not whole
inside of the file was damaged by others; it is told, and what it held is computed again.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gpusim_des.errors import SweepError, SweepWarning
from gpusim_des.sweeps.lock import FolderLock

FILE = "rows.jsonl"

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
    ...         store.append({"key": "a", "result": {"seconds": 1.5}})
    ...     with RowStore(Path(folder)) as store:
    ...         store.rows["a"]["result"]
    {'seconds': 1.5}
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SweepError(f"the folder {folder}: a file of this name is in the way; choose another folder") from None
        self._lock = FolderLock(folder)
        self._path = folder / FILE
        self.rows: dict[str, Record] = {}
        try:
            data = self._path.read_bytes() if self._path.exists() else b""
            whole = data.rfind(b"\n") + 1
            self.rows = read_rows(data[:whole], self._path)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            if whole < len(data):
                os.ftruncate(self._descriptor, whole)
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


def read_rows(data: bytes, path: Path) -> dict[str, Record]:
    """Rows by key; of several with one key the last. Warns of lines that are damaged; raises `SweepError`."""
    rows: dict[str, Record] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        record = _record(line)
        if record is None:
            warnings.warn(
                f"{path}, line {number}: damaged, not a row: what it held is computed again",
                SweepWarning,
                stacklevel=4,
            )
        elif record.get("format", FORMAT) != FORMAT:
            raise SweepError(
                f"{path}, line {number}: a row of format {record['format']!r}, this gpusim_des reads {FORMAT}: install "
                "a newer one, or choose another folder"
            )
        else:
            rows[record["key"]] = record
    return rows


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(record, dict) and isinstance(record.get("key"), str)
    return (
        record if sound and (isinstance(record.get("result"), dict) or isinstance(record.get("error"), str)) else None
    )
