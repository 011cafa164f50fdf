"""What makes the book a site: previews, sitemap, the page for lost readers, and the workflows that
publish it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from bs4 import BeautifulSoup
from matplotlib.image import imread

from ddmip_book.experiments import Results, grid, load
from tools import address, book_footer, external_links, nightly, not_found, preview, redirects, site
from tools.launch_buttons import live_buttons
from tools.notebooks import ROOT, book_title, contents, toc_files

BOOK = book_title()
ADDRESS = "https://someone.github.io/book/"
GITHUB = {"repository": {"url": "https://github.com/Someone/book/", "branch": "main"}}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>{title} &#8212; Book</title></head>
<body><article><section><h1>{title}</h1>
<p>Where the prices come from, and what "they" buy & sell.</p></section></article>
</body></html>
"""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture
def html(tmp_path: Path) -> Path:
    """A small book with all pages of the table of contents."""
    for name in toc_files():
        page = tmp_path / "html" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(PAGE.format(title=f"About {name}"))
    index = f'<head><title>{BOOK}</title><link rel="canonical" href="book/preface.html"></head>'
    (tmp_path / "html" / "index.html").write_text(index)
    (tmp_path / "html" / "_static").mkdir()
    redirects.write(contents(), tmp_path / "html")
    return tmp_path / "html"


def meta(page: Path) -> dict[str, str]:
    soup = BeautifulSoup(page.read_text(), "html.parser")
    return {
        str(tag.get("property") or tag.get("name")): str(tag["content"])
        for tag in soup.select("head meta[content]")
    }


def no_course(folder: Path) -> Path:
    return folder / "no course"


def test_the_site_leads_to_what_is_there(html: Path, tmp_path: Path) -> None:
    """Downloads are listed on their page; the last chapter of a part leads to its quiz."""
    course = tmp_path / "course"
    (course / "quizzes").mkdir(parents=True)
    (course / "index.html").write_text("<title>Course</title>")
    (course / "quizzes" / "part_1.html").write_text("<title>Quiz</title>")
    page = html / "book" / "downloads.html"
    page.write_text(page.read_text().replace("<p>", f"{site.DOWNLOADS}</div><p>", 1))
    site.publish(html, tmp_path / "site", "", course)
    links = BeautifulSoup(
        (tmp_path / "site" / "book" / "downloads.html").read_text(), "html.parser"
    ).select(".site-downloads a")
    assert [link["href"] for link in links] == ["../course/index.html"]
    numbered = [pages for pages in contents().parts.values() if pages[0].number is not None]
    ends = [
        (tmp_path / "site" / pages[-1].address).read_text().count("quizzes/part_")
        for pages in numbered
    ]
    assert ends == [1, 0, 0, 0, 0]


def test_without_an_address_nothing_leads_nowhere(html: Path, tmp_path: Path) -> None:
    left_out = site.publish(html, tmp_path / "site", "", no_course(tmp_path))
    assert "repository: url" in left_out[-1]
    assert not (tmp_path / "site" / "sitemap.xml").exists()
    assert (tmp_path / "site" / ".nojekyll").exists()
    for page in (tmp_path / "site").rglob("*.html"):
        assert "https://" not in page.read_text(), page
        assert not {"og:url", "og:image"} & set(meta(page)), page
    said = meta(tmp_path / "site" / f"{toc_files()[1]}.html")
    assert said["og:title"] == f"About {toc_files()[1]}"
    assert (
        said["description"]
        == said["og:description"]
        == 'Where the prices come from, and what "they" buy & sell.'
    )


def test_with_an_address_everything_is_whole(html: Path, tmp_path: Path) -> None:
    assert site.publish(html, tmp_path / "site", ADDRESS, no_course(tmp_path)) == [
        "no course kit: make course was not run"
    ]
    listed = [
        node.text
        for node in ElementTree.parse(tmp_path / "site" / "sitemap.xml").getroot().iter()
        if node.text
    ]
    assert [text for text in listed if text.strip()] == [
        f"{ADDRESS}{name}.html" for name in toc_files()
    ]
    for name in ("index", *toc_files()):
        page = tmp_path / "site" / f"{name}.html"
        said = meta(page)
        assert said["og:url"] == f"{ADDRESS}{name}.html"
        assert (tmp_path / "site" / said["og:image"].removeprefix(ADDRESS)).is_file()
        assert re.findall(r'rel="canonical" href="([^"]*)"', page.read_text()) == [said["og:url"]]


