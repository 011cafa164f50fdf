"""Where the book lives: everything that needs an address gets it here, and here it comes from
_config.yml.

``repository: url`` is the one place for the repository; the site's address is ``html: baseurl`` or
follows from it. While both are empty, nothing that would lead nowhere is written.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from tools.notebooks import ROOT

REPOSITORY = re.compile(r"https://(?P<host>[\w.-]+)/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)")


def config() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "_config.yml").read_text())


def repository(settings: dict[str, Any]) -> str:
    """The repository's address without a slash or ``.git`` at its end, or nothing.

    >>> repository({"repository": {"url": "https://github.com/Someone/book.git"}})
    'https://github.com/Someone/book'
    """
    address = (settings.get("repository", {}).get("url") or "").rstrip("/").removesuffix(".git")
    if address and not REPOSITORY.fullmatch(address):
        raise ValueError(
            f"repository: url is {address!r}. To fix this, write it as https://host/owner/name in"
            " _config.yml."
        )
    return address


def branch(settings: dict[str, Any]) -> str:
    return settings.get("repository", {}).get("branch") or "main"


def site(settings: dict[str, Any]) -> str:
    """The address under which the pages are served, with a slash at its end, or nothing.

    >>> site({"repository": {"url": "https://github.com/Someone/book"}})
    'https://someone.github.io/book/'
    >>> site({"html": {"baseurl": "https://example.org/a/b"}})
    'https://example.org/a/b/'
    """
    named = settings.get("html", {}).get("baseurl")
    if named:
        return named.rstrip("/") + "/"
    found = REPOSITORY.fullmatch(repository(settings))
    if not found or found["host"] != "github.com":
        return ""
    host = f"{found['owner'].lower()}.github.io"
    return (
        f"https://{host}/" if found["name"].lower() == host else f"https://{host}/{found['name']}/"
    )
