"""The pages of the book: the one place that knows which file, number and address belongs to a name.

A chapter's file is numbered, ``book/04_split.ipynb``, so that folders list chapters in reading
order; everywhere else it goes by its name, ``split``. Numbers are positions among the numbered
parts of ``_toc.yml``, so a chapter that is put in, moved or taken out renumbers the others without
a key having to change; `python -m tools.chapters` renames the files.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ddmip_book.yaml_file import read_yaml

NUMBER = re.compile(r"^\d+_")
RENUMBER = "To fix this: python -m tools.chapters"


class ContentsError(LookupError):
    """A name that the table of contents does not have, or has in two meanings; the message says
    what to do.
    """


def name_of(path: Path | str) -> str:
    """The name that belongs to a file: no folder, no number, no suffix.

    >>> name_of("book/04_split.ipynb"), name_of(Path("quickstart.ipynb")), name_of("e1")
    ('split', 'quickstart', 'e1')
    """
    return NUMBER.sub("", PurePosixPath(path).stem)


@dataclass(frozen=True)
class Page:
    """A page of the book: its file as in ``_toc.yml``, its part's caption, and its number if the
    part counts.

    >>> page = Page("book/04_split", "Method", 4)
    >>> page.name, page.address, page.lasting_address, page.label
    ('split', 'book/04_split.html', 'book/split.html', 'Chapter 4')
    """

    file: str
    part: str
    number: int | None = None

    @property
    def name(self) -> str:
        return name_of(self.file)

    @property
    def address(self) -> str:
        """Where the page is, in the built book."""
        return f"{self.file}.html"

    @property
    def lasting_address(self) -> str:
        """The address that no other chapter can change: links from outside should use it."""
        return f"{PurePosixPath(self.file).with_name(self.name)}.html"

    @property
    def due(self) -> str:
        """The file that the page should have: numbered as it is counted."""
        number = "" if self.number is None else f"{self.number:02d}_"
        return str(PurePosixPath(self.file).with_name(number + self.name))

    @property
    def label(self) -> str:
        """How a sentence calls it."""
        return (
            f"the {self.name.replace('_', ' ')}"
            if self.number is None
            else f"Chapter {self.number}"
        )


def listed(toc: Mapping[str, Any]) -> list[Page]:
    """The pages of a table of contents in reading order, as it lists them.

    >>> part = {"caption": "I", "numbered": 2, "chapters": [{"file": "book/07_a"}]}
    >>> listed({"root": "book/preface", "parts": [part]})
    [Page(file='book/preface', part='', number=None), Page(file='book/07_a', part='I', number=1)]
    """
    pages = [Page(toc["root"], "")] if "root" in toc else []
    count = 0

    def sections(node: Mapping[str, Any], part: str) -> Iterator[Page]:
        for entry in node.get("sections", []):
            yield Page(entry["file"], part)
            yield from sections(entry, part)

    for part in toc.get("parts", [toc]):
        caption = part.get("caption", "")
        for entry in part.get("chapters", []):
            count += "numbered" in part
            pages += [
                Page(entry["file"], caption, count if "numbered" in part else None),
                *sections(entry, caption),
            ]
    return pages


@dataclass(frozen=True)
class Contents:
    """The pages of the book in the folder `root`, by name; made by `Contents.read`."""

    root: Path
    pages: tuple[Page, ...]

    @classmethod
    def read(cls, root: Path) -> Contents:
        """The table of contents ``_toc.yml``; two pages of one name, or a number that is not due,
        are errors.
        """
        found = cls(root, tuple(listed(read_yaml(root / "_toc.yml"))))
        found.refuse_twins()
        if late := [page for page in found.pages if page.file != page.due]:
            raise ContentsError(
                f"_toc.yml lists {late[0].file} where {late[0].due} is due. {RENUMBER}"
            )
        return found

    def refuse_twins(self) -> None:
        """Two pages that go by one name could not be told apart."""
        for name, count in Counter(page.name for page in self.pages).items():
            if count > 1:
                files = " and ".join(page.file for page in self.pages if page.name == name)
                raise ContentsError(
                    f"_toc.yml has two pages called {name!r}: {files}. To fix this, rename one."
                )

    def __getitem__(self, name: str) -> Page:
        for page in self.pages:
            if page.name == name:
                return page
        near = difflib.get_close_matches(name_of(name), self.names, n=3, cutoff=0.5)
        told = (
            f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(self.names)}."
        )
        raise ContentsError(
            f"no page is called {name!r} (the file's name in _toc.yml without its number). {told}"
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @property
    def names(self) -> list[str]:
        return [page.name for page in self.pages]

    @property
    def numbered(self) -> list[Page]:
        """The chapters proper."""
        return [page for page in self.pages if page.number is not None]

    @property
    def parts(self) -> dict[str, list[Page]]:
        """The pages by the caption of their part, in reading order; those before the first part
        have none.
        """
        found: dict[str, list[Page]] = {}
        for page in self.pages:
            found.setdefault(page.part, []).append(page)
        return found

    def notebook(self, name: str) -> Path:
        """The notebook of a chapter."""
        return self.root / f"{self[name].file}.ipynb"
