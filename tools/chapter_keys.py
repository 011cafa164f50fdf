"""Where the project speaks of chapters, and what is wrong with the way it does.

Keys are names without numbers, and numbers in sentences come from links (`python -m tools.chapters`
keeps those) or, in the course, from ``{{no:split}}``; a number typed by hand would be wrong after
the next chapter that is put in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddmip_book.yaml_file import read_yaml
from tools.contents import Contents

LINK = re.compile(
    r"\[(?P<words>[^\[\]\n]*)\]"
    r"\((?P<folder>(?:[\w.-]+/)*)(?P<file>\w+)(?P<suffix>\.(?:ipynb|md|html))(?P<anchor>#[^\s)]*)?\)"
)
FIRST_NUMBER = re.compile(r"^((?:[Cc]hapter )?)\d+(?= |$)")
TYPED = re.compile(r"\b[Cc]hapters?(?: |\n *)\d+\b(?! of \{cite)")
ASKED = re.compile(r"\{\{(?:cell|output|number|chapter|goals|no)\??:(\w+)")
LINKING = ("book/*.ipynb", "book/*.md", "README.md", "CONTRIBUTING.md")
"""Files whose links lead to chapters."""
SPOKEN = (
    *LINKING,
    "book/*.yml",
    "course/**/*.md",
    "course/**/*.yml",
    "ddmip_lib/**/*.py",
    "book/ddmip_book/**/*.py",
)
"""Files whose sentences may speak of chapters."""
WITH_EXAMPLES = {"tools/contents.py"}
"""Its doctests show what a number looks like."""


def files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(root.glob(pattern))]


def course_chapters(course: Any) -> Iterator[str]:
    """Every name of a chapter in the file of the course."""
    for name, about in course["chapters"].items():
        yield name
        yield from about["needs"]
    for form in course["formats"].values():
        for session in form["sessions"]:
            yield from session["chapters"]


def keys(root: Path) -> Iterator[tuple[str, str]]:
    """Every (file, name) where a name stands for a chapter."""

    def read(file: str) -> Any:
        return read_yaml(root / file)

    for file in ("tests/headline.yml", "book/taught.yml", "book/profiles.yml"):
        yield from ((file, name) for name in read(file))
    for claims in read("book/claims.yml").values():
        yield from (
            ("book/claims.yml", name) for claim in claims for name in claim.get("cells", {})
        )
    yield from (
        ("book/redirects.yml", name) for name in (read("book/redirects.yml") or {}).values()
    )
    yield from (("course/course.yml", name) for name in course_chapters(read("course/course.yml")))
    for path in files(root, ("course/quizzes/*.yml",)):
        file = path.relative_to(root).as_posix()
        yield from ((file, question["chapter"]) for question in read(file)["questions"])
    for path in files(root, ("course/**/*.md", "course/**/*.yml")):
        yield from (
            (path.relative_to(root).as_posix(), name) for name in ASKED.findall(path.read_text())
        )
    for path in files(root, ("book/ddmip_book/checks/part*.py",)):
        found = re.findall(r'^    "(\w+)": \[$', path.read_text(), re.MULTILINE)
        yield from ((path.relative_to(root).as_posix(), name) for name in found)


def fresh(text: str, contents: Contents, former: dict[str, str]) -> str:
    """The text with every link to a page as it should be: the file that the page has now, its
    number in the words.

    A link to a file of another number is meant for the page of that name, and one to a former
    address (`former`) for the page that the address led to.
    """

    def again(link: re.Match[str]) -> str:
        name = re.sub(r"^\d+_", "", link["file"])
        name = name if name in contents else former.get(f"book/{link['file']}.html", "")
        if not name:
            return link[0]
        page = contents[name]
        words = (
            link["words"]
            if page.number is None
            else FIRST_NUMBER.sub(rf"\g<1>{page.number}", link["words"])
        )
        file = f"{link['folder']}{page.file.rsplit('/', 1)[-1]}"
        return f"[{words}]({file}{link['suffix']}{link['anchor'] or ''})"

    return LINK.sub(again, text)


def problems(contents: Contents, former: dict[str, str]) -> list[str]:
    """Everything that does not fit the table of contents, a sentence each."""
    root = contents.root
    found = [
        f"{file}: no page is called {name!r}" for file, name in keys(root) if name not in contents
    ]
    for path in files(root, LINKING):
        if fresh(path.read_text(), contents, former) != path.read_text():
            found.append(
                f"{path.relative_to(root)}: a link or its number is stale; run python -m"
                " tools.chapters"
            )
    for path in files(root, SPOKEN):
        file = path.relative_to(root).as_posix()
        typed = TYPED.search(LINK.sub("", path.read_text())) if file not in WITH_EXAMPLES else None
        if typed:
            found.append(
                f"{file}: {typed[0]!r} is typed by hand; link to the chapter, or say what it is"
                " about"
            )
    return list(dict.fromkeys(found))
