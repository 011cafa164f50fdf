"""Do the addresses in the book still answer? `python -m tools.external_links` asks each of them,
and lists dead ones.

Needs the network, so it runs at night and not in `make test`. A host that refuses a program (401,
403, 429) is named but not called dead; an address is dead when the host says so (404, 410) or
nobody answers after three attempts.
"""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddmip_book.data.files import FILES
from tools.notebooks import ROOT

SOURCES = (
    "*.md",
    "*.cff",
    "_config.yml",
    "book/*.md",
    "book/*.ipynb",
    "book/*.bib",
    "data/**/*.md",
    "course/**/*.md",
)
ADDRESS = re.compile(r"https?://[^\s<>\"'`{}|\\^\[\]]+")
DOI = re.compile(r"^\s*doi\s*=\s*[{\"]([^}\"]+)[}\"]", re.MULTILINE | re.IGNORECASE)
EXAMPLE = re.compile(
    r"https?://([\w.]*\.)?(example\.(org|com)|colab\.example|localhost|127\.0\.0\.1)"
)
REFUSED = {401, 403, 405, 406, 418, 429, 999}
ATTEMPTS = 3
PATIENCE = 20.0


def trimmed(address: str) -> str:
    """An address without the sentence around it.

    >>> trimmed("https://example.org/a_(b)).")
    'https://example.org/a_(b)'
    """
    while address and (
        address[-1] in ".,;:!?*_"
        or (address[-1] == ")" and address.count(")") > address.count("("))
    ):
        address = address[:-1]
    return address


def addresses(text: str) -> set[str]:
    """All addresses in a text, DOIs of a bibliography among them.

    >>> sorted(addresses("doi = {10.1000/182},\\n see (https://a.net/b), https://example.org"))
    ['https://a.net/b', 'https://doi.org/10.1000/182']
    """
    found = {trimmed(match) for match in ADDRESS.findall(text)}
    found |= {f"https://doi.org/{doi.strip()}" for doi in DOI.findall(text)}
    return {address for address in found if not EXAMPLE.match(address)}


def readable(path: Path) -> str:
    """What a reader sees of a file: the cells of a notebook, everything of the rest."""
    text = path.read_text()
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def collected(root: Path) -> dict[str, list[str]]:
    """Each address with the files that name it; those of the data are asked too."""
    places = {file.url: ["book/ddmip_book/data/files.py"] for file in FILES.values()}
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern)}):
        for address in addresses(readable(path)):
            places.setdefault(address, []).append(str(path.relative_to(root)))
    return places


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a DOI is alive when its resolver knows where it leads."""

    def redirect_request(self, *_: object) -> None:
        return None


def answer(address: str) -> int:
    """The host's status; 0 where nobody answers."""
    opener = urllib.request.build_opener(*([Stay()] if "://doi.org/" in address else []))
    request = urllib.request.Request(
        address, headers={"User-Agent": "Mozilla/5.0 (link check of a book)"}
    )
    try:
        with opener.open(request, timeout=PATIENCE) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):  # no such host, no route, time is over, no address at all
        return 0


def verdict(status: int) -> str:
    """``alive``, ``refused`` or ``dead``.

    >>> [verdict(status) for status in (200, 302, 403, 404, 0)]
    ['alive', 'alive', 'refused', 'dead', 'dead']
    """
    if 200 <= status < 400:
        return "alive"
    return "refused" if status in REFUSED else "dead"


def asked(address: str, pause: float = 5.0) -> tuple[str, int]:
    """The verdict on an address and the last status; what may pass is asked again."""
    for attempt in range(ATTEMPTS):
        status = answer(address)
        if verdict(status) != "dead" or status in (404, 410):
            break
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause * (attempt + 1))
    return verdict(status), status


def report(
    places: dict[str, list[str]], found: Iterable[tuple[str, tuple[str, int]]]
) -> Iterator[str]:
    """A line for each address that is not alive."""
    for address, (word, status) in found:
        if word != "alive":
            yield f"{word} ({status or 'no answer'}): {address}  in {', '.join(places[address])}"


def main() -> int:
    places = collected(ROOT)
    with ThreadPoolExecutor(8) as pool:
        found = list(zip(places, pool.map(asked, places), strict=True))
    print("\n".join(report(places, found)))
    dead = sum(word == "dead" for _, (word, _) in found)
    print(f"{len(places)} addresses asked, {dead} dead")
    return int(dead > 0)


if __name__ == "__main__":
    sys.exit(main())
