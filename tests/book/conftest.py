"""A browser and a server for the built book."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.book.visits import patient_context
from tools.build_book import HTML
from tools.chromium import chromium, installed


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    assert (HTML / "index.html").exists(), "the book is not built. To fix this: make book"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = installed()
    if not found:
        message = (
            "no Chromium found, so the pages are not opened. To fix this: sudo apt-get install"
            " chromium"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with chromium(found) as browser:
        yield browser


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
