"""The site as a host serves it: in a folder of its own, with readers who come by wrong
addresses.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.book.visits import patient_context, violations, visit
from tools import address, notebooks
from tools.book_footer import commit
from tools.build_book import HTML
from tools.site import publish

FIRST = f"{notebooks.toc_files()[0]}.html"
CHAPTER = f"book/{notebooks.chapters()[1].stem}.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site in the folder a/b of a host."""
    folder = tmp_path_factory.mktemp("host") / "a" / "b"
    folder.parent.mkdir()
    publish(HTML, folder, address.site(address.config()))
    return folder


class Host(http.server.SimpleHTTPRequestHandler):
    """Serves the site's own page where there is nothing, as hosts of static sites do."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing about each request."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        with suppress(ConnectionError):  # the reader has gone to another page
            super().copyfile(source, outputfile)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        body = (Path(self.directory) / "a" / "b" / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture(scope="module")
def host(site: Path) -> Iterator[str]:
    handler = functools.partial(Host, directory=str(site.parents[1]))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = patient_context(browser)
    yield context.new_page()
    context.close()


def test_the_book_reads_from_a_folder(browser: Browser, host: str) -> None:
    with visit(browser, f"{host}a/b/", formulas=False) as seen:
        seen.page.goto(f"{host}a/b/")
        seen.page.wait_for_url(f"{host}a/b/{FIRST}")
        page = seen.open(CHAPTER)
        assert page.locator("article h1").first.is_visible()
        page.locator(".prev-next-footer a.right-next").click()
        page.wait_for_url(f"{host}a/b/book/*.html")


def test_a_lasting_address_keeps_the_place_in_the_page(page: Page, host: str) -> None:
    chapter = notebooks.contents()["split"]
    page.goto(f"{host}a/b/{chapter.lasting_address}?highlight=price#notions")
    page.wait_for_url(f"{host}a/b/{chapter.address}?highlight=price#notions")


def test_a_lasting_address_works_without_scripts(browser: Browser, host: str) -> None:
    chapter = notebooks.contents()["split"]
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(f"{host}a/b/{chapter.lasting_address}")
    plain.wait_for_url(f"{host}a/b/{chapter.address}")
    context.close()


@pytest.mark.parametrize(
    "lost", ["a/b/nothing.html", "a/b/book/04_splitt.html", "a/b/deep/down/below/"]
)
def test_a_lost_reader_finds_the_book_from_any_depth(page: Page, host: str, lost: str) -> None:
    foreign: list[str] = []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((host, "data:")) else foreign.append(request.url)
        ),
    )
    answer = page.goto(host + lost)
    assert answer is not None
    assert answer.status == 404
    page.wait_for_function("document.documentElement.dataset.root")
    links = page.locator("[data-page]").evaluate_all("all => all.map(a => a.href || a.action)")
    assert links == [
        f"{host}a/b/{name}.html" for name in ("index", "search", *notebooks.toc_files())
    ]
    assert f"/{lost}" in page.locator("main").inner_text()
    page.get_by_label("Search").fill("multiplier")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{host}a/b/search.html?q=multiplier")
    assert foreign == []


def test_outside_the_site_its_page_promises_nothing_new(page: Page, host: str) -> None:
    page.goto(f"{host}elsewhere/page.html")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.dataset.root") is None


def test_the_page_for_lost_readers_opens_from_disk(page: Page, site: Path) -> None:
    page.goto((site / "404.html").as_uri())
    page.locator(f"[data-page='{FIRST}']").click()
    page.wait_for_url((site / FIRST).as_uri())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_for_lost_readers_reads_well(page: Page, host: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{host}a/b/book/nothing.html")
    page.wait_for_function("document.documentElement.dataset.root")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = violations(page, {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    assert [(each["id"], each["nodes"][0]["target"]) for each in found] == []


def test_every_page_describes_itself_and_names_its_sources(site: Path) -> None:
    for name in notebooks.toc_files():
        text = (site / f"{name}.html").read_text()
        assert (
            text.count('<meta name="description"') == text.count('<meta property="og:title"') == 1
        ), name
        footer = text.split('class="extra_footer"')[1]
        assert "Data: " in footer, name
        assert re.search(r"\b[0-9a-f]{12}\b", footer) or not commit(), name
    assert (site / "sitemap.xml").exists() == bool(address.site(address.config()))
