"""Opening a page of the book in a browser, with everything noted that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

PATIENCE = 600_000
"""Milliseconds after which a page is taken to hang: tests wait for what a page does, however busy the machine is."""


class Visit:
    """One page load, with everything that went wrong during it."""

    def __init__(self, page: Page, base: str, formulas: bool) -> None:
        self.page, self.base, self.formulas = page, base, formulas
        self.foreign: list[str] = []
        self.errors: list[str] = []
        if not formulas:  # typesetting takes most of a page's time
            page.route("**/mathjax/**", lambda route: route.fulfill(body="", content_type="text/javascript"))
        page.on("request", self._asked)
        page.on("console", self._console)
        page.on("response", lambda r: self.errors.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("requestfailed", self._failed)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):  # named by its address
            self.errors.append(message.text)

    def _failed(self, request: Request) -> None:
        # the browser's own word for: the reader went to another page
        if request.failure != "net::ERR_ABORTED":
            self.errors.append(f"{request.failure}: {request.url}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, page: str) -> Page:
        self.page.goto(self.base + page, wait_until="load")
        if self.formulas and self.page.locator(".math").count():
            self.page.wait_for_function("window.MathJax?.startup?.promise")
            self.page.evaluate("MathJax.startup.promise")
        return self.page

    def check(self) -> None:
        assert self.foreign == [], "asked for something outside the book"
        assert self.errors == []


def patient_context(browser: Browser, **options: Any) -> BrowserContext:
    """A reader with nothing stored, who waits."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options})
    context.set_default_timeout(PATIENCE)
    return context


@contextmanager
def visit(browser: Browser, base: str, formulas: bool = True) -> Iterator[Visit]:
    """A page and a reader of its own; without formulas where a test is not about them."""
    context = patient_context(browser)
    with visit_in(context, base, formulas) as found:
        yield found
    context.close()


@contextmanager
def visit_in(context: BrowserContext, base: str, formulas: bool = True) -> Iterator[Visit]:
    """A page for a reader who has seen others before, and has their scripts and styles at hand."""
    found = Visit(context.new_page(), base, formulas)
    yield found
    found.check()
    found.page.close()


# Text of the very colour of its background is to axe what it cannot judge.
AXE = """options => axe.run(options).then(({violations, incomplete}) => {
  const unseen = node => node.any.some(({data}) => data?.messageKey === 'equalRatio');
  const doubts = incomplete.map(each => ({...each, nodes: each.nodes.filter(unseen)}));
  return [...violations, ...doubts.filter(each => each.nodes.length)];
})"""


def violations(page: Page, options: dict[str, Any]) -> list[dict[str, Any]]:
    """What axe finds on a page, invisible text included; its script is put into the page once."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    return page.evaluate(AXE, options)
