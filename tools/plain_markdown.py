"""The chapters' markdown as plain Jupyter shows it: directives become quotations, references become
numbers.

Jupyter does not know the book's directives and roles and would show them as raw text. Numbers are
those of the built book: chapter, then position among the chapter's equations, figures, exercises,
or statements of one kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import nbformat
from pybtex.database import parse_file

from tools.contents import name_of
from tools.notebooks import ROOT, chapters, contents

FENCE = re.compile(r"^(`{3,}|:{3,})\{([\w:-]+)\} *(.*)$")
OPTION = re.compile(r"^:([\w-]+): *(.*)$")
ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
DISPLAYED = re.compile(r"\$\$.*?\$\$", re.DOTALL)
EQUATION = re.compile(r"\$\$((?:(?!\$\$).)+?)\s*\$\$ \((eq-[\w-]+)\)", re.DOTALL)
DECLARED = re.compile(
    r"\{(?P<kind>prf:\w+|exercise-start|figure)\}[^\n]*\n(?::(?!label|name)[\w-]+:[^\n]*\n)*"
    r":(?:label|name): (?P<label>\S+)"
    r"|\$\$ \((?P<equation>eq-[\w-]+)\)"
)


@cache
def numbers() -> dict[str, str]:
    """What a reference to each label says, ``(4.1)``, ``Proposition 4.1``, ``Fig. 4.1`` or
    ``Exercise 4.1``.
    """
    found: dict[str, str] = {}
    known = contents()
    for path in chapters():
        chapter = known[name_of(path)].number
        prefix = "" if chapter is None else f"{chapter}."
        counts: Counter[str] = Counter()
        for cell in nbformat.read(path, 4).cells:
            for kind, label in declared(cell):
                counts[kind] += 1
                number = f"{prefix}{counts[kind]}"
                word = "Fig." if kind == "figure" else kind.capitalize()
                found[label] = f"({number})" if kind == "equation" else f"{word} {number}"
    return found


def declared(cell: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and the label of each numbered thing in a cell of a notebook."""
    if cell.cell_type != "markdown":
        if name := cell.metadata.get("mystnb", {}).get("figure", {}).get("name"):
            yield "figure", name
        return
    for match in DECLARED.finditer(cell.source):
        if match["equation"]:
            yield "equation", match["equation"]
        else:
            yield match["kind"].removeprefix("prf:").removesuffix("-start"), match["label"]


@cache
def citations() -> dict[str, str]:
    """``Salman et al., 2019`` for each entry of the bibliography."""
    said = {}
    for key, entry in parse_file(str(ROOT / "book" / "references.bib")).entries.items():
        persons = entry.persons.get("author", [])
        names = [" ".join(person.last_names).strip("{}") for person in persons] or [key]
        said[key] = f"{authors(names)}, {entry.fields.get('year', 'no year')}"
    return said


def authors(names: list[str]) -> str:
    """Return the authors of a publication as they are cited.

    >>> authors(["Salman", "Yang"])
    'Salman and Yang'
    """
    if len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names)


def reference(match: re.Match[str]) -> str:
    role = match[1]
    target = match[2]
    if role.startswith("cite"):
        return "(" + "; ".join(citations()[key.strip()] for key in target.split(",")) + ")"
    if text := re.fullmatch(r"(.+?) *<.+>", target):
        return text[1]
    return numbers().get(target, target)


def heading(kind: str, title: str, options: dict[str, str]) -> str:
    if kind == "prf:proof":
        return "*Proof.*"
    if kind.startswith("prf:"):
        name = numbers().get(options.get("label", ""), kind.removeprefix("prf:").capitalize())
        return f"**{name}**" + (f" ({title})" if title else "")
    return f"**{title}**" if title else ""


def directive(kind: str, title: str, body: list[str]) -> list[str]:
    """One directive as plain lines: an exercise as a heading, a figure as an image, all else as a
    quotation.
    """
    options = {}
    while body and (option := OPTION.match(body[0])):
        options[option[1]] = option[2]
        body = body[1:]
    if kind == "exercise-start":
        number = numbers().get(options["label"], "Exercise").removeprefix("Exercise ")
        return [f"### Exercise {number}: {title}", ""]
    if kind == "solution-start":
        return [f"#### Solution to {numbers().get(title, 'the exercise')}", ""]
    if kind in ("exercise-end", "solution-end"):
        return []
    if kind == "figure":
        caption = " ".join(line for line in converted(body) if line)
        name = numbers().get(options.get("name", ""), "Figure")
        return [f"![{options.get('alt', '')}]({title})", "", f"*{name}.* {caption}", ""]
    text = "\n".join(converted(body)).strip()
    inside = [heading(kind, title, options), "", *DISPLAYED.sub(one_line, text).split("\n")]
    return [*(f"> {line}".rstrip() for line in inside), ""]


def one_line(display: re.Match[str]) -> str:
    """Return a displayed formula on one line: JupyterLab takes marks of a quotation inside a formula
    for signs.

    >>> DISPLAYED.sub(one_line, "$$" + chr(10) + "a > b ." + chr(10) + "$$")
    '$$ a > b . $$'
    """
    return " ".join(display[0].split())


def converted(lines: list[str]) -> list[str]:
    """The lines with every directive, also inside another, replaced."""
    out: list[str] = []
    at = 0
    while at < len(lines):
        if not (fence := FENCE.match(lines[at])):
            out.append(lines[at])
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[1])
        out += directive(fence[2], fence[3].strip(), lines[at + 1 : end])
        at = end + 1
    return out


def plain_markdown(text: str) -> str:
    """A text cell without directives, roles and labels."""
    text = EQUATION.sub(
        lambda match: f"$${match[1]} \\tag{{{numbers()[match[2]][1:-1]}}}\n$$", text
    )
    text = re.sub(r"^\(([\w-]+)\)=\n", "", text, flags=re.MULTILINE)
    return ROLE.sub(reference, "\n".join(converted(text.split("\n")))).strip()
