"""A real browser, Debian's Chromium without a screen, led by Playwright."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def obstacle() -> str:
    """Why there is none, "" where there is one."""
    if program() is None:
        return "Chromium is not installed"
    return "" if importlib.util.find_spec("playwright") else "Playwright is not installed"


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser that asks nobody but who it is sent to."""
    from playwright.sync_api import sync_playwright

    options = ["--disable-background-networking", "--disable-component-update"]
    if os.getuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program(), args=options)
        try:
            yield found
        finally:
            found.close()
