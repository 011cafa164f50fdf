"""Opening a page of the book in a browser, with everything noted that goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

PATIENCE = 600_000
"""Milliseconds after which a page is taken to hang: tests wait for what a page does, however busy
the machine is.
"""
FORMULAS = "**/mathjax/**"


class Visit:
    """One page load, with everything that went wrong during it."""

    def __init__(self, page: Page, base: str, formulas: bool) -> None:
        self.page = page
        self.base = base
        self.formulas = formulas
        self.foreign: list[str] = []
        self.errors: list[str] = []
        if not formulas:  # typesetting takes most of a page's time
            page.route(
                FORMULAS, lambda route: route.fulfill(body="", content_type="text/javascript")
            )
        self.hears: dict[Any, Callable[[Any], None]] = {
            "request": self._asked,
            "console": self._console,
            "response": self._answered,
            "pageerror": lambda error: self.errors.append(str(error)),
            "requestfailed": self._failed,
        }
        for event, heard in self.hears.items():
            page.on(event, heard)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(
            "Failed to load resource"
        ):  # named by its address
            self.errors.append(message.text)

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status}: {response.url}")

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

    def leave(self) -> None:
        """Hear no more of the page, in which another one may be opened."""
        self.page.unroute(FORMULAS)
        for event, heard in self.hears.items():
            self.page.remove_listener(event, heard)

    def check(self) -> None:
        assert self.foreign == [], "asked for something outside the book"
        assert self.errors == []


def patient_context(browser: Browser, **options: Any) -> BrowserContext:
    """A reader with nothing stored, who waits."""
    context = browser.new_context(
        **{"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}
    )
    context.set_default_timeout(PATIENCE)
    return context


@contextmanager
def visit(browser: Browser, base: str, formulas: bool = True) -> Iterator[Visit]:
    """A page and a reader of its own; without formulas where a test is not about them."""
    context = patient_context(browser)
    found = Visit(context.new_page(), base, formulas)
    yield found
    found.check()
    context.close()


@contextmanager
def visit_in(tab: Page, base: str, formulas: bool = True) -> Iterator[Visit]:
    """A page in a tab that has shown others: it has what they share at hand, and has
    compiled it.
    """
    tab.emulate_media(media="screen", color_scheme="light")
    found = Visit(tab, base, formulas)
    try:
        yield found
        found.check()
    finally:
        found.leave()


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
