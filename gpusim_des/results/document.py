"""Results as files: JSON with a version, compressed where the name says so, written whole, read with suspicion.

No pickle: a file from a stranger cannot run anything. It can still be wrong, and is refused with a sentence then.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from gpusim_des.errors import ReadError
from gpusim_des.whole_file import whole_file

FORMAT = "gpusim_des result"
"""What stands in every file, to tell it from other JSON."""

VERSION = 2
"""Of the format. Fields that are added later do not change it, because they have defaults."""

OLDEST = 2
"""Version that is still read; the one before was never released."""

LARGEST_FILE = 2**31
"""Bytes of JSON that are read where nobody says otherwise: a small compressed file can hold terabytes of nothing."""

Document = dict[str, Any]


def save_document(content: Document, path: str | PathLike[str]) -> None:
    """Write a document, compressed if the name ends in ``.gz``; the file appears whole or not at all.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    OSError
        If the disk is full; nothing is left behind.
    """
    document = {"format": FORMAT, "version": VERSION, **content}
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with whole_file(path) as draft, draft.open("xb") as raw:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                packed.write(data)
        else:
            raw.write(data)


def load_document(path: str | PathLike[str], *, max_bytes: int = LARGEST_FILE) -> Document:
    """Read a document; compressed or not is seen from its first bytes.

    Raises
    ------
    ReadError
        If the file is no result, was cut off, is of a newer version, larger than `max_bytes`, or hostile.
    FileNotFoundError, PermissionError
        If it cannot be opened.
    """
    name = str(path)
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            data = _read(gzip.GzipFile(fileobj=raw) if packed else raw, name, max_bytes)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ReadError(f"{name}: a broken gzip file ({error}): is it cut off? Save the result again") from None
    return check_document(parse(data, name), name)


def _read(source: BinaryIO | gzip.GzipFile, name: str, max_bytes: int) -> bytes:
    parts = io.BytesIO()
    while piece := source.read(2**20):
        parts.write(piece)
        if parts.tell() > max_bytes:
            raise ReadError(
                f"{name}: more than {max_bytes:,} bytes of JSON: give load_result(path, max_bytes=…) if you trust it"
            )
    return parts.getvalue()


def parse(data: bytes, name: str) -> Any:
    """Read JSON; whatever is wrong with it is a `ReadError`."""

    def refuse(constant: str) -> float:
        raise ReadError(f"{name}: {constant} is no number of JSON: no result holds it")

    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise ReadError(f"{name}: not a text in UTF-8 ({error.reason} at byte {error.start:,}): no result") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(error.doc.rstrip()) - 1 or "Unterminated" in error.msg
        problem = "the JSON is cut off" if cut else "not JSON"
        raise ReadError(
            f"{name}: {problem}: {error.msg} in line {error.lineno}, column {error.colno}; save the result again"
        ) from None
    except RecursionError:
        raise ReadError(f"{name}: lists or objects nested too deeply: no result is like that") from None
    except ReadError:
        raise
    except ValueError:  # Python refuses to read whole numbers of thousands of digits
        raise ReadError(f"{name}: a number with thousands of digits: no result holds one") from None


def check_document(document: object, name: str) -> Document:
    """Tell whether this is a result that this version can read; returns it without format and version."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReadError(f"{name}: not a result of gpusim_des: sim.save(path) writes one")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ReadError(f"{name}: version = {ascii(version)[:40]}: must be a whole number from 1 on")
    if version < OLDEST:
        raise ReadError(
            f"{name}: a result of format version {version}, this gpusim_des reads {OLDEST} and later: simulate the "
            "program again and save the result"
        )
    if version > VERSION:
        raise ReadError(
            f"{name}: a result of format version {version}, this gpusim_des reads up to {VERSION}: install a newer one"
        )
    return {key: value for key, value in document.items() if key not in ("format", "version")}
