"""Opening a page of the book in a browser, with everything noted that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Route


class Visit:
    """One page load, with everything that went wrong during it."""

    def __init__(self, page: Page, base: str, formulas: bool) -> None:
        self.page, self.base, self.formulas = page, base, formulas
        self.foreign: list[str] = []
        self.errors: list[str] = []
        page.route("**/*", self._only_local)
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

    def _only_local(self, route: Route) -> None:
        address = route.request.url
        if not self.formulas and "/mathjax/" in address:
            route.fulfill(body="", content_type="text/javascript")  # typesetting takes most of a page's time
        elif address.startswith((self.base, "data:", "blob:")):
            route.continue_()
        else:
            self.foreign.append(address)
            route.abort()

    def open(self, page: str) -> Page:
        self.page.goto(self.base + page, wait_until="load")
        if self.formulas and self.page.locator(".math").count():
            self.page.wait_for_function("window.MathJax?.startup?.promise")
            self.page.evaluate("MathJax.startup.promise")
        return self.page

    def check(self) -> None:
        assert self.foreign == [], "asked for something outside the book"
        assert self.errors == []


@contextmanager
def visit(browser: Browser, base: str, formulas: bool = True) -> Iterator[Visit]:
    """A page of its own; without formulas where a test is not about them."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)
    found = Visit(context.new_page(), base, formulas)
    yield found
    found.check()
    context.close()
