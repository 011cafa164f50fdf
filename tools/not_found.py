"""The page for addresses that lead nowhere.

A host serves it under the missing address, at any depth, so it carries its own style and finds the
book by itself: from the folder of that address upwards, the first one whose index.html has the
book's title. Without scripts its links hold at the site's address, or where none is known beside
index.html.
"""

from __future__ import annotations

import json
from html import escape

from tools import html_page
from tools.notebooks import ROOT, contents

STYLE = """\
:root { color-scheme: light dark; --ground: #fff; --text: #222832; --link: #0a4a94; --line: #8a929c; }
:root[data-theme="dark"] { --ground: #14181e; --text: #ced6dd; --link: #8fc4ff; }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) { --ground: #14181e; --text: #ced6dd; --link: #8fc4ff; }
}
body { margin: 0; background: var(--ground); color: var(--text); }
body { font: 1.05rem/1.6 -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
header { background: #12355b; }
header a { display: flex; align-items: center; gap: 1rem; padding: .6rem 1.5rem; }
header a { color: #fff; text-decoration: none; font-weight: 600; }
header svg { flex: none; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1.5rem 3rem; }
a { color: var(--link); }
h1 { margin: 1rem 0 .5rem; font-size: 1.9rem; line-height: 1.25; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; }
code { overflow-wrap: anywhere; }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 1.2rem 0 1.8rem; }
input, button { font: inherit; padding: .3rem .7rem; border: 1px solid var(--line); border-radius: .3rem; }
input, button { background: var(--ground); color: var(--text); }
input { flex: 0 1 20rem; min-width: 8rem; }
:is(a, input, button):focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
header a:focus-visible { outline-color: #ffb347; outline-offset: -3px; }
.parts { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1.2rem 2rem; }
ul { list-style: none; margin: 0; padding: 0; }
li { margin: .15rem 0; }
"""
SCRIPT = """\
const mode = localStorage.getItem("mode");
if (mode === "light" || mode === "dark") document.documentElement.dataset.theme = mode;
addEventListener("DOMContentLoaded", async () => {
  const told = document.querySelector("#missing");
  if (!location.pathname.endsWith("/404.html")) {
    told.textContent = location.pathname;
    told.parentElement.hidden = false;
  }
  for (let folder = new URL(".", location); ; folder = new URL("..", folder)) {
    const here = location.protocol === "file:" || await fetch(new URL("index.html", folder))
      .then(found => found.ok ? found.text() : "").then(text => text.includes(TITLE)).catch(() => false);
    if (here) {
      for (const link of document.querySelectorAll("[data-page]"))
        link.setAttribute(link.tagName === "FORM" ? "action" : "href", new URL(link.dataset.page, folder).href);
      document.documentElement.dataset.root = folder.href;
      return;
    }
    if (folder.pathname === "/") return;
  }
});
"""
HEAD = """\
<meta name="robots" content="noindex">
<style>
{style}</style>
<script>
{script}</script>
"""
BODY = """\
<header>{home}{logo}<span>{book}</span></a></header>
<main>
<h1>There is no page here</h1>
<p hidden>Nothing is stored under <code id="missing"></code>.</p>
<p>The link may be old or mistyped. Search the book, or choose a page:</p>
<form role="search" {search}>
<label for="q">Search</label><input id="q" name="q" type="search" required><button>Find</button>
</form>
<nav aria-label="All pages of the book" class="parts">
{parts}</nav>
</main>"""


def link(page: str, site: str, attribute: str = "href") -> str:
    """The two attributes of a link: where it leads without scripts, and what the script completes.

    >>> link("book/a.html", "https://example.org/b/")
    'href="https://example.org/b/book/a.html" data-page="book/a.html"'
    """
    return f'{attribute}="{escape(site + page)}" data-page="{escape(page)}"'


def page(book: str, site: str, titles: dict[str, str]) -> str:
    """The whole page; `titles` names each page of the book."""
    logo = (
        (ROOT / "book" / "_static" / "logo.svg")
        .read_text()
        .replace('width="240" height="120"', 'width="72" height="36"')
    )
    parts = ""
    (_, before), *parts_of_book = contents().parts.items()  # the root page stands in the first part
    for caption, pages in parts_of_book:
        listed = [*before, *pages] if caption == parts_of_book[0][0] else pages
        items = "".join(
            f"<li><a {link(each.address, site)}>{escape(titles[each.address])}</a></li>\n"
            for each in listed
        )
        parts += f"<section>\n<h2>{escape(caption)}</h2>\n<ul>\n{items}</ul>\n</section>\n"
    script = SCRIPT.replace(
        "TITLE", json.dumps(f"<title>{escape(book)}</title>").replace("</", "<\\/")
    )
    home = f"<a {link('index.html', site)}>"
    search = link("search.html", site, "action")
    body = BODY.format(book=escape(book), home=home, logo=logo, search=search, parts=parts)
    return html_page.page(f"No page here: {book}", body, HEAD.format(style=STYLE, script=script))
