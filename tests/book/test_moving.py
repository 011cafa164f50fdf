"""The figures that move: ready, usable by keyboard alone, and showing the library's numbers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page

from ddmip_book.figures.moving import root_bound, stepping
from tests.book.visits import patient_context, visit
from tests.builders.multipliers import multiplier_path
from tools.notebooks import contents

CHAPTERS = {
    "penalty-multiplier": "augmented_lagrangian",
    "algorithm-steps": "split",
    "relu-envelope": "exact_embeddings",
    "penalty-balance": "convergence",
    "hand-phases": "convergence",
}
PAGES = {figure: contents()[chapter].address for figure, chapter in CHAPTERS.items()}


def ready(page: Page, name: str) -> None:
    page.locator(f"figure.moving-{name}[data-ready=true]").wait_for()


def says(page: Page) -> str:
    """What the first moving figure of a page says."""
    return page.locator(".moving-says").first.inner_text()


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def tab_to(page: Page, label: str) -> None:
    """Move the keyboard's focus from the drawing to a control by the tab key alone."""
    drawing = page.locator(".moving svg").first
    drawing.evaluate("svg => { svg.tabIndex = -1; svg.focus(); svg.removeAttribute('tabindex') }")
    for _ in range(8):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(document.activeElement.closest('label') ?? document.activeElement).innerText"
        )
        if focused.startswith(label):
            return
    pytest.fail(f"the keyboard does not reach {label!r}")


def test_multiplier_steps_by_keyboard(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(PAGES["penalty-multiplier"])
        ready(page, "penalty-multiplier")
        tab_to(page, "multiplier step")
        path = multiplier_path(rho=1.0, steps=4)
        for k in range(3):
            page.keyboard.press("Enter")
            _, _, lam, x = numbers(says(page))[:4]
            assert lam == pytest.approx(path["lam"][k], abs=2e-3)
            assert x == pytest.approx(path["x"][k + 1], abs=2e-4)
        tab_to(page, "penalty")
        page.keyboard.press("End")
        assert "ρ = 10.0" in says(page)


def test_algorithm_steps_by_keyboard(browser: Browser, address: str) -> None:
    run = stepping(3.0)
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(PAGES["algorithm-steps"])
        ready(page, "algorithm-steps")
        tab_to(page, "next")
        for _ in range(2):
            page.keyboard.press("Enter")
        assert numbers(says(page))[-2:] == pytest.approx(run["u"][0], abs=6e-3)
        tab_to(page, "penalty")
        page.keyboard.press("End")
        assert says(page).startswith("ρ = 10.")
        tab_to(page, "position")
        page.keyboard.press("End")
        assert "converged" in says(page)
        assert page.get_by_role("button", name="next", exact=True).is_disabled()


def test_looser_bounds_by_keyboard(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        page = seen.open(PAGES["relu-envelope"])
        ready(page, "relu-envelope")
        edge = page.locator(".moving path.line.first")
        before = edge.get_attribute("d")
        tab_to(page, "looseness")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert edge.get_attribute("d") != before
        said = numbers(says(page))
        assert said[0] == 2.0
        assert said[-2] == pytest.approx(root_bound(2.0), abs=6e-3)


def test_balance_and_phases_by_keyboard(browser: Browser, address: str) -> None:
    with visit(browser, address, formulas=False) as seen:
        for name, last, words in (
            ("penalty-balance", "downward bending", "threshold 2.00"),
            ("hand-phases", "penalty", "never leaves (0, 0)"),
        ):
            page = seen.open(PAGES[name])
            ready(page, name)
            figure = page.locator(f"figure.moving-{name}")
            figure.get_by_role("slider", name=last).focus()
            page.keyboard.press("End")
            assert words in figure.locator(".moving-says").inner_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_stands_in_without_scripts(browser: Browser, address: str, name: str) -> None:
    context = patient_context(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(address + PAGES[name])
    picture = page.locator(f"figure.moving-{name} img")
    assert picture.is_visible()
    assert len(picture.get_attribute("alt") or "") > 40
    context.close()
