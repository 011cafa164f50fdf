"""The whole book as one PDF and as an EPUB, from the built pages: `python -m tools.book_files`.

Chromium prints the one and turns the formulas of the other into MathML; both read without a network.
Code that a page folds is left out, solutions and proofs are unfolded.
"""

from __future__ import annotations

import argparse
import re
import sys
import uuid
import zipfile
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page as Tab

from tools.build_book import HTML
from tools.chromium import LOADING_MS, chromium, installed
from tools.contents import Page
from tools.html_page import page_title
from tools.notebooks import BUILD, book_title, contents

NAME = "neural-mips"
LEFT_OUT = (
    ".headerlink, script, style, .moving-controls, details.hide.above-input, .copybtn,"
    " .ledger-filter, .ledger-link, svg.sd-octicon, .site-downloads"
)
"""What a page has and a printed book has not."""
PRINT_STYLE = """\
<style>
body { background: #fff; }
.title-page { padding-top: 30vh; text-align: center; }
.whole-page { break-before: page; }
.bd-article { max-width: 100%; padding: 0; }
h1 { font-size: 2em; } h2 { font-size: 1.5em; } h3 { font-size: 1.2em; }
h1, h2, h3, h4 { break-after: avoid; }
tr, figure, .cell_output > img { break-inside: avoid; }
table { font-size: 0.85em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
</style>"""
SCALE = 0.78
"""Of the screen's sizes on paper: 12 of 16 pixels, the size of a printed book."""
FOOTER = (
    '<div style="width:100%;font-size:8px;text-align:center"><span class="pageNumber"></span></div>'
)
EPUB_STYLE = """\
body { line-height: 1.5; } img { max-width: 100%; } pre { white-space: pre-wrap; font-size: 0.8em; }
table { border-collapse: collapse; } th, td { padding: 0.2em 0.5em; border-bottom: 1px solid #888; }
.admonition, .proof, .exercise, .solution { border-left: 0.2em solid #888; padding-left: 0.8em; }
.admonition-title { font-weight: bold; } .eqno { float: right; } .math { overflow-x: auto; } figcaption { font-size: 0.9em; }
"""
XHTML = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en">
<head><meta charset="utf-8"/><title>{title}</title>
<link rel="stylesheet" href="style.css"/></head>
<body>{body}</body></html>
"""
CONTAINER = """\
<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
PACKAGE = """\
<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">{identifier}</dc:identifier>
<dc:title>{title}</dc:title><dc:language>en</dc:language><dc:creator>the ddmip-book authors</dc:creator>
<meta property="dcterms:modified">2026-01-01T00:00:00Z</meta></metadata>
<manifest>{manifest}</manifest>
<spine>{spine}</spine></package>
"""
TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
DOCTYPE = re.compile(r"<!DOCTYPE[^>]*>\s*")
EMPTY_GLYPH = re.compile(r"<path(?![^>]*\bd=)")
"""The glyph of a space as matplotlib writes it; the standard wants its outline, of length zero."""
UNKNOWN_MACRO = re.compile(r'<mtext mathcolor="red"[^>]*>([^<]*)<')
"""MathJax prints the name of a macro that it does not know in red."""
MEDIA = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
TO_MATHML = """formulas => Promise.all(formulas.map(([tex, display]) =>
  MathJax.tex2mmlPromise(tex, {display})))"""


class FilesError(RuntimeError):
    """The files cannot be written; the message says what to do."""


def article(page: Page) -> Tag:
    """The text of a page, without what belongs to a screen."""
    soup = BeautifulSoup((HTML / page.address).read_text(encoding="utf-8"), "html.parser")
    found = soup.select_one("article.bd-article")
    if found is None:
        raise FilesError(f"{page.address} has no article. To fix this: make book")
    return printable(found)


def printable(found: Tag) -> Tag:
    """The text of a page as valid XHTML: everything unfolded, each anchor once.

    >>> page = BeautifulSoup(
    ...     '<details><summary><p id="a">A</p></summary></details><p id="a">B</p>', "html.parser"
    ... )
    >>> printable(page)
    <details open="open"><summary>A</summary></details><p id="a">B</p>
    """
    for element in found.select(LEFT_OUT):
        element.decompose()
    for details in found.select("details"):
        details["open"] = "open"
    for paragraph in found.select("summary > p"):
        paragraph.unwrap()
    met: set[str] = set()
    for element in found.select("[id]"):
        if element["id"] in met:
            del element["id"]
        else:
            met.add(str(element["id"]))
    return found


