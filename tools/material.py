"""What slides take from the chapters by name: statements, equations, figures, cells, outputs,
numbers.

Texts come from the sources in book/, whatever is computed comes from the executed notebooks.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import notebooks
from tools.contents import ContentsError, Page

BOOK = notebooks.ROOT / "book"
STATEMENT = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{prf:(?P<kind>\w+)\} *(?P<title>[^\n]*)\n"
    r"(?P<options>(?::\w+:[^\n]*\n)*)(?P<body>.*?)\n(?P=fence) *$",
    re.DOTALL | re.MULTILINE,
)
EQUATION = re.compile(r"\$\$\n(?P<body>[^$]*?)\n *\$\$ \((?P<label>[\w-]+)\)")
DRAWING = re.compile(
    r"^```\{figure\} (?P<file>\S+)\n(?P<options>(?::\w+:[^\n]*\n)*)\n(?P<caption>.*?)\n```",
    re.DOTALL | re.MULTILINE,
)
EXERCISE = re.compile(
    r"^`{3,}\{exercise(?:-start)?\} *[^\n]*\n(?P<options>(?::\w+:[^\n]*\n)+)", re.MULTILINE
)
OPTION = re.compile(r"^:(\w+): *(.*)$", re.MULTILINE)
ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
CLAUSE = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |\n(?=\S)|\Z)", re.DOTALL | re.MULTILINE)


class MissingMaterial(LookupError):
    """A deck asks for something that no chapter has; the message says what, and what to do."""


@dataclass(frozen=True)
class Statement:
    """A theorem, lemma, algorithm ... of a chapter, with its number in the book."""

    kind: str
    number: str
    title: str
    body: str

    def clauses(self, wanted: list[int]) -> list[tuple[int, str]]:
        """The numbered clauses with these numbers, their continuation lines moved to the margin."""
        found = {
            int(n): re.sub(r"^ {1,3}", "", text, flags=re.MULTILINE)
            for n, text in CLAUSE.findall(self.body)
        }
        return [(n, found[n]) for n in wanted]

    def lead(self) -> str:
        """The text before the first clause."""
        return re.split(r"^1\. ", self.body, maxsplit=1, flags=re.MULTILINE)[0].strip()


@dataclass(frozen=True)
class Figure:
    """An image of a chapter: bytes, suffix, alt text, the caption's first sentence, its number in
    the book.
    """

    data: bytes
    suffix: str
    alt: str
    caption: str
    number: str


@functools.cache
def cells(path: Path) -> list[dict[str, Any]]:
    return [
        {**cell, "source": "".join(cell["source"])}
        for cell in json.loads(path.read_text())["cells"]
    ]


headline = functools.cache(notebooks.headline)


class Material:
    """Everything that chapters offer by name, looked up when asked for."""

    def __init__(self, profile: str = "quick") -> None:
        self.profile = profile
        self.contents = notebooks.contents()
        self.statements: dict[str, Statement] = {}
        self.equations: dict[str, tuple[str, str]] = {}
        self.exercises: dict[str, str] = {}
        self.figure_numbers: dict[str, str] = {}
        self._drawings: dict[str, tuple[str, str, str]] = {}
        self._cell_figures: dict[str, tuple[str, str]] = {}
        known = {path.stem for path in notebooks.chapters()}
        for page in self.contents.pages:
            if Path(page.file).name in known:
                self._scan(page)

    def _scan(self, page: Page) -> None:
        """Count as the book does: each kind of statement, equations and figures start at 1 in every
        chapter.
        """
        counts: dict[str, int] = {}

        def next_number(kind: str) -> str:
            counts[kind] = counts.get(kind, 0) + 1
            return str(counts[kind] if page.number is None else f"{page.number}.{counts[kind]}")

        for cell in cells(self.contents.notebook(page.name)):
            text = cell["source"]
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            if "name" in figure:
                self.figure_numbers[figure["name"]] = next_number("figure")
                self._cell_figures[figure["name"]] = (page.name, cell["id"])
            if cell["cell_type"] != "markdown":
                continue
            for found in EQUATION.finditer(text):
                self.equations[found["label"]] = (found["body"], next_number("equation"))
            for found in DRAWING.finditer(text):
                options = dict(OPTION.findall(found["options"]))
                self.figure_numbers[options["name"]] = next_number("figure")
                self._drawings[options["name"]] = (found["file"], options["alt"], found["caption"])
            for found in EXERCISE.finditer(text):
                self.exercises[dict(OPTION.findall(found["options"]))["label"]] = next_number(
                    "exercise"
                )
            for found in STATEMENT.finditer(text):
                if label := dict(OPTION.findall(found["options"])).get("label"):
                    kind = found["kind"]
                    body = found["body"].strip()
                    self.statements[label] = Statement(
                        kind.capitalize(), next_number(kind), found["title"].strip(), body
                    )

    def page(self, name: str) -> Page:
        """A page of the book, with or without a number."""
        try:
            return self.contents[name]
        except ContentsError as error:
            raise MissingMaterial(str(error)) from None

    def chapter_number(self, name: str) -> int:
        """The number of a chapter."""
        number = self.page(name).number
        if number is None:
            raise MissingMaterial(
                f"the page {name!r} has no number; use its title, {{{{chapter}}}}"
            )
        return number

    def opening(self, name: str) -> str:
        """The text of a chapter before its first section."""
        texts = [
            c["source"]
            for c in cells(self.contents.notebook(self.page(name).name))
            if c["cell_type"] == "markdown"
        ]
        return re.split(r"^## ", "\n\n".join(texts), maxsplit=1, flags=re.MULTILINE)[0] + "\n"

    def chapter(self, name: str) -> str:
        """Its number, if it has one, and title, as in the table of contents."""
        number = self.page(name).number
        title = self.opening(name).splitlines()[0].lstrip("# ")
        return title if number is None else f"{number}. {title}"

    def goals(self, name: str) -> str:
        """The list under "You will learn"."""
        found = re.search(r"\*\*You will learn\*\*\n\n(.*?)\n\n", self.opening(name), re.DOTALL)
        if not found:
            raise MissingMaterial(
                f"chapter {name!r} does not begin with **You will learn** and a list"
            )
        return found[1]

    def _executed(self, name: str) -> Path:
        path = notebooks.executed_path(self.contents.notebook(self.page(name).name), self.profile)
        if not path.exists():
            raise MissingMaterial(f"chapter {name!r} has not been executed. To fix this: make book")
        return path

    def cell(self, chapter: str, identity: str) -> dict[str, Any]:
        """A cell of the executed chapter by its id."""
        for cell in cells(self._executed(chapter)):
            if cell.get("id") == identity:
                return cell
        raise MissingMaterial(
            f"chapter {chapter!r} has no cell {identity!r} (its ids are in the notebook)"
        )

    def output(self, chapter: str, identity: str) -> str:
        """What the cell printed, or said, or showed as a table."""
        outputs = self.cell(chapter, identity).get("outputs", [])
        plain = [
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
        ]
        printed = "\n".join(
            "".join(text).rstrip("\n") for text in plain if not "".join(text).startswith("<Figure")
        )
        if not printed.strip():
            raise MissingMaterial(f"cell {identity!r} of chapter {chapter!r} prints nothing")
        return printed.rstrip("\n")

    def number(self, chapter: str, key: str) -> float:
        """A number that the chapter records at its end."""
        numbers = headline(self._executed(chapter))
        if key not in numbers:
            raise MissingMaterial(
                f"chapter {chapter!r} records no {key!r}; it records {', '.join(numbers)}"
            )
        return numbers[key]

    def figure(self, name: str) -> Figure:
        """A figure by the name that chapters refer to."""
        if name in self._drawings:
            file, alt, caption = self._drawings[name]
            data = (BOOK / file).read_bytes()
            return Figure(
                data, Path(file).suffix, alt, first_sentence(caption), self.figure_numbers[name]
            )
        if name not in self._cell_figures:
            raise MissingMaterial(f"no chapter has a figure {name!r}")
        cell = self.cell(*self._cell_figures[name])
        images = [
            o["data"]["image/png"] for o in cell["outputs"] if "image/png" in o.get("data", {})
        ]
        if not images:
            raise MissingMaterial(f"the cell of figure {name!r} shows no PNG image")
        about = cell["metadata"]["mystnb"]
        return Figure(
            base64.b64decode("".join(images[-1])),
            ".png",
            about["image"]["alt"],
            first_sentence(about["figure"]["caption"]),
            self.figure_numbers[name],
        )

    def plain(self, text: str) -> str:
        r"""Chapter text without what only Sphinx understands: references become numbers, citations
        go.

        >>> re.sub(
        ...     r"\d+",
        ...     "N",
        ...     Material().plain("by {prf:ref}`thm-a` and {eq}`eq-milp` {cite}`boyd2011admm`"),
        ... )
        'by Theorem N.N and (N.N)'
        """

        def resolve(found: re.Match[str]) -> str:
            role = found[1]
            label = found[2]
            if role == "eq" and label in self.equations:
                return f"({self.equations[label][1]})"
            if role == "prf:ref" and label in self.statements:
                return f"{self.statements[label].kind} {self.statements[label].number}"
            if role == "numref" and label in self.figure_numbers:
                return f"Figure {self.figure_numbers[label]}"
            if role.startswith("cite"):
                return ""
            if role == "ref" and label in self.exercises:
                return f"Exercise {self.exercises[label]}"
            raise MissingMaterial(f"no chapter defines {{{role}}}`{label}`")

        text = re.sub(r"\[([^\]]+)\]\([\w.#-]+\.(?:ipynb|md)\)", r"\1", text)
        return re.sub(r" +(?=[.,;:]|$)", "", ROLE.sub(resolve, text), flags=re.MULTILINE)


def first_sentence(caption: str) -> str:
    """Up to the first full stop outside a formula.

    >>> first_sentence("Left, $x = 0.5$. Right, the rest.")
    'Left, $x = 0.5$.'
    """
    for stop in re.finditer(r"\.(?=\s|$)", caption):
        if caption[: stop.start()].count("$") % 2 == 0:
            return caption[: stop.end()]
    return caption