def test_a_redirect_is_announced_as_the_page_that_it_leads_to(html: Path, tmp_path: Path) -> None:
    site.publish(html, tmp_path / "site", ADDRESS)
    chapter = contents()["split"]
    page = tmp_path / "site" / chapter.lasting_address
    assert meta(page)["og:title"] == f"About {chapter.file}"
    assert re.findall(r'rel="canonical" href="([^"]*)"', page.read_text()) == [
        ADDRESS + chapter.address
    ]
    assert chapter.lasting_address not in (tmp_path / "site" / "sitemap.xml").read_text()


def test_site_is_written_again_but_nothing_else_is_replaced(html: Path, tmp_path: Path) -> None:
    site.publish(html, tmp_path / "site", "")
    (tmp_path / "site" / "old.html").touch()
    site.publish(html, tmp_path / "site", "")
    assert not (tmp_path / "site" / "old.html").exists()
    (tmp_path / "precious").mkdir()
    with pytest.raises(site.SiteError, match="name another folder"):
        site.publish(html, tmp_path / "precious", "")


def test_an_unfinished_book_is_not_published(html: Path, tmp_path: Path) -> None:
    (html / f"{toc_files()[-1]}.html").unlink()
    with pytest.raises(site.SiteError, match=f"lacks {toc_files()[-1]}.html.*make book"):
        site.publish(html, tmp_path / "site", "")
    with pytest.raises(site.SiteError, match=r"no finished book.*make book"):
        site.publish(tmp_path / "nothing", tmp_path / "site", "")


def test_a_link_from_the_root_of_the_host_is_refused(html: Path, tmp_path: Path) -> None:
    page = html / f"{toc_files()[1]}.html"
    page.write_text(
        page.read_text().replace("</article>", '<a href="/book/api.html">API</a></article>')
    )
    with pytest.raises(site.SiteError, match="links to /book/api"):
        site.publish(html, tmp_path / "site", "")


def test_description_leaves_formulas_out_and_is_short() -> None:
    items = "".join(
        f"<li><p>{text};</p></li>"
        for text in ('<span class="math">\\(x\\)</span> squared', "words " * 60)
    )
    said = site.description(f"<article><p>You will learn</p><ul>{items}</ul></article>", "")
    assert said.startswith("You will learn words words")
    assert len(said) <= site.LONGEST_DESCRIPTION


@pytest.mark.parametrize("address_of_site", ["", ADDRESS])
def test_the_page_for_lost_readers_names_every_page(address_of_site: str) -> None:
    titles = {f"{name}.html": f"<{name}>" for name in toc_files()}
    soup = BeautifulSoup(not_found.page(BOOK, address_of_site, titles), "html.parser")
    links = [str(link["href"]) for link in soup.select("nav a[href]")]
    assert links == [f"{address_of_site}{name}.html" for name in toc_files()]
    assert [link.text for link in soup.select("nav a")] == list(titles.values())
    assert not soup.select("script[src], link[rel=stylesheet], img"), "it has to stand alone"


def test_preview_has_the_size_that_it_promises(tmp_path: Path) -> None:
    preview.write(tmp_path / "a" / "preview.png", BOOK)
    picture = imread(tmp_path / "a" / "preview.png")
    assert picture.shape[:2] == (preview.HEIGHT, preview.WIDTH)
    assert picture[..., :3].std() > 0.05


def test_addresses_come_from_one_place() -> None:
    assert address.repository(GITHUB) == "https://github.com/Someone/book"
    assert address.site(GITHUB) == ADDRESS
    assert address.site({**GITHUB, "html": {"baseurl": "https://b.org"}}) == "https://b.org/"
    assert address.site({"repository": {"url": "https://gitlab.com/someone/book"}}) == ""
    assert address.site(
        {"repository": {"url": "https://github.com/Someone/someone.github.io"}}
    ) == ("https://someone.github.io/")
    with pytest.raises(ValueError, match="https://host/owner/name"):
        address.repository({"repository": {"url": "github.com/someone"}})


def test_no_file_knows_the_address_but_the_configuration() -> None:
    """With an address set, it stands in _config.yml and in what is generated from there."""
    known = address.repository(address.config())
    if not known:
        assert address.site(address.config()) == ""
        return
    files = [
        path
        for folder in ("tools", "tests", "ddmip_lib", ".github")
        for path in (ROOT / folder).rglob("*.*")
    ]
    assert [path for path in files if path.is_file() and known.encode() in path.read_bytes()] == []


def test_buttons_follow_the_address() -> None:
    launch = {"launch_buttons": {"colab_url": "https://colab.research.google.com"}}
    assert live_buttons({"repository_url": "", **launch})["launch_buttons"] == {}
    assert live_buttons({"repository_url": GITHUB["repository"]["url"], **launch})["launch_buttons"]


