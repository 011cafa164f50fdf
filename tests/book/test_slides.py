"""The slides in a browser, at a lecturer's desk and on a phone; and what a deck may ask of the
chapters.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.book.visits import visit
from tools import handout, slides
from tools.build_book import HTML
from tools.material import Material, Statement
from tools.notebooks import contents

DECKS = sorted(slides.SOURCES.glob("part_*.md"))
DESK = {"width": 1280, "height": 720}
PHONE = {"width": 390, "height": 844}
# What sticks out of its slide, by the boxes as drawn: nothing may leave its slide, nor hide in a
# box that is cut off.
STICKING_OUT = """() => [...document.querySelectorAll('.slide')].flatMap((slide, i) => {
  const frame = slide.getBoundingClientRect(), found = [];
  const parts = 'h1, h2, p, li, pre, table, img, figcaption, .statement, .equation, footer';
  for (const part of slide.querySelectorAll(parts)) {
    const box = part.getBoundingClientRect();
    const across = box.left < frame.left - 1 || box.right > frame.right + 1;
    if (across || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      found.push(`slide ${i + 1}: ${part.tagName} ${part.innerText?.slice(0, 40)}`);
  }
  for (const box of [slide, ...slide.querySelectorAll('.content, .columns, .columns > div, figure, .statement')])
    if (box.scrollWidth > box.clientWidth + 1
      || (box.scrollHeight > box.clientHeight + 1 && getComputedStyle(box).overflowY !== 'visible'))
      found.push(`slide ${i + 1}: ${box.className || box.tagName} is cut off`);
  return found;
})"""
CUT_ON_DESK = """() => [...document.querySelectorAll('.slide pre, .slide .equation .math')]
  .filter(box => box.scrollWidth > box.clientWidth + 1
    || (box.tagName === 'PRE' && box.scrollHeight > box.clientHeight + 1))
  .map(box => box.closest('.slide').ariaLabel + box.className)"""
PICTURES = (
    "() => [...document.images].map(i => [i.getAttribute('src'), i.naturalWidth, i.width, i.alt])"
)
SHRUNK = """() => [...document.querySelectorAll('.slide .math')].filter(f => parseFloat(f.style.fontSize) < 75)
  .map(f => f.closest('.slide').ariaLabel)"""
FITS = (
    "() => [...document.querySelectorAll('.slide')].map(s =>"
    " Number(s.style.getPropertyValue('--fit')))"
)


@pytest.fixture(scope="module")
def built_slides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slides")
    assert [page.stem for page in slides.build(folder)] == [deck.stem for deck in DECKS]
    return folder


def resize(page: Page, size: dict[str, int]) -> None:
    page.set_viewport_size({"width": size["width"], "height": size["height"]})
    page.locator(f"html[data-ready='{size['width']}x{size['height']}']").wait_for(state="attached")


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: deck.stem)
def test_every_slide_fits_desk_and_phone(browser: Browser, built_slides: Path, deck: Path) -> None:
    with visit(browser, f"{built_slides.as_uri()}/") as seen:
        seen.page.set_viewport_size({"width": 1280, "height": 720})
        page = seen.open(f"{deck.stem}.html")
        page.locator("html[data-ready='1280x720']").wait_for(state="attached")
        count = len(re.findall(r"^---$", deck.read_text(), re.MULTILINE)) + 1
        assert page.locator(".slide").count() == count
        numbered = [pages for pages in contents().parts.values() if pages[0].number]
        chapters = len(numbered[int(deck.stem.removeprefix("part_")) - 1])
        assert 20 <= count <= max(30, 11 * chapters)
        assert page.evaluate(STICKING_OUT) == []
        assert page.evaluate(CUT_ON_DESK) == []
        assert min(page.evaluate(FITS)) >= 0.8, (
            "a slide holds too much to be read from the last row"
        )
        assert page.evaluate(SHRUNK) == [], "a formula is too long for its line"
        assert page.locator("mjx-container").count() >= page.locator(".math").count() > 0
        assert page.locator("mjx-merror").count() == 0
        for name, natural, width, alt in page.evaluate(PICTURES):
            assert natural > 0, f"{name} is not loaded"
            assert width > 200, f"{name} is {width} pixels wide"
            assert len(alt) > 20, f"{name} has no alt text"
        resize(page, PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(STICKING_OUT) == []
        assert page.locator(".slide").last.is_visible()


def test_keys_touch_and_print(browser: Browser, built_slides: Path) -> None:
    with visit(browser, f"{built_slides.as_uri()}/", formulas=False) as seen:
        seen.page.set_viewport_size({"width": 1280, "height": 720})
        page = seen.open("part_1.html#4")
        page.locator("html[data-ready]").wait_for(state="attached")
        count = page.locator(".frame").count()

        def now() -> int:
            (shown,) = page.evaluate(
                "[...document.querySelectorAll('.slide')].map((s, i) => [i + 1,"
                " getComputedStyle(s).visibility]).filter(s => s[1] === 'visible').map(s => s[0])"
            )
            assert page.url.endswith(f"#{shown}")
            return int(shown)

        assert now() == 4
        for key, slide in (
            ("ArrowRight", 5),
            (" ", 6),
            ("ArrowLeft", 5),
            ("End", count),
            ("ArrowRight", count),
            ("Home", 1),
        ):
            page.keyboard.press(key)
            assert now() == slide, key
        notes = page.locator(".notes").first
        assert not notes.is_visible()
        page.keyboard.press("n")
        assert notes.is_visible()
        page.keyboard.press("n")
        page.keyboard.press("o")
        page.locator(".frame").nth(6).click()
        assert now() == 7
        page.evaluate("""() => { for (const [kind, x] of [['touchstart', 600], ['touchend', 200]]) {
            const touch = new Touch({identifier: 1, target: document.body, clientX: x, clientY: 300});
            const touches = kind === 'touchstart' ? [touch] : [];
            dispatchEvent(new TouchEvent(kind, {touches, changedTouches: [touch]}));
        } }""")
        assert now() == 8
        page.keyboard.press("d")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        with page.expect_popup() as opened:
            page.keyboard.press("w")
        page.keyboard.press("ArrowRight")
        opened.value.wait_for_url("**/part_1.html?notes#9")  # the window with the notes follows
        opened.value.close()
        printed = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == count, "one slide a page"


def test_a_handout_has_a_page_for_each_slide(tmp_path: Path) -> None:
    path = handout.browser()
    if path is None:
        pytest.skip("no Chromium found. To fix this: sudo apt-get install chromium")
    (tmp_path / "part_9.html").write_text(
        deck_from("# A title\n\nSome words.\n\n---\n\n# Another\n\nMore.\n", tmp_path).page()
    )
    for name in ("deck.css", "deck.js"):
        shutil.copy(slides.SOURCES / name, tmp_path / name)
    slides.copy_mathjax(tmp_path / "mathjax")
    # Playwright runs once in each thread, and the browser of other tests may have this one
    with ThreadPoolExecutor(1) as thread:
        printing = thread.submit(handout.print_decks, [tmp_path / "part_9.html"], path)
    (printed,) = printing.result()
    assert printed == tmp_path / "part_9.pdf"
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) == 2


def test_numbers_are_those_of_the_book() -> None:
    """References on slides are counted here and by Sphinx there; both must agree."""
    material = Material()
    for chapter in (Path(numbered.file).name for numbered in material.contents.numbered):
        page = (HTML / "book" / f"{chapter}.html").read_text()
        for number, label in re.findall(
            r'class="eqno">\(([\d.]+)\)<a class="headerlink" href="#equation-([\w-]+)', page
        ):
            assert material.equations[label][1] == number, label
        for label, number in re.findall(
            r'id="([\w-]+)">\s*<p class="admonition-title"><span class="caption-number">([^<]+)<',
            page,
        ):
            if label in material.statements:
                stated = material.statements[label]
                assert f"{stated.kind} {stated.number}" == number.strip(), label
            else:
                assert f"Exercise {material.exercises[label]}" == number.strip(), label


def deck_from(text: str, folder: Path, name: str = "part_9.md") -> slides.Deck:
    (folder / name).write_text(text)
    return slides.Deck(folder / name, Material())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("{{thm-of-nobody}}", "thm-of-nobody"),
        ("{{thm-a:99}}", "clause 99"),
        ("![](fig:fig-of-nobody)", "fig-of-nobody"),
        ("{{number:split:of_nobody}}", "of_nobody"),
        ("{{output:split:parameters}}", "prints nothing"),
        ("{{chapter:99_nothing}}", "99_nothing"),
        ("as {eq}`eq-of-nobody` says", "eq-of-nobody"),
    ],
)
def test_what_no_chapter_has_is_named_with_its_deck(tmp_path: Path, asked: str, said: str) -> None:
    with pytest.raises(slides.DeckError, match=f"part_9.md: .*{said}"):
        deck_from(f"# A title\n\n{asked}\n", tmp_path).page()


def test_what_may_be_missing_leaves_its_stand_in(tmp_path: Path) -> None:
    page = deck_from(
        "# A title\n\n{{chapter?:99_nothing:Something new}}\n\n{{thm-of-nobody?}}\n", tmp_path
    ).page()
    assert "Something new" in page
    assert "nobody" not in page


def test_a_changed_statement_changes_the_slide(tmp_path: Path) -> None:
    deck = deck_from("# A title\n\n{{prop-split-equal}}\n\n{{eq-split-bid}}\n", tmp_path)
    stated = deck.material.statements["prop-split-equal"]
    assert stated.title in deck.page()
    deck.material.statements["prop-split-equal"] = Statement(
        stated.kind, stated.number, stated.title, "Nothing."
    )
    deck.material.equations["eq-split-bid"] = ("a < b", "4.9")
    page = deck.page()
    assert "<p>Nothing.</p>" in page
    assert "a &lt; b" in page
    assert "(4.9)" in page


def test_a_chapter_that_was_not_executed_says_what_to_do(tmp_path: Path) -> None:
    deck = deck_from("# A title\n\n![](fig:fig-loop)\n", tmp_path)
    deck.material.profile = "never"
    with pytest.raises(slides.DeckError, match="make book"):
        deck.page()


def test_measured_numbers_are_taken_from_the_chapters() -> None:
    """No decimal fraction is typed into a deck outside formulas, tables of the set-up and what a
    paper printed.
    """
    allowed = {"2.0", "5.9"}  # the paper's budget and its count of variables, both quoted
    for deck in DECKS:
        text = re.sub(r"\$[^$]*\$|\{\{.*?\}\}|\{[\w:]+\}`[^`]*`|`[^`]*`", "", deck.read_text())
        assert set(re.findall(r"\d+\.\d+", text)) <= allowed, deck.name
