"""Files that appear whole or not at all: written under another name and renamed at the end."""

from __future__ import annotations

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
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target.name}: there is no folder {target.parent}; create it first")
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
