"""Memory of the host, in which simulated device memory lives."""

from __future__ import annotations

from pathlib import Path

MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that the host can still give, ``None`` where the system does not tell (it does on Linux).

    Linux promises more memory than it has and ends the process that uses it, so asking beforehand is the only way to
    an error message.
    """
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None
