"""The built pages in a browser, as readers meet them: light, dark, desk, phone, served and from
disk.

A page is opened once for all that is asked of it: to set its formulas takes most of the time. Pages
follow each other in one tab, which has MathJax compiled after the first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.book.visits import PATIENCE, violations, visit, visit_in
from tools import notebooks
from tools.build_book import HTML
from tools.contents import name_of

PAGES = [f"{name}.html" for name in notebooks.toc_files()]
# axe takes minutes for a thousand formulas and for coloured code, which look the same on every
# page: on these
# pages it looks inside them as well.
LOOKED_INSIDE = ("book/quickstart.html", "book/notation.html")
# of names, the first of each section stay
INSIDES = "mjx-container, .highlight pre, dl.py:nth-of-type(n + 4) > dd"
# All pages load the same scripts (test_html says so), and these have figures that move besides.
MOVING = tuple(
    notebooks.contents()[name].address
    for name in ("exact_embeddings", "augmented_lagrangian", "split")
)
FIRST_SCREENS = {
    notebooks.contents()[name].address
    for name in ("preface", *map(name_of, notebooks.numbered_chapters()))
}
PICTURE = ".bd-article :is(figure img, .cell_output img, .moving svg)"
CUT = """() => [...document.querySelectorAll('.bd-article div.cell_input div.highlight pre')]
  .filter(code => code.offsetParent && !code.closest('details:not([open])'))
  .filter(code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent)"""
# Inline formulas that reach beyond the page and cannot be scrolled to their end.
LOST = """() => [...document.querySelectorAll('.bd-article mjx-container:not([display])')]
  .filter(formula => formula.offsetParent && !formula.closest('pre, table, .result-table'))
  .filter(formula => formula.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(formula => formula.parentElement.textContent.slice(0, 60))"""
UNFOLD = """() => document.querySelectorAll('.bd-article details:not([open])').forEach(
  each => { each.open = true; each.dataset.wasFolded = 'yes'; })"""
FOLD = """() => document.querySelectorAll('.bd-article details[data-was-folded]').forEach(
  each => { each.open = false; delete each.dataset.wasFolded; })"""
FROM_DISK = sorted({*PAGES[::9], *LOOKED_INSIDE, *MOVING})
AXE_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations", "incomplete"],
    "preload": False,  # axe would fetch the style sheets again, some by a wrong address
}
COLOURS = ("color-contrast", "link-in-text-block")
WITHOUT_COLOURS = {**AXE_OPTIONS, "rules": {rule: {"enabled": False} for rule in COLOURS}}
COLOURS_ALONE = {**AXE_OPTIONS, "runOnly": {"type": "rule", "values": COLOURS}}
# Colours follow from tags, classes and inline styles: of elements with the same path of these the
# first two are left,
# and none where pages before had two. Paths are numbers, each the hash of the one above and of what
# the element is.
TWO_OF_EACH_KIND = """judged => {
  const hash = (text, start) => [...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 8796093022151, start);
  const paths = new Map([[document.body, 7]]), seen = new Map(judged.map(path => [path, 2])), kept = new Set();
  for (const each of document.body.querySelectorAll('*')) {
    const own = [each.tagName, each.className.baseVal ?? each.className, each.getAttribute('style')].join();
    const path = hash(own, paths.get(each.parentElement));
    paths.set(each, path);
    seen.set(path, (seen.get(path) ?? 0) + 1);
    for (let one = each; seen.get(path) <= 2 && one && !kept.has(one); one = one.parentElement) kept.add(one);
  }
  for (const each of paths.keys()) if (!kept.has(each)) each.remove();
  return [...seen.entries()].filter(([, count]) => count >= 2).map(([path]) => path);
}"""
judged: list[int] = []
"""Kinds of elements of which two were legible on other pages, in both schemes."""
# Findings in what docutils and the theme write, which the book's own sources cannot change.
THEME_FINDINGS = {
    "aria-deprecated-role": ("[role=doc-biblioentry]",),
    "aria-required-children": (".citation-list",),
}


def assert_formulas_rendered(page: Page) -> None:
    written = page.locator(".math").count()
    rendered = page.locator("mjx-container").count()
    assert rendered >= written, f"{written - rendered} formulas are not rendered"
    assert page.locator("mjx-merror").count() == 0


def assert_first_screen(page: Page) -> None:
    """What a reader sees first at 1280 by 800: a sentence and at least 100 pixels of a picture,
    and code that is not cut.
    """
    assert page.locator(PICTURE).count(), "the page has no picture"
    box = page.locator(PICTURE).first.bounding_box()
    assert box is not None
    assert box["y"] <= 700, "the first picture begins below the first screen"
    assert box["height"] > 100
    assert page.evaluate(CUT) == [], "code lines that the column cuts"


def own_findings(page: Page, options: dict[str, Any]) -> list[str]:
    """axe's findings without those that the theme is to blame for."""
    found = []
    for violation in violations(page, options):
        allowed = THEME_FINDINGS.get(violation["id"], ())
        for node in violation["nodes"]:
            if not any(
                page.locator(str(node["target"][0])).first.evaluate("(e, s) => e.matches(s)", s)
                for s in allowed
            ):
                found.append(f"{violation['id']}: {node['target'][0]} ({violation['help']})")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page_reads_well_in_every_state(tab: Page, address: str, name: str) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    with visit_in(tab, address) as seen:
        page = seen.open(name)
        page.add_style_tag(
            content="* { transition: none !important }"
        )  # colours settle before axe looks
        assert_formulas_rendered(page)
        page.evaluate(UNFOLD)
        assert page.evaluate(LOST) == [], "formulas that a phone cuts"
        page.evaluate(FOLD)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                f"scrolls sideways at {width} px"
            )
        if name in FIRST_SCREENS:
            assert_first_screen(page)
        if name not in LOOKED_INSIDE:
            page.evaluate(
                "s => document.querySelectorAll(s).forEach(e => e.replaceChildren())", INSIDES
            )
        assert own_findings(page, WITHOUT_COLOURS) == []
        legible = page.evaluate(
            TWO_OF_EACH_KIND, judged
        )  # thousands of names take axe half a minute
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
            )
            assert own_findings(page, COLOURS_ALONE) == [], scheme
    judged[:] = legible


