"""What commands write: folders that are checked before the work begins, and texts that a terminal can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def writable(folder: Path, option: str = "--out") -> Iterator[None]:
    """Make a folder before the work begins, so that a wrong one is told at once; take it back if the work fails.

    Raises
    ------
    OSError
        If it cannot be made or written to; the message names `option`.
    """
    import tempfile  # noqa: PLC0415 - takes a while to load, and `--help` does not need it

    made: list[Path] = []
    try:
        made += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _remove_empty(made)
        taken = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file of this name is in the way" if taken else (error.strerror or str(error)).lower()
        culprit = next((str(path) for path in (folder, *folder.parents) if path.is_file()), "") if taken else ""
        where = f" ({culprit})" if culprit and culprit != str(folder) else ""
        raise OSError(
            f"cannot write to the folder {folder}: {reason}{where}; choose another one with {option}"
        ) from None
    try:
        yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it holds something, or was never made
            folder.rmdir()


def printable(text: str) -> str:
    r"""Write out control characters, with which a name from a file could steer the terminal.

    >>> printable("kernel\x1b[31m µ")
    'kernel\\x1b[31m µ'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
