"""A lock on a folder, which the system takes back when its holder ends, however it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from gpusim_des.errors import SweepError

if os.name == "nt":  # pragma: no cover - a system that tests do not run on
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderLock:
    """Holds a folder for one sweep at a time.

    Raises
    ------
    SweepError
        If another one holds it; the message names its process.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        # 0o666 lets the umask decide, as for any other file. A child does not inherit it, so the lock ends with us.
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(self._descriptor)
        except OSError:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip()
            os.close(self._descriptor)
            who = f"process {holder}" if holder.isdecimal() else "another process"
            raise SweepError(
                f"the folder {folder} is in use by a sweep of {who}: wait for its end, or choose another folder"
            ) from None
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError:  # a full disk: the number is for messages only
            pass

    def release(self) -> None:
        """Give the folder back."""
        os.close(self._descriptor)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
