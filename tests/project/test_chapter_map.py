"""The figure of the chapters and what they need: drawn from the course, in agreement with the pages."""

from __future__ import annotations

import re

import nbformat
import yaml

from tools.chapter_map import BOX_WIDTH, PICTURE, drawing, needed
from tools.contents import name_of
from tools.layered import all_needed, crossings, layers, ordered, points
from tools.notebooks import ROOT, contents


def needed_by_pages() -> dict[str, set[str]]:
    """The numbered chapters that each one links under **You need**."""
    numbered = {page.name for page in contents().numbered}
    found = {}
    for name in numbered:
        path = contents().notebook(name)
        text = "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
        (line,) = re.findall(r"\*\*You need\*\*(.*)", text)
        files = re.findall(r"\]\((\w+)\.ipynb", line)
        found[name] = {name_of(ROOT / "book" / f"{file}.ipynb") for file in files} & numbered
    return found


def test_the_picture_is_that_of_todays_course() -> None:
    assert PICTURE.read_text() == drawing(), "write it again: python -m tools.chapter_map"


def test_the_course_needs_what_the_pages_need() -> None:
    """A page may link more, for one section; the course may name none that no page leads to."""
    course = yaml.safe_load((ROOT / "course" / "course.yml").read_text())["chapters"]
    pages = all_needed(needed_by_pages())
    numbered = pages.keys()
    beyond = {
        name: more
        for name in numbered
        if (more := (set(course[name]["needs"]) & numbered) - pages[name])
    }
    assert not beyond


def test_boxes_do_not_overlap_and_arrows_lead_down() -> None:
    rows, pieces = layers(needed())
    better = ordered(rows, pieces)
    assert crossings(better, pieces) <= crossings(rows, pieces)
    middles, width = points(better, BOX_WIDTH)
    boxes = [middles[place] for place in middles if len(place) == 1]
    for x, y in boxes:
        assert BOX_WIDTH / 2 <= x <= width - BOX_WIDTH / 2
        beside = [other for other in boxes if other[1] == y and other[0] != x]
        assert all(abs(other[0] - x) > BOX_WIDTH for other in beside)
    assert all(middles[start][1] < middles[end][1] for start, end in pieces)
