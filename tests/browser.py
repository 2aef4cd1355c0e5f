"""A real Chromium for the tests of the page, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = (
    "There is no Chromium to open reports in: `apt-get install chromium` (make test does that for "
    "root on Debian), or name one in PELLUCID_CHROMIUM."
)
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True,
}  # fmt: skip


def find() -> str | None:
    """Where a Chromium is."""
    named = os.environ.get("PELLUCID_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def absent() -> None:
    """Here the tests are skipped; where a change is judged they fail."""
    if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        pytest.fail(ADVICE, pytrace=False)
    pytest.skip(ADVICE)


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless browser; `find` has to have found one."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find())
        yield browser
        browser.close()


class Visit:
    """A page in a window of its own, and whatever it did that a page should not do.

    `faults` has what was said on the console, what was thrown, asked for or popped up.
    """

    def __init__(self, browser: Browser, path: Path, *, ready: bool = True, **how: Any) -> None:
        self.path, self.faults = path, list[str]()
        self.context = browser.new_context(**DESKTOP | how)
        self.context.add_init_script(path=Path(__file__).with_suffix(".js"))
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", lambda said: self.faults.append(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", lambda asked: self._requested(asked.url))
        self.page.on("dialog", self._popped_up)
        self.page.goto(path.as_uri())
        if ready:
            self.page.wait_for_selector("html[data-ready]")
        self.settle()

    def _requested(self, url: str) -> None:
        if url != self.path.as_uri() and not url.startswith(("data:", f"{self.path.as_uri()}#")):
            self.faults.append(f"request: {url[:80]}")

    def _popped_up(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def settle(self) -> None:
        """Let pictures load or fail, and charts draw."""
        self.page.wait_for_timeout(80)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    # The map ---------------------------------------------------------------------------------

    def ask(self, what: str) -> Any:
        """One of the functions of browser.js."""
        return self.page.evaluate(f"asked.{what}()")

    def clear(self) -> int:
        """A point that nothing lies on, neither a later point nor a pentagon, scrolled to."""
        self.page.locator("#map").scroll_into_view_if_needed()
        places, centres = self.ask("places"), self.ask("centres")
        window = self.page.viewport_size or {}
        for i in reversed(range(len(places))):
            free = all(far(places[i], other, 9) for other in places[i + 1 :])
            inside = 60 < places[i][1] < window["height"]
            if free and inside and all(far(places[i], centre, 24) for centre in centres):
                return i
        raise AssertionError("every point lies under another one")

    def opacities(self) -> dict[int, float]:
        """How strongly each cluster's points are drawn."""
        return {int(c): opacity for c, opacity in self.ask("opacities")}


def far(a: list[float], b: list[float], least: float) -> bool:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 > least**2
