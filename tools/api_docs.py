"""A Sphinx extension for the API pages: docstrings are text with formulas, and each name says where
it is taught.

Sections of NumPy's style become lists (by napoleon, which runs before). Formulas stand between
dollar signs as in the chapters, single backquotes mean code, and an indented block is shown as it
stands, unless it belongs to an entry of a list. What reStructuredText would read as markup elsewhere (``|u - x|``,
``rho*``, ``lam_``) is escaped, so a docstring cannot break the build, and authors need not think
about it.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Sphinx knows the folder of its extensions, not the one above

from tools.contents import Contents, Page  # noqa: E402

API_PAGE = "book/api"
"""The index of the pages that describe names; theirs begin with it."""
DESCRIBED = ("class", "function", "exception", "data")
VERBATIM = re.compile(r"(``.+?``|:[\w:]+:`.+?`|`[^`]+?`|\$[^$]+?\$)", re.DOTALL)
ITEM = re.compile(r"\s*([-*]|\d+\.|\.\.|:\w[^:]*:)(\s|$)")


def escape(text: str) -> str:
    """Prose as reStructuredText.

    >>> print(escape("the residual |u - x| of `step`, in ``u_``, for $x_i$"))
    the residual \\|u - x\\| of ``step``, in ``u_``, for :math:`x_i`
    """
    parts = VERBATIM.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"(?<!\\)(\||(?<!^)\*|(?<=\w)_(?!\w))", r"\\\1", part)
        elif part.startswith("$"):
            parts[i] = f":math:`{part[1:-1]}`"
        elif part.startswith("`") and not part.startswith("``"):
            parts[i] = f"`{part}`"
    return "".join(parts)


def display_math(lines: list[str]) -> list[tuple[bool, str]]:
    """The lines, with each ``$$`` formula made a directive; true marks what is finished."""
    out: list[tuple[bool, str]] = []
    inside = False
    margin = ""
    for line in lines:
        text = line.strip()
        if not inside and not text.startswith("$$"):
            out.append((False, line))
            continue
        if not inside:
            margin = line[: len(line) - len(line.lstrip())]
            out += [(True, ""), (True, f"{margin}.. math::"), (True, "")]
            text = text[2:]
        inside = not text.endswith("$$")
        out.append((True, f"{margin}    {text.removesuffix('$$')}"))
        if not inside:
            out.append((True, ""))
    return out


def as_rst(lines: list[str]) -> list[str]:
    """A docstring's lines as reStructuredText.

    >>> as_rst(["Solve", "    min |x|", "", "$$x^2$$", "with |x|"])
    ['Solve', '', '::', '', '    min |x|', '', '', '.. math::', '', '    x^2', '', 'with \\\\|x\\\\|']
    >>> as_rst([":param lam_: Multipliers,", "             of `x`."])
    [':param lam\\\\_: Multipliers,', '             of ``x``.']
    """
    out: list[str] = []
    prose: list[str] = []
    literal = False
    example = False
    in_item = False

    def flush() -> None:
        out.extend(escape("\n".join(prose)).split("\n") if prose else [])
        prose.clear()

    for finished, line in display_math(lines):
        indented = line.startswith(" ") and not finished
        literal = literal and (indented or not line)
        example = bool(line) and (example or line.lstrip().startswith(">>>"))
        if not finished:  # a formula on lines of its own may stand inside of an entry
            in_item = bool(ITEM.match(line)) or (in_item and (indented or not line))
        starts_literal = indented and not (literal or example or in_item)
        if not (finished or literal or example or starts_literal):
            prose.append(line)
            continue
        flush()
        if starts_literal:
            out += ["", "::", ""]
            literal = True
        out.append(line)
    flush()
    return out


@cache
def teachers() -> dict[str, Page]:
    """The page that teaches each name, from book/taught.yml."""
    pages = yaml.safe_load((ROOT / "book" / "taught.yml").read_text())
    contents = Contents.read(ROOT)
    return {name: contents[page] for page, names in pages.items() for name in names}


def taught_line(page: Page) -> str:
    """A sentence that links to the page.

    >>> taught_line(Page("book/04_split", "Method", 4))
    'Taught in :doc:`Chapter 4 </book/04_split>`.'
    """
    return f"Taught in :doc:`{page.label} </{page.file}>`."


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)
    page = (
        teachers().get(name.rsplit(".", 1)[-1])
        if what in ("class", "exception", "function")
        else None
    )
    if page:
        lines += ["", taught_line(page), ""]


def type_without_page(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A type in a signature that no page describes is shown as text; elsewhere it stays an
    error.
    """
    on_api_page = str(node.get("refdoc")).startswith(API_PAGE)
    return content if node.get("refdomain") == "py" and on_api_page else None


class NamesPlace(nodes.General, nodes.Element):
    """Where the list of all names will stand."""


class ApiNames(SphinxDirective):
    """All names that the API pages describe, each with the anchor that it has on its own page, so
    that links to the one page of former versions still find it.
    """

    def run(self) -> list[nodes.Node]:
        return [NamesPlace()]


def described(env: Any) -> list[tuple[str, str, str, str]]:
    """Name, kind, page and anchor of every object on the API pages, by the last part of the name.

    An object that is described under one name has its other names nowhere.
    """
    objects = env.get_domain("py").objects.items()
    found = [
        (name, entry.objtype, entry.docname, entry.node_id)
        for name, entry in objects
        if entry.docname.startswith(API_PAGE) and not entry.aliased
    ]
    return sorted(found, key=lambda each: (each[0].rsplit(".", 1)[-1].lower(), each[0]))


def name_entry(link: nodes.reference, name: str, anchors: list[str]) -> nodes.list_item:
    """An entry of the list of names: the last part as a link, then where it belongs; `anchors` are
    those of the name and of its members.
    """
    link += nodes.literal(text=name.rsplit(".", 1)[-1])
    line = nodes.paragraph("", "", link, nodes.Text(f", {name.rsplit('.', 1)[0]}"))
    targets = [nodes.target("", "", ids=[anchor]) for anchor in anchors[1:]]
    return nodes.list_item("", *targets, line, ids=anchors[:1])


def write_names(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put the list of names in its place, now that all pages are read."""
    for place in list(doctree.findall(NamesPlace)):
        entries = nodes.bullet_list(classes=["api-names"])
        listed = described(app.env)
        members = [each for each in listed if each[1] not in DESCRIBED]
        for name, kind, page, anchor in listed:
            if kind in DESCRIBED:
                target = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
                link = nodes.reference("", "", internal=True, refuri=target)
                inside = [each[3] for each in members if each[0].startswith(f"{name}.")]
                entries += name_entry(link, name, [anchor, *inside])
        place.replace_self(entries)


def setup(app: Any) -> dict[str, bool]:
    app.add_node(NamesPlace)
    app.add_directive("api-names", ApiNames)
    app.connect("autodoc-process-docstring", process)
    app.connect("missing-reference", type_without_page)
    app.connect("doctree-resolved", write_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
