"""A headless Chromium for tests: a module's fixture is ``yield from headless()``.

Nothing but files of this machine can be opened in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

HOW = (
    "to run it, install Chromium (Debian: apt-get install chromium; or set GPUSIM_DES_BROWSER to its path) and "
    "Playwright (pip install 'gpusim-des[browser]'), then: pytest -m browser"
)


DRAWING = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
"""WebGL without a graphics card, which speedscope draws with."""


def chromium() -> str | None:
    """Path of a Chromium, or ``None``."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("GPUSIM_DES_BROWSER") or next(filter(None, map(shutil.which, names)), None)


def headless() -> Iterator[Any]:
    """A browser of Playwright, for as long as a fixture lives; skips where there is none."""
    path = chromium()
    if path is None:
        pytest.skip(f"no Chromium: {HOW}")
    api = pytest.importorskip("playwright.sync_api", reason=f"no Playwright: {HOW}")
    with api.sync_playwright() as playwright:
        # A container has no sandbox of its own to give.
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", *DRAWING])
        yield found
        found.close()


class Opened:
    """A page with what it complained of, and the addresses that it asked for."""

    def __init__(self, browser: Any, address: str, *, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.errors: list[str] = []
        """What the page logged as an error, and the scripts that failed; complaints are all that it logged."""
        self.page.on("console", lambda message: self._logged(message.type, message.text))
        self.page.on("pageerror", lambda error: self._logged("error", str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.settle()

    def _logged(self, kind: str, text: str) -> None:
        self.complaints.append(text)
        if kind == "error":
            self.errors.append(text)

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