def place(link: str, page: Page, pages: dict[str, Page]) -> tuple[Page, str] | None:
    """The page and the anchor to which a link inside the book leads; None for other links."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    if not parts.path:
        return page, unquote(parts.fragment)
    target = PurePosixPath(page.address).parent / unquote(parts.path)
    found = pages.get(str(target))
    return None if found is None else (found, unquote(parts.fragment))


def by_address() -> dict[str, Page]:
    return {page.address: page for page in contents().pages}


def with_own_anchors(page: Page, pages: dict[str, Page]) -> str:
    """A page as a part of one long page: its anchors begin with its name."""
    found = article(page)
    for element in found.select("[id]"):
        element["id"] = f"{page.name}--{element['id']}"
    for link in found.select("a[href]"):
        leads = place(str(link["href"]), page, pages)
        if leads is not None:
            target, anchor = leads
            link["href"] = f"#{target.name}" + (f"--{anchor}" if anchor else "")
    return f'<section class="whole-page" id="{page.name}">{found}</section>'


def one_page() -> str:
    """All pages as one, with the head of a chapter."""
    chapter = (HTML / contents().numbered[0].address).read_text(encoding="utf-8")
    head, _, _ = chapter.partition("</head>")
    title = escape(book_title())
    head = TITLE.sub(f"<title>{title}</title>", head)
    pages = by_address()
    body = "\n".join(with_own_anchors(page, pages) for page in pages.values())
    front = f'<section class="title-page"><h1>{title}</h1></section>'
    main = f'<main class="bd-main">{front}{body}</main>'
    return f"{head}{PRINT_STYLE}</head><body>{main}</body></html>"


def opened(tab: Tab, path: Path) -> None:
    """Open a page and wait for its formulas."""
    tab.set_default_timeout(LOADING_MS)
    tab.goto(path.as_uri(), wait_until="load", timeout=LOADING_MS)
    tab.wait_for_function("window.MathJax?.startup?.promise")
    tab.evaluate("MathJax.startup.promise")


def write_pdf(tab: Tab, output: Path) -> None:
    """Print all pages into one file."""
    whole = HTML / "book" / "_whole.html"
    whole.write_text(one_page(), encoding="utf-8")
    try:
        opened(tab, whole)
        tab.pdf(
            path=output,
            format="A4",
            scale=SCALE,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            margin={"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"},
        )
    finally:
        whole.unlink()


def formula(element: Tag) -> tuple[str, bool]:
    """The LaTeX of a formula as MathJax reads it, and whether it stands on a line of its own; its
    number is no part of it.

    >>> page = BeautifulSoup(
    ...     '<div class="math"><span class="eqno">(5)</span>\\\\[a < b\\\\]</div>', "html.parser"
    ... )
    >>> formula(page.div)
    ('a < b', True)
    """
    strings = element.find_all(string=True)
    text = "".join(each for each in strings if each.find_parent(class_="eqno") is None).strip()
    display = element.name == "div"
    return re.sub(r"^(\\\(|\\\[)|(\\\)|\\\])$", "", text).strip(), display


def mathml(tab: Tab, articles: list[Tag]) -> None:
    """Put MathML in the place of every formula."""
    elements = [each for found in articles for each in found.select(".math")]
    wanted = list(dict.fromkeys(map(formula, elements)))
    opened(tab, HTML / contents().numbered[0].address)
    found = dict(zip(wanted, tab.evaluate(TO_MATHML, wanted), strict=True))
    if unknown := sorted(set(UNKNOWN_MACRO.findall("".join(found.values())))):
        raise FilesError(
            f"MathJax knows no {', '.join(unknown)}. To fix this, correct the formulas."
        )
    for element in elements:
        number = element.select_one(".eqno")
        tree = BeautifulSoup(found[formula(element)], "html.parser")
        element.clear()
        if number is not None:
            element.append(number)
        element.append(tree)


def images(articles: list[Tag]) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every picture, after its source became the name."""
    for found in articles:
        for image in found.select("img[src]"):
            file = (HTML / "book" / unquote(str(image["src"]))).resolve()
            image["src"] = f"images/{file.name}"
            yield file.name, file


