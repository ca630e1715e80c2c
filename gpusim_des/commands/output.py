"""What commands write: folders that are checked before the work begins, and texts that a terminal can show."""

from __future__ import annotations

import codecs
import errno
import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gpusim_des.errors import UsageError

PICTURES = ("", ".png", ".svg", ".pdf")
"""Endings of figures; without one it is a PNG."""


def check_file(path: Path, option: str, endings: Sequence[str] = (), made: Path | None = None) -> None:
    """Refuse a name that cannot be written to before the work begins.

    Parameters
    ----------
    path, option
        The name, and which option gave it.
    endings
        Possible ones; any where none is given.
    made
        A folder that will be there in time.

    Raises
    ------
    UsageError
        If there is no such folder, a folder has this name, or the ending is another one.

    Examples
    --------
    >>> check_file(Path("map.foo"), "--plot", PICTURES)
    Traceback (most recent call last):
        ...
    gpusim_des.errors.UsageError: --plot map.foo: the ending chooses the format: .png, .svg or .pdf
    """
    if not (path.parent.is_dir() or path.parent == made):
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; create it first")
    if path.is_dir():
        raise UsageError(f"{option} {path}: this is a folder; name a file in it")
    if endings and path.suffix not in endings:
        *most, last = filter(None, endings)
        raise UsageError(f"{option} {path}: the ending chooses the format: {', '.join(most)} or {last}")


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
    try:  # an interrupt may come at any time, also before the work begins
        try:
            made += [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            taken = isinstance(error, FileExistsError | NotADirectoryError)
            reason = "a file of this name is in the way" if taken else (error.strerror or str(error)).lower()
            culprit = next((str(path) for path in (folder, *folder.parents) if path.is_file()), "") if taken else ""
            where = f" ({culprit})" if culprit and culprit != str(folder) else ""
            raise OSError(
                f"cannot write to the folder {folder}: {reason}{where}; choose another one with {option}"
            ) from None
        yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it holds something, or was never made
            folder.rmdir()


REMEDIES = {
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "choose another place, or have its rights changed",
    errno.EROFS: "choose another place",
    errno.ENOENT: "check the name",
    errno.ENOTDIR: "check the name: one of its folders is a file",
}
"""What to do about an error of the system."""


def in_words(error: OSError) -> str:
    """Say which file an error of the system is about, what is wrong, and what to do.

    >>> in_words(OSError(errno.ENOSPC, "No space left on device", "t.csv"))
    't.csv: no space left on device; make room, or choose another place'
    """
    if error.errno is None or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    reason = f"{error.strerror[:1].lower()}{error.strerror[1:]}"
    return f"{where}{reason}{'; ' if error.errno in REMEDIES else ''}{REMEDIES.get(error.errno, '')}"


PLAIN = {"µ": "u", "±": "+-", "…": "...", "×": "x", "–": "-"}
"""What a terminal shows that has no such character."""


def show_anywhere(stream: object) -> None:
    r"""Make a stream take every text: what its encoding lacks is written in plain letters, or as its number.

    >>> stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    >>> show_anywhere(stream)
    >>> stream.write("5 µs, \u4e2d"), stream.flush(), stream.buffer.getvalue()
    (7, None, b'5 us, \\u4e2d')
    """
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error("gpusim_des", _in_plain_letters)
        stream.reconfigure(errors="gpusim_des")


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in text), error.end


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Tell warnings as the command line tells errors: one line, without a line of the package's own code."""

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        print(f"gpusim-des: {printable(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


def printable(text: str) -> str:
    r"""Write out control characters, with which a name from a file could steer the terminal.

    >>> printable("kernel\x1b[31m µ")
    'kernel\\x1b[31m µ'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
