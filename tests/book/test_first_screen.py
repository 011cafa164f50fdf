"""What a reader sees first at 1280 by 800: a sentence and a picture, and code that is not cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.book.visits import patient_context, visit_in
from tools import notebooks
from tools.contents import name_of

PICTURE = ".bd-article :is(figure img, .cell_output img, .moving svg)"
CUT = """() => [...document.querySelectorAll('.bd-article div.cell_input div.highlight pre')]
  .filter(code => code.offsetParent && !code.closest('details:not([open])'))
  .filter(code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent)"""


@pytest.fixture(scope="module")
def desk(browser: Browser) -> Iterator[BrowserContext]:
    context = patient_context(browser, viewport={"width": 1280, "height": 800})
    yield context
    context.close()


@pytest.mark.parametrize("name", ["preface", *(name_of(path) for path in notebooks.chapters())])
def test_the_first_screen_shows_a_picture_and_no_line_is_cut(desk: BrowserContext, address: str, name: str) -> None:
    with visit_in(desk, address, formulas=False) as found:
        page = found.open(notebooks.contents()[name].address)
        box = page.locator(PICTURE).first.bounding_box()
        assert box is not None
        assert box["y"] < 650, "the first picture begins below the first screen"
        assert box["height"] > 100
        assert page.evaluate(CUT) == [], "code lines that the column cuts"
