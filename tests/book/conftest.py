"""A browser and a server for the built book."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.book.visits import PATIENCE, patient_context
from tools.build_book import HTML

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
# Without these Chromium looks for updates and sync servers of its own at every start.
SILENT = [
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# No page can reach another machine; that it tried is an error of the test.
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    assert (HTML / "index.html").exists(), "the book is not built. To fix this: make book"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = [path for name in (*CHROMIUM_NAMES, MAC_CHROME) if (path := shutil.which(name))]
    if not found:
        message = (
            "no Chromium found, so the pages are not opened. To fix this: sudo apt-get install"
            " chromium"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        arguments = [*SILENT, ALONE, "--disable-gpu", *sandbox]
        chromium = playwright.chromium.launch(
            executable_path=found[0], args=arguments, timeout=PATIENCE
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which many pages are opened, one after the other."""
    context = patient_context(browser)
    yield context.new_page()
    context.close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing about each request."""

    def end_headers(self) -> None:
        if "/_static/" in self.path:
            self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The book served on the loopback interface."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(HTML))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
