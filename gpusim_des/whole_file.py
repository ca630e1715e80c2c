"""Files that appear whole or not at all: written under another name and renamed at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Give another name to write to and rename at the end, so that the file appears whole or not at all.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    OSError
        If the disk is full or fails; it names the file, not the other name.
    IsADirectoryError, FileExistsError
        If the name is that of a folder, or of a device or a pipe, which a file must not replace.
    PermissionError
        If the folder must not be written to.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target.name}: there is no folder {target.parent}; create it first")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"cannot write {target}: it is a device or a pipe; give the name of a file")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(
            f"cannot write {target.name}: the folder {target.parent} may not be written to; name another"
        )
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield draft
        draft.replace(target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(draft), draft):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        draft.unlink(missing_ok=True)
