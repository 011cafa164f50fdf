"""Slides as PDF, one slide a page, printed by a Chromium of this machine where there is one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DAY = 24 * 3_600_000
"""Milliseconds: a page is waited for until it is ready, however busy the machine is."""


def browser() -> str | None:
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def print_decks(pages: list[Path], path: str) -> list[Path]:
    """Print each page beside itself; returns the PDF files."""
    written = []
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=["--disable-gpu", *sandbox], timeout=DAY
        )
        tab = chromium.new_page(viewport={"width": 1280, "height": 720})
        tab.set_default_timeout(DAY)
        for page in pages:
            tab.goto(page.resolve().as_uri())
            tab.locator("html[data-ready='1280x720']").wait_for(state="attached")
            written.append(page.with_suffix(".pdf"))
            tab.pdf(path=written[-1], prefer_css_page_size=True, print_background=True)
        chromium.close()
    return written
