"""Write the project's address, which stands in _config.yml alone, into every file that carries it.

    python -m tools.write_address [--check]

These are the chapters (their cell for Colab), the commands at the top of the quickstart,
``[project.urls]`` of pyproject.toml, CITATION.cff, and the contact in SECURITY.md and
CODE_OF_CONDUCT.md. While no address is set, nothing that would lead nowhere is written, and the
contact is "unset". Buttons, sitemap and previews read _config.yml when the book is built.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

from tools import install_cell
from tools.address import config, repository, site
from tools.notebooks import ROOT, chapters, contents

COMMANDS_ID = "run-it"
AFTER = "opening"
CONTACTS = ("SECURITY.md", "CODE_OF_CONDUCT.md")
CONTACT = re.compile(r"^Contact: .*$", re.MULTILINE)
URLS = re.compile(r"^\[project\.urls\]\n(?:[^\[\n].*\n)*\n?", re.MULTILINE)
FIRST_TOOL = re.compile(r"^\[tool\.", re.MULTILINE)
CITED = re.compile(r"^repository-code: .*\n", re.MULTILINE)
LICENCE = re.compile(r"^license: .*\n", re.MULTILINE)
CLONED = """\
Three commands run this page on your own machine:

```sh
git clone {address}
cd {folder}
make lab
```

The last one sets up the environment (a minute or two, once) and opens the chapters; this one is `quickstart.ipynb`."""
IN_FOLDER = """\
One command in the project's folder runs this page on your own machine:

```sh
make lab
```

It sets up the environment (a minute or two, once) and opens the chapters; this one is `quickstart.ipynb`."""


def project_urls(settings: dict[str, Any]) -> dict[str, str]:
    """What ``[project.urls]`` of pyproject.toml holds.

    >>> project_urls({"repository": {"url": "https://github.com/Someone/book"}})["Issues"]
    'https://github.com/Someone/book/issues'
    >>> project_urls({})
    {}
    """
    address = repository(settings)
    pages = site(settings)
    urls = {"Documentation": pages} if pages else {}
    if address:
        urls |= {"Source": address, "Issues": f"{address}/issues"}
    return urls


def with_urls(pyproject: str, settings: dict[str, Any]) -> str:
    """The text of pyproject.toml with the table of addresses before the tools' tables, or without
    it.
    """
    text = URLS.sub("", pyproject)
    urls = project_urls(settings)
    if not urls:
        return text
    table = "[project.urls]\n" + "".join(
        f'{name} = "{address}"\n' for name, address in urls.items()
    )
    first = FIRST_TOOL.search(text)
    if first is None:
        return f"{text.rstrip()}\n\n{table}"
    return f"{text[: first.start()]}{table}\n{text[first.start() :]}"


def with_citation(citation: str, settings: dict[str, Any]) -> str:
    """The text of CITATION.cff, which names the repository below the licence."""
    text = CITED.sub("", citation)
    address = repository(settings)
    return (
        LICENCE.sub(lambda found: f'{found[0]}repository-code: "{address}"\n', text)
        if address
        else text
    )


def with_contact(text: str, settings: dict[str, Any]) -> str:
    """A page with the line that says where to turn."""
    return CONTACT.sub(f"Contact: {repository(settings) or 'unset'}", text)


def commands(settings: dict[str, Any]) -> str:
    """The commands that run the quickstart, as text of a cell."""
    address = repository(settings)
    return CLONED.format(address=address, folder=address.split("/")[-1]) if address else IN_FOLDER


def with_commands(notebook: nbformat.NotebookNode, text: str) -> nbformat.NotebookNode:
    """The notebook with this cell, and no older one, below its opening picture: the first code that
    is seen.
    """
    cells = [cell for cell in notebook.cells if cell.get("id") != COMMANDS_ID]
    place = [cell.get("id") for cell in cells].index(AFTER) + 1
    cell = nbformat.v4.new_markdown_cell(text, id=COMMANDS_ID)
    return nbformat.from_dict({**notebook, "cells": [*cells[:place], cell, *cells[place:]]})


def wanted(settings: dict[str, Any]) -> dict[Path, str]:
    """What each file that carries the address should hold."""
    colab = install_cell.source(settings)
    texts = {path: install_cell.refreshed(path, colab) for path in chapters()}
    quickstart = contents().notebook("quickstart")
    notebook = with_commands(nbformat.reads(texts[quickstart], 4), commands(settings))
    texts[quickstart] = nbformat.writes(notebook) + "\n"
    for name, change in (("pyproject.toml", with_urls), ("CITATION.cff", with_citation)):
        texts[ROOT / name] = change((ROOT / name).read_text(), settings)
    for name in CONTACTS:
        texts[ROOT / name] = with_contact((ROOT / name).read_text(), settings)
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write the project's address into the files that carry it."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where a file is out of date"
    )
    arguments = parser.parse_args()
    stale = {path: text for path, text in wanted(config()).items() if path.read_text() != text}
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if arguments.check and stale:
        print(
            f"these files do not have the address of _config.yml: {names}. To fix this: python -m"
            " tools.write_address",
            file=sys.stderr,
        )
        return 1
    for path, text in stale.items():
        path.write_text(text)
    print(f"{len(stale)} files changed" + (f": {names}" if stale else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