@pytest.mark.parametrize("name", FROM_DISK)
def test_page_opens_from_disk(tab: Page, name: str) -> None:
    formulas = (
        name in LOOKED_INSIDE
    )  # typesetting takes most of a page's time, and is the same everywhere
    with visit_in(tab, HTML.as_uri() + "/", formulas) as seen:
        page = seen.open(name)
        if formulas:
            assert_formulas_rendered(page)
        assert page.locator("article h1").first.is_visible()


def test_index_leads_to_the_first_page(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        seen.page.goto(address)
        seen.page.wait_for_url(f"**/{PAGES[0]}")


@pytest.mark.parametrize("path", notebooks.numbered_chapters()[::4], ids=lambda path: path.stem)
def test_solutions_unfold_and_the_notebook_downloads(tab: Page, address: str, path: Path) -> None:
    with visit_in(tab, address, formulas=False) as seen:
        page = seen.open(f"book/{path.stem}.html")
        link = page.locator(
            "a[href$='.ipynb'][title*='source' i], a.btn-download-source-button"
        ).first
        assert page.request.get(link.evaluate("a => a.href"), timeout=PATIENCE).ok
        solutions = page.locator(".solution.dropdown").all()
        assert len(solutions) >= 2
        for solution, opens in zip(solutions, (click, press_enter), strict=False):
            body = solution.locator(".section, .solution-content, > *:not(.admonition-title)").first
            assert not body.is_visible()
            opens(solution.locator("button.toggle-button"))
            body.wait_for(state="visible")


def click(button: Locator) -> None:
    button.click()


def press_enter(button: Locator) -> None:
    button.focus()
    button.page.keyboard.press("Enter")


@pytest.mark.parametrize("path", notebooks.chapters()[1::12], ids=lambda path: path.stem)
def test_chapter_prints_without_furniture(tab: Page, address: str, path: Path) -> None:
    with visit_in(tab, address, formulas=False) as seen:
        page = seen.open(f"book/{path.stem}.html")
        page.emulate_media(media="print")
        for furniture in (
            ".bd-sidebar-primary",
            ".bd-header-article",
            ".prev-next-area",
            ".copybtn",
        ):
            assert not page.locator(furniture).first.is_visible(), furniture
        hidden = [
            s
            for s in page.locator(".solution.dropdown").all()
            if not s.locator("p").last.is_visible()
        ]
        assert not hidden, "a solution stays folded on paper"
        for proof in page.locator("details .proof").all():
            assert proof.is_visible(), "a proof stays folded on paper"
        assert len(page.pdf(format="A4")) > 50_000


def test_search_finds_a_word(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(PAGES[0])
        page.keyboard.press("Control+k")
        page.keyboard.type("multiplier")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("search.html"))
        page.locator("#search-results li a").first.wait_for()
        page.get_by_role("link", name="Penalties and the method of multipliers").first.wait_for()


def test_search_is_in_sight_at_every_width(tab: Page, address: str) -> None:
    """Also where the contents are scrolled to the end."""
    with visit_in(tab, address, formulas=False) as seen:
        page = seen.open(PAGES[-1])
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            button = page.locator(".bd-header-article .search-button__button")
            assert button.is_visible(), width
            box = button.bounding_box()
            assert box is not None
            assert 0 <= box["y"] < 100
        sidebar = page.locator(".bd-sidebar-primary")
        sidebar.evaluate("bar => bar.scrollTo(0, bar.scrollHeight)")
        for sought in (".search-button-field", ".navbar-brand"):
            box = sidebar.locator(sought).first.bounding_box()
            assert box is not None
            assert box["y"] >= 0, sought


def test_parts_of_the_contents_fold(tab: Page, address: str) -> None:
    with visit_in(tab, address, formulas=False) as seen:
        page = seen.open(notebooks.contents()["split"].address)
        tab.set_viewport_size({"width": 1280, "height": 800})
        buttons = page.locator(".bd-sidebar-primary .part-toggle")
        states = [each.get_attribute("aria-expanded") for each in buttons.all()]
        assert states.count("true") == 1
        folded = buttons.nth(states.index("false"))
        press_enter(folded)
        assert folded.get_attribute("aria-expanded") == "true"
        assert page.locator(".bd-sidebar-primary a.current").first.is_visible()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ddmip_lib.NeuralMIP", "book/api_problem.html#ddmip_lib.NeuralMIP"),
        ("ddmip_lib.BigM.prepare", "book/api_exact.html#ddmip_lib.BigM"),
        ("module-ddmip_lib.bounds", "book/api_internals.html#ddmip_lib.bounds."),
    ],
)
def test_anchors_of_the_one_page_reference_still_lead_to_names(
    browser: Browser, address: str, old: str, new: str
) -> None:
    with visit(browser, address, formulas=False) as seen:
        seen.page.goto(f"{address}book/api.html#{old}")
        seen.page.wait_for_url(re.compile(re.escape(address + new)))


def test_a_function_is_found_before_the_methods_of_its_name(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.page
        page.goto(f"{address}search.html?q=solve")
        first = page.locator("#search-results li a[href*='#']").first
        first.wait_for()
        assert str(first.get_attribute("href")).endswith("api_solve.html#ddmip_lib.solve")


def test_terms_show_their_definition(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(notebooks.contents()["split"].address)
        term = page.locator("a.term:visible").first
        assert "glossary.html#term-" in str(term.get_attribute("href"))
        term.focus()
        preview = page.locator(".term-preview")
        assert preview.inner_text() == term.get_attribute("data-definition")
        page.keyboard.press("Escape")
        assert preview.count() == 0
        term.hover()
        preview.wait_for()


def test_reader_can_switch_the_theme(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(PAGES[0])
        modes = set()
        for _ in range(3):
            page.locator(".theme-switch-button:visible").first.click()
            modes.add(page.evaluate("document.documentElement.dataset.mode"))
        assert modes == {"auto", "light", "dark"}
