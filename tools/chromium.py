"""The browser that prints the book and in which tests open it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
# Without these Chromium looks for updates and sync servers of its own at every start.
SILENT = [
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# No page can reach another machine; that it tried is an error.
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
LOADING_MS = 3_600_000
"""Milliseconds after which a page is taken to hang."""


def installed() -> str | None:
    """The path of a Chromium, or None."""
    found = [path for name in (*NAMES, MAC_CHROME) if (path := shutil.which(name))]
    return found[0] if found else None


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    """Start a Chromium without a window, and end it."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    arguments = [*SILENT, ALONE, "--disable-gpu", *sandbox]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=arguments, timeout=LOADING_MS
        )
        yield browser
        browser.close()
