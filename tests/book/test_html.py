"""The built pages as files: complete, linked, readable without network."""

from __future__ import annotations

import re
import zipfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup

from tools import notebooks, redirects
from tools.build_book import ARCHIVE, HTML

PAGES = [f"{name}.html" for name in notebooks.toc_files()]
CHAPTERS_AND_REPORTS = set(notebooks.numbered_chapters())
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
}


@cache
def soup(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(), "html.parser")


@cache
def names(page: Path) -> set[str]:
    """The places of a page that links can lead to."""
    return {str(tag["id"]) for tag in soup(page).select("[id]")}


@pytest.mark.parametrize("page", [*PAGES, "index.html", "search.html", "genindex.html"])
def test_internal_links_lead_somewhere(page: str) -> None:
    broken = []
    for anchor in soup((HTML / page).resolve()).select("a[href]"):
        target = urlsplit(str(anchor["href"]))
        if target.scheme or target.netloc:
            continue
        file = (HTML / page).parent / unquote(target.path) if target.path else HTML / page
        fragment = unquote(target.fragment)
        if not file.exists() or (
            fragment and file.suffix == ".html" and fragment not in names(file.resolve())
        ):
            broken.append(anchor["href"])
    assert not broken


@pytest.mark.parametrize("page", PAGES)
def test_pictures_have_words(page: str) -> None:
    images = soup(HTML / page).select("article img, main img")
    speechless = [
        image["src"]
        for image in images
        if len(image.get("alt", "")) < 5 or "_images/" in image["alt"]
    ]
    assert not speechless


@pytest.mark.parametrize("page", [*PAGES, "index.html", "search.html"])
def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    loaded = [
        str(tag[attribute])
        for name, attribute in LOADED.items()
        for tag in soup(HTML / page).select(f"{name}[{attribute}]")
        if tag.get("rel") != ["canonical"]
    ]
    assert loaded or page == "index.html"
    assert not [address for address in loaded if urlsplit(address).netloc]


def scripts(page: str) -> set[str]:
    """The scripts that a page loads, without those for formulas."""
    loaded = [Path(str(tag["src"])).name for tag in soup(HTML / page).select("script[src]")]
    return {name for name in loaded if "mathjax" not in name and "tex-" not in name}


def test_all_pages_load_the_same_scripts() -> None:
    """What a browser runs on one page it runs on all, but for the formulas: some are opened in
    every way for all.
    """
    own = {page: scripts(page) for page in PAGES}
    assert own[PAGES[0]]
    assert [page for page in PAGES if own[page] != own[PAGES[0]]] == []


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_chapter_has_folded_solutions_and_its_notebook(path: Path) -> None:
    page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
    solutions = page.select(".solution")
    assert len(solutions) >= (2 if path in CHAPTERS_AND_REPORTS else 0)
    assert page.select(".solution.dropdown") == solutions
    sources = [
        str(link["href"])
        for link in page.select("a[href$='.ipynb']")
        if "_sources" in str(link["href"])
    ]
    assert sources
    for source in sources:
        cells = nbformat.read(HTML / "book" / source, 4).cells
        texts = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert "{solution-start}" not in texts, "plain Jupyter knows no directives"


@pytest.mark.parametrize("page", PAGES)
def test_page_says_what_it_was_built_with(page: str) -> None:
    footer = soup(HTML / page).select_one(".extra_footer")
    assert footer is not None
    assert "ddmip_lib" in footer.text
    assert ("stand-in" in footer.text) == (notebooks.data_source() == "stand-in")


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_page_shows_what_was_executed(path: Path) -> None:
    executed = notebooks.executed_path(path, "quick")
    assert notebooks.is_current(path, "quick")
    page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
    assert len(page.select("table.headline tbody tr")) == len(notebooks.headline(executed)) > 0


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_launch_buttons_lead_somewhere_or_are_left_out(path: Path) -> None:
    address = yaml.safe_load((notebooks.ROOT / "_config.yml").read_text())["repository"]["url"]
    page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
    links = [str(link["href"]) for link in page.select("a[href]")]
    for service in ("mybinder.org", "colab.research.google.com"):
        found = [link for link in links if service in link]
        assert bool(found) == bool(address)
        assert all(path.name in link and address.split("/")[-1] in link for link in found)
    assert any(link.endswith(path.name) for link in links), "no download button"


def test_lasting_and_former_addresses_lead_to_pages() -> None:
    leading = redirects.targets(notebooks.contents())
    assert len(leading) >= len(notebooks.contents().numbered)
    for address, target in leading.items():
        (link,) = soup(HTML / address).select("main a")
        assert ((HTML / address).parent / str(link["href"])).resolve() == HTML / target
        assert target in PAGES


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("book/api")])
def test_api_page_is_short_enough_to_be_read(page: str) -> None:
    """At most 2,000 words besides signatures and examples."""
    article = BeautifulSoup((HTML / page).read_text(), "html.parser").select_one("article")
    assert article is not None
    for part in article.select("div.highlight, dt.sig, .headerlink"):
        part.decompose()
    assert len(re.findall(r"[A-Za-z]{2,}", article.get_text(" "))) <= 2_000


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_names_in_code_lead_to_the_api(path: Path) -> None:
    page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
    links = page.select(".highlight a.api-link")
    assert links or path not in CHAPTERS_AND_REPORTS
    assert all("api_" in str(link["href"]) for link in links)


def test_terms_are_linked_once_a_chapter() -> None:
    for path in notebooks.chapters():
        page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
        terms = [str(link["href"]) for link in page.select("a.term")]
        assert len(terms) == len(set(terms)), path.stem
        assert len(terms) > 1 or path not in CHAPTERS_AND_REPORTS


def test_grades_are_badges() -> None:
    for path in notebooks.chapters():
        page = soup(HTML / path.relative_to(notebooks.ROOT).with_suffix(".html"))
        exercises = page.select("div.exercise")
        assert exercises or path not in CHAPTERS_AND_REPORTS
        assert all({"easy", "medium", "hard", "project"} & set(each["class"]) for each in exercises)
        titles = [each.text for each in page.select(".exercise > p, .solution > p")]
        assert not [
            title for title in titles if re.search(r"\((easy|medium|hard|project)\)", title)
        ]


def test_all_notebooks_are_in_one_archive() -> None:
    with zipfile.ZipFile(HTML / ARCHIVE) as archive:
        assert set(archive.namelist()) == {path.name for path in notebooks.chapters()}


def test_index_is_a_proper_page() -> None:
    index = soup(HTML / "index.html")
    assert index.html is not None
    assert index.html["lang"] == "en"
    assert index.title is not None
    assert index.title.text == notebooks.book_title()


def test_mathjax_is_here_and_small() -> None:
    files = [path for path in (HTML / "_static" / "mathjax").rglob("*") if path.is_file()]
    assert (HTML / "_static" / "mathjax" / "tex-chtml.js") in files
    assert sum(path.stat().st_size for path in files) < 4e6
