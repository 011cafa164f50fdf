"""Make the built book a site that any host can serve, from any folder: `python -m tools.site
[--output DIR] [--files]`.

Copies _build/html to _build/site and adds what only a published book needs: a page for addresses
that lead nowhere, a description and a preview for those who share a link, and, where _config.yml
names an address, a sitemap.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from html import escape
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from tools import address, book_files, not_found, preview, redirects
from tools.build_book import HTML
from tools.html_page import page_title
from tools.notebooks import BUILD, book_title, contents

SITE = BUILD / "site"
BUILT_COURSE = BUILD / "course"
"""What `make course` writes for students; the site shows it if it is there."""
DOWNLOADS = '<div class="site-downloads docutils">'
"""The box on the page of downloads that a site fills."""
PREVIEW = "_static/preview.png"
LONGEST_DESCRIPTION = 200
ROOTED = re.compile(r"""\b(?:href|src|action)=["'](/[^"']*)["']""")
CANONICAL = re.compile(r'<link rel="canonical" href="[^"]*"\s*/?>\n?')


class SiteError(RuntimeError):
    """The pages cannot be published as they are; the message says what to do."""


def description(text: str, title: str) -> str:
    """A few words for a preview: what a chapter teaches, or how a page begins; sentences with
    formulas are left out.

    >>> description(
    ...     "<article><h1>A</h1><p>You will learn</p><ul><li>to add;</li><li>to stop.</li></ul></article>",
    ...     "",
    ... )
    'You will learn to add; to stop.'
    """
    start = text.find("<article")
    # the beginning of an article is enough, and parsing all of a long one is slow
    soup = BeautifulSoup(text[start : start + 20_000] if start >= 0 else "", "html.parser")
    learn = next((p for p in soup.select("p") if p.get_text().strip() == "You will learn"), None)
    if learn and (items := learn.find_next("ul")):
        goals = [said for item in items.select("li") if (said := spoken(item))]
        return shortened("You will learn " + " ".join(goals).rstrip(";.") + ".")
    for paragraph in soup.select("section > p"):
        if len(said := spoken(paragraph)) > 40:
            return shortened(said)
    return shortened(title)


def spoken(element: Tag) -> str:
    """The sentences of an element that hold no formula."""
    for formula in element.select(".math"):
        formula.replace_with("\0")
    sentences = re.split(r"(?<=[.?!;]) ", " ".join(element.get_text().split()))
    return " ".join(sentence for sentence in sentences if "\0" not in sentence)


def shortened(text: str) -> str:
    """At most 200 characters, cut between words.

    >>> shortened("word " * 60)[-6:], len(shortened("word " * 60)) <= 200
    ('word …', True)
    """
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    return text[: LONGEST_DESCRIPTION - 2].rsplit(" ", 1)[0].rstrip(",;:.") + " …"


def tags(name: str, title: str, said: str, site: str, book: str) -> str:
    """The lines of a page's head for search engines and previews; whole addresses only where the
    site has one.
    """
    about = {"og:title": title, "og:site_name": book, "og:type": "article", "og:description": said}
    words = {"description": said, "twitter:card": "summary"}
    link = ""
    if site:
        about |= {"og:url": site + name, "og:image": site + PREVIEW, "og:image:alt": preview.ALT}
        about |= {"og:image:width": str(preview.WIDTH), "og:image:height": str(preview.HEIGHT)}
        words |= {"twitter:card": "summary_large_image"}
        link = f'<link rel="canonical" href="{site}{name}">\n'
    lines = [f'<meta property="{key}" content="{escape(value)}">' for key, value in about.items()]
    lines += [f'<meta name="{key}" content="{escape(value)}">' for key, value in words.items()]
    return link + "\n".join(lines) + "\n"


def with_tags(text: str, lines: str) -> str:
    """The page with these lines at the end of its head; a canonical address among them takes the
    place of another.
    """
    head, end, rest = text.partition("</head>")
    return (CANONICAL.sub("", head) if CANONICAL.search(lines) else head) + lines + end + rest


def sitemap(site: str, pages: list[str]) -> str:
    """All pages, by their whole addresses.

    >>> print(sitemap("https://example.org/b/", ["a.html"]))
    <?xml version="1.0" encoding="UTF-8"?>
    <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
    <url><loc>https://example.org/b/a.html</loc></url>
    </urlset>
    <BLANKLINE>
    """
    lines = [f"<url><loc>{escape(site + page)}</loc></url>" for page in pages]
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset'
        ' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    )
    return head + "\n".join(lines) + "\n</urlset>\n"


def rooted(text: str) -> list[str]:
    """Links that hold only for a site at the root of its host.

    >>> rooted('<a href="/book/a.html">a</a> <img src="../b.png">')
    ['/book/a.html']
    """
    return ROOTED.findall(text)


def downloads(site: Path) -> list[tuple[str, str]]:
    """Address and name of what the site holds besides its pages."""
    found = [
        ("notebooks.zip", "All notebooks (ZIP)"),
        (f"{book_files.NAME}.pdf", "The whole book (PDF)"),
        (f"{book_files.NAME}.epub", "The whole book (EPUB, formulas in MathML)"),
        ("course/index.html", "Course kit: slides, student notebooks, quizzes, projects, syllabi"),
    ]
    return [(name, title) for name, title in found if (site / name).is_file()]


def fill_downloads(site: Path) -> None:
    """List the downloads on their page, and lead from the last chapter of a part to its quiz."""
    items = "".join(
        f'<li><a href="../{name}">{escape(title)}</a></li>' for name, title in downloads(site)
    )
    if (page := site / "book" / "downloads.html").is_file():
        text = page.read_text()
        page.write_text(text.replace(DOWNLOADS, f"{DOWNLOADS}<ul>{items}</ul>", 1))
    numbered = [pages for pages in contents().parts.values() if pages[0].number is not None]
    for number, pages in enumerate(numbered, 1):
        quiz = f"course/quizzes/part_{number}.html"
        page = site / pages[-1].address
        if (site / quiz).is_file() and page.is_file():
            link = f'<p class="part-end"><a href="../{quiz}">Quiz of this part</a></p>\n</article>'
            page.write_text(page.read_text().replace("</article>", link, 1))


def check_book(html: Path, output: Path, expected: list[str]) -> None:
    """Raise unless the built book has all `expected` pages and `output` may be replaced."""
    if not (html / "index.html").is_file():
        raise SiteError(f"there is no finished book in {html}. To fix this: make book")
    if absent := [page for page in expected if not (html / page).is_file()]:
        raise SiteError(f"the book lacks {', '.join(absent)}. To fix this: make book")
    if output.exists() and not (output / ".nojekyll").is_file():
        raise SiteError(
            f"{output} exists and is no site written before. To fix this, name another folder."
        )


def describe_pages(html: Path, output: Path, site: str) -> dict[str, str]:
    """Give each page its description and previews; returns the titles by address."""
    book = book_title()
    leads_to = redirects.targets(contents())
    start = description((output / contents().pages[0].address).read_text(), book)
    titles = {}
    for path in sorted(output.rglob("*.html")):
        name = path.relative_to(output).as_posix()
        text = path.read_text()
        if name.startswith(("_static/", "course/")):
            continue
        if found := rooted(text):
            raise SiteError(f"{name} links to {found[0]}, which holds at the root of a host alone.")
        meant = leads_to.get(name, name)  # a redirect is announced as the page that it leads to
        words = text if meant == name else (html / meant).read_text()
        titles[name] = page_title(words)
        said = start if name == "index.html" else description(words, f"{titles[name]}: {book}")
        path.write_text(with_tags(text, tags(meant, titles[name], said, site, book)))
    return titles


def publish(
    html: Path, output: Path, site: str, course: Path = BUILT_COURSE, files: bool = False
) -> list[str]:
    """Write the site; returns a sentence for each thing that was left out."""
    pages = [page.address for page in contents().pages]
    check_book(html, output, [*pages, *redirects.targets(contents())])
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(html, output, ignore=shutil.ignore_patterns(".buildinfo", ".doctrees"))
    # Without this file GitHub leaves out the folders that begin with an underscore.
    (output / ".nojekyll").touch()
    left_out = book_files.write(output) if files else []
    if course.is_dir():
        shutil.copytree(course, output / "course")
    else:
        left_out.append("no course kit: make course was not run")
    fill_downloads(output)
    titles = describe_pages(html, output, site)
    preview.write(output / PREVIEW, book_title())
    (output / "404.html").write_text(not_found.page(book_title(), site, titles))
    if site:
        (output / "sitemap.xml").write_text(sitemap(site, pages))
        return left_out
    return [
        *left_out,
        "no sitemap, no whole addresses in previews: neither html: baseurl nor repository: url is"
        " set in _config.yml",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the built book a site.")
    parser.add_argument("--output", type=Path, default=SITE)
    parser.add_argument(
        "--files", action="store_true", help="also the whole book as PDF and EPUB, by Chromium"
    )
    arguments = parser.parse_args()
    output = arguments.output
    try:
        left_out = publish(HTML, output, address.site(address.config()), files=arguments.files)
    except (SiteError, book_files.FilesError, ValueError, LookupError) as problem:
        print(problem, file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file()) / 1e6
    print(f"\nThe site is in {output} ({size:.0f} MB); put the folder anywhere on a web server.")
    print("".join(f"left out: {sentence}.\n" for sentence in left_out), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
