"""Addresses that lead to a page of the book without being its own, and the small pages that stand
there.

Every numbered chapter has a lasting address, ``book/split.html``, which leads to wherever the
chapter is. Addresses that pages had before they were renumbered or renamed stand in
book/redirects.yml, with the name of the page that is meant; `python -m tools.chapters` writes them
there.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import yaml

from tools import html_page
from tools.contents import Contents

FILE = Path("book", "redirects.yml")


class RedirectError(ValueError):
    """A redirect that would hide a page or lead nowhere; the message says what to do."""


def former(root: Path) -> dict[str, str]:
    """The addresses of book/redirects.yml, each with the name of its page."""
    return yaml.safe_load((root / FILE).read_text()) or {}


def targets(contents: Contents) -> dict[str, str]:
    """Every address that is not a page's own, with the address to which it leads."""
    own = {page.address for page in contents.pages}
    found = {page.lasting_address: page.address for page in contents.numbered}
    if hidden := sorted(own & found.keys()):
        raise RedirectError(
            f"{hidden[0]} is a page, and a chapter has its name. To fix this, rename one of the"
            " two."
        )
    for address, name in former(contents.root).items():
        if address in own or address in found:
            raise RedirectError(
                f"{FILE} hides {address}, which has a page already. To fix this, remove the line."
            )
        found[address] = contents[name].address
    return found


def write(contents: Contents, html: Path) -> list[Path]:
    """Put a page at each of these addresses of the built book; one that is taken is an error."""
    written = []
    for address, target in targets(contents).items():
        place = html / address
        if place.exists():
            raise RedirectError(
                f"the book has a page {address} already. To fix this, remove the line from {FILE}."
            )
        relative = os.path.relpath(target, PurePosixPath(address).parent)
        title = html_page.page_title((html / target).read_text())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(html_page.redirect(relative, title, f"Open {title}"))
        written.append(place)
    return written