def link_inside(page: Page, found: Tag, pages: dict[str, Page]) -> None:
    """Let the links of a page lead to pages of the EPUB; those to other files become plain text."""
    for link in found.select("a[href]"):
        leads = place(str(link["href"]), page, pages)
        if leads is not None:
            target, anchor = leads
            link["href"] = f"{target.name}.xhtml" + (f"#{anchor}" if anchor else "")
        elif not urlsplit(str(link["href"])).scheme:
            link.name = "span"
            link.attrs = {"class": link.get("class") or ""}


def write_epub(tab: Tab, output: Path) -> None:
    """Write the pages, their pictures and a table of contents as an EPUB 3."""
    pages = contents().pages
    articles = list(map(article, pages))
    mathml(tab, articles)
    pictures = dict(images(articles))
    addresses = by_address()
    for page, found in zip(pages, articles, strict=True):
        link_inside(page, found, addresses)
    titles = {page.name: page_title((HTML / page.address).read_text()) for page in pages}
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as epub:
        epub.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        epub.writestr("META-INF/container.xml", CONTAINER)
        epub.writestr("book/style.css", EPUB_STYLE)
        for page, found in zip(pages, articles, strict=True):
            text = XHTML.format(title=escape(titles[page.name]), body=str(found))
            epub.writestr(f"book/{page.name}.xhtml", text)
        for name, file in pictures.items():
            picture = file.read_bytes()
            if file.suffix == ".svg":
                picture = standard_svg(picture.decode()).encode()
            epub.writestr(f"book/images/{name}", picture)
        epub.writestr("book/contents.xhtml", navigation(titles))
        formulas = {
            page.name: found.find("math") is not None
            for page, found in zip(pages, articles, strict=True)
        }
        epub.writestr("book/package.opf", package(formulas, list(pictures)))


def standard_svg(picture: str) -> str:
    """A picture without what an EPUB may not hold.

    >>> standard_svg(
    ...     '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "a.dtd">\\n<path id="a"/><path d="M0"/>'
    ... )
    '<path d="" id="a"/><path d="M0"/>'
    """
    return EMPTY_GLYPH.sub('<path d=""', DOCTYPE.sub("", picture))


def navigation(titles: dict[str, str]) -> str:
    """The table of contents, by parts."""
    parts = []
    for caption, pages in contents().parts.items():
        items = "".join(
            f'<li><a href="{page.name}.xhtml">{escape(titles[page.name])}</a></li>'
            for page in pages
        )
        listed = f"<li><span>{escape(caption)}</span><ol>{items}</ol></li>"
        parts.append(listed if caption else items)
    body = f'<nav epub:type="toc"><h1>Contents</h1><ol>{"".join(parts)}</ol></nav>'
    return XHTML.format(title="Contents", body=body)


def package(formulas: dict[str, bool], pictures: list[str]) -> str:
    """The list of all files, and their order; for each page whether it holds a formula."""
    items = [
        '<item id="contents" href="contents.xhtml" media-type="application/xhtml+xml"'
        ' properties="nav"/>',
        '<item id="style" href="style.css" media-type="text/css"/>',
    ]
    for name, holds_formula in formulas.items():
        properties = ' properties="mathml"' if holds_formula else ""
        items.append(
            f'<item id="page-{name}" href="{name}.xhtml" media-type="application/xhtml+xml"'
            f"{properties}/>"
        )
    for i, name in enumerate(pictures):
        media = MEDIA[Path(name).suffix]
        items.append(f'<item id="image-{i}" href="images/{name}" media-type="{media}"/>')
    spine = "".join(f'<itemref idref="page-{name}"/>' for name in formulas)
    return PACKAGE.format(
        identifier=f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_DNS, NAME)}",
        title=escape(book_title()),
        manifest="\n".join(items),
        spine=spine,
    )


def write(folder: Path) -> list[str]:
    """Write both files into a folder; returns a sentence for each thing that was left out."""
    executable = installed()
    if executable is None:
        return ["no PDF and no EPUB: no Chromium was found"]
    folder.mkdir(parents=True, exist_ok=True)
    with chromium(executable) as browser:
        write_epub(browser.new_page(), folder / f"{NAME}.epub")
        write_pdf(browser.new_page(), folder / f"{NAME}.pdf")
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=BUILD)
    output = parser.parse_args().output
    try:
        left_out = write(output)
    except FilesError as error:
        print(error, file=sys.stderr)
        return 1
    print("".join(f"left out: {sentence}.\n" for sentence in left_out), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
