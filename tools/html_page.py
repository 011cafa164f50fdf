"""The skeleton of all pages that Sphinx does not write: slides, course, redirects, the page for
lost readers.
"""

from __future__ import annotations

import json
import re
from html import escape, unescape

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
{head}</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, body: str, head: str = "") -> str:
    """A whole page; `title` is text, `body` and the lines that `head` adds are HTML.

    >>> "<title>x &lt; y</title>" in page("x < y", "<main></main>")
    True
    """
    return PAGE.format(title=escape(title), body=body, head=head)


def redirect(target: str, title: str, said: str) -> str:
    """A page that leads to `target`, a relative address, and keeps what a link had behind it
    (``#eq-split``).

    Without scripts the reader is led there too, to the top of the page, or follows the link that
    `said` stands on.

    >>> 'location.replace("09_convergence.html" + location.search' in redirect(
    ...     "09_convergence.html", "Moved", "There"
    ... )
    True
    """
    link = escape(target)
    quoted = json.dumps(target).replace("<", "\\u003c")
    head = (
        f"<script>location.replace({quoted} + location.search + location.hash)</script>\n"
        f'<noscript><meta http-equiv="refresh" content="0; url={link}"></noscript>\n'
        f'<link rel="canonical" href="{link}">\n'
    )
    body = f'<main>\n<h1>{escape(title)}</h1>\n<p><a href="{link}">{escape(said)}</a></p>\n</main>'
    return page(title, body, head)


def page_title(text: str) -> str:
    """What a page calls itself, without the name of the book.

    >>> page_title("<title>4. The split &#8212; Dual decomposition</title>")
    '4. The split'
    """
    found = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
    return unescape(found[1]).split(" — ")[0].strip() if found else ""