def test_footer_names_data_library_and_commit() -> None:
    class Config:
        html_theme_options: ClassVar[dict[str, str]] = {"repository_url": ""}

    book_footer.set_footer(None, Config)
    footer = Config.html_theme_options["extra_footer"]
    assert "Data: " in footer
    assert "ddmip_lib" in footer
    assert book_footer.commit().removesuffix("+") in footer


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_pinned_bounded_and_need_no_secret(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert "secrets." not in path.read_text()
    assert workflow["permissions"] == {"contents": "read"}, "a job that needs more asks for it"
    assert all(0 < job["timeout-minutes"] <= 180 for job in workflow["jobs"].values())
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"(?:actions|pypa)/[\w-]+@[0-9a-f]{40}", step["uses"]), (
                "pin by commit"
            )
    assert len(
        re.findall(r"uses: \S+ # v\d+\.\d+\.\d+\n", path.read_text())
    ) == path.read_text().count("uses:")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(yaml.safe_load(path.read_text())):
        for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
            assert target in targets
        for module in re.findall(r"-m ((?:tools|ddmip_lib)[\w.]*)", step.get("run", "")):
            file = ROOT / module.replace(".", "/")
            assert file.with_suffix(".py").is_file() or (file / "__main__.py").is_file()


def test_the_workflows_do_what_they_are_for() -> None:
    assert {"nightly", "release", "test"} <= {path.stem for path in WORKFLOWS}
    texts = {path.stem: path.read_text() for path in WORKFLOWS}
    test = yaml.safe_load(texts["test"])
    runs = [step.get("run") for step in test["jobs"]["test"]["steps"]]
    assert runs.index("make test") < runs.index("make site")
    assert test["jobs"]["publish"]["needs"] == "test"
    assert "refs/heads/main" in test["jobs"]["publish"]["if"]
    assert "path: _build/site" in texts["test"]
    for target in ("test-long", "test-paths", "nightly", "links"):
        assert f"make {target}" in texts["nightly"]
    build, use = (
        step["run"] for step in yaml.safe_load(texts["nightly"])["jobs"]["conda"]["steps"][1:]
    )
    assert build.endswith("environment.yml")
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())["name"]
    assert f"--name {environment} " in use
    assert all(
        (ROOT / test.split("::")[0]).is_file() for test in re.findall(r"tests/[^\s\"]+", use)
    )


def test_a_night_is_long_enough_for_the_chosen_experiments() -> None:
    for experiment, only in nightly.SMALL:
        assert [case for case in grid(experiment, "full") if only in case.key], (
            f"{experiment} has no case with {only}"
        )
    chosen = [row for name, only in nightly.SMALL for row in load(name) if only in row.key]
    assert 60 < sum(row.seconds for row in chosen) < 3600
    same = Results(chosen)
    assert all(
        re.search(r"objective (\S+) here, \1 stored$", line)
        for line in nightly.compared(same, same)
    )


def test_external_addresses_are_found_where_readers_meet_them(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "a.ipynb").write_text(
        '{"cells": [{"source": ["See [b](https://b.net/c_(d)).\\n"]}]}'
    )
    (tmp_path / "book" / "b.bib").write_text(
        '@book{b,\n  doi = {10.1/x(1)},\n  url = "https://b.net/e"\n}'
    )
    (tmp_path / "README.md").write_text(
        "<https://b.net/e>, https://example.org and http://localhost:8888."
    )
    found = external_links.collected(tmp_path)
    data = {file.url for file in external_links.FILES.values()}
    assert set(found) - data == {
        "https://b.net/c_(d)",
        "https://doi.org/10.1/x(1)",
        "https://b.net/e",
    }
    assert found["https://b.net/e"] == ["README.md", "book/b.bib"]


def test_an_address_is_asked_again_unless_its_host_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answers(*statuses: int) -> None:
        asked.clear()
        left = iter(statuses)
        monkeypatch.setattr(
            external_links, "answer", lambda address: asked.append(address) or next(left)
        )

    for statuses, outcome in (
        ((0, 503, 200), ("alive", 200)),
        ((404,), ("dead", 404)),
        ((403,), ("refused", 403)),
        ((0, 0, 0), ("dead", 0)),
    ):
        answers(*statuses)
        assert external_links.asked("https://b.net", pause=0) == outcome
        assert len(asked) == len(statuses)


def test_nobody_answering_is_no_crash() -> None:
    assert external_links.answer("http://127.0.0.1:9/") == 0
    (line,) = external_links.report({"a": ["book/x.md"]}, [("a", ("dead", 0))])
    assert line == "dead (no answer): a  in book/x.md"
