"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("no deadline", parent=settings.default, deadline=None)
settings.load_profile("no deadline")

# Shells let what they start in the background ignore Ctrl-C; tests that send it mean a run in the foreground.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
